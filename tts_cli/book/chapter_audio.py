"""Make the audio file of a chapter from the files of its rows.

Rows are read one at a time, so that a chapter of hours needs as much memory as its longest row.
Ends of rows are cut and faded as in `audio.join`, except the start of the first row and the end of
the last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import soundfile
import soxr

from tts_cli.atomic import atomic_path
from tts_cli.audio.bit_rate import encoder_options
from tts_cli.audio.encode import Encoder
from tts_cli.audio.file import FORMATS, NO_TAGS, to_float, to_int16, wav_bytes, wav_data, wav_header
from tts_cli.audio.join import MARGIN_S, Array, joined_pieces
from tts_cli.audio.tags import Tags, put_tags, wav_chunk
from tts_cli.audio.treatment import TRIM_MARGIN_S, PostProcessing, PostProcessReport, highpass
from tts_cli.book.leveling import ChapterLevel
from tts_cli.errors import RowError, UsageError

MAX_WAV_BYTES = 2**32 - 1
_BLOCK = 65_536  # samples per call of libsndfile


@dataclass(frozen=True)
class RowAudio:
    path: Path
    pause_after_s: float  # not used for the last row
    voice: str = ""


@dataclass(frozen=True)
class SpeechSpan:
    """The time of a row's speech in its chapter, in seconds."""

    start_s: float
    end_s: float
    file_start_s: float  # time of the first sample of the row's own file, even if it was cut off


@dataclass(frozen=True)
class JoinedChapter:
    rate_hz: int
    num_samples: int
    spans: tuple[SpeechSpan, ...]  # of all rows
    applied: dict[str, Any] | None = None  # post-processing, see `PostProcessReport`; None: none

    @property
    def seconds(self) -> float:
        return self.num_samples / self.rate_hz


def write_chapter(
    path: Path, takes: list[RowAudio], encoder: Encoder, tags: Tags = NO_TAGS
) -> JoinedChapter:
    """Join rows into the file `path`, which is made again until it meets the preset.

    Args:
        takes: at least one; all of one sample rate.
        encoder: settings of the file. Each voice gets one gain; a watermark is added to each row.
    Raises:
        RowError: a row's file cannot be read, or has another rate than the first.
        UsageError: the chapter is longer than a WAV file can be.
        DiskFull: the disk is full; no file remains.
    """
    write, treatment = partial(_write_once, path, takes, encoder, tags), encoder.treatment
    preset, target = treatment.preset, treatment.target
    if preset is None or target is None:
        return write(treatment)
    joined, facts = preset.meet(
        target, lambda target: write(replace(treatment, target=target)), lambda _: path
    )
    encoded = {
        "after_db": facts.level_db(preset.measure),
        "true_peak_dbtp": facts.peak_dbtp,
        "floor_dbfs": facts.floor_dbfs,
    }
    applied: dict[str, Any] = dict(joined.applied or {})
    applied |= {name: None if db is None else round(db, 3) for name, db in encoded.items()}
    applied["misses"] = [miss.text for miss in preset.misses(facts)]
    return replace(joined, applied=applied)


def _write_once(
    path: Path, takes: list[RowAudio], encoder: Encoder, tags: Tags, treatment: PostProcessing
) -> JoinedChapter:
    rate_hz, file_hz = _rate_of(takes[0].path), encoder.rate_hz
    is_int16 = encoder.subtype == "PCM_16" and treatment.is_none
    level = _level_of(takes, rate_hz, treatment)
    spans: list[SpeechSpan] = []
    num_samples = 0
    with atomic_path(path) as part, _open_sink(part, encoder, rate_hz, tags) as sink:
        for piece, span in _pieces(takes, rate_hz, is_int16, treatment):
            if level is not None:
                if span is not None:
                    piece = level.apply(piece, takes[len(spans)].voice)
                level.measure(piece)
            if encoder.watermark is not None and span is not None:
                piece = encoder.watermark.added(to_float(piece), rate_hz)
            sink.write(piece)
            if span is not None:
                spans.append(SpeechSpan(*((num_samples + place) / rate_hz for place in span)))
            num_samples += len(piece)
    applied = None if treatment.is_none else _applied(treatment, level)
    num_samples = round(num_samples * file_hz / rate_hz)
    return JoinedChapter(file_hz, num_samples, tuple(spans), applied)


def _level_of(
    takes: list[RowAudio], rate_hz: int, treatment: PostProcessing
) -> ChapterLevel | None:
    """Return the gains of the voices, for which all rows are read twice; None without loudness."""
    if treatment.target is None:
        return None
    found = ChapterLevel(rate_hz, treatment.target)
    pieces = partial(_pieces, takes, rate_hz, False, treatment)
    spoken = (piece for piece, span in pieces() if span is not None)
    found.find_gains(spoken, [take.voice for take in takes])
    voices = iter(takes)
    for piece, span in pieces():
        found.measure(piece if span is None else found.apply(piece, next(voices).voice))
    found.adjust_gains()
    return found


def _applied(treatment: PostProcessing, level: ChapterLevel | None) -> dict[str, Any]:
    """Return the post-processing of a chapter, without trimmed lengths, which are short."""
    found = PostProcessReport(treatment.highpass_hz, pad_start_s=treatment.pad_s[0])
    found = replace(found, pad_end_s=treatment.pad_s[1])
    if level is None:
        return found.as_dict()
    gains = {voice: round(gain_db, 3) for voice, gain_db in level.gains_db.items()}
    levelling = level.levelling()
    told = replace(found, level=levelling).as_dict()
    return told | {
        "gains_db": gains,
        "misses": [miss.text for miss in levelling.misses(level.target)],
    }


def _rate_of(path: Path) -> int:
    try:
        return int(soundfile.info(path).samplerate)
    except (soundfile.LibsndfileError, OSError) as error:
        raise RowError(f"{path}: cannot be read: {error}", "synthesize it again") from error


def _read(path: Path, rate_hz: int, is_int16: bool, highpass_hz: float | None) -> Array:
    """Return (n,) samples of a row, high-passed."""
    try:
        samples, found_hz = soundfile.read(path, dtype="int16" if is_int16 else "float32")
    except (soundfile.LibsndfileError, OSError) as error:
        raise RowError(f"{path}: cannot be read: {error}", "synthesize it again") from error
    if found_hz != rate_hz or samples.ndim != 1:
        raise RowError(
            f"{path}: is not mono audio of {rate_hz} Hz like the rows before", "synthesize it again"
        )
    return samples if highpass_hz is None else highpass(samples, rate_hz, highpass_hz)


def _pieces(
    takes: Sequence[RowAudio], rate_hz: int, is_int16: bool, treatment: PostProcessing
) -> Iterator[tuple[Array, tuple[int, int, int] | None]]:
    """Yield the samples of a chapter: those of rows, and the silence between them.

    A row has three positions relative to its first sample here: start and end of its speech, and
    the first sample of its file. Silence has None.
    """
    front, behind = (round(seconds * rate_hz) for seconds in treatment.pad_s)
    if front:
        yield treatment.quiet(front), None
    outer = round((TRIM_MARGIN_S - MARGIN_S) * rate_hz) if treatment.is_trimmed else None
    pauses = [round(take.pause_after_s * rate_hz) for take in takes[:-1]]
    rows = (_read(take.path, rate_hz, is_int16, treatment.highpass_hz) for take in takes)
    for index, piece in enumerate(joined_pieces(rows, pauses, rate_hz, (outer, outer))):
        if index:
            yield treatment.quiet(piece.silence).astype(piece.samples.dtype), None
        yield piece.samples, (piece.first, piece.last, -piece.num_cut)
    if behind:
        yield treatment.quiet(behind), None


@contextmanager
def _open_sink(
    part: Path, options: Encoder, rate_hz: int, tags: Tags
) -> Iterator[_WavSink | _EncodedSink | _ResamplingSink]:
    if rate_hz != options.rate_hz:
        with _open_sink(part, options, options.rate_hz, tags) as sink:
            resampling = _ResamplingSink(sink, rate_hz, options.rate_hz)
            yield resampling
            resampling.finish()
        return
    format, subtype = options.format, options.subtype
    if format == "wav":
        with open(part, "xb") as file:
            wav = _WavSink(file, rate_hz, subtype, tags)
            yield wav
            wav.finish()
        return
    keywords = {"format": FORMATS[format].container}
    keywords |= encoder_options(format, rate_hz, options.kbps)
    with open(part, "x+b") as file:
        watched = _WatchedFile(file)
        with soundfile.SoundFile(watched, "w", rate_hz, 1, subtype, **keywords) as encoder:
            put_tags(encoder, tags)
            yield _EncodedSink(encoder, watched, is_int16=subtype == "PCM_16")
        watched.check()


class _ResamplingSink:
    """Changes the sample rate of a chapter before another sink writes it."""

    def __init__(self, sink: Any, rate_hz: int, file_hz: int) -> None:
        self._sink = sink
        self._stream = soxr.ResampleStream(rate_hz, file_hz, 1, dtype="float32")

    def write(self, samples: Array) -> None:
        self._put(self._stream.resample_chunk(samples.astype(np.float32)))

    def finish(self) -> None:
        self._put(self._stream.resample_chunk(np.zeros(0, np.float32), last=True))

    def _put(self, samples: Array) -> None:
        if len(samples):
            self._sink.write(samples)


class _WavSink:
    """Writes a WAV file. The header is written again at the end, when the length is known."""

    def __init__(self, file: BinaryIO, rate_hz: int, subtype: str, tags: Tags) -> None:
        self._file, self._rate_hz, self._subtype = file, rate_hz, subtype
        self._end = wav_chunk(tags)
        self._num_samples = 0
        file.write(wav_header(0, rate_hz, subtype))

    def write(self, samples: Array) -> None:
        self._num_samples += len(samples)
        if wav_bytes(self._num_samples, self._subtype) + len(self._end) > MAX_WAV_BYTES:
            raise UsageError(
                "a chapter is longer than a WAV file can be",
                remedy="use --format flac, or more headings",
            )
        self._file.write(wav_data(samples, self._subtype))

    def finish(self) -> None:
        self._file.write(b"\0" * (self._file.tell() % 2) + self._end)
        self._file.seek(0)
        end_bytes = len(self._end)
        self._file.write(wav_header(self._num_samples, self._rate_hz, self._subtype, end_bytes))


class _EncodedSink:
    def __init__(self, encoder: Any, file: _WatchedFile, is_int16: bool) -> None:
        self._encoder, self._file, self._is_int16 = encoder, file, is_int16

    def write(self, samples: Array) -> None:
        values = to_int16(samples) if self._is_int16 else to_float(samples)
        for start in range(0, len(values), _BLOCK):
            self._encoder.write(values[start : start + _BLOCK])
            self._file.check()


class _WatchedFile:
    """A file for libsndfile, which cannot report why a write failed. `check` raises the reason."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._error: OSError | None = None

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def write(self, data: bytes) -> int:
        if self._error is None:
            try:
                return self._file.write(data)
            except OSError as error:
                self._error = error
        return len(data)

    def read(self, size: int) -> bytes:
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        if self._error is None:
            try:
                self._file.flush()
            except OSError as error:
                self._error = error
