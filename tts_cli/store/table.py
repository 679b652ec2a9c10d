"""The last line of each row in flat arrays, at about 70 bytes a row: what a run must know of it.

A row's file is one of its takes, by its lines: that of the last one that is ok and no extra take. A
failure behind it, of another take, leaves the file, but makes the row a failed one. Of a row that
is gone every take is, and it has no file.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tts_cli.core import Role, Status, Unfinished
from tts_cli.store.take import MAX_TAKE, Take
from tts_cli.manifest.ids import IdTable, id_hash

# The low bits of a take's state; the others are of its hashes.
_IS_OK = 1
_IS_EARLY = 2  # of a version that was never published
_IS_HELD = 4
_IS_EXTRA = 8  # not what the row's file is
_HAS_FAILED_SINCE = 16  # the row's file is this take, and a later one that was to replace it failed
_IS_GONE = 32  # no manifest has the row any more
_LOW_BITS = 63
_STATUS_BITS = {Status.OK: _IS_OK, Status.FAILED: 0, Status.GONE: _IS_GONE}
_ROLE_BITS = {Role.OWN: 0, Role.HELD: _IS_HELD, Role.EXTRA: _IS_EXTRA}
_TAKE_BITS = MAX_TAKE.bit_length()
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Line(NamedTuple):
    """What is remembered of a line."""

    key: int  # hash of id and take
    row_key: int  # hash of the id
    take: int
    state: int  # hashes, whether it is ok, gone, held, an extra take, or of an early version
    size: int  # bytes of the audio file; 0: not told
    audio_us: int  # of audio, microseconds
    sha256: str | None  # of the audio file
    is_replacing: bool = False  # see `Unfinished`


class RowFile(NamedTuple):
    """What the file of a row is, by the journal."""

    take: int
    is_held: bool
    has_failed: bool  # it, or what was to replace it


@dataclass
class FolderRows:
    """Sums over the last lines of all rows, extra takes left out."""

    ok: int
    failed: int
    audio_s: float  # of those that are ok
    has_first_lines: bool  # lines that do not tell their run


class RecordTable:
    """The last line of every (id, take).

    Args:
        has_digests: remember the files' hashes too.
    """

    def __init__(self, has_digests: bool = False) -> None:
        self._places = IdTable()  # key -> place in the arrays
        self._columns = tuple(array("Q") for _ in range(5 + has_digests))
        self._states, self._sizes, self._audio_us, self._offsets = self._columns[:4]
        # Of takes other than the first: the number, and above it the place of the row's take whose
        # line came before, plus one.
        self._links = self._columns[4]
        self._digests = self._columns[5] if has_digests else None
        # Of rows that have or had more than a first take of their own; of the others it is that.
        self._files = IdTable()  # row key -> place of the take that is the row's file, and one
        self._lasts = IdTable()  # row key -> place of its newest take but the first, plus one
        self._spoken: dict[int, int] = {}  # place of a failed take -> its last line that was ok
        self._unfinished: set[int] = set()  # places

    def __len__(self) -> int:
        return len(self._states)

    def put(self, line: Line, offset: int = 0) -> None:
        """Remember a line in place of the take's earlier one.

        Args:
            offset: where it begins in the file.
        """
        place = self._places.get(line.key)
        is_plain = line.take == 1 and not line.state & (_IS_HELD | _IS_EXTRA)
        is_plain = is_plain and not (len(self._files) and self._files.get(line.row_key))
        file = None if is_plain else self._file_place(line.row_key)
        if place is None:
            place = len(self._states)
            self._places.put(line.key, place)
            for column in self._columns:
                column.append(0)
            if line.take != 1:
                before = self._lasts.get(line.row_key) or 0
                self._links[place] = before << _TAKE_BITS | line.take
                self._lasts.put(line.row_key, place + 1)
        elif self._states[place] & _IS_OK and not line.state & _IS_OK:
            self._spoken[place] = self._offsets[place]
        elif self._spoken and line.state & _IS_OK:
            self._spoken.pop(place, None)
        self._states[place] = line.state
        self._sizes[place] = line.size
        self._audio_us[place] = line.audio_us
        self._offsets[place] = offset
        if self._digests is not None:
            self._digests[place] = _digest(line.sha256)
        if line.is_replacing:
            self._unfinished.add(place)
        elif self._unfinished:
            self._unfinished.discard(place)
        if not is_plain:
            self._settle(line, place, file)

    def _settle(self, line: Line, place: int, file: int | None) -> None:
        """Find out what the file of a row with takes is, now that one has a line.

        Args:
            file: the place of what it was, if there was one.
        """
        if line.state & _IS_EXTRA and file != place:
            if file is not None:
                self._files.put(line.row_key, file + 1)
            return
        self._states[place] &= ~_IS_EXTRA  # a line of the take that is the file
        if file is None or file == place or line.state & _IS_OK or not self._states[file] & _IS_OK:
            if file is not None and file != place:
                self._states[file] = (self._states[file] | _IS_EXTRA) & ~_HAS_FAILED_SINCE
            self._files.put(line.row_key, place + 1)
        else:
            self._states[file] |= _HAS_FAILED_SINCE
            self._states[place] |= _IS_EXTRA
            self._files.put(line.row_key, file + 1)

    def _file_place(self, row_key: int) -> int | None:
        """The place of the take that is the row's file, or was to be."""
        if found := self._files.get(row_key):
            return found - 1
        place = self._places.get(row_key)  # of take 1
        return None if place is None or self._states[place] & _IS_EXTRA else place

    def file(self, row_id: str) -> RowFile | None:
        """What the row's file is; None if no line tells of one, or the row is gone."""
        return self._file(row_id, is_gone=False)

    def gone(self, row_id: str) -> RowFile | None:
        """What the file of a row was that is gone; None for every other one."""
        return self._file(row_id, is_gone=True)

    def _file(self, row_id: str, *, is_gone: bool) -> RowFile | None:
        if not self._states:
            return None
        row_key = id_hash(row_id)
        place = self._file_place(row_key)
        if place is None or bool(self._states[place] & _IS_GONE) != is_gone:
            return None
        state = self._states[place]
        take = 1 if place == self._places.get(row_key) else self._links[place] & MAX_TAKE
        has_failed = not state & _IS_OK or bool(state & _HAS_FAILED_SINCE)
        return RowFile(take, bool(state & _IS_HELD), has_failed)

    def is_file(self, line: Line, offset: int) -> bool:
        """Whether a line is the last one of the take that is its row's file.

        Args:
            offset: where it begins in the file.
        """
        place = self._places.get(line.key)
        return self.is_last(line, offset) and not self._states[place or 0] & _IS_EXTRA

    def offsets_of_absent(self, has_key: Callable[[int], bool]) -> array[int]:
        """Where the lines begin of takes whose key no row of a manifest has, in order: each row
        that it lacks is among them, as are rows and takes whose key is not that of their folded id.

        Args:
            has_key: whether a row has such an `id_hash`.
        """
        found = (
            self._offsets[place]
            for key, place in self._places.items()
            if not self._states[place] & _IS_GONE and not has_key(key)
        )
        return array("Q", sorted(found))

    def offsets_of_gone(self) -> array[int]:
        """Where the last lines begin of takes that are gone, in order."""
        pairs = zip(self._offsets, self._states, strict=True)
        return array("Q", sorted(offset for offset, state in pairs if state & _IS_GONE))

    def is_last(self, line: Line, offset: int) -> bool:
        """Whether a line is the last one of its take, be it the row's file or not, and that is not
        gone.
        """
        place = self._places.get(line.key)
        if place is None or self._states[place] & _IS_GONE:
            return False
        return self._offsets[place] == offset

    def numbers(self, row_id: str) -> list[int]:
        """Return the numbers of a row's takes that have lines, the lowest first."""
        row_key = id_hash(row_id)
        found = [] if self._places.get(row_key) is None else [1]
        link = self._lasts.get(row_key) or 0
        while link:
            link = self._links[link - 1]
            found.append(link & MAX_TAKE)
            link >>= _TAKE_BITS
        return sorted(found)

    def offset(self, row_id: str, take: int) -> int | None:
        """Where the take's last line begins; None if there is none."""
        return self._find(self._offsets, row_id, take)

    def spoken_offset(self, row_id: str, take: int) -> int | None:
        """Where the last line begins that says that a take came out well, whatever was recorded of
        it since; None: it never did.
        """
        place = self._places.get(_key(row_id, take))
        if place is None:
            return None
        return self._offsets[place] if self._states[place] & _IS_OK else self._spoken.get(place)

    def offsets_of_unfinished(self) -> list[int]:
        """Where the lines begin that no other one has followed, though it should, in order."""
        return sorted(self._offsets[place] for place in self._unfinished)

    def offsets_of_chosen(self) -> list[int]:
        """Where the lines begin of the takes that are the files of rows with several takes, or that
        are held, in order.
        """
        places = (found - 1 for found in self._files.values())
        states, offsets = self._states, self._offsets
        return sorted(offsets[place] for place in places if not states[place] & _IS_GONE)

    def status(self, row_id: str, take: int) -> Status | None:
        """That of the line; None if there is no line."""
        state = self._find(self._states, row_id, take)
        if state is None:
            return None
        if state & _IS_OK:
            return Status.OK
        return Status.GONE if state & _IS_GONE else Status.FAILED

    def is_early(self, row_id: str, take: int) -> bool:
        """Whether there is a line, of a version that was never published."""
        return bool((self._find(self._states, row_id, take) or 0) & _IS_EARLY)

    def has_hashes(self, row_id: str, take: int, request_hash: str, delivery_hash: str) -> bool:
        """Whether there is a line, and has these hashes."""
        state = self._find(self._states, row_id, take)
        return state is not None and state & ~_LOW_BITS == _hash_bits(request_hash, delivery_hash)

    def is_ok_with(self, row_id: str, take: int, request_hash: str, delivery_hash: str) -> bool:
        """Whether the line is ok and has these hashes."""
        state = self._find(self._states, row_id, take) or 0
        if not state & _IS_OK:
            return False
        return state & ~_LOW_BITS == _hash_bits(request_hash, delivery_hash)

    def size(self, row_id: str, take: int) -> int | None:
        """Bytes of the audio file; None: not told."""
        return self._find(self._sizes, row_id, take) or None

    def digest(self, row_id: str, take: int) -> str | None:
        """The first 16 digits of the SHA-256 of the audio file, or None."""
        value = None if self._digests is None else self._find(self._digests, row_id, take)
        return f"{value:016x}" if value else None

    def rows(self) -> FolderRows:
        """Count."""
        states = np.array(self._states, np.uint64)
        is_file = (states & np.uint64(_IS_EXTRA | _IS_GONE)) == 0
        is_ok = is_file & (states & np.uint64(_IS_OK | _HAS_FAILED_SINCE) == _IS_OK)
        return FolderRows(
            ok=int(is_ok.sum()),
            failed=int(is_file.sum() - is_ok.sum()),
            audio_s=float(np.array(self._audio_us, np.uint64)[is_ok].sum()) / 1e6,
            has_first_lines=bool((states & np.uint64(_IS_EARLY)).any()),
        )

    def _find(self, column: array[int], row_id: str, take: int) -> int | None:
        place = self._places.get(_key(row_id, take))
        return None if place is None else column[place]


def line_of(take: Take) -> Line:
    """What is remembered of a take."""
    row_key = id_hash(take.id)
    low = _STATUS_BITS[take.status] | _ROLE_BITS[take.role] | (_IS_EARLY if take.is_early else 0)
    return Line(
        key=row_key if take.take == 1 else _key(take.id, take.take),
        row_key=row_key,
        take=take.take,
        state=_hash_bits(take.request_hash, take.delivery_hash) | low,
        size=take.bytes,
        audio_us=round(1e6 * take.audio_s),
        sha256=take.sha256,
        is_replacing=take.status is Status.FAILED and take.unfinished is Unfinished.REPLACING,
    )


def _key(row_id: str, take: int) -> int:
    """The hash that stands for a row and its take."""
    return id_hash(row_id if take == 1 else f"{row_id}\n{take}")


def _digest(sha256: str | None) -> int:
    """The first 64 bits; 0: not told."""
    is_sum = sha256 is not None and _SHA256.fullmatch(sha256)
    return int(sha256[:16], 16) if sha256 and is_sum else 0


def _hash_bits(request_hash: str, delivery_hash: str) -> int:
    """58 bits of the hashes, above the low bits."""
    text = f"{request_hash}\n{delivery_hash}"
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") & ~_LOW_BITS
