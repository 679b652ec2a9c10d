"""High-pass, trim and padding: what they leave, and where everything lies behind them."""

from __future__ import annotations

import numpy as np
import pytest
from sounds import Array, bursts, tone

from tts_cli.audio.join import speech_span
from tts_cli.audio.treatment import TRIM_MARGIN_S, PostProcessing, highpass
from tts_cli.config import RunConfig
from tts_cli.errors import SetupError

RATE_HZ = 24_000


def power_db(samples: Array, hz: float) -> float:
    """Of one frequency, away from the ends."""
    inner = samples[RATE_HZ // 4 : -RATE_HZ // 4].astype(np.float64)
    wave = np.exp(-2j * np.pi * hz * np.arange(len(inner)) / RATE_HZ)
    return float(20 * np.log10(2 * np.abs(wave @ inner) / len(inner) + 1e-12))


def test_the_high_pass_takes_out_dc_and_rumble_and_leaves_speech() -> None:
    sound = sum(tone(2, hz, amplitude=0.1) for hz in (25, 80, 300, 3000)) + 0.05
    filtered = highpass(np.asarray(sound, np.float32), RATE_HZ, 80)
    assert abs(filtered.mean()) < 1e-4
    assert power_db(filtered, 25) < -20 - 35
    assert power_db(filtered, 80) == pytest.approx(-20 - 6, abs=0.2)
    assert power_db(filtered, 300) == pytest.approx(-20, abs=0.1)
    assert power_db(filtered, 3000) == pytest.approx(-20, abs=0.01)


def test_the_high_pass_moves_nothing_and_does_not_thump() -> None:
    filtered = highpass(bursts(1) + np.float32(0.1), RATE_HZ, 70)
    lag = np.argmax(np.correlate(filtered[:6000], bursts(1)[:6000], "full")) - 5999
    assert lag == 0
    silent = highpass(np.full(RATE_HZ, 0.1, np.float32), RATE_HZ, 70)
    assert np.abs(silent).max() < 1e-5


def around(before_s: float, behind_s: float, dc: float = 0.0) -> Array:
    """A tone with near-silence around it."""
    noise = np.random.default_rng(0).normal(0, 2e-5, RATE_HZ).astype(np.float32)
    ends = noise[: round(before_s * RATE_HZ)], noise[: round(behind_s * RATE_HZ)]
    return np.concatenate([ends[0], tone(0.5, 220), ends[1]]) + np.float32(dc)


def test_trim_leaves_a_margin_and_no_click() -> None:
    for dc in (0.0, 0.02):
        samples, applied = PostProcessing(is_trimmed=True).shape(around(0.3, 0.6, dc), RATE_HZ)
        assert applied.trimmed_start_s == pytest.approx(0.3 - TRIM_MARGIN_S, abs=0.011)
        assert applied.trimmed_end_s == pytest.approx(0.6 - TRIM_MARGIN_S, abs=0.011)
        assert len(samples) / RATE_HZ == pytest.approx(applied.length_s(1.4), abs=1e-4)
        assert abs(samples[0]) < 1e-3
        assert abs(samples[-1]) < 1e-3
        assert np.abs(np.diff(samples[:200])).max() < 1e-3


def test_trim_leaves_what_needs_none() -> None:
    for samples in (around(0.02, 0.03), np.zeros(500, np.float32)):
        found, applied = PostProcessing(is_trimmed=True).shape(samples, RATE_HZ)
        assert np.array_equal(found, samples)
        assert (applied.trimmed_start_s, applied.trimmed_end_s) == (0, 0)


def test_padding_is_digital_silence() -> None:
    samples, applied = PostProcessing(pad_s=(0.5, 1.0)).shape(tone(0.5, 220), RATE_HZ)
    assert len(samples) == 2 * RATE_HZ
    assert not samples[: RATE_HZ // 2].any()
    assert not samples[-RATE_HZ:].any()
    assert (applied.start_shift_s, applied.length_s(0.5)) == (0.5, 2.0)


def test_the_order_of_the_chain() -> None:
    """Rumble must not hide where speech begins, and what is put on is not cut off again."""
    rumble = tone(1.4, 20, amplitude=0.05)
    treatment = PostProcessing(highpass_hz=80, is_trimmed=True, pad_s=(0.25, 0.25))
    samples, applied = treatment.shape(around(0.3, 0.6)[: len(rumble)] + rumble, RATE_HZ)
    assert applied.trimmed_start_s > 0.1
    start, end = speech_span(samples, RATE_HZ)
    assert start / RATE_HZ == pytest.approx(0.25 + TRIM_MARGIN_S, abs=0.05)
    assert (len(samples) - end) / RATE_HZ >= 0.25


def test_a_missing_package_is_told_before_anything_is_spoken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tts_cli.extras.find_spec", lambda name: None)
    for config in (RunConfig(loudness="ebu"), RunConfig(highpass=80.0)):
        with pytest.raises(SetupError, match="is not installed; pip install"):
            PostProcessing.of(config).require_packages()
    PostProcessing.of(RunConfig(trim=True, pad=(1.0, 1.0))).require_packages()


@pytest.mark.parametrize("length", [1, 2, 7, 100])
def test_short_rows_are_filtered_too(length: int) -> None:
    found = highpass(bursts(1)[:length], RATE_HZ, 80)
    assert found.shape == (length,)
    assert np.isfinite(found).all()
