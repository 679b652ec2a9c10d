"""`timings.jsonl`: one line a finished row, and what a rerun may skip because of it.

The file only grows. A line is appended after the row's audio is safely on disk and is itself
fsynced, so a recorded row is a kept row. The last line of an id wins. A line torn by a crash is cut
off before the next append, and its row recorded as failed; other lines that make no sense are
counted and passed over.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import stat
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from tts_cli.errors import SetupError, disk_full, is_disk_error
from tts_cli.manifest.ids import IdTable, id_hash

log = logging.getLogger(__name__)

JOURNAL_NAME = "timings.jsonl"
_MAX_LINE_BYTES = 1 << 20
# The low bits of a table entry; the others are of the line's hashes.
_CODES = {"ok": 1, "failed": 2}
_NAMES = {code: name for name, code in _CODES.items()}
_IS_JOINT = 4
_LOW_BITS = 7
_MAX_FILE = 1 << 62
_FIRST_ID = re.compile(rb'\{"id": ("(?:[^"\\]|\\[^u]|\\u[0-9a-f]{4})*")')  # of our own lines
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class RowRecord:
    """One line of `timings.jsonl`. Times are wall milliseconds.

    Prefill, decode and vocoder run for many rows at once: prefill_ms, decode_ms and vocoder_ms are
    this row's share by its own steps, not the time the row had to wait for its batch. A reference
    is encoded once; reference_ms stands with the row that named it first.
    """

    id: str
    status: str  # ok or failed
    error: str | None = None
    # eos, max_frames, early (fewer frames than the text can take), stuck (stood still for 4 s),
    # wordless (nothing to speak in its text: silence without frames); None if it was not spoken to
    # an end.
    finish_reason: str | None = None
    # What the audio should be listened to for: too long, near-silence, one code for long.
    suspect: list[str] = field(default_factory=list)
    path: str | None = None  # of the audio, relative to the output folder
    bytes: int = 0  # of that file
    sha256: str | None = None
    voice: str | None = None
    seed: int | None = None  # of the attempt that was kept
    attempts: int = 0
    text_chars: int = 0
    prompt_tokens: int = 0
    frames: int = 0
    audio_s: float = 0.0
    bucket: int = 0  # the largest batch it ran in
    queue_ms: float = 0.0
    reference_ms: float = 0.0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    vocoder_ms: float = 0.0
    write_ms: float = 0.0
    total_ms: float = 0.0
    rtf: float | None = None  # total_ms / 1000 / audio_s, lower is better
    request_hash: str = ""  # what was spoken, and how it is delivered: see `hashes`
    delivery_hash: str = ""

    def to_line(self) -> str:
        """The record as one line of JSON; times to a microsecond."""
        values = dict(vars(self))
        for name, value in values.items():
            if isinstance(value, float):
                values[name] = round(value, 3 if name.endswith("_ms") else 6)
        return json.dumps(values, allow_nan=False) + "\n"


@dataclass
class _Entry:
    """What one call of `append` wants recorded, and what came of it."""

    data: bytes
    records: tuple[RowRecord, ...]
    is_done: bool = False
    error: OSError | None = None


class Journal:
    """The journal of one output folder; may be used from several threads.

    Args:
        out: the output folder; its lock must be held unless `is_read_only`.
        is_read_only: look only, as `--dry-run` does; repair and append nothing.
        has_sums: remember 64 bits of each file's SHA-256, for `--verify-files`.
    Raises:
        SetupError: the file is there but cannot be read or written, or is no plain file.
    """

    def __init__(self, out: Path, is_read_only: bool = False, *, has_sums: bool = False) -> None:
        self.path = out / JOURNAL_NAME
        self.num_garbage = 0  # lines that made no sense
        self._table = IdTable()  # hash of an id -> its line's hashes and status
        self._sizes = IdTable()  # hash of an id -> see `_note_file`
        self._sums = IdTable() if has_sums else None
        self._mutex = threading.Lock()
        self._pending: deque[_Entry] = deque()
        self._handle: int | None = None
        try:
            whole_bytes, tail = self._load()
            if not is_read_only:
                self._open(whole_bytes, tail)
        except OSError as error:
            if is_disk_error(error):
                raise disk_full(error, self.path) from error
            raise SetupError(
                f"{self.path}: {error.strerror or error}", remedy="check the file's permissions"
            ) from error
        if self.num_garbage:
            log.warning("%s: %d lines make no sense, ignored", self.path, self.num_garbage)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._table)

    def status(self, row_id: str) -> str | None:
        """`ok` or `failed` as recorded last; None if never."""
        entry = self._table.get(id_hash(row_id))
        return None if entry is None else _NAMES[entry & 3]

    def is_joint(self, row_id: str) -> bool:
        """Whether the last line is of a version that had one hash for all; see `joint_hash`."""
        return bool((self._table.get(id_hash(row_id)) or 0) & _IS_JOINT)

    def done(self, row_id: str, request_hash: str, delivery_hash: str | None) -> bool:
        """Whether this very request is recorded ok, delivered so; whether its file is there is not
        asked.

        Args:
            delivery_hash: None for a line of joint hashes.
        """
        wanted = _table_value(request_hash, delivery_hash) | _CODES["ok"]
        return self._table.get(id_hash(row_id)) == wanted

    def file_size(self, row_id: str) -> tuple[int | None, int | None]:
        """Bytes of a row's audio file, and its frames where an old line does not tell bytes."""
        value = self._sizes.get(id_hash(row_id))
        if not value:
            return None, None
        return (None, value >> 1) if value & 1 else (value >> 1, None)

    def file_sum(self, row_id: str) -> str | None:
        """The first 16 digits of the SHA-256 of a row's audio file, or None."""
        value = self._sums.get(id_hash(row_id)) if self._sums is not None else None
        return f"{value:016x}" if value else None

    def append(self, *records: RowRecord) -> None:
        """Record rows whose audio is safely on disk, with one fsync for all of them.

        Threads that come while another one waits for the disk are recorded together by the next.

        Raises:
            DiskFull: nothing was recorded.
        """
        assert self._handle is not None, "the journal is closed or read-only"
        entry = _Entry("".join(record.to_line() for record in records).encode(), records)
        self._pending.append(entry)
        with self._mutex:
            if not entry.is_done:
                self._flush()
        if entry.error is not None:
            raise disk_full(entry.error, self.path) from entry.error

    def _flush(self) -> None:
        """Write what threads have left so far; the caller holds the mutex."""
        assert self._handle is not None, "the journal is closed or read-only"
        group = list(self._pending)  # taken out only when it is known what came of them
        size = os.fstat(self._handle).st_size
        error: OSError | None = None
        try:
            view = memoryview(b"".join(entry.data for entry in group))
            while view:
                view = view[os.write(self._handle, view) :]
            os.fsync(self._handle)
        except OSError as caught:
            error = caught
            self._cut(size)
        for entry in group:
            self._pending.popleft()
            entry.error, entry.is_done = error, True
            for record in entry.records if error is None else ():
                self._note(record.id, record.status, record.request_hash, record.delivery_hash)
                self._note_file(record.id, record.bytes, record.frames, record.sha256)

    def close(self) -> None:
        """Close the file; harmless if done already."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _load(self) -> tuple[int, bytes]:
        """Read all lines; returns the bytes of whole lines, and the last one if it is torn."""
        try:
            is_plain = stat.S_ISREG(os.lstat(self.path).st_mode)
        except FileNotFoundError:
            return 0, b""
        if not is_plain:  # a pipe would wait for ever, a link could lead anywhere
            raise SetupError(f"{self.path}: is no plain file", remedy="move it out of the folder")
        file = open(self.path, "rb")  # noqa: SIM115
        with file:
            whole_bytes = 0
            while raw := file.readline(_MAX_LINE_BYTES):
                if not raw.endswith(b"\n"):
                    if len(raw) < _MAX_LINE_BYTES:
                        return whole_bytes, raw
                    raw = _skip_line(file)
                    if not raw.endswith(b"\n"):
                        return whole_bytes, raw
                    self.num_garbage += 1
                elif raw.strip() and not self._learn(raw):
                    self.num_garbage += 1
                whole_bytes = file.tell()
            return whole_bytes, b""

    def _learn(self, raw: bytes) -> bool:
        try:
            values: Any = json.loads(raw)
        except (ValueError, RecursionError):
            return False
        if not isinstance(values, dict) or values.get("status") not in ("ok", "failed"):
            return False
        row_id, request_hash = values.get("id"), values.get("request_hash")
        delivery_hash = values.get("delivery_hash")  # None: from before there was one
        if not isinstance(row_id, str) or not isinstance(request_hash, str):
            return False
        if not isinstance(delivery_hash, (str, type(None))):
            return False
        self._note(row_id, values["status"], request_hash, delivery_hash)
        sha256 = values.get("sha256")
        is_sum = isinstance(sha256, str) and _SHA256.fullmatch(sha256)
        size, frames = _count(values.get("bytes")), _count(values.get("frames"))
        self._note_file(row_id, size, frames, sha256 if is_sum else None)
        return True

    def _note(self, row_id: str, status: str, request_hash: str, delivery_hash: str | None) -> None:
        self._table.put(id_hash(row_id), _table_value(request_hash, delivery_hash) | _CODES[status])

    def _note_file(self, row_id: str, size: int, frames: int, sha256: str | None) -> None:
        """Twice the bytes; of lines from before these were told, twice the frames and one."""
        key = id_hash(row_id)
        self._sizes.put(key, size << 1 if size else frames << 1 | 1 if frames else 0)
        if self._sums is not None:
            self._sums.put(key, int(sha256[:16], 16) if sha256 else 0)

    def _open(self, whole_bytes: int, tail: bytes) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        self._handle = os.open(self.path, flags, 0o666)
        if not tail:
            return
        if self._learn(tail):  # only its newline is missing
            os.write(self._handle, b"\n")
        else:
            log.warning("%s: cut off a last line torn by a crash", self.path)
            os.ftruncate(self._handle, whole_bytes)
            self._keep_id(tail)

    def _keep_id(self, torn: bytes) -> None:
        """Record the row of a torn line as failed: its file is there, and is known to be ours."""
        assert self._handle is not None
        if found := _FIRST_ID.match(torn):
            record = RowRecord(json.loads(found[1]), "failed", error="its line was torn by a crash")
            os.write(self._handle, record.to_line().encode())
            self._note(record.id, record.status, "", "")

    def _cut(self, size: int) -> None:
        """Take back a half-written append."""
        assert self._handle is not None
        try:
            os.ftruncate(self._handle, size)
        except OSError as error:
            log.debug("%s: a torn line stays: %s", self.path, error)


def _count(value: Any) -> int:
    """A number of a line, or 0 if it is none or makes no sense."""
    return value if isinstance(value, int) and 0 <= value < _MAX_FILE else 0


def _skip_line(file: BinaryIO) -> bytes:
    """Read to the end of an over-long line; returns its last piece."""
    raw = b"-"
    while raw and not raw.endswith(b"\n"):
        last, raw = raw, file.readline(_MAX_LINE_BYTES)
    return raw or last


def _table_value(request_hash: str, delivery_hash: str | None) -> int:
    """61 bits of the hashes, then whether they are one, then two free bits."""
    text = f"{request_hash}\n{delivery_hash or ''}".encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(text, digest_size=8).digest()
    joint = _IS_JOINT if delivery_hash is None else 0
    return int.from_bytes(digest, "big") & ~_LOW_BITS | joint
