"""The index of a journal: an in-memory SQLite table with one record per take.

It is derived from `timings.jsonl` and never written to disk. A record has the offset of the take's
last line, its state and the hashes that a rerun compares: 50 to 90 bytes per take.

A row's current take is the last one that became the row's file: of the takes with an `own` line
(their role was own or held), the one whose `own` line is last. If that take failed, the row is
failed, and its file is still that of the last `own` take that was ok once.
"""

from __future__ import annotations

import hashlib
import re
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from tts_cli.core import Role, Status
from tts_cli.sources.ids import id_hash
from tts_cli.sqlite import memory_database
from tts_cli.store.entry import MAX_TAKE

if TYPE_CHECKING:
    import sqlite3

    from tts_cli.store.entry import EntryFacts, JournalEntry

PENDING_LINES = 512  # entries that wait for a query; 0.2 MB

_SHA256 = re.compile(r"[0-9a-f]{64}")
_STATUSES = (Status.OK, Status.FAILED, Status.REMOVED)  # by the low bits of `state`
_STATUS_BITS, _IS_HELD, _IS_EARLY, _IS_USERS = 3, 4, 8, 16
_CREATE = """
CREATE TABLE takes (
    row INTEGER, take INTEGER, state INTEGER, hashes INTEGER, size INTEGER, audio_us INTEGER,
    offset INTEGER, own INTEGER, good INTEGER, digest INTEGER,
    PRIMARY KEY (row, take)
) WITHOUT ROWID
"""
# `own` and `good` are 1 + the offset of the last line with an own role, and of the last ok one; 0
# means the last line, because SQLite stores a 0 without any bytes, and null means "never".
_PUT = """
INSERT INTO takes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (row, take) DO UPDATE SET
    state = excluded.state, hashes = excluded.hashes, size = excluded.size,
    audio_us = excluded.audio_us, offset = excluded.offset, digest = excluded.digest,
    own = coalesce(excluded.own, CASE own WHEN 0 THEN offset + 1 ELSE own END),
    good = coalesce(excluded.good, CASE good WHEN 0 THEN offset + 1 ELSE good END)
"""
_COLUMNS = """
row, take, state, size, audio_us, offset, CASE own WHEN 0 THEN offset ELSE own - 1 END,
CASE good WHEN 0 THEN offset ELSE good - 1 END, hashes, digest
"""


_OF_ROW = f"SELECT {_COLUMNS} FROM takes WHERE row = ? ORDER BY take"
_CHOSEN = f"WHERE row IN (SELECT row FROM takes WHERE take != 1 OR state & {_IS_HELD})"
_COUNT_SINGLE = f"""
SELECT state & {_STATUS_BITS}, count(*), sum(audio_us) FROM takes
WHERE own IS NOT NULL AND row NOT IN (SELECT row FROM takes WHERE take != 1)
GROUP BY state & {_STATUS_BITS}
"""


class IndexedTake(NamedTuple):
    row: int  # key of the row, see `key_of`
    take: int
    state: int
    size: int  # bytes of the audio file; 0: unknown
    audio_us: int
    offset: int  # of the last line
    own: int | None  # offset of the last line with an own role; None: it was never the row's file
    good: int | None  # offset of the last ok line; None: it never was ok
    hashes: int  # 64 bits of its request and delivery hash
    digest: int | None  # 64 bits of the SHA-256 of its audio file

    @property
    def status(self) -> Status:
        return _STATUSES[self.state & _STATUS_BITS]

    @property
    def is_held(self) -> bool:
        return bool(self.state & _IS_HELD)

    @property
    def is_early(self) -> bool:
        """Whether its hashes are from a version that was never published."""
        return bool(self.state & _IS_EARLY)

    @property
    def sha256(self) -> str | None:
        """The first 16 digits of the SHA-256 of its audio file; None: unknown."""
        return None if self.digest is None else f"{self.digest + _HALF:016x}"

    def is_of(self, request_hash: str, delivery_hash: str) -> bool:
        return self.hashes == _hash_bits(request_hash, delivery_hash)

    @property
    def is_users(self) -> bool:
        """Whether a user made or edited its file."""
        return bool(self.state & _IS_USERS)

    @property
    def has_number(self) -> bool:
        """Whether its number is taken for ever: it was ok once, or a user's file has it."""
        return self.good is not None or self.is_users


class RowTakes:
    def __init__(self, takes: Sequence[IndexedTake] = ()) -> None:
        self.takes = takes
        self.current: IndexedTake | None = None  # None: no take ever was the row's file
        self.has_failed = False  # the current take, or the one that was to replace it
        own = [take for take in takes if take.own is not None]
        own.sort(key=lambda take: take.own or 0)
        if own:
            self.current, self.has_failed = own[-1], own[-1].status is Status.FAILED
        if self.has_failed:
            good = [one for one in own if one.good is not None and one.status is not Status.REMOVED]
            self.current = (good or own)[-1]

    @property
    def take(self) -> int:
        """Number of the current take; 0: none."""
        return 0 if self.current is None else self.current.take

    @property
    def is_held(self) -> bool:
        return self.current is not None and self.current.is_held

    @property
    def is_removed(self) -> bool:
        """Whether the row was removed; `current` was its file before."""
        return self.current is not None and self.current.status is Status.REMOVED

    @property
    def status(self) -> Status | None:
        if self.current is None or self.is_removed:
            return None
        return Status.FAILED if self.has_failed else Status.OK

    @property
    def numbers(self) -> list[int]:
        return [one.take for one in self.takes]

    @property
    def top(self) -> int:
        return self.takes[-1].take if self.takes else 0

    def number(self, take: int) -> IndexedTake | None:
        return next((one for one in self.takes if one.take == take), None)

    def next_take(self, used: int = 0, spare: int = 0) -> int:
        """Return a number for a new take: above those of all takes, unless it exceeds `MAX_TAKE`.

        Args:
            used: another number in use, perhaps without a line.
            spare: how many numbers to leave free for takes that a run is about to make.
        """
        numbers = {*self.numbers, used}
        if max(numbers) + spare < MAX_TAKE:
            return max(numbers) + spare + 1
        return next(n for n in count(len(numbers) + spare + 1) if n not in numbers)

    def take_to_write(self) -> int:
        """Return the number for the row's next result, unless it is the same take again. The number
        of a take that was ok once is never used again; that of a take that only failed is free.
        """
        if not self.takes:
            return 1
        if self.current is None or self.is_removed:
            return 1 if self.number(1) is None else self.next_take()
        if not self.current.has_number:
            return self.take
        return self.next_take() if self.takes[-1].has_number else self.top


@dataclass
class RowTotals:
    """Sums over the current takes of all rows."""

    ok: int
    failed: int
    audio_s: float  # of those that are ok
    has_first_lines: bool  # lines of versions that did not record their run


_NONE = RowTakes()


class Index:
    """The records of one journal; any thread may use it.

    Args:
        has_digests: store 64 bits of the digest of each file, for `--verify-files`.
    """

    def __init__(self, has_digests: bool = False) -> None:
        self._database = memory_database(_CREATE)
        self._mutex = threading.Lock()  # of the connection, and the next field
        self._pending: list[tuple[int | None, ...]] = []  # values that no query has needed yet
        self._has_digests = has_digests
        self._is_empty = True
        self._known: dict[str, RowTakes] = {}  # rows that were looked up last

    def put(self, lines: Iterable[tuple[JournalEntry | EntryFacts, int]]) -> None:
        """Record entries and the offsets of their lines, in place of the takes' earlier ones.

        They wait for the next query: each SQL statement may release the interpreter for a
        millisecond, and writer threads would wait for it once per row.
        """
        with self._mutex:
            self._pending += (self._values(take, at) for take, at in lines)
            if len(self._pending) >= PENDING_LINES:
                self._connection()
            self._is_empty = False
            self._known = {}

    def _connection(self) -> sqlite3.Connection:
        """The database with all entries. The caller holds the mutex."""
        if self._pending:
            self._database.executemany(_PUT, self._pending)
            self._pending.clear()
        return self._database

    def _values(self, take: JournalEntry | EntryFacts, offset: int) -> tuple[int | None, ...]:
        status = _STATUSES.index(take.status)
        state = status | _IS_HELD * (take.role is Role.HELD) | _IS_EARLY * take.is_early
        digest = None
        if self._has_digests and take.sha256 and _SHA256.fullmatch(take.sha256):
            digest = int(take.sha256[:16], 16) - _HALF
        return (
            key_of(take.id),
            take.take,
            state | _IS_USERS * (take.origin is not None),
            _hash_bits(take.request_hash, take.delivery_hash),
            take.bytes,
            round(1e6 * take.audio_s),
            offset,
            None if take.role is Role.EXTRA else 0,
            0 if status == 0 else None,
            digest,
        )

    def row(self, row_id: str) -> RowTakes:
        if self._is_empty:
            return _NONE
        row = self._known.get(row_id)
        if row is None:
            with self._mutex:
                row = self._of_key(key_of(row_id))
                self._known = {row_id: row}  # most rows are looked up several times
        return row

    def look_up(self, row_ids: Iterable[str]) -> None:
        """Look up many rows with one query, until the next entry; saves 40 us per row."""
        if self._is_empty:
            return
        ids = {key_of(row_id): row_id for row_id in row_ids}
        places = ", ".join("?" * len(ids))
        query = f"SELECT {_COLUMNS} FROM takes WHERE row IN ({places}) ORDER BY row, take"
        known = dict.fromkeys(ids.values(), _NONE)
        with self._mutex:
            found = self._connection().execute(query, tuple(ids))
            for key, takes in groupby(map(IndexedTake._make, found), key=_row_of):
                known[ids[key]] = RowTakes(list(takes))
            self._known = known

    def _of_key(self, key: int) -> RowTakes:
        found = self._connection().execute(_OF_ROW, (key,)).fetchall()
        return RowTakes(list(map(IndexedTake._make, found))) if found else _NONE

    def current_offsets(
        self, is_meant: Callable[[RowTakes], bool], *, is_chosen: bool = False
    ) -> array[int]:
        """Return offsets of the last lines of current takes, in the order of the journal.

        Args:
            is_meant: gets a row that has a current take.
            is_chosen: skip rows whose only take is the first one and not pinned.
        """
        rows = self._rows(_CHOSEN if is_chosen else "")
        return _sorted(row.current.offset for row in rows if row.current and is_meant(row))

    def absent_offsets(self, has_key: Callable[[int], bool]) -> array[int]:
        """Return offsets of the last lines of current takes, in the order of the journal, of rows
        that were not removed and for which `has_key(id_hash)` is false.
        """
        with self._mutex:
            keys = self._connection().execute("SELECT DISTINCT row FROM takes")
            absent = [key for (key,) in keys if not has_key(key + _HALF)]
            rows = map(self._of_key, absent)
            return _sorted(row.current.offset for row in rows if row.current and not row.is_removed)

    def all_offsets(self) -> array[int]:
        """Return offsets of the last lines of all takes of rows that were not removed, in order."""
        rows = (row for row in self._rows() if not row.is_removed)
        takes = (take for row in rows for take in row.takes)
        return _sorted(take.offset for take in takes if take.status is not Status.REMOVED)

    def totals(self) -> RowTotals:
        """Sum up the rows that were not removed."""
        ok = failed = audio_us = 0
        for row in self._rows("WHERE row IN (SELECT row FROM takes WHERE take != 1)"):
            failed += row.status is Status.FAILED
            if row.current is not None and row.status is Status.OK:
                ok, audio_us = ok + 1, audio_us + row.current.audio_us
        with self._mutex:  # rows whose only take is the first one, which are most
            single = self._connection().execute(_COUNT_SINGLE).fetchall()
            query = f"SELECT 1 FROM takes WHERE state & {_IS_EARLY} LIMIT 1"
            is_early = self._database.execute(query).fetchone() is not None
        for status, num_rows, sum_us in single:
            if _STATUSES[status] is Status.OK:
                ok, audio_us = ok + num_rows, audio_us + sum_us
            elif _STATUSES[status] is Status.FAILED:
                failed += num_rows
        return RowTotals(ok, failed, audio_us / 1e6, is_early)

    def _rows(self, where: str = "") -> Iterator[RowTakes]:
        """Yield the takes of each row, a million rows within seconds."""
        query = f"SELECT {_COLUMNS} FROM takes {where} ORDER BY row, take"
        with self._mutex:
            found = self._connection().execute(query)
            for _, takes in groupby(map(IndexedTake._make, found), key=_row_of):
                yield RowTakes(list(takes))


_row_of = itemgetter(0)
_HALF = 1 << 63  # SQLite's whole numbers have a sign


def _sorted(offsets: Iterable[int]) -> array[int]:
    return array("Q", sorted(array("Q", offsets)))


def key_of(row_id: str) -> int:
    """The key of a row: 64 bits of its id's hash, with a sign."""
    return id_hash(row_id) - _HALF


def _hash_bits(request_hash: str, delivery_hash: str) -> int:
    """64 bits of both hashes, with a sign."""
    text = f"{request_hash}\n{delivery_hash}"
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") - _HALF
