"""Rows without any letter or digit: silence or a failure, never speech."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from workbench import Workbench

from models.base import Prompt, SpeechRequest
from models.slots.model import SpeechModel
from tts_cli.cli import messages as msg
from tts_cli.core import BadRow, Result, Task
from tts_cli.errors import DiskFull
from tts_cli.store.entry import JournalEntry
from tts_cli.store.results import ResultCommits
from tts_cli.store.store import Store

FRAME_S = 0.0025
SPOKEN = {"id": "a", "text": "Hello there."}
SILENT = [
    {"id": "sub/dash", "text": "---"},
    {"id": "smile", "text": "🙂"},
    {"id": "short", "text": "...", "max_frames": 20},
]
CAP = ("--max-seconds", 1)


@pytest.fixture
def prompts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of all prompts that are made."""
    texts: list[str] = []
    make = SpeechModel.prompt

    def note(self: SpeechModel, request: SpeechRequest) -> Prompt:
        texts.append(request.text)
        return make(self, request)

    monkeypatch.setattr(SpeechModel, "prompt", note)
    return texts


def test_silence_beside_speech(bench: Workbench, prompts: list[str]) -> None:
    """A model that is asked to speak a dash makes something up, and it was recorded as ok."""
    result = bench.synth([SPOKEN, *SILENT], *CAP, "--save-codes").expect(0)
    assert prompts == [SPOKEN["text"]]
    manifest = bench.folder / "rows.jsonl"
    said = "3 rows are without any letter or digit, 'sub/dash' first: 0.5 s of silence each"
    assert result.err.splitlines()[0] == f"warning: {manifest}: {said}"
    assert result.out.startswith(msg.synthesized(4, 4) + "\n")
    assert "\n3 rows are silent: the text has no letter or digit\n" in result.out
    out = bench.out()
    for row, seconds in zip(SILENT, (0.5, 0.5, 20 * FRAME_S), strict=True):
        record = out.records[row["id"]]
        assert (record["status"], record["finish_reason"]) == ("ok", "wordless")
        assert (record["frames"], record["attempts"], record["suspect"]) == (0, 0, [])
        assert record["audio_s"] == seconds
        assert (record["prompt_tokens"], record["bucket"]) == (0, 0)
        samples = out.samples(record["path"])
        assert len(samples) == round(seconds * 24_000)
        assert not np.any(samples)
        codes = load_file(out.path / f"{row['id']}.codes.safetensors")["codes"]
        assert codes.shape == (0, 2)
    totals = out.report["totals"]
    assert (totals["ok"], totals["wordless"], totals["suspect"]) == (4, 3, 0)
    assert totals["frames"] == out.records["a"]["frames"]


def test_they_stay_done(bench: Workbench, no_model: None) -> None:
    """Silence needs no model, and is not made again."""
    first = bench.synth(SILENT)
    assert (first.code, first.out) == (
        0,
        msg.NOTHING_TO_DO.format(reason=msg.SILENT_AND_DONE.format(rows=msg.rows_are(3), done=0))
        + "\n",
    )
    files = bench.out().files
    assert sorted(files) == ["short.wav", "smile.wav", "sub/dash.wav"]
    again = bench.synth(SILENT)
    assert (again.code, again.out) == (0, msg.nothing_to_do(3) + "\n")
    assert len(bench.out().lines) == 3
    Path(bench.out().path / "smile.wav").unlink()
    shown = bench.synth(SILENT, "--json").json
    assert (shown["totals"]["wordless"], shown["totals"]["skipped"], shown["run_id"]) == (
        1,
        2,
        None,
    )
    assert bench.out().files == files
    bench.synth(SILENT, "--overwrite").expect(0)
    assert len(bench.out().lines) == 7


def test_rows_that_fail_before_they_are_spoken_keep_what_is_known_of_them(bench: Workbench) -> None:
    """Their lines had no `extra`, `character` and `voice`, and called the failure take 1, which was
    the silence that a run before had made.
    """
    known = {"character": "Anna", "voice": "dora", "language": "english", "line": 7}
    rows = [SPOKEN, {"id": "dash", "text": "---", **known}]
    keep = (*CAP, "--extra", "keep", "--accept-truncated")
    bench.synth(rows, *keep).expect(0)
    bench.synth(rows, *keep, "--wordless", "fail").expect(1)
    spoken, failed = [line for line in bench.out().lines if line["id"] == "dash"]
    names = ("character", "voice", "language", "extra")
    assert [failed[name] for name in names] == ["Anna", "dora", "english", {"line": 7}]
    assert [failed[name] for name in names] == [spoken[name] for name in names]
    assert [(line["take"], line["status"]) for line in (spoken, failed)] == [
        (1, "ok"),
        (2, "failed"),
    ]
    # The first take is still there to be chosen.
    bench.run("pick", bench.out().path, "dash=1").expect(0)
    assert bench.out().lines[-1]["status"] == "ok"
    # A row that the manifest's check refuses.
    rows[1] = {**rows[1], "text": "Hello.", "voice": "nobody"}
    bench.synth(rows, *keep, "--skip-invalid", out="other").expect(1)
    refused = bench.out("other").records["dash"]
    assert [refused[name] for name in names] == ["Anna", "nobody", "english", {"line": 7}]
    assert (refused["take"], refused["status"]) == (1, "failed")


def test_prompts_do_not_wait_for_rows_that_are_only_written(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that makes prompts wrote silent and invalid rows itself, three fsyncs each."""
    has_prompt, waited = threading.Event(), []
    make, keep, fail = SpeechModel.prompt, ResultCommits.commit, Store.commit_failure

    def note(self: SpeechModel, request: SpeechRequest) -> Prompt:
        has_prompt.set()
        return make(self, request)

    def slow_keep(self: ResultCommits, *given: Any) -> list[JournalEntry]:
        waited.append(has_prompt.wait(60))
        return keep(self, *given)

    def slow_fail(self: Store, row: BadRow) -> JournalEntry:
        waited.append(has_prompt.wait(60))
        return fail(self, row)

    monkeypatch.setattr(SpeechModel, "prompt", note)
    monkeypatch.setattr(ResultCommits, "commit", slow_keep)
    monkeypatch.setattr(Store, "commit_failure", slow_fail)
    rows = [*SILENT, {"id": "bad", "text": ""}, SPOKEN]
    bench.synth(rows, *CAP, "--skip-invalid", "--accept-truncated").expect(1)
    assert waited == [True] * 5
    assert bench.out().report["totals"]["ok"] == 4


@pytest.mark.parametrize("rows", [SILENT, [*SILENT, SPOKEN]])
def test_a_full_disk_while_silent_rows_are_written(
    bench: Workbench, rows: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = ResultCommits.commit

    def full(
        self: ResultCommits, results: Sequence[tuple[Task, Result]], run_id: str | None
    ) -> list[JournalEntry]:
        if any(task.id == "short" for task, _ in results):
            raise DiskFull("no room left")
        return keep(self, results, run_id)

    monkeypatch.setattr(ResultCommits, "commit", full)
    bench.synth(rows, *CAP, "--accept-truncated").expect(4, "no room left")
    assert {"sub/dash", "smile"} <= bench.out().records.keys()


def test_validate_counts_them(bench: Workbench) -> None:
    manifest = bench.write([SPOKEN, *SILENT, {"id": "tag", "text": "<b>Hm</b> [pause]"}])
    result = bench.run("validate", manifest, "--model", bench.model).expect(
        0, out=": ".join(msg.PLAN_SILENT).format(rows=msg.rows(3)) + "\n"
    )
    assert result.err == (
        f"warning: {manifest}:5: id 'tag': a tag ('<b>Hm</b> [pause]') would be read aloud; "
        "remove it, or add --strip-markup\n"
        f"warning: {manifest}:5: id 'tag': a stage direction ('[pause]') would be read aloud; "
        "remove it\n"
        f"warning: {manifest}: 3 rows are without any letter or digit, 'sub/dash' first: 0.5 s of "
        "silence each\n"
    )
    found = bench.run("validate", manifest, "--model", bench.model, "--json").json
    assert found["wordless"] == 3
    spoken = len(SPOKEN["text"]) + len("<b>Hm</b> [pause]")
    assert found["audio_s"] == pytest.approx(1.0 + 20 * FRAME_S + 0.075 * spoken, abs=1e-3)


def test_markup_is_shown_as_it_is_written(bench: Workbench) -> None:
    """Not with its figures as words, which a user could not search for."""
    manifest = bench.write([{"id": "a", "text": "It rained [1] on {0} of 3 May."}])
    result = bench.run("validate", manifest, "--model", bench.model, "--normalize", "english")
    assert "the mark of a note ('[1]') would be read aloud" in result.err
    assert "a placeholder ('{0} of 3 May.') would be read aloud" in result.err
    assert "[one]" not in result.err
