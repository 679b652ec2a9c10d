"""The room that rows need, before they are tokenised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from models.base import ModelInfo, SpeechRequest
from tts_cli.run.needs import Needs, most_tokens
from tts_cli.voices.resolve import Need

MakeInfo = Callable[..., ModelInfo]
REQUEST = SpeechRequest("x" * 100, max_frames=50)


def needs_of(info: ModelInfo, *rows: tuple[SpeechRequest, Need | None]) -> Needs:
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
    found = needs_of(info, (REQUEST, Need("digest", num_frames=70, num_bytes=40)), (REQUEST, None))
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


def test_never_more_than_the_checkpoint_holds(make_info: MakeInfo) -> None:
    found = needs_of(make_info(max_positions=128), (replace(REQUEST, max_frames=500), None))
    assert (found.max_positions, found.max_frames) == (128, 128)


def test_a_text_can_grow_when_it_is_normalised() -> None:
    assert most_tokens("é") == 2
    assert most_tokens("\u0958") == 6  # one character that NFC writes as two
