"""The result of one row: samples, codes, and facts about them."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tts_cli.atomic import write_standalone
from tts_cli.audio.file import check_format, encode, to_float
from tts_cli.audio.tags import Tags, synthetic
from tts_cli.config import SUBTYPES
from tts_cli.core import BadRow, Status
from tts_cli.errors import RowError, UsageError
from tts_cli.store.take import Take

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.checks.verdicts import TakeVerdict
    from tts_cli.checks.word_times import WordTimes
    from tts_cli.core import Spoken, Task


@dataclass(frozen=True)
class Timings:
    """What a row took, in milliseconds; of what rows share, its own share by its own steps."""

    queue_ms: float = 0.0  # from its prompt to its slot
    reference_ms: float = 0.0  # encoding its reference, in the row that named it first
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    vocoder_ms: float = 0.0
    rtf: float | None = None  # prefill, decode and vocoder over its audio; None: there is none


@dataclass(frozen=True)
class SpeechPart:
    """A piece of a row that was spoken in parts."""

    text_start: int  # of the row's text as it was given, in characters
    text_end: int
    start_s: float  # of the row's audio
    end_s: float
    boundary: str | None  # what ends there: paragraph, sentence, clause, word, pause; None: the row
    frames: int
    seed: int
    attempts: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Speech:
    """One row at its end, spoken or not."""

    id: str
    text: str  # as it was given; empty where it had none
    spoken_text: str = ""  # as the model got it, behind lexicon and normaliser
    voice: str | None = None
    language: str = "auto"
    samples: NDArray[np.float32]  # (n,) in [-1, 1]; none where nothing could be spoken
    sample_rate_hz: int
    codes: NDArray[np.int64]  # (F, K)
    finish_reason: str | None = None  # eos, max_frames, early, stuck, wordless; None: no end at all
    seed: int | None = None  # of the attempt that was kept; None: it was never tried
    attempts: int = 0
    parts: tuple[SpeechPart, ...] = ()  # none for a row that was spoken in one
    # What it should be listened to for; with `verify`, why it is suspect.
    suspect: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()  # what is odd about its row
    timings: Timings = Timings()
    error: str | None  # None: it came out well. Else it may have samples: of speech gone wrong
    extra: dict[str, Any] = field(default_factory=dict)  # fields that are none, if `extra="keep"`
    comment: str  # what its files say of themselves: synthetic speech, and of which model
    take: int = 1  # of its row; above 1 with `verify`, where another was better than the first
    verdict: str | None = None  # ok, suspect; None: without `verify`
    heard: str | None = None  # what the recognizer heard; None: none has heard it
    words: WordTimes | None = None  # when they are said, with `words`; None: that is not known

    @property
    def is_ok(self) -> bool:
        """Whether all of its text was spoken."""
        return self.error is None

    @property
    def as_take(self) -> Take:
        """As a journal would have it, as far as its words are looked for by it."""
        return Take(
            self.id,
            Status.OK if self.is_ok else Status.FAILED,
            take=self.take,
            text=self.text,
            spoken_text=self.spoken_text,
            language=self.language,
            parts=[asdict(part) for part in self.parts],
        )

    @property
    def seconds(self) -> float:
        """Length of its audio."""
        return len(self.samples) / self.sample_rate_hz

    def save(
        self, path: str | os.PathLike[str], format: str | None = None, subtype: str = "PCM_16"
    ) -> Path:
        """Write its audio as `synth` would, whole or not at all, in place of what was there.

        Args:
            format: wav, flac, ogg, mp3 or opus; None: as the name's suffix says.
            subtype: PCM_16, PCM_24, FLOAT, ULAW or ALAW, where the format has it.
        Returns:
            The path.
        Raises:
            RowError: there is no audio.
            UsageError: there is no such format or subtype.
            SetupError: libsndfile cannot write it.
            DiskFull, OSError: the file cannot be written.
        """
        target = Path(path)
        name = (format or target.suffix.removeprefix(".")).lower()
        if name not in SUBTYPES:
            known = ", ".join(SUBTYPES)
            raise UsageError(f"{target}: {name or 'no suffix'!r} is not one of the formats {known}")
        if subtype not in SUBTYPES[name]:
            known = ", ".join(SUBTYPES[name])
            raise UsageError(f"subtype {subtype!r} does not exist in {name}", f"use {known}")
        if not len(self.samples):
            raise RowError(f"row {self.id} has no audio: {self.error}")
        coding = check_format(name, subtype, self.sample_rate_hz)
        tags = Tags.of_row(self.id, self.voice, self.comment)
        data = encode(self.samples, self.sample_rate_hz, name, coding, tags)
        write_standalone(target.absolute(), data)
        return target


def speech_of(
    task: Task, spoken: Spoken, info: ModelInfo, check: TakeVerdict | None = None
) -> Speech:
    """What came of a task. Its samples and codes are its own: others may be dropped meanwhile.

    Args:
        check: its verdict; None: nobody gave one.
    """
    request, work, error = task.request, spoken.work, spoken.error
    samples = np.zeros(0, np.float32)
    if spoken.samples is not None:
        try:
            samples = to_float(spoken.samples)
        except RowError as problem:  # NaN or infinite values
            error = str(problem)
    codes = np.zeros((0, info.num_codebooks), np.int64) if spoken.codes is None else spoken.codes
    busy_ms = work.prefill_ms + work.decode_ms + work.vocoder_ms
    return Speech(
        id=task.id,
        text=task.row.text,
        spoken_text=request.text,
        voice=request.voice,
        language=request.language,
        samples=np.array(samples, np.float32),
        sample_rate_hz=info.sample_rate_hz,
        codes=np.array(codes, np.int64),
        finish_reason=None if spoken.finish is None else spoken.finish.value,
        seed=spoken.seed,
        attempts=spoken.attempts,
        parts=tuple(SpeechPart(**part) for part in spoken.parts),
        suspect=tuple(
            remark.text for remark in (spoken.remarks if check is None else check.reasons)
        ),
        warnings=task.notes,
        timings=Timings(
            queue_ms=work.queue_ms,
            reference_ms=work.reference_ms,
            prefill_ms=work.prefill_ms,
            decode_ms=work.decode_ms,
            vocoder_ms=work.vocoder_ms,
            rtf=busy_ms * info.sample_rate_hz / 1000 / len(samples) if len(samples) else None,
        ),
        error=error,
        extra=dict(task.row.extra or {}),
        comment=synthetic(info),
        take=task.place.take,
        verdict=None if check is None else check.verdict,
        heard=None if check is None or check.asr is None else check.asr.text,
    )


def unspoken(row: BadRow, info: ModelInfo) -> Speech:
    """A row that cannot be spoken."""
    return Speech(
        id=row.record_id,
        text=row.text or "",
        samples=np.zeros(0, np.float32),
        sample_rate_hz=info.sample_rate_hz,
        codes=np.zeros((0, info.num_codebooks), np.int64),
        error=row.message,
        comment=synthetic(info),
    )
