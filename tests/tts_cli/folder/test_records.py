"""Rows at their ends: how many of them may fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.base import SpeechRequest
from tts_cli.config import RunConfig
from tts_cli.core import Finish, SpeechRow
from tts_cli.errors import StoppedEarly
from tts_cli.folder.files import AudioWriter
from tts_cli.folder.journal import Journal
from tts_cli.folder.records import Recorder
from tts_cli.folder.run_file import Totals
from tts_cli.manifest.row import BadRow


def failed(number: int) -> SpeechRow:
    """A row that came to no end."""
    request, end = SpeechRequest("Hm."), Finish.MAX_FRAMES
    return SpeechRow(f"f{number}", request, error="no end", finish_reason=end)


@pytest.mark.parametrize("allowed", [0, 1, 3])
def test_as_many_rows_may_fail_as_are_allowed(tmp_path: Path, allowed: int) -> None:
    """One more stops the run, recorded itself; rows that were bad in the manifest do not count."""
    totals = Totals()
    with Journal(tmp_path) as journal:
        writer = AudioWriter(tmp_path, RunConfig(), 24_000)
        recorder = Recorder(writer, journal, "run", 0.08, totals, lambda totals: None, allowed)
        for number in range(allowed):
            recorder.take(failed(number))
            recorder.fail(BadRow(number + 1, number, f"b{number}", "text is empty"))
        with pytest.raises(StoppedEarly, match=f"^{allowed + 1} rows have failed, more than"):
            recorder.take(failed(allowed))
    assert (totals.failed, totals.bad_rows) == (2 * allowed + 1, allowed)
    assert (tmp_path / "timings.jsonl").read_text().count("\n") == totals.failed
