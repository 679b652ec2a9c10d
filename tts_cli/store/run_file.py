"""`run.json` and `runs.jsonl`: settings, environment and results of runs.

`run.json` describes the folder's last run and its totals. `runs.jsonl` gets a line for every run
before its first row, and another one at its end. The last line of a run counts; a killed run has
only the first.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tts_cli.atomic import (
    MAX_LINE_BYTES,
    iter_file_lines,
    open_to_append,
    parse_line,
    read_own,
    require_plain_file,
    write_all,
    write_atomic,
)
from tts_cli.config import SETTINGS
from tts_cli.errors import writing
from tts_cli.setting import About

if TYPE_CHECKING:
    from tts_cli.store.index import RowTotals


REPORT_NAME = "run.json"
MODEL, MODEL_IDENTITY = "model", "identity of the model"  # see `settings_of`
_MAX_REPORT_BYTES = 1 << 24
_KINDS = {
    **dict.fromkeys(("run_id", "started", "ended", "book", "working_folder"), str),
    **dict.fromkeys(("manifests", "read_as"), list),
    **dict.fromkeys(("model", "voice_model", "settings", "totals", "versions", "text"), dict),
}


def with_folder(report: Mapping[str, Any], folder: FolderTotals | None) -> dict[str, Any]:
    """Return the content of run.json, which `synth --json` prints too."""
    sums = {} if folder is None else asdict(folder)
    return {
        **report,
        # [object] totals of all runs of the folder; not in `runs.jsonl`
        "folder": {name: rounded(value) for name, value in sums.items()},
    }


def rounded(value: Any) -> Any:
    """Round a float to four decimals; other values pass through."""
    return round(value, 4) if isinstance(value, float) else value


def write_report(out: Path, report: Mapping[str, Any]) -> Path:
    """Write run.json atomically. Raises DiskFull."""
    path = out / REPORT_NAME
    write_atomic(path, (json.dumps(report, indent=2) + "\n").encode())
    return path


def read_report(out: Path) -> dict[str, Any]:
    """Return the content of run.json; empty if missing or invalid. Raises SetupError, OSError."""
    raw = read_own(out / REPORT_NAME, _MAX_REPORT_BYTES) or b""
    return _as_moved(_of_their_kinds(parse_line(raw) or {}), os.path.abspath(out))


def _of_their_kinds(report: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an untrusted report, without known fields of another type."""
    found: dict[str, Any] = {
        name: value
        for name, value in report.items()
        if name not in _KINDS or isinstance(value, _KINDS[name])
    }
    if "manifests" in found:
        found["manifests"] = [name for name in found["manifests"] if isinstance(name, str)]
    return found


def _as_moved(report: dict[str, Any], now: str) -> dict[str, Any]:
    """Return a report with the present paths of its manifests, if they moved along with the output
    folder, as in a project that was renamed or copied.

    Args:
        now: absolute path of the output folder.
    """
    folder, out = report.get("working_folder") or "", report.get("settings", {}).get("out")
    then = os.path.normpath(os.path.join(folder, out)) if isinstance(out, str) else now
    manifests, book = report.get("manifests", []), report.get("book")
    names = [*manifests, *filter(None, [book])]
    if not folder or then == now or not names or not all(names):
        return report

    def moved(path: str) -> str:
        return os.path.normpath(os.path.join(now, os.path.relpath(path, then)))

    paths = list(map(moved, names))
    if paths == names or not all(map(os.path.exists, paths)):
        return report
    found = {"manifests": paths[: len(manifests)], "book": paths[-1] if book else book}
    return {**report, **found, "working_folder": moved(folder)}


def settings_of(report: Mapping[str, Any], about: Collection[About]) -> dict[str, Any]:
    """Return the recorded model and settings of a run (run.json, a line of runs.jsonl), by name."""
    found: dict[str, Any] = {}
    if model := report.get("model"):
        found = {MODEL: model.get("source"), MODEL_IDENTITY: model.get("identity")}
    for name, value in report.get("settings", {}).items():
        if name != MODEL and name in SETTINGS and SETTINGS[name].about in about:
            found[name] = value
    return found


RUNS_NAME = "runs.jsonl"


@dataclass(frozen=True)
class FolderTotals:
    """Totals of a folder over all runs; `folder` in run.json."""

    ok: int  # [rows] rows whose last line is ok
    failed: int  # [rows] rows whose last line is failed
    audio_s: float  # length of the audio of the ok rows
    # [number] runs that ended; null while the folder has rows older than `runs.jsonl`
    runs: int | None
    # time that these runs took for synthesizing and writing; null: as for `runs`
    wall_s: float | None


def new_run_id(now: datetime) -> str:
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def last_of_runs(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the last line of each run, in the order of the first ones."""
    found: dict[str, dict[str, Any]] = {}
    for place, values in enumerate(lines):
        run_id = values.get("run_id")
        found[run_id or f"\n{place}"] = values
    return list(found.values())


class RunLog:
    """The runs of one output folder; appending needs its lock. Raises SetupError."""

    def __init__(self, out: Path) -> None:
        self.path = out / RUNS_NAME
        require_plain_file(self.path)

    def append(self, report: Mapping[str, Any]) -> None:
        """Add a line. Raises DiskFull, OSError; then nothing was added."""
        handle = open_to_append(self.path)
        try:
            with writing(self.path):
                size = _cut_torn(handle)
                try:
                    write_all(handle, (json.dumps(report, allow_nan=False) + "\n").encode())
                except OSError:
                    os.ftruncate(handle, size)
                    raise
        finally:
            os.close(handle)

    def totals(self, rows: RowTotals) -> FolderTotals:
        """Return the totals of the folder; invalid lines are ignored. Raises OSError."""
        if rows.has_first_lines:
            return FolderTotals(rows.ok, rows.failed, rows.audio_s, None, None)
        runs, wall_s = 0, 0.0
        for line in self.lines():
            seconds = line.get("totals", {}).get("wall_s")
            if isinstance(seconds, (int, float)) and 0 <= seconds < 1e12:
                runs += 1
                wall_s += seconds
        return FolderTotals(rows.ok, rows.failed, rows.audio_s, runs, wall_s)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the runs, without lines that are not objects and without fields of a wrong type:
        strings, lists and objects are of their type, values inside are unchecked. Raises OSError.
        """
        now = os.path.abspath(self.path.parent)
        for raw in iter_file_lines(self.path):
            if (values := parse_line(raw)) is not None:
                yield _as_moved(_of_their_kinds(values), now)


def _cut_torn(handle: int) -> int:
    """Cut off a torn last line. Return the size of the file."""
    size = end = os.fstat(handle).st_size
    while end:
        start = max(0, end - MAX_LINE_BYTES)
        os.lseek(handle, start, os.SEEK_SET)
        newline = os.read(handle, end - start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(handle, end)
    return end
