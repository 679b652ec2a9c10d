"""Measure loudness as broadcasters do, and bring audio to a level.

Loudness follows ITU-R BS.1770-4, by pyloudnorm at 44.1 kHz or above with the standard's own filter
coefficients (pyloudnorm's defaults are off by 0.04 dB). The true peak is measured at four times the
sample rate, by soxr. Audio too short for a gate of 0.4 s is measured by its RMS, which agrees with
loudness to a decibel or two in speech.

Where the gain would lift the true peak above its ceiling, a look-ahead limiter reduces these few
peaks. A lower gain for the whole row would make rows as loud as their sharpest consonant allows,
each differently.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tts_cli.audio.file import resample
from tts_cli.audio.levels import decibels
from tts_cli.config import ACX_CEILING_DBTP, CEILING_DBTP
from tts_cli.core import Kind, Remark

Array = np.ndarray[Any, Any]

GATE_S = 0.4
METER_HZ = 44_100
FILTERS = "DeMan"  # pyloudnorm's name of the filters with the standard's own coefficients
OVERSAMPLING = 4
LOOK_AHEAD_S = 0.005  # of the limiter; also its release time
HEADROOM = 10 ** (-0.05 / 20)
FLOOR_STEP_S = 0.01
FLOOR_STEPS = 5
FLOOR_POWER = 1e-12  # -120 dBFS: below is digital silence
TOLERANCE_DB = 0.02
PASSES = 6
STRETCH_S = 30.0  # measured together
SETTLING_BLOCKS = 5  # 0.5 s, after which the start of the filters has no effect
MAX_LIMITED_DB = 12.0  # a larger reduction changes the sound
MAX_GAIN_DB = 40.0  # audio that needs more is not speech
SUSPECT_DB = 0.5  # a larger deviation from the target is reported


@dataclass(frozen=True)
class LevelTarget:
    by: str  # lufs, or rms of the whole file
    level_db: float
    ceiling_dbtp: float
    floor_dbfs: float | None = None  # highest noise floor; None: any

    @classmethod
    def of(cls, text: str) -> LevelTarget:
        return NAMED.get(text) or cls("lufs", float(text), CEILING_DBTP)


NAMED = {
    "ebu": LevelTarget("lufs", -23.0, CEILING_DBTP),
    "podcast": LevelTarget("lufs", -16.0, CEILING_DBTP),
    # ACX: an RMS of -23 to -18 dB, peaks of at most -3 dB, a floor of at most -60 dB, in MP3.
    "acx": LevelTarget("rms", -20.0, ACX_CEILING_DBTP, floor_dbfs=-60.0),
}


@dataclass(frozen=True)
class LoudnessReport:
    """Levels before and after the gain. The levels of digital silence are None."""

    # [`lufs`, `rms`] measure of loudness; null: no loudness was requested, or all is silence
    level_by: str | None = None
    before_db: float | None = None  # [LUFS, dBFS] loudness of the whole file before the gain
    gain_db: float = 0.0  # gain of all samples
    limited_db: float = 0.0  # reduction of the highest peak by the limiter; 0: none
    after_db: float | None = None  # [LUFS, dBFS] loudness of the file after the gain
    true_peak_dbtp: float | None = None  # true peak of the file, at four times the sample rate
    # root mean square of the quietest 0.05 s that is not digital silence; null: all is silence
    floor_dbfs: float | None = None

    def misses(self, target: LevelTarget) -> list[Remark]:
        """Return remarks if the audio misses the target."""
        found = []
        if self.after_db is not None and abs(self.after_db - target.level_db) > SUSPECT_DB:
            text = f"loudness {self.after_db:.1f} dB instead of {target.level_db:g}"
            found.append(Remark(Kind.LEVEL, text))
        floor = target.floor_dbfs
        if floor is not None and self.floor_dbfs is not None and self.floor_dbfs > floor:
            text = f"noise floor {self.floor_dbfs:.0f} dB, above {floor:g}"
            found.append(Remark(Kind.NOISE_FLOOR, text))
        return found


def level(samples: Array, rate_hz: int, target: LevelTarget) -> tuple[Array, LoudnessReport]:
    """Bring (n,) float32 samples, which may exceed [-1, 1], to a level."""
    by, before_db = measured(samples, rate_hz, target.by)
    if before_db is None:
        return samples, LoudnessReport()
    gain_db = min(MAX_GAIN_DB, target.level_db - before_db)
    peaks = oversampled_peaks(samples, rate_hz)
    highest_db = decibels(float(peaks.max())) or 0.0
    if highest_db + gain_db <= target.ceiling_dbtp:
        louder, limited_db, after_db = samples * _factor(gain_db), 0.0, before_db + gain_db
        peak_db: float | None = highest_db + gain_db
    else:
        most_db = min(MAX_GAIN_DB, gain_db + MAX_LIMITED_DB)
        for _ in range(PASSES):
            factor = _factor(gain_db)
            louder, limited_db = limit(
                samples * factor, peaks * factor, rate_hz, target.ceiling_dbtp
            )
            after_db = measured(louder, rate_hz, by)[1] or 0.0
            # Make up for the limiter's reduction.
            missing_db = target.level_db - after_db
            if abs(missing_db) < TOLERANCE_DB or gain_db >= most_db:
                break
            gain_db = min(most_db, gain_db + missing_db)
        peak_db = true_peak_dbtp(louder, rate_hz)
    floor_db = floor_dbfs(louder, rate_hz)
    return louder, LoudnessReport(by, before_db, gain_db, limited_db, after_db, peak_db, floor_db)


def measured(samples: Array, rate_hz: int, by: str) -> tuple[str, float | None]:
    """Return the measure and the level of (n,) samples; a level of None: silence.

    The measure is loudness (LUFS), or RMS (dBFS) on request and if the audio is shorter than the
    gate. Audio below the gate of -70 LUFS is silent.
    """
    if by == "rms" or len(samples) < GATE_S * rate_hz:
        return "rms", rms_dbfs(samples)
    return "lufs", gated_lufs(block_lufs(samples, rate_hz))


def block_lufs(samples: Array, rate_hz: int) -> list[float]:
    """Return the loudness of each gating block of (n,) samples: 0.4 s long, one every 0.1 s.

    They are resampled for the meter: near half the sample rate its filters are inaccurate, by 0.05
    dB for speech at 24 kHz and 0.3 dB at 8 kHz.
    """
    import pyloudnorm

    meter_hz = max(rate_hz, METER_HZ)
    fine = resample(samples.astype(np.float32), rate_hz, meter_hz, is_clipped=False)
    meter = pyloudnorm.Meter(meter_hz, filter_class=FILTERS, block_size=GATE_S)
    meter.integrated_loudness(fine.astype(np.float64))
    return [float(block) for block in meter.blockwise_loudness]


def gated_lufs(blocks: list[float]) -> float | None:
    """Return the loudness of audio with these blocks, gated at -70 LUFS, then at mean - 10 LU."""
    values = np.array(blocks)
    powers = 10 ** (values / 10)
    is_used = values >= -70
    if not is_used.any():
        return None
    is_used &= values > 10 * math.log10(float(powers[is_used].mean())) - 10
    return 10 * math.log10(float(powers[is_used].mean()))


class Meter:
    """Measures audio that arrives in pieces: RMS, or loudness by gating blocks."""

    def __init__(self, rate_hz: int, by: str) -> None:
        self._rate_hz, self._by = rate_hz, by
        self._step = round(rate_hz * GATE_S / 4)  # from block to block
        self._length, self._energy = 0, 0.0
        self._waiting: list[Array] = []
        self._num_waiting = 0
        self._front = 0  # blocks at the start of the waiting samples that were already counted
        self._blocks: list[float] = []

    def add(self, samples: Array) -> None:
        values = samples.astype(np.float64)
        self._length += len(values)
        self._energy += float(values @ values)
        if self._by == "rms":
            return
        self._waiting.append(samples)
        self._num_waiting += len(samples)
        if self._num_waiting >= STRETCH_S * self._rate_hz:
            self._measure()

    def level_db(self) -> float | None:
        if self._by == "rms" or self._length < GATE_S * self._rate_hz:
            power = self._energy / max(1, self._length)
            return 10 * math.log10(power) if power > 0 else None
        self._measure()
        return gated_lufs(self._blocks)

    def _measure(self) -> None:
        """Measure the blocks of the waiting samples. The last ones are measured again with the
        next samples, because the filters need some time before the first new block.
        """
        stretch = np.concatenate(self._waiting)
        steps = len(stretch) // self._step
        if steps < 4:
            return
        blocks = block_lufs(stretch[: steps * self._step], self._rate_hz)
        self._blocks += blocks[self._front :]
        done = max(0, len(blocks) - SETTLING_BLOCKS)
        self._front = len(blocks) - done
        self._waiting = [stretch[done * self._step :]]
        self._num_waiting = len(self._waiting[0])


def rms_dbfs(samples: Array) -> float | None:
    """Return the root mean square of (n,) float samples; 0 is a full-scale square wave."""
    values = samples.astype(np.float64)
    return decibels(math.sqrt(float(values @ values) / len(values)))


def true_peak_dbtp(samples: Array, rate_hz: int) -> float | None:
    """Return the highest peak of (n,) float samples, including peaks between samples."""
    return decibels(float(oversampled_peaks(samples, rate_hz).max()))


def floor_dbfs(samples: Array, rate_hz: int) -> float | None:
    """Return the RMS of the quietest 0.05 s, which in speech is the noise between its sounds.
    Digital silence (pauses, padding) does not count; None: no other samples.
    """
    step = round(FLOOR_STEP_S * rate_hz)
    whole = len(samples) // step * step
    steps = samples[:whole].astype(np.float64).reshape(-1, step)
    return floor_of_powers(np.einsum("ij,ij->i", steps, steps) / step)


def floor_of_powers(powers: Array) -> float | None:
    """Return the floor from the (n,) mean squares of steps of 0.01 s; see `floor_dbfs`."""
    if len(powers) < FLOOR_STEPS:
        return None
    windows = np.lib.stride_tricks.sliding_window_view(powers, FLOOR_STEPS)
    means = windows[windows.min(axis=1) > FLOOR_POWER].mean(axis=1)
    return 10 * math.log10(float(means.min())) if len(means) else None


def limit(samples: Array, peaks: Array, rate_hz: int, ceiling_dbtp: float) -> tuple[Array, float]:
    """Limit the true peak of (n,) float32 samples to a ceiling. Return (n,) float32 samples, and
    the largest reduction in dB.

    Around every peak that is too high the gain falls to the required value and rises again,
    smoothly and starting before the peak. All other samples stay the same.

    Args:
        peaks: (n,) their `oversampled_peaks`.
    """
    ceiling = _factor(ceiling_dbtp)
    if peaks.max() <= ceiling:
        return samples, 0.0
    from scipy.ndimage import minimum_filter1d, uniform_filter1d

    reach = max(1, round(LOOK_AHEAD_S * rate_hz))
    # A changing gain shifts the peaks between samples, rarely by more than the headroom.
    needed = np.minimum(1.0, HEADROOM * ceiling / np.maximum(peaks, 1e-12))
    # The minimum within reach, then a mean over no more than that reach: every value in the mean
    # at a sample is at most the gain that the sample needs.
    lowest = minimum_filter1d(needed, 2 * reach + 1, mode="nearest")
    gain = lowest
    for _ in range(2):  # two box filters make a triangle
        gain = uniform_filter1d(gain, reach + reach % 2 - 1, mode="nearest")
    gain[gain > 1 - 1e-9] = 1.0  # undo the rounding of running sums
    limited = samples * gain
    over = float(oversampled_peaks(limited, rate_hz).max()) / ceiling
    if over > 1:
        limited, gain = limited / over, gain / over
    return limited.astype(np.float32), -20 * math.log10(float(gain.min()))


def oversampled_peaks(samples: Array, rate_hz: int) -> Array:
    """Return the (n,) highest amplitude at or next to each sample."""
    size = OVERSAMPLING
    fine = np.abs(resample(samples.astype(np.float32), rate_hz, size * rate_hz, is_clipped=False))
    fine = np.pad(fine, (0, max(0, size * len(samples) - len(fine))))[: size * len(samples)]
    own = np.abs(samples)
    # By strides, because the maximum along an axis of four takes ten times as long.
    between = np.maximum(fine[1::size], np.maximum(fine[2::size], fine[3::size]))
    peaks: Array = np.maximum(own, np.maximum(fine[::size], between))
    peaks[1:] = np.maximum(peaks[1:], between[:-1])  # a peak between two samples counts for both
    return peaks


def _factor(db: float) -> float:
    return float(10 ** (db / 20))
