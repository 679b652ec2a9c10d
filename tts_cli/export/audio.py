"""The audio of a row: its file, or a 16-bit WAV at another rate that is made from it."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import NamedTuple

import soundfile

from tts_cli.audio.file import encode, is_whole_wav, resample
from tts_cli.audio.tags import Tags
from tts_cli.errors import RowError, writing
from tts_cli.export.artifacts import Artifacts
from tts_cli.export.row import ExportRow
from tts_cli.export.selection import DAMAGED
from tts_cli.store.files import PlainFiles

_MAX_BYTES = 1 << 30  # of a row's file
_MAX_SECONDS = 7_200.0
_WAV = ".wav"


class Content(NamedTuple):
    data: bytes
    suffix: str
    sha256: str
    is_changed: bool  # whether it is not the row's file


class AudioReader:
    """Reads the files of rows, converts them, and counts.

    Args:
        source: the output folder.
        rate_hz: of all audio, as 16-bit WAV; None: files are not converted.
        comment: tag of converted files.
        has_links: whether files that are not converted become hard links.
    """

    def __init__(self, source: Path, rate_hz: int | None, comment: str, has_links: bool) -> None:
        self.rate_hz = rate_hz
        self.files = {"files_linked": 0, "files_copied": 0, "files_changed": 0}  # numbers
        self._files = PlainFiles(source)
        self._comment = comment
        self._has_links = has_links

    def content(self, row: ExportRow) -> Content:
        """Return the audio of a row. Raises RowError: its file is unreadable or another one."""
        size = self._files.size(row.path)
        if size is None or size > _MAX_BYTES or size != (row.bytes or size):
            raise RowError(DAMAGED)
        try:
            with open(row.path, "rb") as file:
                data = file.read(size + 1)
        except OSError as error:
            raise RowError(DAMAGED) from error
        sha256 = hashlib.sha256(data).hexdigest()
        is_unknown_wav = row.sha256 is None and row.path.suffix == _WAV
        if sha256 != (row.sha256 or sha256) or (is_unknown_wav and not is_whole_wav(row.path)):
            raise RowError(DAMAGED)
        if self.rate_hz is None or (changed := self._converted(row, data, self.rate_hz)) is None:
            return Content(data, row.path.suffix, sha256, False)
        self.files["files_changed"] += 1
        return Content(changed, _WAV, hashlib.sha256(changed).hexdigest(), True)

    def place(self, row: ExportRow, artifacts: Artifacts, name: str) -> str:
        """Add the audio of a row to an export. Return its name with the suffix. Raises RowError,
        DiskFull.

        Args:
            name: in the export, without a suffix.
        """
        data, suffix, sha256, is_changed = self.content(row)
        name += suffix
        with writing(artifacts.folder / name, RowError, "cannot be written"):
            if not is_changed and self._has_links and artifacts.link(name, row.path, sha256):
                self.files["files_linked"] += 1
            else:
                artifacts.add(name, data, sha256)
                self.files["files_copied"] += not is_changed
        return name

    def _converted(self, row: ExportRow, data: bytes, rate_hz: int) -> bytes | None:
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
        tags = Tags.of_row(row.id, row.values["voice"], self._comment)
        return encode(resample(samples, native_hz, rate_hz), rate_hz, "wav", "PCM_16", tags)
