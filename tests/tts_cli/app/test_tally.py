"""Rows at their ends: how many of them may fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tasks import task_of

from models.base import SpeechRequest
from tts_cli.app.tally import Failures, RunTally, Totals
from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Finish, Spoken, Task
from tts_cli.errors import StoppedEarly
from tts_cli.store.store import Store


def failed(number: int) -> tuple[Task, Spoken]:
    """A row that came to no end."""
    task = task_of(f"f{number}", SpeechRequest("Hm."))
    return task, Spoken(Finish.MAX_FRAMES, error="no end")


@pytest.mark.parametrize("allowed", [0, 1, 3])
def test_as_many_rows_may_fail_as_are_allowed(tmp_path: Path, make_info: Any, allowed: int) -> None:
    """One more stops the run, recorded itself; rows that were bad in the manifest do not count."""
    totals = Totals()
    with Store(tmp_path, RunConfig(), make_info()) as folder:
        folder.open()
        tally = RunTally(folder, 0.08, totals, Failures(), failures_allowed=allowed)
        for number in range(allowed):
            tally.keep(*failed(number))
            tally.fail(BadRow(number + 1, number, f"b{number}", "text is empty"))
        with pytest.raises(StoppedEarly, match=f"^{allowed + 1} rows? ha(s|ve) failed, more than"):
            tally.keep(*failed(allowed))
    assert (totals.failed, totals.bad_rows) == (2 * allowed + 1, allowed)
    assert tally.failures.count == allowed + 1
    assert (tmp_path / "timings.jsonl").read_text().count("\n") == totals.failed
