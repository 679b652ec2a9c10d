"""Pace: exact lengths, the same pitch, no lost sound."""

from __future__ import annotations

import numpy as np
import pytest
from sounds import Array, bursts, tone

from tts_cli.audio.stretch import stretch

SPEEDS = (0.5, 0.8, 1.2, 1.4, 2.0)


def loudest_hz(samples: Array, rate_hz: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum)) * rate_hz / len(samples)


@pytest.mark.parametrize("rate_hz", [8_000, 24_000, 44_100])
@pytest.mark.parametrize("speed", SPEEDS)
def test_the_length_is_exact_and_the_pitch_stays(rate_hz: int, speed: float) -> None:
    samples = tone(1.7, 180, rate_hz)
    found = stretch(samples, rate_hz, speed)
    assert len(found) == round(len(samples) / speed)
    assert found.dtype == np.float32
    inner = found[rate_hz // 20 : -rate_hz // 20]
    assert loudest_hz(inner, rate_hz) == pytest.approx(180, abs=1.5)
    assert np.sqrt(np.mean(inner**2)) == pytest.approx(0.3 / np.sqrt(2), rel=0.02)


@pytest.mark.parametrize("speed", SPEEDS)
def test_sounds_are_where_they_belong(speed: float) -> None:
    samples = np.zeros(48_000, np.float32)
    for start_s in (0.2, 0.9, 1.5):
        samples[round(start_s * 24_000) :][:2400] = tone(0.1, 440)
    found = stretch(samples, 24_000, speed)
    is_loud = np.abs(found) > 0.1
    for start_s in (0.2, 0.9, 1.5):
        middle = round((start_s + 0.05) / speed * 24_000)
        assert is_loud[middle - 600 : middle + 600].any()
    assert np.abs(found).max() <= 0.33


def test_speed_one_changes_nothing() -> None:
    samples = bursts(0.5)
    assert np.array_equal(stretch(samples, 24_000, 1.0), samples)


@pytest.mark.parametrize("length", [0, 1, 7, 100, 719, 721])
def test_short_and_silent_rows(length: int) -> None:
    for speed in (0.5, 2.0):
        assert len(stretch(np.zeros(length, np.float32), 24_000, speed)) == round(length / speed)
