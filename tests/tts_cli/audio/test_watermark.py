"""The watermark: where it is detected, and what it leaves as it was."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
import soundfile
from sounds import bursts

from tts_cli.plan.checkpoint import sample_voice

pytestmark = pytest.mark.skipif(find_spec("perth") is None, reason="resemble-perth is missing")


def speech() -> tuple[np.ndarray, int]:  # type: ignore[type-arg]
    """A recording of the sample voice."""
    clips = sample_voice().parent / "clips"
    samples, rate_hz = soundfile.read(clips / "arthur.opus", dtype="float32")
    return np.asarray(samples[: 6 * rate_hz]), rate_hz


def test_it_is_detected_where_it_is_and_nowhere_else() -> None:
    from tts_cli.audio.watermark import Watermark

    watermark, (samples, rate_hz) = Watermark(), speech()
    marked = watermark.added(samples, rate_hz)
    assert marked.shape == samples.shape
    assert marked.dtype == np.float32
    assert watermark.score(samples, rate_hz) < 0.3
    assert watermark.score(marked, rate_hz) > 0.9
    assert np.array_equal(marked, watermark.added(samples, rate_hz)), "always the same"


def test_nothing_above_its_band_changes() -> None:
    from tts_cli.audio.watermark import Watermark

    samples, rate_hz = speech()
    residual = Watermark().added(samples, rate_hz) - samples
    spectrum = np.abs(np.fft.rfft(residual)) ** 2
    hertz = np.fft.rfftfreq(len(residual), 1 / rate_hz)
    assert spectrum[hertz > 3_000].sum() < 0.01 * spectrum.sum()


def test_what_is_too_short_stays() -> None:
    from tts_cli.audio.watermark import Watermark

    watermark = Watermark()
    for samples in (np.zeros(0, np.float32), bursts(0.05)):
        assert np.array_equal(watermark.added(samples, 24_000), samples)
        assert watermark.score(samples, 24_000) == 0.0
    silence = watermark.added(np.zeros(24_000, np.float32), 24_000)
    assert np.isfinite(silence).all()
