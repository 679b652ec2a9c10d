"""`runs.jsonl`: a line for every run before its first row, and one at its end, also where it was
stopped early. The last one counts; of a run that was killed there is only the first.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tts_cli.errors import disk_full, is_disk_error
from tts_cli.output.plain_file import open_to_append, require_plain_file

if TYPE_CHECKING:
    from tts_cli.output.record_table import FolderRows

RUNS_NAME = "runs.jsonl"
_MAX_LINE_BYTES = 1 << 20


@dataclass(frozen=True)
class FolderTotals:
    """What a folder holds, all runs together; `folder` in run.json."""

    ok: int  # rows by their last lines
    failed: int
    audio_s: float  # of the rows that are ok
    runs: int | None  # lines of runs.jsonl; None where rows are older than that file
    wall_s: float | None  # of those runs, speaking and writing


def new_run_id(now: datetime) -> str:
    """A name for a run: its second, and something random."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def last_of_runs(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of several lines of one run the last, in the order of the first ones."""
    found: dict[str, dict[str, Any]] = {}
    for place, values in enumerate(lines):
        run_id = values.get("run_id")
        found[run_id if isinstance(run_id, str) else f"\n{place}"] = values
    return list(found.values())


def iso_time(moment: datetime) -> str:
    """A moment of UTC as all our files have it: 2026-11-22T13:05:00.250Z."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


class RunLog:
    """The runs of one output folder, whose lock must be held to append.

    Raises:
        SetupError: the file is there, but is no plain file.
    """

    def __init__(self, out: Path) -> None:
        self.path = out / RUNS_NAME
        require_plain_file(self.path)

    def append(self, report: Mapping[str, Any]) -> None:
        """Add a line. Raises DiskFull, OSError; nothing is added then."""
        handle = open_to_append(self.path)
        try:
            size = _cut_torn(handle)
            try:
                view = memoryview((json.dumps(report, allow_nan=False) + "\n").encode())
                while view:
                    view = view[os.write(handle, view) :]
                os.fsync(handle)
            except OSError:
                os.ftruncate(handle, size)
                raise
        except OSError as error:
            if is_disk_error(error):
                raise disk_full(error, self.path) from error
            raise
        finally:
            os.close(handle)

    def totals(self, rows: FolderRows) -> FolderTotals:
        """What the folder holds. Raises OSError."""
        runs, wall_s = (None, None) if rows.has_first_lines else self._sums()
        return FolderTotals(rows.ok, rows.failed, rows.audio_s, runs, wall_s)

    def _sums(self) -> tuple[int, float]:
        """Number and wall seconds of the runs; lines that make no sense are passed over."""
        runs, wall_s = 0, 0.0
        for line in self.lines():
            seconds = _wall_s(line)
            if seconds is not None:
                runs += 1
                wall_s += seconds
        return runs, wall_s

    def lines(self) -> Iterator[dict[str, Any]]:
        """The runs, whatever their fields are; lines that are no objects are passed over. Raises
        OSError.
        """
        if not require_plain_file(self.path):
            return
        with open(self.path, "rb") as file:
            while raw := file.readline(_MAX_LINE_BYTES):
                try:
                    values = json.loads(raw)
                except (ValueError, RecursionError):
                    continue
                if isinstance(values, dict):
                    yield values


def _wall_s(line: Mapping[str, Any]) -> float | None:
    try:
        seconds = line["totals"]["wall_s"]
    except (LookupError, TypeError):
        return None
    return seconds if isinstance(seconds, (int, float)) and 0 <= seconds < 1e12 else None


def _cut_torn(handle: int) -> int:
    """Cut off a last line that a crash has torn; returns the size of the file."""
    size = end = os.fstat(handle).st_size
    while end:
        start = max(0, end - _MAX_LINE_BYTES)
        os.lseek(handle, start, os.SEEK_SET)
        newline = os.read(handle, end - start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(handle, end)
    return end
