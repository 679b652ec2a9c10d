"""Read a ZIP file from an untrusted source, with a bound on everything.

EPUB, .docx, .xlsx and .ods are ZIP files. Members are never unpacked to disk, so their names cannot
lead anywhere. `zipfile` would read a directory of any size, so the end of the file is checked
first; the sizes in the directory are not trusted either.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from typing import IO, AnyStr, BinaryIO

from tts_cli.errors import ManifestError

MAX_FILE_BYTES = 2 << 30  # picture books are large
MAX_MEMBERS = 20_000
MAX_DIRECTORY_BYTES = 8 << 20
MAX_MEMBER_BYTES = 32 << 20  # one text; a novel has 1 MB
MAX_TOTAL_BYTES = 256 << 20  # all that is read
MAX_RATIO = 200  # text shrinks to a third or a fifth
_SMALL_BYTES = 1 << 20  # smaller members may have any ratio

_END = b"PK\x05\x06"
_LOCATOR = b"PK\x06\x07"
_END_BYTES = 22
_MAX_COMMENT_BYTES = 65_535
# Exceptions of `zipfile` and the decoders for a file that is damaged, or of another kind.
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    LookupError,
    RuntimeError,  # NotImplementedError is one
)
_BLOCK = 1 << 20  # of a read, which allocates its size


def read_bounded(file: IO[AnyStr], most: int, name: str, remedy: str = "split it") -> AnyStr:
    """Return the rest of a file. Raises ManifestError above `most` bytes or characters."""
    pieces = [file.read(0)]
    left = most + 1
    while left > 0 and (piece := file.read(min(left, _BLOCK))):
        pieces.append(piece)
        left -= len(piece)
    if left <= 0:
        size = most >> 20
        is_text = isinstance(pieces[0], str)
        problem = f"has more than {size} Mi characters" if is_text else f"is larger than {size} MiB"
        raise ManifestError(f"{name}: {problem}", remedy)
    return pieces[0].join(pieces)


class Archive:
    """A ZIP file that is open for reading. Raises ManifestError.

    Args:
        file: closed by the caller.
        remedy: what to do if a part is missing or damaged.
        member_bytes: maximum size of a member; above the default, members may have any ratio.
    """

    def __init__(
        self, file: BinaryIO, name: str, remedy: str, member_bytes: int = MAX_MEMBER_BYTES
    ) -> None:
        self.name = name
        self._remedy = remedy
        self._member_bytes = member_bytes
        self._max_ratio = MAX_RATIO if member_bytes <= MAX_MEMBER_BYTES else 1 << 20
        self._read_bytes = 0
        try:
            self._check_end(file)
            self._zip = zipfile.ZipFile(file)
        except _BROKEN as error:
            raise self._broken(error) from error
        self.names = frozenset(self._zip.namelist())

    def read(self, name: str) -> bytes:
        """Return a member. Raises ManifestError if it is missing, encrypted, damaged or
        too large.
        """
        if name not in self.names:
            raise ManifestError(f"{self.name}: {name[:200]!r} is missing in the file", self._remedy)
        info = self._zip.getinfo(name)
        if info.flag_bits & 0x1:
            raise ManifestError(f"{self.name}: is encrypted", "use a copy without a password")
        try:
            with self._zip.open(info) as member:
                data = member.read(self._member_bytes + 1)
        except _BROKEN as error:
            raise self._broken(error) from error
        self._read_bytes += len(data)
        if len(data) > self._member_bytes or self._read_bytes > MAX_TOTAL_BYTES:
            most = min(self._member_bytes, MAX_TOTAL_BYTES) >> 20
            raise self._too_large(f"{name[:200]!r} is larger than {most} MiB when unpacked")
        if len(data) > max(_SMALL_BYTES, self._max_ratio * info.compress_size):
            raise self._too_large(f"{name[:200]!r} unpacks to {len(data)} bytes")
        return data

    def _check_end(self, file: BinaryIO) -> None:
        """Refuse a file that takes `zipfile` much time or memory to open."""
        size = file.seek(0, 2)
        if size > MAX_FILE_BYTES:
            raise self._too_large(f"has {size} bytes")
        file.seek(max(0, size - _END_BYTES - _MAX_COMMENT_BYTES))
        tail = file.read()
        file.seek(0)
        at = tail.rfind(_END)
        if at < 0 or len(tail) - at < _END_BYTES:
            raise zipfile.BadZipFile("it is not a ZIP file")
        members, directory_bytes = struct.unpack_from("<HI", tail, at + 10)
        if members > MAX_MEMBERS or directory_bytes > MAX_DIRECTORY_BYTES or _LOCATOR in tail:
            raise self._too_large("its directory is larger than that of any document")

    def _broken(self, error: Exception) -> ManifestError:
        reason = str(error)[:200] or type(error).__name__
        return ManifestError(f"{self.name}: cannot be read: {reason}", self._remedy)

    def _too_large(self, reason: str) -> ManifestError:
        return ManifestError(f"{self.name}: {reason}", "check where this file comes from")
