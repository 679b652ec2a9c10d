"""What one checkpoint spoke so that another can clone it: the parts and rows that give others their
voice in a run with `--clone-model`.

They are kept in `DIR/.voices`, an output folder of its own with a journal: `<key>.flac`, 24 bits at
the model's rate whatever the run delivers, and `<key>.codes.safetensors`. A key is the beginning of
the `request_hash` of what was asked, so that what is there is what would be spoken again. Nothing
is removed: another clone model finds the voices that the last one had.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tts_cli.config import RunConfig
from tts_cli.deliver.metadata import Tags
from tts_cli.errors import RowError, SetupError
from tts_cli.manifest.ids import LEADS
from tts_cli.manifest.request import usual_s
from tts_cli.output.audio_file import to_int16
from tts_cli.output.journal import Journal
from tts_cli.output.record import RowRecord
from tts_cli.output.writer import AudioWriter, prepare_folder
from tts_cli.run.remake.kept import Kept, read_audio, read_codes
from tts_cli.run.retry import attempts_in_vain
from tts_cli.voices.anchor import Anchor, read_anchor
from tts_cli.voices.recording import MAX_SECONDS
from tts_cli.voices.resolve import Need
from tts_cli.voices.speech_row import SpeechRow, SpokenPart, Work

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest

_KEY_DIGITS = 32


def need_of(request: SpeechRequest, info: ModelInfo, silence_s: float) -> Need:
    """The most that parts need of one that is still to be spoken.

    Args:
        silence_s: seconds of silence behind it.
    """
    frames = min(request.max_frames, math.ceil(MAX_SECONDS / info.frame_s))
    frames += math.ceil(silence_s / info.frame_s) + 1
    return Need("", frames, len(request.text.encode()))


class Leads:
    """The folder of one run. `take` is for any thread, once the folder is open.

    Args:
        out: the output folder.
        info: of the checkpoint that speaks them.
        comment: in every file, see `metadata.synthetic`.
    Raises:
        SetupError: it is a link, or its journal cannot be read.
    """

    def __init__(self, out: Path, info: ModelInfo, comment: str = "") -> None:
        self.folder = out / LEADS
        if self.folder.is_symlink():
            raise SetupError(f"{self.folder}: is a link", remedy="move it out of the folder")
        self._info = info
        self._comment = comment
        self._journal = Journal(self.folder, is_read_only=True)
        self._writer = self._new_writer()

    def open(self) -> None:
        """Get ready for new ones; the lock of the output folder is held.

        Raises:
            UsageError, SetupError: the folder cannot be had.
        """
        prepare_folder(self.folder)
        self._journal = Journal(self.folder)
        self._writer = self._new_writer()

    def close(self) -> None:
        """No more come; harmless if done already."""
        self._journal.close()

    def _new_writer(self) -> AudioWriter:
        config = RunConfig(format="flac", subtype="PCM_24", save_codes=True)
        return AudioWriter(self.folder, config, self._info.sample_rate_hz)

    def path_of(self, request_hash: str) -> Path:
        """Where the speech of a request is, or would be."""
        return self._writer.path_of(_key(request_hash))

    def has(self, request_hash: str) -> bool:
        """Whether the speech of a request is there, and came out well."""
        key, delivery_hash = _key(request_hash), self._writer.delivery_hash
        if not self._journal.done(key, request_hash, delivery_hash):
            return False
        return self._writer.is_whole(key, self._journal.file_size(key)[0])

    def problem(self, request_hash: str) -> str:
        """Why it is not there."""
        line = self._line(request_hash)
        return str(line.get("error") or "its speech is gone") if line else "it was not spoken"

    def attempts_in_vain(self, request_hash: str) -> int:
        """How many draws of it have failed."""
        line = self._line(request_hash)
        is_failed = line is not None and line.get("status") == "failed"
        return attempts_in_vain(RowRecord.from_line(line)) if line and is_failed else 0

    def take(self, row: SpeechRow) -> None:
        """Keep what was spoken, or that it failed, under the row's `request_hash`.

        Raises:
            DiskFull, StoppedEarly: nothing more can be written.
        """
        key, error, file = _key(row.request_hash), row.error, None
        if error is None:
            assert row.samples is not None
            tags = Tags(row.id, comment=self._comment)
            try:
                file = self._writer.write(key, row.samples, row.codes, tags=tags)
            except RowError as problem:
                error = str(problem)
        record = RowRecord(
            key,
            "ok" if error is None else "failed",
            request_hash=row.request_hash,
            delivery_hash=self._writer.delivery_hash,
            error=error,
            finish_reason=row.finish_reason,
            suspect=row.suspect,
            text=row.request.text,
            text_chars=len(row.request.text),
            language=row.request.language,
            instruct=row.request.instruct,
            seed=row.seed,
            attempts=row.attempts,
            frames=row.frames,
            **vars(row.work),
        )
        if file is not None:
            assert row.samples is not None
            record = replace(
                record,
                path=file.path,
                bytes=file.bytes,
                sha256=file.sha256,
                sample_rate_hz=self._info.sample_rate_hz,
                audio_s=len(row.samples) / self._info.sample_rate_hz,
            )
        self._journal.append(record)

    def voice(
        self, row_id: str, request_hash: str, text: str, info: ModelInfo, silence_s: float
    ) -> Anchor:
        """What is kept, as rows clone it.

        Args:
            row_id: what messages call it.
            text: what it says.
            info: of the checkpoint that clones.
            silence_s: seconds of silence behind it.
        Raises:
            RowError: it is no reference.
        """
        return read_anchor(row_id, self.path_of(request_hash), None, text, info, silence_s)

    def part(
        self, request_hash: str, place: int, request: SpeechRequest, is_int16: bool
    ) -> SpokenPart:
        """What is kept, as a part of its row.

        Args:
            place: among the parts, from 0.
            request: of the part.
            is_int16: as the others will be.
        """
        return SpokenPart(place, lambda: self._read(request_hash, request, is_int16))

    def _read(self, request_hash: str, request: SpeechRequest, is_int16: bool) -> SpeechRow:
        line = self._line(request_hash)
        if line is None:
            raise RowError("its voice was not spoken")
        record = RowRecord.from_line(line)
        path = self.path_of(request_hash)
        samples = read_audio(Kept("audio", path, record.bytes, record.sha256))
        row = SpeechRow(_key(request_hash), request, request_hash)
        row.identity = self._info.identity
        row.samples = to_int16(samples) if is_int16 else samples.astype(np.float32)
        kept = Kept("codes", self._writer.codes_path_of(_key(request_hash)), 0, None)
        row.codes = read_codes(kept, record, self._info.num_codebooks, None)
        row.frames, row.attempts, row.suspect = record.frames, record.attempts, record.suspect
        row.finish_reason = record.finish_reason
        row.seed = request.seed if record.seed is None else record.seed
        if self._info.pace is not None:
            row.expected_s = usual_s(self._info.pace.without_markup(request.text))
        row.work = Work(**{name: getattr(record, name) for name in vars(Work())})
        return row

    def _line(self, request_hash: str) -> dict[str, object] | None:
        """Its line of the journal. Raises RowError."""
        try:
            return self._journal.line(_key(request_hash), 1)
        except OSError as error:
            raise RowError(f"{self._journal.path} cannot be read: {error.strerror}") from error


def _key(request_hash: str) -> str:
    return request_hash[:_KEY_DIGITS]
