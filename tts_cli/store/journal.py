"""`timings.jsonl`: one line a finished row, and what a rerun may skip because of it.

The file only grows. A line is appended after the row's audio is safely on disk and is itself
fsynced, so a recorded row is a kept row. The last line of an id and take wins. A line torn by a
crash is cut off before the next append, and its row recorded as failed if it has no other; other
lines that make no sense are counted and passed over.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO

from tts_cli.core import Status, Unfinished
from tts_cli.errors import SetupError, disk_full, writing
from tts_cli.store.atomic import (
    MAX_LINE_BYTES,
    open_own,
    open_to_append,
    write_all,
)
from tts_cli.store.files import JOURNAL_NAME
from tts_cli.store.table import FolderRows, Line, RecordTable, RowFile, line_of
from tts_cli.store.take import MAX_TAKE, CopiedLine, Take
from tts_cli.manifest.ids import id_hash, is_recorded_id
from tts_cli.named import counted
from tts_cli.plain import open_plain

log = logging.getLogger(__name__)

# As our own lines begin.
_FIRST_ID = re.compile(rb'\{"id": "((?:[ !#-\[\]-~]|\\["\\/bfnrt]|\\u[0-9a-f]{4})*)"')


@dataclass
class _Entry:
    """What one call of `append` wants recorded, and its result."""

    lines: list[bytes]
    takes: list[Line]  # what the table remembers of each line
    is_done: bool = False
    error: OSError | None = None


class Journal:
    """The journal of one output folder; may be used from several threads.

    Args:
        out: the output folder; its lock must be held unless `is_read_only`. None: there is none.
        is_read_only: look only, as `--dry-run` does; repair and append nothing.
        has_sums: remember 64 bits of each file's SHA-256, for `--verify-files`.
    Raises:
        SetupError: the file is there but cannot be read or written, or is no plain file.
    """

    def __init__(
        self, out: Path | None, is_read_only: bool = False, *, has_sums: bool = False
    ) -> None:
        self.path = Path(JOURNAL_NAME) if out is None else out / JOURNAL_NAME
        self.num_garbage = 0  # lines that made no sense
        self._table = RecordTable(has_sums)
        self._mutex = threading.Lock()
        self._pending: deque[_Entry] = deque()
        self._handle = -1  # it is closed, or read-only
        if out is None:
            return
        with writing(self.path, SetupError, str(self.path), "check the file's permissions"):
            whole_bytes, tail = self._load()
            if not is_read_only:
                self._open(whole_bytes, tail)
        if self.num_garbage:
            lines = counted(self.num_garbage, "invalid line", "invalid lines")
            log.warning("%s: ignored %s", self.path, lines)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._table)

    def status(self, row_id: str, take: int | None = None) -> Status | None:
        """As recorded last, of a take or of the row; None if never, or for a row that is gone."""
        if take is not None:
            return self._table.status(row_id, take)
        found = self._table.file(row_id)
        if found is None:
            return None
        return Status.FAILED if found.has_failed else Status.OK

    def file(self, row_id: str) -> RowFile | None:
        """Which take the row's file is; None if no line tells of one, or the row is gone."""
        return self._table.file(row_id)

    def gone(self, row_id: str) -> RowFile | None:
        """Which take the file of a row was that is gone; None for every other one."""
        return self._table.gone(row_id)

    def knows(self, row_id: str) -> bool:
        """Whether a line tells what the row's file is, or was."""
        return self.file(row_id) is not None or self.gone(row_id) is not None

    def top(self, row_id: str) -> int:
        """The highest take that has a line; 0 for a row without one."""
        return max(self.numbers(row_id), default=0)

    def numbers(self, row_id: str) -> list[int]:
        """The numbers of a row's takes that have lines, the lowest first."""
        return self._table.numbers(row_id)

    def take_to_write(self, row_id: str) -> int:
        """Return the number of the take that a row's next speech is, unless it is the same again:
        one that came out well keeps its number for good, that of one that only failed is free.
        """
        file = self.file(row_id)
        if file is None:
            return 1 if self.status(row_id, 1) is None else self.next_take(row_id)
        if not self.was_spoken(row_id, file.take):
            return file.take
        top = self.top(row_id)
        return self.next_take(row_id) if self.was_spoken(row_id, top) else top

    def next_take(self, row_id: str, used: int = 0, spare: int = 0) -> int:
        """Return a number for a new take: above those of all takes, where `MAX_TAKE` allows it.

        Args:
            used: another number in use, maybe without a line.
            spare: how many numbers to leave free for takes that a run is about to make.
        """
        numbers = {*self.numbers(row_id), used}
        if max(numbers) + spare < MAX_TAKE:
            return max(numbers) + spare + 1
        return next(n for n in count(len(numbers) + spare + 1) if n not in numbers)

    def line(self, row_id: str, take: int) -> CopiedLine | None:
        """The last line of a take, to be copied; None if there is none of sense. Raises OSError."""
        offset = self._table.offset(row_id, take)
        return None if offset is None else next(self._lines_at([offset]), None)

    def take(self, row_id: str, number: int) -> Take | None:
        """What the last line of a take says; None if there is none of sense. Raises OSError."""
        offset = self._table.offset(row_id, number)
        return None if offset is None else next(self._takes_at([offset]), None)

    def was_spoken(self, row_id: str, take: int) -> bool:
        """Whether a take ever came out well. Its number is then its own for ever."""
        return self._table.spoken_offset(row_id, take) is not None

    def spoken_line(self, row_id: str, take: int) -> CopiedLine | None:
        """The last line that says that a take came out well, whatever failed since; None: it never
        did. Raises OSError.
        """
        offset = self._table.spoken_offset(row_id, take)
        return None if offset is None else next(self._lines_at([offset]), None)

    def unfinished(self) -> list[CopiedLine]:
        """The last lines, see `Unfinished.REPLACING`, of takes whose run died. Raises OSError."""
        return list(self._lines_at(self._table.offsets_of_unfinished()))

    def ok_take(self, row_id: str) -> Take | None:
        """What the row's file is; None if there is none, or if it failed. Raises OSError."""
        found = self._table.file(row_id)
        return None if found is None or found.has_failed else self.take(row_id, found.take)

    def takes(self, has_extras: bool = False) -> Iterator[Take]:
        """The last line of each row's file, in the order in which they stand there. Lines that
        another journal adds meanwhile are not seen. Raises OSError.

        Args:
            has_extras: of every take.
        """
        is_meant = self._table.is_last if has_extras else self._table.is_file
        if not len(self._table):
            return
        with open_plain(self.path) as file:
            offset = 0
            while raw := file.readline(MAX_LINE_BYTES):
                take = Take.decode(raw) if raw.endswith(b"\n") else None
                if take is not None and is_meant(line_of(take), offset):
                    yield take
                offset += len(raw)

    def chosen(self) -> Iterator[Take]:
        """The takes that are the files of rows with several takes, or that are held; in the order
        in which they became it. Raises OSError.
        """
        return self._takes_at(self._table.offsets_of_chosen())

    def absent(self, has_key: Callable[[int], bool]) -> Iterator[Take]:
        """Those of `RecordTable.offsets_of_absent`. Raises OSError."""
        return self._takes_at(self._table.offsets_of_absent(has_key))

    def gone_rows(self) -> Iterator[Take]:
        """The takes that were the files of rows that are gone. Raises OSError."""
        for take in self._takes_at(self._table.offsets_of_gone()):
            file = self.gone(take.id)
            if file is not None and file.take == take.take:
                yield take

    def is_early(self, row_id: str, take: int) -> bool:
        """Whether the last line is of a version that was never published: see `take.PUBLISHED`."""
        return self._table.is_early(row_id, take)

    def done(self, row_id: str, request_hash: str, delivery_hash: str, take: int = 1) -> bool:
        """Whether this very request is recorded ok, delivered so; whether its file is there is not
        asked.
        """
        return self._table.is_ok_with(row_id, take, request_hash, delivery_hash)

    def is_of(self, row_id: str, request_hash: str, delivery_hash: str, take: int) -> bool:
        """Whether a take's last line is of this very request, delivered so, ok or not."""
        return self._table.has_hashes(row_id, take, request_hash, delivery_hash)

    def file_size(self, row_id: str, take: int = 1) -> int | None:
        """Bytes of a row's audio file; None: no line tells them."""
        return self._table.size(row_id, take)

    def file_sum(self, row_id: str, take: int = 1) -> str | None:
        """The first 16 digits of the SHA-256 of a row's audio file, or None."""
        return self._table.digest(row_id, take)

    def rows(self) -> FolderRows:
        """Sums over the last lines of all rows, extra takes left out."""
        with self._mutex:
            return self._table.rows()

    def append(self, *records: Take | CopiedLine) -> None:
        """Record rows whose audio is safely on disk, with one fsync for all of them.

        Threads that come while another one waits for the disk are recorded together by the next.

        Raises:
            DiskFull: nothing was recorded.
        """
        assert self._handle >= 0, "the journal is closed or read-only"
        lines = [record.to_line().encode() for record in records]
        takes = [line_of(take) for take in map(Take.decode, lines) if take is not None]
        assert len(takes) == len(lines), lines  # before they are queued: other threads write them
        entry = _Entry(lines, takes)
        self._pending.append(entry)
        with self._mutex:
            if not entry.is_done:
                self._flush()
        if entry.error is not None:
            raise disk_full(entry.error, self.path) from entry.error

    def _flush(self) -> None:
        """Write what threads have left so far; the caller holds the mutex."""
        group = list(self._pending)  # taken out only when it is known what came of them
        size = os.fstat(self._handle).st_size
        error: OSError | None = None
        try:
            write_all(self._handle, b"".join(line for entry in group for line in entry.lines))
        except BaseException as caught:
            self._cut(size)
            if not isinstance(caught, OSError):
                raise  # all of them are still queued
            error = caught
        for entry in group:
            self._pending.popleft()
            entry.error, entry.is_done = error, True
        for entry in group if error is None else ():
            for line, take in zip(entry.lines, entry.takes, strict=True):
                self._table.put(take, size)
                size += len(line)

    def close(self) -> None:
        """Close the file; harmless if done already."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _lines_at(self, offsets: Sequence[int]) -> Iterator[CopiedLine]:
        """Lines that made sense before, and do."""
        lines = map(CopiedLine.decode, self._raws_at(offsets))
        return (line for line in lines if line is not None)

    def _takes_at(self, offsets: Sequence[int]) -> Iterator[Take]:
        """What they say."""
        return (take for take in map(Take.decode, self._raws_at(offsets)) if take is not None)

    def _raws_at(self, offsets: Sequence[int]) -> Iterator[bytes]:
        if not offsets:
            return
        with open_plain(self.path) as file:
            for offset in offsets:
                file.seek(offset)
                yield file.readline(MAX_LINE_BYTES)

    def _load(self) -> tuple[int, bytes]:
        """Read all lines; returns the bytes of whole lines, and the last one if it is torn."""
        file = open_own(self.path)
        if file is None:
            return 0, b""
        with file:
            whole_bytes = 0
            while raw := file.readline(MAX_LINE_BYTES):
                if not raw.endswith(b"\n"):
                    if len(raw) < MAX_LINE_BYTES:
                        return whole_bytes, raw
                    raw = _skip_line(file)
                    if not raw.endswith(b"\n"):
                        return whole_bytes, raw
                    self.num_garbage += 1
                    whole_bytes = file.tell()
                    continue
                if raw.strip() and not self._learn(raw, whole_bytes):
                    self.num_garbage += 1
                whole_bytes += len(raw)
            return whole_bytes, b""

    def _learn(self, raw: bytes, offset: int) -> bool:
        take = Take.decode(raw)
        if take is None:
            return False
        self._table.put(line_of(take), offset)
        return True

    def _open(self, whole_bytes: int, tail: bytes) -> None:
        self._handle = open_to_append(self.path)
        if not tail:
            return
        if self._learn(tail, whole_bytes):  # only its newline is missing
            os.write(self._handle, b"\n")
        else:
            log.warning("%s: removed an incomplete last line, left by a crash", self.path)
            os.ftruncate(self._handle, whole_bytes)
            self._keep_id(tail, whole_bytes)

    def _keep_id(self, torn: bytes, whole_bytes: int) -> None:
        """Record the row of a torn line as failed: its file is there, and is known to be ours. One
        that has lines is what they say.
        """
        found = _FIRST_ID.match(torn)
        row_id = json.loads(b'"%b"' % found[1]) if found else None
        if is_recorded_id(row_id, Status.FAILED) and not self.knows(row_id):
            line = Take.unrecorded(row_id, Unfinished.TORN).to_line().encode()
            os.write(self._handle, line)
            self._learn(line, whole_bytes)

    def _cut(self, size: int) -> None:
        """Take back a half-written append."""
        try:
            os.ftruncate(self._handle, size)
        except OSError as error:
            log.debug("%s: an incomplete line remains: %s", self.path, error)


def sound_lines(out: Path) -> Iterator[tuple[int, bytes]]:
    """Every whole line of a folder's journal that makes sense, as it stands there, behind the hash
    of its row's id. Raises OSError.
    """
    with open_plain(out / JOURNAL_NAME) as file:
        while raw := file.readline(MAX_LINE_BYTES):
            if not raw.endswith(b"\n"):
                _skip_line(file)
            elif (take := Take.decode(raw)) is not None:
                yield id_hash(take.id), raw


def _skip_line(file: BinaryIO) -> bytes:
    """Read to the end of an over-long line; returns its last piece."""
    raw = b"-"
    while raw and not raw.endswith(b"\n"):
        last, raw = raw, file.readline(MAX_LINE_BYTES)
    return raw or last
