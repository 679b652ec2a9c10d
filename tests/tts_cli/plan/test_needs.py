"""The room that rows need, before they are tokenised."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from manifest_rows import check_manifest, warnings_of

from models.base import ModelInfo, RequestError, SpeechRequest
from tts_cli.config import RunConfig
from tts_cli.core import VoiceKey
from tts_cli.events import Event
from tts_cli.plan.plan import Plan
from tts_cli.plan.room import Needs, room_problem
from tts_cli.sources.item import ManifestFile
from tts_cli.store.store import Store

MakeInfo = Callable[..., ModelInfo]
MakeSource = Callable[..., ManifestFile]
REQUEST = SpeechRequest("x" * 100, max_frames=50)


def needs_of(info: ModelInfo, *rows: tuple[SpeechRequest, VoiceKey | None]) -> Needs:
    needs = Needs()
    for request, voice in rows:
        needs.add(request, info, voice)
    return needs


def test_the_longest_of_each_kind(make_info: MakeInfo) -> None:
    info = make_info(prompt_overhead=10)
    long = replace(REQUEST, text="x" * 300, max_frames=20)
    found = needs_of(info, (REQUEST, None), (long, None))
    assert found == Needs(rows=2, max_positions=330, max_frames=50)
    described = replace(REQUEST, instruct="low" * 200)
    assert needs_of(info, (described, None)).max_positions == 100 + 10 + 600 + 50


def test_a_reference_stands_in_the_prompt_and_in_front_of_the_audio(make_info: MakeInfo) -> None:
    info = make_info(prompt_overhead=10)
    found = needs_of(
        info, (REQUEST, VoiceKey("digest", num_frames=70, num_bytes=40)), (REQUEST, None)
    )
    assert (found.max_positions, found.max_reference_frames) == (100 + 10 + 40 + 70 + 50, 70)


@pytest.mark.parametrize(
    ("layout", "default", "expected"),
    [
        ("auto", "streaming", 110),
        ("auto", "non_streaming", 0),
        ("streaming", "non_streaming", 110),
        ("non_streaming", "streaming", 0),
    ],
)
def test_text_that_comes_after_the_prompt(
    make_info: MakeInfo, layout: str, default: str, expected: int
) -> None:
    info = make_info(prompt_overhead=10, default_layout=default)
    assert needs_of(info, (replace(REQUEST, layout=layout), None)).max_trailing == expected


class TestRoom:
    """Rows that cannot fit are known before a weight is read, and most without a tokenizer."""

    @staticmethod
    def find(
        info: ModelInfo, request: SpeechRequest, voice: VoiceKey | None = None, tokens: int = 0
    ) -> tuple[str | None, list[int | None]]:
        """What is said of a row, and the reference frames of each count that was asked for."""
        asked: list[int | None] = []

        def count(request: SpeechRequest, num_frames: int | None) -> int:
            asked.append(num_frames)
            return tokens

        return room_problem(request, info, voice, lambda: count), asked

    def test_bytes_tell_of_rows_that_fit(self, make_info: MakeInfo) -> None:
        info = make_info(prompt_overhead=10, max_positions=160)
        assert self.find(info, REQUEST) == (None, [])

    def test_the_tokenizer_tells_where_bytes_cannot(self, make_info: MakeInfo) -> None:
        info = make_info(prompt_overhead=10, max_positions=159)
        assert self.find(info, REQUEST, tokens=109) == (None, [None])
        problem, _ = self.find(info, REQUEST, tokens=110)
        assert problem == (
            "110 prompt tokens and 50 frames are more than the 159 positions of this checkpoint; "
            "split the text or lower max_frames"
        )

    def test_a_reference_counts(self, make_info: MakeInfo) -> None:
        info = make_info(prompt_overhead=10, max_positions=170)
        assert self.find(info, REQUEST, VoiceKey("", 7, 4), tokens=120) == (None, [7])
        assert self.find(info, REQUEST, VoiceKey("", 0, 0)) == (None, [])

    def test_what_no_prompt_can_be_made_of(self, make_info: MakeInfo) -> None:
        def count(request: SpeechRequest, num_frames: int | None) -> int:
            raise RequestError("the text has no tokens")

        found = room_problem(REQUEST, make_info(max_positions=60), None, lambda: count)
        assert found == "the text has no tokens"

    def test_a_row_that_fails_sizes_nobody(
        self, tmp_path: Path, make_info: MakeInfo, make_source: MakeSource
    ) -> None:
        """Every slot became as long as the checkpoint allows, for a row that was refused later."""
        config = RunConfig(out=tmp_path, model="synthetic:qwen3-tts-0.6b", max_seconds=4)
        info = make_info(max_positions=400, voices=("synthetic",))
        long = {"id": "long", "text": "x" * 600}
        # Its bytes and the most a template takes are too many; its tokens are not.
        near = {"id": "near", "text": "x" * 320}
        lines = [json.dumps({"id": "a", "text": "hi"}), json.dumps(long)]
        for rows, expected in ((lines, 32 + 2 + 50), ([*lines, json.dumps(near)], 400)):
            source = make_source("\n".join(rows))
            with Store(tmp_path, config, info) as folder:
                folder.open()
                plan = Plan(source, config, info, folder)
                plan.read()
            assert plan.events.num(Event.FAILING) == 1
            assert plan.needs.max_positions == expected
            warnings = warnings_of(check_manifest(source, config, info))
            assert len(warnings) == 1
            assert "m.jsonl:2: id 'long': " in warnings[0]
            assert "400 positions of this checkpoint" in warnings[0]
            assert warnings[0].endswith("; the row will fail")
