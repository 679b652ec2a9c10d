"""Rows at their ends: how many of them may fail."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tasks import task_of

from models.base import SpeechRequest
from tts_cli.app.totals import ResultRecorder, run_totals
from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Finish, Result, Task
from tts_cli.errors import DiskFull, StoppedEarly
from tts_cli.events import Event, Events
from tts_cli.store.entry import JournalEntry
from tts_cli.store.results import ResultCommits
from tts_cli.store.store import Store


def failed(number: int) -> tuple[Task, Result]:
    """A row that came to no end."""
    task = task_of(f"f{number}", SpeechRequest("Hm."))
    return task, Result(Finish.MAX_FRAMES, error="no end")


@pytest.mark.parametrize("allowed", [0, 1, 3])
def test_as_many_rows_may_fail_as_are_allowed(tmp_path: Path, make_info: Any, allowed: int) -> None:
    """One more stops the run, recorded itself; rows that were bad in the manifest do not count."""
    events = Events()
    with Store(tmp_path, RunConfig(), make_info()) as folder:
        folder.open()
        recorder = ResultRecorder(folder, 0.08, events, failures_allowed=allowed)
        for number in range(allowed):
            recorder.keep([failed(number)])
            recorder.fail(BadRow(number + 1, number, f"b{number}", "text is empty"))
        with pytest.raises(StoppedEarly, match=f"^{allowed + 1} rows? ha(s|ve) failed, more than"):
            recorder.keep([failed(allowed)])
    totals = run_totals(events)
    assert (totals["failed"], totals["bad_rows"]) == (2 * allowed + 1, allowed)
    assert events.num(Event.FAILED) == allowed + 1
    assert (tmp_path / "timings.jsonl").read_text().count("\n") == totals["failed"]


def test_a_disk_that_fills_within_a_group_keeps_the_rows_that_fit(
    tmp_path: Path, make_info: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = ResultCommits.commit

    def full(
        commits: ResultCommits, results: Sequence[tuple[Task, Result]], run_id: str | None
    ) -> list[JournalEntry]:
        if any(task.id == "f2" for task, _ in results):
            raise DiskFull("no space left")
        return commit(commits, results, run_id)

    events = Events()
    with Store(tmp_path, RunConfig(), make_info()) as folder:
        folder.open()
        monkeypatch.setattr(ResultCommits, "commit", full)
        with pytest.raises(DiskFull):
            ResultRecorder(folder, 0.08, events).keep([failed(number) for number in range(4)])
    assert events.num(Event.FAILED) == 2
    assert (tmp_path / "timings.jsonl").read_text().count("\n") == 2


def test_speed_of_nothing_is_unknown() -> None:
    events = Events()
    totals = run_totals(events, wall_s=1.0)
    assert totals["xrt"] is totals["rtf"] is totals["total_xrt"] is None
    events.add(Event.SYNTHESIZED, audio_s=600.0, dropped_s=60.0)
    totals = run_totals(events, wall_s=2.0)
    assert (totals["xrt"], totals["total_xrt"], totals["rtf"]) == (300.0, 330.0, 0.0033)


def test_rows_that_verify_fixes(tmp_path: Path, make_info: Any) -> None:
    """Such a row failed once, is ok now, and its further takes count as takes."""
    events = Events()
    with Store(tmp_path, RunConfig(), make_info()) as folder:
        folder.open()
        ResultRecorder(folder, 0.08, events).keep([failed(1)])
        assert run_totals(events)["failed"] == 1
        retakes = ResultRecorder(folder, 0.08, events, is_retake=True)
        retakes.keep([failed(1)])
        events.add(Event.FIXED, "f1")
    totals = run_totals(events)
    assert (totals["ok"], totals["failed"], totals["takes"]) == (1, 0, 0)
