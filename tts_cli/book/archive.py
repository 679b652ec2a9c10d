"""A ZIP file that nobody vouches for, read with a bound on everything.

The end of the file is looked at before `zipfile` is, which reads a directory of any size. Members
are only ever read into memory, never unpacked, so their names can lead nowhere; sizes in the
directory are not believed either.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from tts_cli.errors import ManifestError

MAX_FILE_BYTES = 2 << 30  # picture books are large
MAX_MEMBERS = 20_000
MAX_DIRECTORY_BYTES = 8 << 20
MAX_MEMBER_BYTES = 32 << 20  # of one text; a novel has 1 MB
MAX_TOTAL_BYTES = 256 << 20  # of all that is read
MAX_RATIO = 200  # text shrinks to a third or a fifth
_SMALL_BYTES = 1 << 20  # the ratio of smaller members does not matter

_END = b"PK\x05\x06"
_LOCATOR = b"PK\x06\x07"
_END_BYTES = 22
_MAX_COMMENT_BYTES = 65_535
# What `zipfile` and what it unpacks with raise of a file that is damaged, or of another kind.
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


class Archive:
    """A ZIP file open for reading.

    Raises:
        ManifestError: it is none, is broken, or too large in any way.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._read_bytes = 0
        try:
            self._file = open(path, "rb")  # noqa: SIM115
        except OSError as error:
            raise ManifestError(f"{path}: {error.strerror or error}", "check the path") from error
        try:
            self._check_end(self._file)
            self._zip = zipfile.ZipFile(self._file)
        except _BROKEN as error:
            self._file.close()
            raise self._broken(error) from error
        except BaseException:
            self._file.close()
            raise
        self.names = frozenset(self._zip.namelist())

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._zip.close()
        self._file.close()

    def read(self, name: str) -> bytes:
        """A member's bytes.

        Raises:
            ManifestError: it is not there, is encrypted, damaged or too large.
        """
        if name not in self.names:
            raise ManifestError(
                f"{self.name}: {name[:200]!r} is not in the file", remedy="mend or convert the book"
            )
        info = self._zip.getinfo(name)
        if info.flag_bits & 0x1:
            raise ManifestError(
                f"{self.name}: is encrypted", remedy="give a copy without a password"
            )
        try:
            with self._zip.open(info) as member:
                data = member.read(MAX_MEMBER_BYTES + 1)
        except _BROKEN as error:
            raise self._broken(error) from error
        self._read_bytes += len(data)
        if len(data) > MAX_MEMBER_BYTES or self._read_bytes > MAX_TOTAL_BYTES:
            raise self._too_large(f"{name[:200]!r} unpacks to more than a book has")
        if len(data) > max(_SMALL_BYTES, MAX_RATIO * info.compress_size):
            raise self._too_large(f"{name[:200]!r} unpacks to {len(data)} bytes")
        return data

    def _check_end(self, file: BinaryIO) -> None:
        """Refuse what `zipfile` would take long or much memory to open."""
        size = file.seek(0, 2)
        if size > MAX_FILE_BYTES:
            raise self._too_large(f"has {size} bytes")
        file.seek(max(0, size - _END_BYTES - _MAX_COMMENT_BYTES))
        tail = file.read()
        file.seek(0)
        at = tail.rfind(_END)
        if at < 0 or len(tail) - at < _END_BYTES:
            raise zipfile.BadZipFile("it is no ZIP file")
        members, directory_bytes = struct.unpack_from("<HI", tail, at + 10)
        if members > MAX_MEMBERS or directory_bytes > MAX_DIRECTORY_BYTES or _LOCATOR in tail:
            raise self._too_large("its directory is larger than a book's")

    def _broken(self, error: Exception) -> ManifestError:
        return ManifestError(
            f"{self.name}: cannot be read: {str(error)[:200] or type(error).__name__}",
            remedy="download the book again, or mend it",
        )

    def _too_large(self, reason: str) -> ManifestError:
        return ManifestError(f"{self.name}: {reason}", remedy="is it a book, and from whom?")
