"""`DIR/removed/`: the files of rows that the manifest no longer has.

They lie there as they lay in the folder, `a/b.wav` as `removed/a/b.wav`, its takes in
`removed/takes/a/b/`. Where such names are taken, by a row of that id that was removed before, `~2`
stands behind the id, which no id can hold. The path of the row's lines tells which.

A row is gone once its lines say so; its files are moved then, and what a crash has left of them is
moved by `mend`. A row that comes back has its files first, and then its lines. So at no moment is a
row shown without its files, and no file is lost.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain, count, islice
from pathlib import Path
from typing import NamedTuple

from tts_cli import signals
from tts_cli.audio.file import is_whole_wav
from tts_cli.core import Role, Status
from tts_cli.errors import RowError, StoppedEarly, disk_full, is_disk_error
from tts_cli.store.atomic import sync_folder
from tts_cli.store.files import (
    NESTED_SUFFIXES,
    ROW_SUFFIXES,
    Inside,
    PlainFiles,
    SharedNames,
    is_same,
)
from tts_cli.store.journal import Journal
from tts_cli.store.take import CopiedLine, Take
from tts_cli.store.takes import suffix_of
from tts_cli.manifest.ids import REMOVED, TAKES, TRUNCATED, id_problem

_BATCH = 256  # rows whose lines share an fsync
_FRONTS = ("", f"{TRUNCATED}/")  # in front of an id, where its suffix stands behind it
_FOLDERS = (f"{TAKES}/", f"{TRUNCATED}/{TAKES}/")  # where it is a folder
_FRONT = "|".join((*_FOLDERS, *_FRONTS))
_SUFFIX = "|".join(map(re.escape, ROW_SUFFIXES))
_TAKE = re.compile(rf"[0-9]+({_SUFFIX})")


class _Leaving(NamedTuple):
    """A row on its way out."""

    id: str
    tail: str  # behind its id in `removed/`
    lines: list[CopiedLine]  # of its takes; that of the row's file is the last


class Removed:
    """Moves rows out of a folder and back, whose lock is held.

    Args:
        journal: of the folder.
    """

    def __init__(self, out: Path, journal: Journal) -> None:
        self.out = out
        self._journal = journal
        self._inside = Inside(out)
        self._plain = PlainFiles(out)
        self._shared: SharedNames | None = None
        self._left: set[Path] = set()  # folders that files were moved from
        self._entered: set[Path] = set()

    def take_out(self, row_ids: Iterable[str]) -> list[tuple[str, str]]:
        """Mark rows gone and move their files. Returns the ids of those that cannot be moved, which
        stay as they are, and why.

        Raises:
            Interrupted, DiskFull: the others stay; run again, it goes on.
        """
        stayed: list[tuple[str, str]] = []
        waiting = iter(row_ids)
        while batch := list(islice(waiting, _BATCH)):
            signals.check()
            rows = [self._leaving(row_id) for row_id in batch]
            self._journal.append(*(line for row in rows for line in _gone_lines(row)))
            kept: list[CopiedLine] = []
            for row in rows:
                try:
                    self._move_out(row.id, row.tail)
                except (OSError, RowError) as error:
                    if isinstance(error, OSError) and is_disk_error(error):
                        raise disk_full(error, self.out / REMOVED) from error
                    self._move_back(row.id, row.tail)
                    kept += row.lines
                    stayed.append((row.id, getattr(error, "strerror", None) or str(error)))
            self._sync()
            if kept:
                self._journal.append(*kept)
        return stayed

    def bring_back(self, row_ids: Iterable[str]) -> None:
        """Move the files of rows back that `holds` was asked about, and give them their lines.

        Raises:
            Interrupted, DiskFull, StoppedEarly: the others stay where they are.
        """
        waiting = iter(row_ids)
        while batch := list(islice(waiting, _BATCH)):
            signals.check()
            lines: list[CopiedLine] = []
            for row_id in batch:
                tail = _tail_of(self.file_of(row_id))
                gone = [one for one in self._lines(row_id) if one.take.status is Status.GONE]
                gone.sort(key=lambda line: line.take.role is not Role.EXTRA)  # the file's is last
                lines += (_back(line) for line in gone if _tail_of(line.take) == tail)
                try:
                    self._move_back(row_id, tail)
                except (OSError, RowError) as error:
                    if isinstance(error, OSError) and is_disk_error(error):
                        raise disk_full(error, self.out / row_id) from error
                    raise StoppedEarly(
                        f"row {row_id} cannot be restored from {REMOVED}/: {error}",
                        "remove what is in its way, and run the same command again",
                    ) from error
            self._sync()
            self._journal.append(*lines)

    def mend(self) -> None:
        """Move what a crash has left in the folder of rows that are gone. Raises OSError,
        RowError.
        """
        for take in self._journal.gone_rows():
            self._move_out(take.id, _tail_of(take))
        self._sync()

    def has_files(self, row_id: str) -> bool:
        """Whether there is anything of a row that could be moved out."""
        return any(self._names("", row_id, ""))

    def file_of(self, row_id: str) -> Take | None:
        """The take that was the file of a row that is gone; None for other rows."""
        file = self._journal.gone(row_id)
        return None if file is None else self._journal.take(row_id, file.take)

    def holds(self, take: Take) -> bool:
        """Whether the audio of a row that is gone is there and whole, and its place in the folder
        free.

        Args:
            take: that was the row's file.
        """
        row_id, suffix = take.id, suffix_of(take.path)
        if not take.was_ok or id_problem(row_id):
            return False
        path = self.out / f"{REMOVED}/{row_id}{_tail_of(take)}{suffix}"
        size = self._plain.size(path)
        if size is None or os.path.lexists(self.out / f"{row_id}{suffix}"):
            return False
        # A WAV of another size that agrees with its header was edited by somebody, and counts.
        return size == take.bytes or (suffix == ".wav" and is_whole_wav(path))

    def _leaving(self, row_id: str) -> _Leaving:
        file = self._journal.file(row_id)
        assert file is not None, row_id
        lines = [
            line if line.take.take == file.take else line.changed(role=Role.EXTRA)
            for line in self._lines(row_id)
            if line.take.status is not Status.GONE
        ]
        lines.sort(key=lambda line: line.take.take == file.take)
        tails = ("" if number == 1 else f"~{number}" for number in count(1))
        tail = next(tail for tail in tails if not any(self._names(f"{REMOVED}/", row_id, tail)))
        return _Leaving(row_id, tail, lines)

    def _lines(self, row_id: str) -> Iterator[CopiedLine]:
        for take in self._journal.numbers(row_id):
            if (line := self._journal.line(row_id, take)) is not None:
                yield line

    def _move_out(self, row_id: str, tail: str) -> None:
        self._move(row_id, ("", ""), (f"{REMOVED}/", tail))

    def _move_back(self, row_id: str, tail: str) -> None:
        self._move(row_id, (f"{REMOVED}/", tail), ("", ""))

    def _move(self, row_id: str, source: tuple[str, str], target: tuple[str, str]) -> None:
        """Give all files of a row other names; each is what is in front of the id, and behind it.
        What has such a name already stays, and so does what would have got it.
        """
        for front, behind in list(self._names(source[0], row_id, source[1])):
            old = self.out / f"{source[0]}{front}{row_id}{source[1]}{behind}"
            new = self.out / f"{target[0]}{front}{row_id}{target[1]}{behind}"
            if self._plain.size(old) is None:
                continue  # a link, or behind one
            if not os.path.lexists(new):
                self._inside.make_room(new)
                os.rename(old, new)
            elif is_same(old, new):
                old.unlink()
            self._left.add(old.parent)
            self._entered.add(new.parent)

    def _names(self, base: str, row_id: str, tail: str) -> Iterator[tuple[str, str]]:
        """What stands in front of a row's id, and behind it, in the names of its files below a
        folder.
        """
        if id_problem(row_id):
            return  # it names no file
        for front in _FRONTS:
            for suffix in ROW_SUFFIXES:
                path = self.out / f"{base}{front}{row_id}{tail}{suffix}"
                if os.path.lexists(path) and not self._is_of_other(row_id, suffix):
                    yield front, suffix
        for front in _FOLDERS:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                for name in os.listdir(self.out / f"{base}{front}{row_id}{tail}"):
                    if _TAKE.fullmatch(name):
                        yield front, f"/{name}"

    def _is_of_other(self, row_id: str, suffix: str) -> bool:
        """Whether a file of this name belongs to another row, which the journal has or had."""
        if suffix not in NESTED_SUFFIXES:
            return False
        if self._shared is None:
            takes = chain(self._journal.takes(), self._journal.gone_rows())
            self._shared = SharedNames(take.id for take in takes)
        return self._shared.owner(row_id, suffix) is not None

    def _sync(self) -> None:
        """Make what was moved durable, and remove folders that are empty now."""
        for folder in self._left | self._entered:
            with contextlib.suppress(FileNotFoundError):
                sync_folder(folder)
        for folder in self._left:
            with contextlib.suppress(OSError):  # it holds something
                while folder != self.out:
                    folder.rmdir()
                    self._inside.forget(folder)
                    folder = folder.parent
        self._left.clear()
        self._entered.clear()


def _gone_lines(row: _Leaving) -> Iterator[CopiedLine]:
    """Its lines once more."""
    for line in row.lines:
        front, _, behind = _place(line.take) or ("", "", "")
        path = f"{REMOVED}/{front}{row.id}{row.tail}{behind}" if behind else line.take.path
        yield line.changed(status=Status.GONE, path=path)


def _back(line: CopiedLine) -> CopiedLine:
    """A line as it was before the row was gone."""
    front, _, behind = _place(line.take) or ("", "", "")
    path = f"{front}{line.take.id}{behind}" if behind else line.take.path
    return line.changed(status=Status.OK if line.take.was_ok else Status.FAILED, path=path)


def _tail_of(take: Take | None) -> str:
    """What stands behind the id in the path of a row that is gone."""
    found = None if take is None else _place(take)
    return "" if found is None else found[1]


def _place(take: Take) -> tuple[str, str, str] | None:
    """What stands in front of the id in a take's path, `removed/` left out, then behind it the tail
    and the rest; None for a path that is no row's, or none.
    """
    row_id = re.escape(take.id)
    pattern = rf"(?:{REMOVED}/)?({_FRONT}){row_id}(~[0-9]+)?((?:/[0-9]+)?(?:{_SUFFIX}))"
    found = re.fullmatch(pattern, str(take.path))
    return None if found is None else (found[1], found[2] or "", found[3])
