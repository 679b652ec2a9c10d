"""Read every row of an output folder with its takes, over all runs.

Nothing is locked, repaired or written: a folder can be read while a run still fills it.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from tts_cli.atomic import iter_file_lines, parse_line, require_plain_file
from tts_cli.core import Role, Status
from tts_cli.errors import SetupError, UsageError
from tts_cli.sources.ids import natural_order
from tts_cli.store.entry import JournalEntry
from tts_cli.store.files import JOURNAL_NAME, take_name
from tts_cli.store.run_file import RunLog, last_of_runs, read_report

STAGES = ("prefill", "decode", "vocoder", "write")


@dataclass(frozen=True)
class TakeFile:
    take: JournalEntry
    place: int  # of its line in the journal
    path: str | None  # relative to the folder; None: no file
    is_older: bool = False  # whether the row failed, and the file is of an earlier line


@dataclass(frozen=True)
class FolderRow:
    """A row with all of its takes, by number."""

    id: str
    files: list[TakeFile]
    chosen: int  # index of the current take in `files`

    @property
    def file(self) -> TakeFile:
        return self.files[self.chosen]

    @property
    def take(self) -> JournalEntry:
        return self.file.take


@dataclass
class FolderAudio:
    path: Path
    rows: list[FolderRow]  # in natural order of their ids
    runs: list[dict[str, Any]]  # last lines of runs.jsonl, the first run first
    last_run: dict[str, Any]  # run.json; if there is none, the last one of `runs`; empty: unknown
    # Run id -> seconds of prefill, decode, vocoder and write, over all lines of that run.
    stages_s: dict[str, list[float]] = field(default_factory=dict)
    num_garbage: int = 0  # invalid lines of the journal


def read_folder(out: Path) -> FolderAudio:
    """Read journal and runs, and find the audio files. Raises UsageError, SetupError."""
    journal = out / JOURNAL_NAME
    try:
        if not out.is_dir():
            raise UsageError(f"{out}: is not a folder", remedy="give the output folder of a run")
        if not require_plain_file(journal):
            raise UsageError(
                f"{out}: has no {JOURNAL_NAME}, so it is not the output folder of a run",
                remedy="give the output folder of a run",
            )
        runs = last_of_runs(RunLog(out).lines())
        folder = FolderAudio(out, [], runs, read_report(out) or (runs[-1] if runs else {}))
        entries = _entries(journal, folder)
        rows = (_row(out, row_id, entries[row_id]) for row_id in sorted(entries, key=natural_order))
        folder.rows = [row for row in rows if row.take.status is not Status.REMOVED]
    except OSError as error:
        raise SetupError(
            f"{error.filename or out}: {error.strerror or error}",
            remedy="check the permissions of the folder and its files",
        ) from error
    return folder


class _Entry(NamedTuple):
    take: JournalEntry  # by the last line
    place: int  # of that line
    ok: JournalEntry | None  # by the last line that is ok


def _entries(journal: Path, folder: FolderAudio) -> dict[str, dict[int, _Entry]]:
    """Return the takes of every row by number, and add up the stages of all lines."""
    found: dict[str, dict[int, _Entry]] = defaultdict(dict)
    counted: set[tuple[str, str | None, str | None]] = set()
    stages_ms: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(STAGES))
    for place, raw in enumerate(_raw_lines(journal)):
        take = JournalEntry.decode(raw)
        if take is None:
            folder.num_garbage += 1
            continue
        attempt = (take.id, take.run_id, take.started)
        if take.run_id is not None and attempt not in counted:
            counted.add(attempt)  # a line about a choice repeats the figures
            stages = (take.prefill_ms, take.decode_ms, take.vocoder_ms, take.write_ms)
            sums = zip(stages_ms[take.run_id], stages, strict=True)
            stages_ms[take.run_id] = [one + other for one, other in sums]
        before = found[take.id].get(take.take)
        ok = take if take.is_ok else before.ok if before else None
        found[take.id][take.take] = _Entry(take, place, ok)
    folder.stages_s = {run: [ms / 1000 for ms in sums] for run, sums in stages_ms.items()}
    return found


def _row(out: Path, row_id: str, by_number: dict[int, _Entry]) -> FolderRow:
    entries = [by_number[number] for number in sorted(by_number)]
    chosen = _chosen(entries)
    files = [
        TakeFile(one.take, one.place, _path(out, one.take, place == chosen))
        for place, one in enumerate(entries)
    ]
    current = files[chosen]
    if current.path is None and not current.take.is_ok:
        suffixes = {PurePosixPath(one.ok.path).suffix for one in entries if one.ok and one.ok.path}
        path = _first(out, [f"{row_id}{suffix}" for suffix in sorted(suffixes)])
        files[chosen] = TakeFile(current.take, current.place, path, is_older=path is not None)
    return FolderRow(row_id, files, chosen)


def _chosen(entries: Sequence[_Entry]) -> int:
    """Return the index of the current take: the last that became the row's file, or failed to;
    else the last that is ok.
    """
    own = [place for place, one in enumerate(entries) if one.take.role is not Role.EXTRA]
    ok = [place for place, one in enumerate(entries) if one.take.is_ok and one.take.path]
    return max(own or ok or range(len(entries)), key=lambda place: entries[place].place)


def _path(out: Path, take: JournalEntry, is_current: bool) -> str | None:
    """Return the path of a take's file: by its line or its number. Only the current take may
    have the name of the row.
    """
    if take.path is None:
        return None
    suffix = PurePosixPath(take.path).suffix
    own = f"{take.id}{suffix}"
    paths = [take.path, take_name(take.id, take.take, suffix), own]
    return _first(out, paths if is_current else [path for path in paths if path != own])


def _first(out: Path, paths: Sequence[str]) -> str | None:
    """Return the first path that is a regular file; a pipe would block."""
    for path in paths:
        try:
            if stat.S_ISREG(os.stat(out / path).st_mode):
                return path
        except (OSError, ValueError):
            continue
    return None


def _raw_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines that are not empty, without an incomplete last one."""
    for raw in iter_file_lines(path):
        if raw.strip() and (raw.endswith(b"\n") or parse_line(raw) is not None):
            yield raw
