"""Put chapters into one M4B file: AAC in an MP4 with chapter marks, by PyAV (extra `m4b`)."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from tts_cli import extras
from tts_cli.atomic import atomic_path
from tts_cli.audio.file import in_blocks
from tts_cli.errors import RowError, is_disk_error

log = logging.getLogger(__name__)

BIT_RATE = 64_000  # of one channel of speech
PAUSE_S = 2.0  # between chapters
AAC_RATES_HZ = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 64000, 88200, 96000)
_BLOCK = 65_536  # samples per read


@dataclass(frozen=True)
class M4bChapter:
    title: str
    path: Path


def load_av() -> Any:
    """Import PyAV. Raises SetupError if it is missing or too old for chapter marks."""
    return extras.load("m4b", "av", "--join m4b")


def write_m4b(
    path: Path,
    parts: list[M4bChapter],
    metadata: dict[str, str],
    kbps: int | None = None,
    cover: bytes | None = None,
    language: str | None = None,
) -> None:
    """Encode chapters of one sample rate into one file.

    Args:
        metadata: title, artist and other fields of MP4.
        kbps: bit rate; None: enough for speech.
        cover: a JPEG or PNG picture.
        language: its code of three letters.
    Raises:
        SetupError: PyAV is missing.
        RowError: a chapter's file cannot be read, or has another rate than the first.
        DiskFull: the disk is full; no file remains.
    """
    av = load_av()
    rate_hz = _rate_of(parts)
    with atomic_path(path) as part:
        try:
            with av.open(str(part), "w", format="mp4", options={"brand": "M4B "}) as container:
                container.metadata.update(metadata)
                aac_hz = min((hz for hz in AAC_RATES_HZ if hz >= rate_hz), default=96_000)
                stream = container.add_stream("aac", rate=aac_hz, layout="mono")
                stream.bit_rate = BIT_RATE if kbps is None else 1000 * kbps
                if language is not None:
                    stream.metadata["language"] = language
                if cover is not None:
                    _add_cover(av, container, cover)
                container.set_chapters(_chapters(parts, rate_hz))
                resampler = av.AudioResampler(stream.format.name, "mono", aac_hz)
                for samples, at in _samples(parts, rate_hz):
                    frame = av.AudioFrame.from_ndarray(samples[None], format="flt", layout="mono")
                    frame.sample_rate, frame.pts = rate_hz, at
                    frame.time_base = Fraction(1, rate_hz)
                    for piece in resampler.resample(frame):
                        container.mux(stream.encode(piece))
                for piece in resampler.resample(None):
                    container.mux(stream.encode(piece))
                container.mux(stream.encode(None))
        except av.FFmpegError as error:
            if is_disk_error(error):
                raise
            raise RowError(
                f"{path}: cannot be encoded: {error}", "use the files of the chapters"
            ) from error


def _add_cover(av: Any, container: Any, cover: bytes) -> None:
    """Add a picture unchanged before the first sample; one that FFmpeg cannot read is left out."""
    try:
        kind = "png_pipe" if cover.startswith(b"\x89PNG") else "jpeg_pipe"  # no guess by FFmpeg
        source = av.open(io.BytesIO(cover), format=kind)
        packet = next(one for one in source.demux(video=0) if one.size)
        if not source.streams.video[0].width:
            raise ValueError("it has no width")
        stream = container.add_stream_from_template(source.streams.video[0])
    except (av.FFmpegError, ValueError, IndexError, StopIteration) as error:
        log.warning("the cover cannot be read, and is left out: %s", error)
        return
    stream.disposition = av.stream.Disposition.attached_pic
    packet.stream, packet.pts, packet.dts = stream, 0, 0
    container.mux(packet)


def _rate_of(parts: list[M4bChapter]) -> int:
    rates = {int(soundfile.info(part.path).samplerate) for part in parts}
    if len(rates) > 1:
        raise RowError(
            "chapters have different sample rates",
            "synthesize them again with the same sample rate",
        )
    return rates.pop()


def _chapters(parts: list[M4bChapter], rate_hz: int) -> list[dict[str, Any]]:
    """Return chapter marks without gaps: a pause belongs to the chapter before it."""
    chapters, start = [], 0
    for index, part in enumerate(parts):
        end = start + soundfile.info(part.path).frames + _pause_after(index, parts, rate_hz)
        chapters.append(
            {
                "id": index,
                "start": start,
                "end": end,
                "time_base": Fraction(1, rate_hz),
                "metadata": {"title": part.title},
            }
        )
        start = end
    return chapters


def _pause_after(index: int, parts: list[M4bChapter], rate_hz: int) -> int:
    return round(PAUSE_S * rate_hz) if index < len(parts) - 1 else 0


def _samples(parts: list[M4bChapter], rate_hz: int) -> Iterator[tuple[np.ndarray[Any, Any], int]]:
    """Yield (n,) float32 samples of chapters and pauses, and the index of their first sample."""
    at = 0
    for index, part in enumerate(parts):
        with soundfile.SoundFile(part.path) as file:
            for block in in_blocks(file, _BLOCK):
                yield block[:, 0], at
                at += len(block)
        if pause := _pause_after(index, parts, rate_hz):
            yield np.zeros(pause, dtype=np.float32), at
            at += pause
