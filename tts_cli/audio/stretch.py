"""Change the pace of speech without its pitch: waveform similarity overlap-add (WSOLA).

Windows of 30 ms are taken from the input at the new pace and added with half a window of overlap.
Each one is moved by up to 10 ms, to where it best continues the one before it, so that the periods
of a voice stay whole.
Source: W. Verhelst and M. Roelands, ICASSP 1993.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

WINDOW_S = 0.03
REACH_S = 0.01
MIN_SAMPLES = 16  # of a window


def stretch(samples: Array, rate_hz: int, speed: float) -> Array:
    """Return (n,) float32 samples at another speed; (round(n / speed),)."""
    half = round(WINDOW_S * rate_hz / 2)
    num_out = round(len(samples) / speed)
    if speed == 1 or half < MIN_SAMPLES or not num_out:
        return samples[:num_out]
    reach, size = round(REACH_S * rate_hz), 2 * half
    window = 0.5 - 0.5 * np.cos(np.pi * np.arange(size, dtype=np.float32) / half)
    num_windows = -(-num_out // half) + 1
    padded = np.pad(samples.astype(np.float32), (half + reach, 2 * size + 2 * reach))
    energies = np.concatenate([[0.0], np.cumsum(padded.astype(np.float64) ** 2)])
    found = np.zeros((num_windows + 1) * half, np.float32)
    place = 0
    for number in range(num_windows):
        first = min(round(number * half * speed), len(padded) - size - 2 * reach)
        if number:
            around = padded[first : first + size + 2 * reach]
            wanted = padded[place + half : place + half + size]
            similar = np.correlate(around, wanted[: len(around) - 2 * reach], "valid")
            ends = energies[first + size : first + size + 2 * reach + 1]
            similar = similar / np.sqrt(ends - energies[first : first + 2 * reach + 1] + 1e-9)
            place = first + int(similar.argmax())
        else:
            place = reach
        found[number * half : number * half + size] += window * padded[place : place + size]
    return found[half : half + num_out]
