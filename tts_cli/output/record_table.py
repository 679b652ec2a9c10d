"""What a run must know of the last line of each row, in flat arrays: about 60 bytes a row."""

from __future__ import annotations

import hashlib
import json
import re
from array import array
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tts_cli.manifest.ids import IdTable, id_hash
from tts_cli.output.record import SCHEMA, RowRecord

# The low bits of a row's state; the others are of its hashes.
_IS_OK = 1
_SCHEMA_SHIFT = 1
_LOW_BITS = 7
_MAX_FILE = 1 << 62
_MAX_AUDIO_S = 1 << 32
_SHA256 = re.compile(r"[0-9a-f]{64}")
# A string as our own lines have it.
TEXT = rb'((?:[ !#-\[\]-~]|\\["\\/bfnrt]|\\u[0-9a-f]{4})*)'
# The head of our own lines. Their rest is not read: that takes three times as long.
_HEAD = re.compile(
    rb'\{"id": "%b", "status": "(ok|failed)", "take": 1, '
    rb'"schema": %d, "request_hash": "([0-9a-f]*)", "delivery_hash": "([0-9a-f]*)", '
    rb'"bytes": ([0-9]{1,18}), "sha256": (?:null|"([0-9a-f]{64})"), "frames": ([0-9]{1,18}), '
    rb'"audio_s": ([0-9]{1,9}\.[0-9]{1,6}), ' % (TEXT, SCHEMA)
)


class Line(NamedTuple):
    """What is remembered of a line."""

    key: int  # hash of id and take
    state: int  # hashes, schema, whether it is ok
    size: int  # twice the bytes of the audio file; where they are not told, twice frames and one
    audio_us: int  # of audio, microseconds
    digest: int  # the first 64 bits of the file's SHA-256; 0: not told


@dataclass
class FolderRows:
    """Sums over the last lines of all rows."""

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
        self._states = array("Q")
        self._sizes = array("Q")
        self._audio_us = array("Q")
        self._digests = array("Q") if has_digests else None

    def __len__(self) -> int:
        return len(self._states)

    def put(self, line: Line) -> None:
        """Remember a line in place of the row's earlier one."""
        place = self._places.get(line.key)
        if place is None:
            self._places.put(line.key, len(self._states))
            self._states.append(line.state)
            self._sizes.append(line.size)
            self._audio_us.append(line.audio_us)
            if self._digests is not None:
                self._digests.append(line.digest)
            return
        self._states[place] = line.state
        self._sizes[place] = line.size
        self._audio_us[place] = line.audio_us
        if self._digests is not None:
            self._digests[place] = line.digest

    def status(self, row_id: str, take: int) -> str | None:
        """`ok` or `failed`; None if there is no line."""
        state = self._find(self._states, row_id, take)
        return None if state is None else "ok" if state & _IS_OK else "failed"

    def schema(self, row_id: str, take: int) -> int | None:
        """The schema of the line, see `record.SCHEMA`; None if there is none."""
        state = self._find(self._states, row_id, take)
        return None if state is None else (state & _LOW_BITS) >> _SCHEMA_SHIFT

    def is_ok_with(
        self, row_id: str, take: int, request_hash: str, delivery_hash: str | None
    ) -> bool:
        """Whether the line is ok and has these hashes."""
        state = self._find(self._states, row_id, take)
        if state is None or not state & _IS_OK:
            return False
        return state & ~_LOW_BITS == _hash_bits(request_hash, delivery_hash)

    def size(self, row_id: str, take: int) -> tuple[int | None, int | None]:
        """Bytes of the audio file, and its frames where an old line does not tell bytes."""
        value = self._find(self._sizes, row_id, take)
        if not value:
            return None, None
        return (None, value >> 1) if value & 1 else (value >> 1, None)

    def digest(self, row_id: str, take: int) -> str | None:
        """The first 16 digits of the SHA-256 of the audio file, or None."""
        value = None if self._digests is None else self._find(self._digests, row_id, take)
        return f"{value:016x}" if value else None

    def rows(self) -> FolderRows:
        """Count."""
        states = np.array(self._states, np.uint64)
        is_ok = (states & np.uint64(_IS_OK)).astype(bool)
        schemas = (states & np.uint64(_LOW_BITS)) >> np.uint64(_SCHEMA_SHIFT)
        return FolderRows(
            ok=int(is_ok.sum()),
            failed=int(len(states) - is_ok.sum()),
            audio_s=float(np.array(self._audio_us, np.uint64)[is_ok].sum()) / 1e6,
            has_first_lines=bool((schemas < SCHEMA).any()),
        )

    def _find(self, column: array[int], row_id: str, take: int) -> int | None:
        place = self._places.get(key_of(row_id, take))
        return None if place is None else column[place]


def line_of(record: RowRecord) -> Line:
    """What is remembered of a record."""
    return Line(
        key=key_of(record.id, record.take),
        state=_state(record.status, record.schema, record.request_hash, record.delivery_hash),
        size=_size(record.bytes, record.frames),
        audio_us=round(1e6 * record.audio_s),
        digest=int(record.sha256[:16], 16) if record.sha256 else 0,
    )


def parse(raw: bytes) -> Line | None:
    """What is remembered of a whole line of the file; None for one that makes no sense."""
    found = _HEAD.match(raw)
    if found is None or not raw.endswith(b"}\n"):
        return _parse_any(raw)
    row_id, status, request_hash, delivery_hash, size, sha256, frames, audio_s = found.groups()
    name = json.loads(b'"%b"' % row_id) if b"\\" in row_id else row_id.decode()
    return Line(
        key=key_of(name, 1),
        state=_state(status.decode(), SCHEMA, request_hash.decode(), delivery_hash.decode()),
        size=_size(int(size), int(frames)),
        audio_us=round(1e6 * float(audio_s)),
        digest=int(sha256[:16], 16) if sha256 else 0,
    )


def _parse_any(raw: bytes) -> Line | None:
    """The same for lines of other forms: of earlier versions, or rewritten by somebody."""
    try:
        values: Any = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or values.get("status") not in ("ok", "failed"):
        return None
    row_id, request_hash = values.get("id"), values.get("request_hash")
    delivery_hash = values.get("delivery_hash")
    schema = values.get("schema", 0 if delivery_hash is None else 1)
    take = values.get("take", 1)
    if not isinstance(row_id, str) or not isinstance(request_hash, str):
        return None
    if not isinstance(delivery_hash, (str, type(None))) or (schema and delivery_hash is None):
        return None
    if not all(isinstance(number, int) and number >= 0 for number in (schema, take)):
        return None
    return Line(
        key=key_of(row_id, take),
        state=_state(values["status"], schema, request_hash, delivery_hash),
        size=_size(_count(values.get("bytes")), _count(values.get("frames"))),
        audio_us=_microseconds(values.get("audio_s")),
        digest=_digest(values.get("sha256")),
    )


def key_of(row_id: str, take: int) -> int:
    """The hash that stands for a row and its take."""
    return id_hash(row_id if take == 1 else f"{row_id}\n{take}")


def _state(status: str, schema: int, request_hash: str, delivery_hash: str | None) -> int:
    known = min(schema, SCHEMA) << _SCHEMA_SHIFT  # a later one is taken for ours
    return _hash_bits(request_hash, delivery_hash) | known | (_IS_OK if status == "ok" else 0)


def _hash_bits(request_hash: str, delivery_hash: str | None) -> int:
    """61 bits of the hashes, above the low bits."""
    text = request_hash if delivery_hash is None else f"{request_hash}\n{delivery_hash}"
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") & ~_LOW_BITS


def _size(num_bytes: int, frames: int) -> int:
    return num_bytes << 1 if num_bytes else frames << 1 | 1 if frames else 0


def _count(value: Any) -> int:
    """A number of a line, or 0 if it is none or makes no sense."""
    return value if isinstance(value, int) and 0 <= value < _MAX_FILE else 0


def _digest(value: Any) -> int:
    is_sum = isinstance(value, str) and _SHA256.fullmatch(value)
    return int(value[:16], 16) if is_sum else 0


def _microseconds(value: Any) -> int:
    """The same of seconds."""
    is_sensible = isinstance(value, (int, float)) and 0 <= value < _MAX_AUDIO_S
    return round(1e6 * value) if is_sensible else 0
