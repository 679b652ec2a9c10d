"""Whether a manifest still is what it was when it was read first.

Every reading of a file goes through `watch`, which hashes each block before a line of it is parsed.
The first reading notes the hashes; a later one that meets a different block, or another end, raises
at once, so no row is ever taken from a manifest that was not checked. What happens to the file
behind its readers is found by `require_same`.
"""

from __future__ import annotations

import hashlib
import io
import os
from typing import BinaryIO, cast

from tts_cli.errors import StoppedEarly

BLOCK_BYTES = 1 << 16
_END = b""  # in place of a hash


class Fingerprint:
    """Size, times and running hashes of one file.

    Args:
        name: what messages call it, and where it is unless `is_copy`.
        is_copy: nobody else can reach it.
    """

    def __init__(self, name: str, is_copy: bool = False) -> None:
        self._name = name
        self._is_copy = is_copy
        self._hashes: list[bytes] = []  # of all bytes up to the end of each block; then _END
        self._state: tuple[int, ...] | None = None  # of the file when it was opened first

    def watch(self, file: BinaryIO) -> BinaryIO:
        """The same bytes, from an unbuffered file at its start; reading raises `changed`."""
        if self._state is None:
            self._state = _state(os.fstat(file.fileno()))
        return cast(BinaryIO, io.BufferedReader(_Watched(file, self), BLOCK_BYTES))

    def require_same(self) -> None:
        """Look at the file once more, and read it only if it was touched.

        Raises:
            StoppedEarly: it was changed since it was read, or is gone.
        """
        if self._is_copy or self._state is None:
            return
        try:
            if _state(os.stat(self._name)) == self._state:
                return
            if not self.is_there():
                raise self.changed()
            with open(self._name, "rb", buffering=0) as file:
                watched = self.watch(cast(BinaryIO, file))
                while watched.read(BLOCK_BYTES):
                    pass
        except OSError as error:
            raise self.changed() from error

    def compare(self, index: int, found: bytes) -> None:
        """Note what block `index` of a reading hashes to, or compare it with what is known."""
        if index == len(self._hashes):
            self._hashes.append(found)
        elif self._hashes[index] != found:
            raise self.changed()

    @property
    def is_known(self) -> bool:
        """Whether the file was read to its end."""
        return bool(self._hashes) and self._hashes[-1] == _END

    def is_there(self) -> bool:
        """Whether a plain file has its name; opening a pipe would wait for a writer."""
        return os.path.isfile(self._name)

    def changed(self) -> StoppedEarly:
        """The error of a manifest that is not what it was."""
        return StoppedEarly(
            f"{self._name}: the manifest was changed, or is gone, since it was read",
            remedy="rows spoken so far are kept; run the same command again",
        )


def _state(found: os.stat_result) -> tuple[int, ...]:
    """What changes with a file; more often than its content does."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class _Watched(io.RawIOBase):
    """The raw file below one reader."""

    def __init__(self, file: BinaryIO, fingerprint: Fingerprint) -> None:
        self._file = file
        self._fingerprint = fingerprint
        self._digest = hashlib.blake2b(digest_size=16)
        self._index = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill a buffer, but at the end."""
        count = 0  # a block is whole, or the last one: network file systems may give less at once
        while count < len(buffer):
            more: int = self._file.readinto(buffer[count:])  # type: ignore[attr-defined]
            if not more:
                break
            count += more
        if not count:
            self._fingerprint.compare(self._index, _END)
            return 0
        self._digest.update(buffer[:count])
        self._fingerprint.compare(self._index, self._digest.digest())
        self._index += 1
        return count

    def close(self) -> None:
        """Close the file too."""
        self._file.close()
        super().close()
