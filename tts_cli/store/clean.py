"""Delete alternative takes and the files of removed rows when a user asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from tts_cli import signals
from tts_cli.atomic import is_part
from tts_cli.core import Role, Status
from tts_cli.errors import StoppedEarly, writing
from tts_cli.events import Count
from tts_cli.sources.ids import TAKES, id_problem
from tts_cli.store.commit import Commits, RowChange
from tts_cli.store.files import ROW_SUFFIXES, SOURCE_MARK
from tts_cli.store.journal import Journal

_BATCH = 256  # rows with one fsync of the journal
Takes = Set[tuple[str, int]]  # ids of rows and numbers of takes


@dataclass
class Droppable:
    """Files in `takes/` that can be deleted, and rows with files that stay."""

    files: int = 0
    bytes: int = 0
    alternatives: Count = field(default_factory=lambda: Count(is_sorted=True))  # ids of rows
    removed: Count = field(default_factory=lambda: Count(is_sorted=True))  # ids of removed rows
    edited: Count = field(default_factory=lambda: Count(is_sorted=True))  # ids: files of users stay
    approved: Count = field(default_factory=lambda: Count(is_sorted=True))  # ids of rows


@dataclass(frozen=True)
class _Row:
    id: str
    files: dict[int, list[Path]]


def droppable(out: Path, journal: Journal, before_s: float | None, approved: Takes) -> Droppable:
    """Count the files that can be deleted.

    Args:
        before_s: seconds since 1970; younger files stay. None: all ages.
    """
    found = Droppable()
    for row in _rows(out, journal, before_s, approved, found):
        (found.alternatives if journal.file(row.id) else found.removed).add(row.id)
        for paths in row.files.values():
            found.files += len(paths)
            found.bytes += sum(path.stat().st_size for path in paths)
    return found


def drop(
    out: Path,
    journal: Journal,
    commits: Commits,
    before_s: float | None,
    approved: Takes = frozenset(),
) -> Droppable:
    """Record these takes as removed, and then delete their files. A rerun deletes what is left."""
    found = droppable(out, journal, before_s, approved)
    batch: list[_Row] = []
    for row in _rows(out, journal, before_s, approved, Droppable()):
        signals.check()
        batch.append(row)
        if len(batch) == _BATCH:
            _drop(batch, journal, commits)
            batch.clear()
    _drop(batch, journal, commits)
    return found


def _rows(
    out: Path, journal: Journal, before_s: float | None, approved: Takes, found: Droppable
) -> Iterator[_Row]:
    """Yield the deletable files of each row, and count edited and approved rows in `found`."""
    top = out / TAKES
    for folder, folders, names in os.walk(top):
        folders.sort()
        row_id = Path(folder).relative_to(top).as_posix()
        if folder == str(top) or id_problem(row_id):
            continue
        row = journal.row(row_id)
        files: dict[int, list[Path]] = {}
        for name in sorted(names):
            number, _, rest = name.partition(".")
            path = Path(folder, name)
            is_ours = f".{rest}".endswith(ROW_SUFFIXES) and number.isdecimal() and len(number) < 8
            if is_part(name) or not is_ours or path.is_symlink() or not path.is_file():
                continue
            take = int(number)
            is_source = f".{rest}".startswith(SOURCE_MARK)
            if row.current is None or row.number(take) is None:
                continue  # no entry explains it
            if not row.is_removed and row.take == take and is_source:
                continue  # the current file can be converted again
            if before_s is not None and path.stat().st_mtime > before_s:
                continue
            files.setdefault(take, []).append(path)
        for one in row.takes:
            if one.is_users and files.pop(one.take, []):
                found.edited.add(row_id)
            if (row_id, one.take) in approved and files.pop(one.take, []):
                found.approved.add(row_id)
        if files:
            yield _Row(row_id, files)


def _drop(rows: list[_Row], journal: Journal, commits: Commits) -> None:
    changes = []
    for row in rows:
        file = journal.file(row.id)
        for number in row.files:
            entry = journal.take(row.id, number)
            is_current = file is not None and file.take == number
            if entry is not None and not is_current and entry.status is not Status.REMOVED:
                changes.append(RowChange(replace(entry, status=Status.REMOVED, role=Role.EXTRA)))
    with writing(commits.out / TAKES, StoppedEarly, "a take cannot be removed"):
        commits.commit(*changes)
        for row in rows:
            for paths in row.files.values():
                for path in paths:
                    commits.files.remove(path)
