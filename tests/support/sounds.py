"""Sounds that stand in for speech: noise in bursts, DC, rumble, spikes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import signal

Array = np.ndarray[Any, Any]


def bursts(seconds: float, rate_hz: int = 24_000, seed: int = 0, gain: float = 0.2) -> Array:
    """(n,) float32: noise of a voice's band that rises and falls eight times a second."""
    rng = np.random.default_rng(seed)
    length = round(seconds * rate_hz)
    band = signal.butter(2, [150, 3000], "band", fs=rate_hz, output="sos")
    noise = signal.sosfilt(band, rng.standard_normal(length))
    steps = rng.uniform(0.02, 1, round(seconds * 8) + 2) ** 2
    loudness = np.repeat(steps, -(-rate_hz // 8))[:length]
    return (gain * noise * loudness).astype(np.float32)


def tone(seconds: float, hz: float, rate_hz: int = 24_000, amplitude: float = 0.3) -> Array:
    """(n,) float32 of a sine."""
    return (
        amplitude * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate_hz)) / rate_hz)
    ).astype(np.float32)
