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
from tts_cli.audio.tags import Tags, comment_of
from tts_cli.audio.treatment import PostProcessing
from tts_cli.config import SUBTYPES
from tts_cli.core import AS_SYNTHESIZED, BadRow, Status
from tts_cli.errors import RowError, UsageError
from tts_cli.store.entry import JournalEntry
from tts_cli.store.results import moved

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.checks.verdicts import TakeVerdict
    from tts_cli.checks.word_times import WordTimes
    from tts_cli.core import Result, Task


@dataclass(frozen=True)
class Timings:
    """Times of a row in milliseconds: its own share if rows run together."""

    queue_ms: float = 0.0  # from its prompt to its slot
    reference_ms: float = 0.0  # encoding its reference, in the first row that names it
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    vocoder_ms: float = 0.0
    rtf: float | None = None  # prefill, decode and vocoder over its audio; None: no audio


@dataclass(frozen=True)
class SpeechPart:
    """A piece of a row whose text was split."""

    text_start: int  # position in the row's text, in characters
    text_end: int
    start_s: float  # position in the row's audio
    end_s: float
    # paragraph, sentence, clause, word or pause that ends there; None: the row
    boundary: str | None
    frames: int
    seed: int
    attempts: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Speech:
    """The result of one row, synthesized or not."""

    id: str
    text: str  # as given; empty: none
    spoken_text: str = ""  # text for the model, after lexicon and normalization
    voice: str | None = None
    language: str = "auto"
    samples: NDArray[np.float32]  # (n,) in [-1, 1]; empty: no audio
    sample_rate_hz: int
    codes: NDArray[np.int64]  # (F, K)
    finish_reason: str | None = None  # eos, max_frames, early, stuck, wordless; None: no audio
    seed: int | None = None  # of the final attempt; None: no attempt
    attempts: int = 0
    parts: tuple[SpeechPart, ...] = ()  # empty: the text was not split
    # Things to listen for; with `verify`, the reasons why it is suspect.
    suspect: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()  # about the row
    timings: Timings = Timings()
    error: str | None  # None: all is well. `samples` may be set although `error` is
    extra: dict[str, Any] = field(default_factory=dict)  # unknown fields, with `extra="keep"`
    comment: str  # comment in its files: synthetic speech, and the model
    take: int = 1  # number of the take; above 1 if `verify` chose a later one
    verdict: str | None = None  # ok, suspect; None: without `verify`
    heard: str | None = None  # transcript of the recognizer; None: no verification
    words: WordTimes | None = None  # times of the words, with `words`; None: unknown

    @property
    def is_ok(self) -> bool:
        """Whether all of its text was synthesized."""
        return self.error is None

    @property
    def as_take(self) -> JournalEntry:
        """Return its journal entry, as far as word alignment needs it."""
        return JournalEntry(
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
        """Write its audio as `synth` would, whole or not at all; replaces an existing file.

        Args:
            format: wav, flac, ogg, mp3 or opus; None: from the suffix.
            subtype: PCM_16, PCM_24, FLOAT, ULAW or ALAW, where the format has it.
        Returns:
            The path.
        Raises:
            RowError: the row has no audio.
            UsageError: the format or subtype is unknown.
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
    task: Task, spoken: Result, info: ModelInfo, check: TakeVerdict | None = None
) -> Speech:
    """Return the speech of a task, at its row's pace. Samples and codes are copies."""
    request, work, error = task.request, spoken.work, spoken.error
    samples = np.zeros(0, np.float32)
    if spoken.samples is not None:
        try:
            samples = to_float(spoken.samples)
        except RowError as problem:  # NaN or infinite values
            error = str(problem)
    parts = list(spoken.parts)
    if len(samples) and task.pace != AS_SYNTHESIZED:
        samples, applied = PostProcessing(pace=task.pace).shape(samples, info.sample_rate_hz)
        length_s = len(samples) / info.sample_rate_hz
        parts = moved(parts, applied.start_shift_s, length_s, 1 / applied.speed)
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
        parts=tuple(SpeechPart(**part) for part in parts),
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
        comment=comment_of(info),
        take=task.place.take,
        verdict=None if check is None else check.verdict,
        heard=None if check is None or check.asr is None else check.asr.text,
    )


def unspoken(row: BadRow, info: ModelInfo) -> Speech:
    return Speech(
        id=row.record_id,
        text=row.text or "",
        samples=np.zeros(0, np.float32),
        sample_rate_hz=info.sample_rate_hz,
        codes=np.zeros((0, info.num_codebooks), np.int64),
        error=row.message,
        comment=comment_of(info),
    )
