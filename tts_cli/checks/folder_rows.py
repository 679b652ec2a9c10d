"""Read an output folder for listening: every row with its takes, over all runs.

Nothing is locked, repaired or written: a folder can be looked at while a run still fills it.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from tts_cli.core import Role, Status
from tts_cli.errors import SetupError, UsageError
from tts_cli.manifest.ids import natural_order
from tts_cli.store.atomic import lines_in, require_plain_file, values_of
from tts_cli.store.files import JOURNAL_NAME, take_name
from tts_cli.store.run_file import RunLog, last_of_runs, read_report
from tts_cli.store.take import Take

STAGES = ("prefill", "decode", "vocoder", "write")


@dataclass(frozen=True)
class TakeFile:
    """One take of a row, and where its audio is."""

    take: Take
    place: int  # of its line in the journal
    path: str | None  # from the folder, of a file that is there; None: there is none
    is_older: bool = False  # the row failed, and this is the audio of a line before


@dataclass(frozen=True)
class FolderRow:
    """A row with all of its takes, by number, and which of them counts."""

    id: str
    files: list[TakeFile]  # of its takes
    chosen: int  # place in `files`

    @property
    def file(self) -> TakeFile:
        """The one that counts."""
        return self.files[self.chosen]

    @property
    def take(self) -> Take:
        """The line of the take that counts."""
        return self.file.take


@dataclass
class SpokenFolder:
    """What `read_folder` found."""

    path: Path
    rows: list[FolderRow]  # in natural order of their ids, whichever came first
    runs: list[dict[str, Any]]  # last lines of runs.jsonl, the first run first
    last_run: dict[str, Any]  # run.json; before its first, the run that goes on; empty: none
    # Run id -> seconds of prefill, decode, vocoder and write, over all lines of that run.
    stages_s: dict[str, list[float]] = field(default_factory=dict)
    num_garbage: int = 0  # lines of the journal that make no sense


def read_folder(out: Path) -> SpokenFolder:
    """Read journal and runs, and look which audio is there.

    Raises:
        UsageError: there is no such folder, or nothing was ever spoken into it.
        SetupError: its files cannot be read.
    """
    journal = out / JOURNAL_NAME
    try:
        if not out.is_dir():
            raise UsageError(f"{out}: is not a folder", remedy="give the output folder of a run")
        if not require_plain_file(journal):
            raise UsageError(
                f"{out}: has no {JOURNAL_NAME}, so it is not the output folder of a run",
                remedy="give the output folder of a run",
            )
        runs = _runs(out)
        folder = SpokenFolder(out, [], runs, read_report(out) or (runs[-1] if runs else {}))
        lines = _lines(journal, folder)
        folder.rows = sorted(_rows(out, lines), key=lambda row: natural_order(row.id))
    except OSError as error:
        raise SetupError(
            f"{error.filename or out}: {error.strerror or error}",
            remedy="check the permissions of the folder and its files",
        ) from error
    return folder


class _Line(NamedTuple):
    take: Take
    place: int  # in the journal


@dataclass
class _Lines:
    """The lines of one row and take that matter."""

    last: _Line
    last_ok: Take | None

    def file(self, path: str | None, is_older: bool = False) -> TakeFile:
        """The take, whose audio lies there."""
        return TakeFile(*self.last, path, is_older)


def _lines(journal: Path, folder: SpokenFolder) -> dict[str, dict[int, _Lines]]:
    """The last lines of every take of every row; sums up the stages of all lines by run."""
    found: dict[str, dict[int, _Lines]] = {}
    counted: set[tuple[str, str | None, str | None]] = set()
    stages_ms: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(STAGES))
    for place, raw in enumerate(_raw_lines(journal)):
        take = Take.decode(raw)
        if take is None:
            folder.num_garbage += 1
            continue
        attempt = (take.id, take.run_id, take.started)
        if take.run_id is not None and attempt not in counted:
            counted.add(attempt)  # a line that only tells of a choice repeats the figures
            sums = stages_ms[take.run_id]
            stages = (take.prefill_ms, take.decode_ms, take.vocoder_ms, take.write_ms)
            for stage, ms in enumerate(stages):
                sums[stage] += ms
        takes = found.setdefault(take.id, {})
        before = takes.get(take.take)
        last_ok = take if take.is_ok else before.last_ok if before else None
        takes[take.take] = _Lines(_Line(take, place), last_ok)
    folder.stages_s = {run: [ms / 1000 for ms in sums] for run, sums in stages_ms.items()}
    return found


def _rows(out: Path, lines: dict[str, dict[int, _Lines]]) -> Iterator[FolderRow]:
    for row_id, by_number in lines.items():
        ordered = [by_number[number] for number in sorted(by_number)]
        takes = [one.last.take for one in ordered]
        chosen = _chosen([one.last for one in ordered])
        if takes[chosen].status is Status.REMOVED:
            continue
        if len(ordered) == 1:
            yield FolderRow(row_id, [_single(out, ordered[0])], 0)
            continue
        files = [
            one.file(_take_path(out, one.last.take, is_chosen=place == chosen))
            for place, one in enumerate(ordered)
        ]
        if files[chosen].path is None and not takes[chosen].is_ok:
            path = _older_path(out, takes, row_id)
            files[chosen] = ordered[chosen].file(path, is_older=path is not None)
        yield FolderRow(row_id, files, chosen)


def _single(out: Path, lines: _Lines) -> TakeFile:
    """The one take of a row. A row that failed may still have the audio of an earlier line."""
    take, older = lines.last.take, lines.last_ok
    if _is_there(out, take.path):
        return lines.file(take.path)
    if not take.is_ok and older is not None and _is_there(out, older.path):
        return lines.file(older.path, is_older=True)
    return lines.file(None)


def _older_path(out: Path, takes: list[Take], row_id: str) -> str | None:
    """What the file still is of a row whose take that counts has failed."""
    suffixes = {_suffix(take) for take in takes if take.is_ok and take.path}
    paths = (f"{row_id}{suffix}" for suffix in suffixes)
    return next((path for path in paths if _is_there(out, path)), None)


def _take_path(out: Path, take: Take, is_chosen: bool) -> str | None:
    """Where a take of several lies: by its number, the chosen one also under the row's name."""
    if take.path is None:
        return None
    own = f"{take.id}{_suffix(take)}"
    paths = [take_name(take.id, take.take, _suffix(take)), take.path]
    if is_chosen:
        paths.append(own)
    else:  # the row's own name is that of the chosen take alone
        paths = [path for path in paths if path != own]
    return next((path for path in paths if _is_there(out, path)), None)


def _chosen(lines: list[_Line]) -> int:
    """Which take counts: the last that was made the row's file, or was to be; else the last that
    was spoken.
    """
    made = [place for place, line in enumerate(lines) if line.take.role is not Role.EXTRA]
    spoken = [place for place, line in enumerate(lines) if line.take.is_ok and line.take.path]
    return max(made or spoken or range(len(lines)), key=lambda place: lines[place].place)


def _suffix(take: Take) -> str:
    return PurePosixPath(take.path or "").suffix


def _is_there(out: Path, path: str | None) -> bool:
    """Whether a plain file is there; a pipe would wait for ever."""
    if path is None:
        return False
    try:
        return stat.S_ISREG(os.stat(out / path).st_mode)
    except (OSError, ValueError):
        return False


def _runs(out: Path) -> list[dict[str, Any]]:
    return last_of_runs(RunLog(out).lines())


def _raw_lines(path: Path) -> Iterator[bytes]:
    """Every line but empty ones, and a last one that is torn."""
    for raw in lines_in(path):
        if raw.strip() and (raw.endswith(b"\n") or values_of(raw) is not None):
            yield raw
