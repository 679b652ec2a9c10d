"""Measure a finished audio file as its recipient does: decoded, from the file's own bytes.

The file is read in blocks, so that a chapter of hours needs as little memory as a short one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import soundfile
import soxr

from tts_cli.audio.bit_rate import MPEG1_KBPS, MPEG2_KBPS
from tts_cli.audio.file import in_blocks
from tts_cli.audio.join import loud_span
from tts_cli.audio.levels import decibels
from tts_cli.audio.loudness import FLOOR_STEP_S, OVERSAMPLING, Array, Meter, floor_of_powers

_BLOCK_S = 4.0
# Sample rates by the version and the index in a frame's header.
_HZ = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}


@dataclass(frozen=True)
class AudioFacts:
    """The measurements of a file. The levels of digital silence are None."""

    format: str  # as in --format
    rate_hz: int
    channels: int
    seconds: float
    rms_dbfs: float | None
    lufs: float | None
    peak_dbtp: float | None  # true peak, at four times the sample rate
    floor_dbfs: float | None  # quietest 0.05 s that is not digital silence
    head_s: float  # near-silence at the start
    tail_s: float  # near-silence at the end
    mp3_kbps: tuple[int, ...] = ()  # bit rates of the frames; several: not constant

    def level_db(self, measure: str) -> float | None:
        return self.rms_dbfs if measure == "rms" else self.lufs


def inspect(source: Path | BinaryIO) -> AudioFacts:
    """Decode and measure a file. Raises OSError, soundfile.LibsndfileError: it cannot be read."""
    with soundfile.SoundFile(source) as file:
        rate_hz, step = file.samplerate, round(FLOOR_STEP_S * file.samplerate)
        rms, loudness = Meter(rate_hz, "rms"), Meter(rate_hz, "lufs")
        finer = soxr.ResampleStream(rate_hz, OVERSAMPLING * rate_hz, 1, dtype="float32")
        powers, spreads, peak, num_samples = [], [], 0.0, 0
        for block in in_blocks(file, step * round(_BLOCK_S * rate_hz / step)):
            samples = np.ascontiguousarray(block[:, 0])
            num_samples += len(samples)
            rms.add(samples)
            loudness.add(samples)
            peak = max(peak, _highest(samples), _highest(finer.resample_chunk(samples)))
            steps = samples[: len(samples) // step * step].astype(np.float64).reshape(-1, step)
            powers.append(np.einsum("ij,ij->i", steps, steps) / step)
            spreads.append(steps.std(axis=1))
        peak = max(peak, _highest(finer.resample_chunk(np.zeros(0, np.float32), last=True)))
        coding = file.subtype if file.format == "OGG" else file.format
        channels = file.channels
    steps = np.concatenate(spreads or [np.zeros(0)])
    start, last = loud_span(steps) or (0, len(steps) - 1)
    return AudioFacts(
        format={"VORBIS": "ogg"}.get(coding, coding.lower()),
        rate_hz=rate_hz,
        channels=channels,
        seconds=num_samples / rate_hz,
        rms_dbfs=rms.level_db(),
        lufs=loudness.level_db(),
        peak_dbtp=decibels(peak),
        floor_dbfs=floor_of_powers(np.concatenate(powers or [np.zeros(0)])),
        head_s=start * FLOOR_STEP_S,
        tail_s=max(0.0, num_samples / rate_hz - (last + 1) * FLOOR_STEP_S),
        mp3_kbps=_frame_rates(source) if file.format == "MP3" else (),
    )


def _highest(samples: Array) -> float:
    return float(np.abs(samples).max(initial=0))


def _frame_rates(source: Path | BinaryIO) -> tuple[int, ...]:
    """Return the bit rates of an MP3's frames, without the first one, which may contain a table."""
    if isinstance(source, Path):
        with open(source, "rb") as file:
            return _frame_rates(file)
    source.seek(0)
    head = source.read(10)
    place = 0
    if head[:3] == b"ID3":  # a tag, whose length has 7 bits per byte
        place = 10 + sum((byte & 127) << 7 * (9 - at) for at, byte in enumerate(head) if at > 5)
    found: list[int] = []
    while (frame := _frame(source, place)) is not None:
        found.append(frame[0])
        place += frame[1]
    return tuple(sorted(set(found[1:])))


def _frame(file: BinaryIO, place: int) -> tuple[int, int] | None:
    """Return the bit rate and the length of the frame at a byte offset, or None."""
    file.seek(place)
    head = file.read(4)
    if len(head) < 4 or head[0] != 255 or head[1] & 0xE6 != 0xE2:  # sync, layer III
        return None
    version, index, rate = head[1] >> 3 & 3, head[2] >> 4, head[2] >> 2 & 3
    if version == 1 or not 0 < index < 15 or rate == 3:
        return None
    kbps = (MPEG1_KBPS if version == 3 else MPEG2_KBPS)[index - 1]  # index 0 is refused above
    hz = _HZ[version][rate]
    return kbps, (144 if version == 3 else 72) * 1000 * kbps // hz + (head[2] >> 1 & 1)
