"""The audio of a data set: the row's file itself, or a 16-bit WAV at another rate made of it.
Either way the file must be, byte for byte, what its line says.

A file of a data set that is written bit by bit, and gets its name once it is whole.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import soundfile

from tts_cli.atomic import write_atomic, written_whole
from tts_cli.audio.file import encode, is_whole_wav, resample
from tts_cli.audio.tags import Tags
from tts_cli.errors import RowError, writing
from tts_cli.export.made import ExportFiles
from tts_cli.export.row import ExportRow
from tts_cli.export.selection import DAMAGED
from tts_cli.store.files import PlainFiles, hash_of

MAX_BYTES = 1 << 30  # of a row's file
_MAX_SECONDS = 7_200.0
_WAV = ".wav"
_NO_LINKS = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


class Audio:
    """Reads, changes and places files of rows.

    Args:
        source: the folder they are in.
        made: files of the data set.
        rate_hz: of all audio, as 16-bit WAV; None: files stay what they are.
        comment: in files that are made anew.
        has_links: hard links where the file system has them.
    """

    def __init__(
        self, source: Path, made: ExportFiles, rate_hz: int | None, comment: str, has_links: bool
    ) -> None:
        self.rate_hz = rate_hz
        self.num_linked = 0
        self.num_copied = 0
        self.num_changed = 0  # files that were made anew
        self._files = PlainFiles(source)
        self._made = made
        self._comment = comment
        self._has_links = has_links

    def content(self, row: ExportRow) -> tuple[bytes, str, bool]:
        """The bytes of a row's audio, their suffix, and whether they were made anew. Raises
        RowError.
        """
        size = self._files.size(row.path)
        if size is None or size > MAX_BYTES or size != (row.bytes or size):
            raise RowError(DAMAGED)
        try:
            with open(row.path, "rb") as file:
                data = file.read(size + 1)
        except OSError as error:
            raise RowError(DAMAGED) from error
        if row.sha256 is not None and hashlib.sha256(data).hexdigest() != row.sha256:
            raise RowError(DAMAGED)
        if row.sha256 is None and row.suffix == _WAV and not is_whole_wav(row.path):
            raise RowError(DAMAGED)
        if self.rate_hz is None:
            return data, row.suffix, False
        changed = self._changed(row, data, self.rate_hz)
        return (data, _WAV, False) if changed is None else (changed, _WAV, True)

    def place(self, row: ExportRow, name: str) -> str:
        """Put a row's audio into the data set.

        Args:
            name: from the data set's folder, without its suffix.
        Returns:
            The same with it.
        Raises:
            RowError: its file is not what was recorded, or cannot be read.
            DiskFull: no room.
        """
        data, suffix, is_changed = self.content(row)
        name += suffix
        path = self._made.out / name
        is_as_recorded = not is_changed and row.sha256 is not None
        sha256 = row.sha256 if is_as_recorded else hashlib.sha256(data).hexdigest()
        may_link = not is_changed and self._has_links
        with writing(path, RowError, "cannot be written"):
            self._made.claim(name, str(sha256), row.path if may_link else None)
            if may_link and self._link(row.path, path):
                self.num_linked += 1
            else:
                write_atomic(path, data)
                self.num_copied += not is_changed
        return name

    @staticmethod
    def _link(source: Path, target: Path) -> bool:
        """Make a hard link; False where there can be none. Raises OSError."""
        try:
            if os.path.samestat(os.lstat(source), os.lstat(target)):
                return True
            target.unlink()  # of an earlier export
        except FileNotFoundError:
            pass
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return False
        return True

    def _changed(self, row: ExportRow, data: bytes, rate_hz: int) -> bytes | None:
        """16-bit WAV at a rate; None: it is that already. Raises RowError."""
        try:
            with soundfile.SoundFile(io.BytesIO(data)) as file:
                is_wav = file.format == "WAV" and file.subtype == "PCM_16"
                if is_wav and (file.samplerate, file.channels) == (rate_hz, 1):
                    return None
                if not 0 < file.frames <= _MAX_SECONDS * file.samplerate or file.channels != 1:
                    raise RowError("its file is not the audio of a row")
                samples = file.read(dtype="float32")
                native_hz = int(file.samplerate)
        except (soundfile.LibsndfileError, OSError, ValueError) as error:
            raise RowError("its file cannot be read") from error
        self.num_changed += 1
        tags = Tags.of_row(row.id, row.voice, self._comment)
        return encode(resample(samples, native_hz, rate_hz), rate_hz, "wav", "PCM_16", tags)


class WholeFile:
    """Opens a file under a temporary name. Raises DiskFull, OSError."""

    def __init__(self, made: ExportFiles, name: str) -> None:
        self.path = made.out / name
        self._made, self._name = made, name
        self._stack = ExitStack()
        self.path.parent.mkdir(exist_ok=True)
        part = self._stack.enter_context(written_whole(self.path))
        self.file: BinaryIO = self._stack.enter_context(open(part, "x+b"))  # noqa: SIM115

    def write(self, data: bytes) -> None:
        """Add bytes. Raises DiskFull, OSError."""
        with writing(self.path):
            self.file.write(data)

    def close(self) -> None:
        """Give it its name. Raises DiskFull, OSError: it has none then."""
        self.file.seek(0)
        self._made.claim(self._name, hash_of(self.file))
        self._stack.close()

    def abort(self) -> None:
        """Remove what there is of it, while an exception is handled; harmless behind `close`."""
        with contextlib.suppress(BaseException):
            self._stack.__exit__(*sys.exc_info())
