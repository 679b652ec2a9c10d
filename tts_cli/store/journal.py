"""`timings.jsonl`: one JSON object per take that was synthesized, pinned, removed or restored.

The file only grows, and is the truth about a folder. Appending an entry commits a row: its files
are staged and synced before, and get their names after it. The last line of an id and take counts.
A torn last line was never committed and is cut off; other invalid lines are counted and ignored.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from tts_cli.atomic import (
    MAX_LINE_BYTES,
    iter_lines,
    open_own,
    open_to_append,
    sync_folder,
    write_all,
)
from tts_cli.core import Status
from tts_cli.errors import SetupError, disk_full, writing
from tts_cli.named import counted
from tts_cli.plain import open_plain
from tts_cli.sources.ids import is_recorded_id
from tts_cli.store.entry import MAX_TAKE, SCHEMA, CopiedLine, EntryFacts, JournalEntry
from tts_cli.store.files import JOURNAL_NAME, take_name
from tts_cli.store.index import Index, RowTakes, RowTotals

log = logging.getLogger(__name__)

_SCHEMA = re.compile(rb'"schema": ([0-9]+)')
_BATCH = 4096  # lines that are put into the index together


def _is_old(raw: bytes) -> bool:
    found = _SCHEMA.search(raw)
    return found is None or int(found[1]) < SCHEMA


@dataclass
class _Append:
    entries: list[JournalEntry]
    lines: list[bytes]
    folders: Collection[str]
    is_done: bool = False
    error: OSError | None = None


class Journal:
    """The journal of one output folder; several threads may use it.

    Args:
        out: the output folder; its lock must be held unless `is_read_only`. None: no folder.
        is_read_only: repair and append nothing, as for `--dry-run`.
        has_sums: store 64 bits of each file's SHA-256, for `--verify-files`.
        is_known: it was read before, so nothing is logged about its lines.
    Raises:
        SetupError: the file exists but cannot be read or written, or is not a regular file.
    """

    def __init__(
        self,
        out: Path | None,
        is_read_only: bool = False,
        *,
        has_sums: bool = False,
        is_known: bool = False,
    ) -> None:
        self.path = Path(JOURNAL_NAME) if out is None else out / JOURNAL_NAME
        self.num_garbage = 0  # invalid lines
        self.has_old_lines = False  # lines of an earlier schema
        self.size = 0  # bytes of whole lines
        self._is_torn = False  # the last line has no end
        self.torn = b""  # a torn last line, which is cut off
        self._index = Index(has_sums)
        self._mutex = threading.Lock()  # of the file
        self._pending: deque[_Append] = deque()
        self._handle = -1  # -1: closed, or read-only
        self._failure: OSError | None = None  # of an fsync: written lines may be lost
        if out is None:
            return
        with writing(self.path, SetupError, str(self.path), "check the file's permissions"):
            lines = self._load()
            while batch := list(islice(lines, _BATCH)):
                self._index.put(batch)
            if not is_read_only:
                self._open()
        if self.num_garbage and not is_known:
            text = counted(self.num_garbage, "invalid line", "invalid lines")
            log.warning("%s: ignored %s", self.path, text)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def row(self, row_id: str) -> RowTakes:
        """Return the takes of a row; empty if no line has the row."""
        return self._index.row(row_id)

    def look_up(self, row_ids: Iterable[str]) -> None:
        """Look up the takes of many rows that are needed next, see `Index.look_up`."""
        self._index.look_up(row_ids)

    def file(self, row_id: str) -> RowTakes | None:
        """Return the takes of a row; None: it has no file, or was removed."""
        found = self._index.row(row_id)
        return None if found.current is None or found.is_removed else found

    def line(self, row_id: str, take: int) -> CopiedLine | None:
        """Return the last line of a take, for a copy, or None. Raises OSError."""
        found = self._index.row(row_id).number(take)
        return None if found is None else next(self._lines_at([found.offset]), None)

    def take(self, row_id: str, number: int) -> JournalEntry | None:
        """Return a take's last entry with its file's present path, or None. Raises OSError."""
        line = self.line(row_id, number)
        return None if line is None else self._located(line.take)

    def last_ok_line(self, row_id: str, take: int) -> CopiedLine | None:
        """Return the last ok line of a take, even if a later one failed; None: it never was ok.
        Raises OSError.
        """
        found = self._index.row(row_id).number(take)
        if found is None or found.good is None:
            return None
        return next(self._lines_at([found.good]), None)

    def ok_take(self, row_id: str) -> JournalEntry | None:
        """Return the entry of a row's file; None: it has no file, or failed. Raises OSError."""
        found = self.file(row_id)
        return None if found is None or found.has_failed else self.take(row_id, found.take)

    def takes(self, has_extras: bool = False) -> Iterator[JournalEntry]:
        """Yield the last entry of each row's current take in the order of the file, with the
        present path of its file. Lines that another process adds meanwhile are not read. Raises
        OSError.

        Args:
            has_extras: yield the entries of all takes.
        """
        if has_extras:
            offsets = self._index.all_offsets()
        else:
            offsets = self._index.current_offsets(lambda row: not row.is_removed)
        return self._takes_at(offsets)

    def chosen(self) -> Iterator[JournalEntry]:
        """Yield the current takes of rows that have several takes, or one that is pinned or not the
        first, in the order in which they became current. Raises OSError.
        """

        def is_chosen(row: RowTakes) -> bool:
            others = sum(one.status is not Status.REMOVED for one in row.takes) - 1
            return not row.is_removed and (row.is_held or row.take != 1 or others > 0)

        return self._takes_at(self._index.current_offsets(is_chosen, is_chosen=True))

    def absent(self, has_key: Callable[[int], bool]) -> Iterator[JournalEntry]:
        """Yield the current takes of rows that a manifest may lack. Raises OSError.

        Args:
            has_key: whether a row of the manifest has this `id_hash` of its folded id.
        """
        return self._takes_at(self._index.absent_offsets(has_key))

    def removed_rows(self) -> Iterator[JournalEntry]:
        """Yield the takes that were current when their rows were removed. Raises OSError."""
        return self._takes_at(self._index.current_offsets(lambda row: row.is_removed))

    def totals(self) -> RowTotals:
        return self._index.totals()

    def append(self, *entries: JournalEntry | CopiedLine, folders: Collection[str] = ()) -> None:
        """Commit entries whose files are staged and synced, with one fsync for all of them. Entries
        that several threads append while one waits for the disk are committed together.

        Args:
            folders: folders with staged files, which are synced first.
        Raises:
            DiskFull: nothing was committed.
        """
        assert self._handle >= 0, "the journal is closed or read-only"
        takes = [one if isinstance(one, JournalEntry) else one.take for one in entries]
        for take in takes:  # before they are queued: other threads write them
            assert is_recorded_id(take.id, take.status), take
            assert 1 <= take.take <= MAX_TAKE, take
        lines = [one.to_line().encode() for one in entries]
        asked = _Append(takes, lines, folders)
        self._pending.append(asked)
        with self._mutex:
            if not asked.is_done:
                try:
                    self._flush()
                except BaseException:
                    self._pending.remove(asked)  # the caller removes its staged files
                    raise
        if asked.error is not None:
            raise disk_full(asked.error, self.path) from asked.error

    def _flush(self) -> None:
        """Write the pending entries of all threads. The caller holds the mutex."""
        group = list(self._pending)  # removed only when their result is known
        error = self._failure
        try:
            if error is not None:
                raise error
            for folder in {folder for one in group for folder in one.folders}:
                sync_folder(folder)
            write_all(self._handle, b"".join(line for one in group for line in one.lines))
        except BaseException as caught:
            self._cut(self.size)
            error = caught if isinstance(caught, OSError) else None
            if isinstance(caught.__cause__, OSError):  # of a folder that cannot be synced
                error = caught.__cause__
            if error is None:
                raise  # all of them are still queued
            self._failure = error
        for one in group:
            self._pending.popleft()
            one.error, one.is_done = error, True
        if error is not None:
            return
        found: list[tuple[JournalEntry | EntryFacts, int]] = []
        for one in group:
            for line, take in zip(one.lines, one.entries, strict=True):
                found.append((take, self.size))
                self.size += len(line)
        self._index.put(found)

    def close(self) -> None:
        """Close the file; further calls have no effect."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def entries_since(self, offset: int) -> Iterator[JournalEntry]:
        """Yield the entries of all lines from an offset on. Raises OSError."""
        with open_plain(self.path) as file:
            file.seek(offset)
            for raw in iter_lines(file):
                if (take := JournalEntry.decode(raw)) is not None:
                    yield take

    def _located(self, take: JournalEntry) -> JournalEntry:
        """Return an entry with the present path of its file: that of an earlier current take was
        moved to `takes/` without another line.
        """
        if take.path is None or take.path.startswith("truncated/"):
            return take
        row = self._index.row(take.id)
        is_own = row.take == take.take and not row.is_removed
        suffix = Path(take.path).suffix
        path = home = take_name(take.id, take.take, suffix)
        if is_own and (take.path != home or not (self.path.parent / home).is_file()):
            path = f"{take.id}{suffix}"  # else an earlier version has left it in `takes/`
        return take if path == take.path else replace(take, path=path)

    def _lines_at(self, offsets: Sequence[int]) -> Iterator[CopiedLine]:
        lines = map(CopiedLine.decode, self._raws_at(offsets))
        return (line for line in lines if line is not None)

    def _takes_at(self, offsets: Sequence[int]) -> Iterator[JournalEntry]:
        for take in map(JournalEntry.decode, self._raws_at(offsets)):
            if take is not None:
                yield self._located(take)

    def _raws_at(self, offsets: Sequence[int]) -> Iterator[bytes]:
        if not offsets:
            return
        with open_plain(self.path) as file:
            for offset in offsets:
                file.seek(offset)
                yield file.readline(MAX_LINE_BYTES)

    def _load(self) -> Iterator[tuple[JournalEntry | EntryFacts, int]]:
        """Yield the entries of complete lines and their offsets."""
        file = open_own(self.path)
        if file is None:
            return
        with file:
            for raw in iter_lines(file):
                self._is_torn = not raw.endswith(b"\n")
                take = EntryFacts.decode(raw)
                if take is not None:  # also a last line that lacks only its line end
                    self.has_old_lines = self.has_old_lines or _is_old(raw)
                    yield take, self.size
                elif self._is_torn:
                    self.torn = raw
                    return
                elif raw.strip():
                    self.num_garbage += 1
                self.size = file.tell()

    def _open(self) -> None:
        """Open the file for appending, and cut off a torn line."""
        self._handle = open_to_append(self.path)
        if os.fstat(self._handle).st_size > self.size:
            log.warning("%s: removed an incomplete last line, left by a crash", self.path)
            os.ftruncate(self._handle, self.size)
        elif self._is_torn:
            self.size += os.write(self._handle, b"\n")

    def _cut(self, size: int) -> None:
        """Undo a write that failed; if that fails, the next run finds a torn line."""
        try:
            os.ftruncate(self._handle, size)
        except OSError as problem:
            log.debug("%s: an incomplete line stays: %s", self.path, problem)
