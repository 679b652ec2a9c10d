"""Levels and silences, against plain sums over the samples."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tts_cli.audio.file import to_int16
from tts_cli.audio.levels import Array, measure
from tts_cli.core import Levels

RATE_HZ = 24_000
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.int16])


def tone(seconds: float, peak: float = 0.5) -> Array:
    """A square wave: its peak is its level."""
    n = np.arange(round(seconds * RATE_HZ))
    return np.where(n // 40 % 2, peak, -peak).astype(np.float32)


def found(samples: Array, dtype: type = np.float32) -> Levels:
    if dtype is np.int16:
        samples = to_int16(samples)
    return measure(samples, len(samples) / RATE_HZ)


@DTYPES
@pytest.mark.parametrize("seconds", [0.001, 0.03, 3.21, 12.345])
def test_level_and_peak(dtype: type, seconds: float) -> None:
    levels = found(tone(seconds), dtype)
    assert levels.level_dbfs == pytest.approx(20 * math.log10(0.5), abs=1e-3)
    assert levels.peak_dbfs == pytest.approx(20 * math.log10(0.5), abs=1e-3)
    assert levels.clipped_share == 0
    assert levels.longest_silence_s == 0


@DTYPES
def test_level_is_that_of_all_samples(dtype: type) -> None:
    """The last ones fill no window, and the blocks end in the midst."""
    rng = np.random.default_rng(0)
    samples = rng.uniform(-0.9, 0.9, 1_000_003).astype(np.float32)
    samples[-200:] = 0.95
    levels = found(samples, dtype)
    rms = math.sqrt(np.mean(samples.astype(np.float64) ** 2))
    assert levels.level_dbfs == pytest.approx(20 * math.log10(rms), abs=1e-3)
    assert levels.peak_dbfs == pytest.approx(20 * math.log10(0.95), abs=1e-3)


@DTYPES
def test_clipped_samples_are_counted(dtype: type) -> None:
    samples = tone(1)
    samples[100:103] = 1.0
    samples[200:205] = -1.0
    samples[300] = 0.9999  # of 16 bits that is one below the highest
    if dtype is np.float32:
        samples[400] = 1.5
    levels = found(samples, dtype)
    assert levels.clipped_share * RATE_HZ == pytest.approx(8 + (dtype is np.float32))
    assert levels.peak_dbfs == pytest.approx(20 * math.log10(samples.max()), abs=1e-6)


@DTYPES
def test_silences(dtype: type) -> None:
    quiet = 0.0005
    pieces = [(0.5, quiet), (1, 0.5), (0.3, 0), (1, 0.2), (0.8, quiet), (1, 0.5), (0.1, 0)]
    levels = found(np.concatenate([tone(seconds, peak) for seconds, peak in pieces]), dtype)
    assert levels.silence_start_s == pytest.approx(0.5)
    assert levels.silence_inside_s == pytest.approx(0.8)
    assert levels.silence_end_s == pytest.approx(0.1)
    assert levels.longest_silence_s == levels.silence_inside_s


@DTYPES
@pytest.mark.parametrize("seconds", [0.001, 2.0])
def test_digital_silence_has_no_level(dtype: type, seconds: float) -> None:
    """Minus infinity is no JSON."""
    levels = found(tone(seconds, 0), dtype)
    assert levels.level_dbfs is levels.peak_dbfs is None
    assert levels.silence_start_s == pytest.approx(seconds if seconds > 0.02 else 0)
    assert levels.silence_inside_s == levels.silence_end_s == 0
