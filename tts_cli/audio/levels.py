"""Measure a row's audio: level, clipping and silence.

The samples are measured as the model made them, before resampling and encoding. One pass in blocks
that fit into the processor's cache; silence is detected per window.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tts_cli.core import Levels

Array = np.ndarray[Any, Any]

WINDOW_S = 0.02
# A window is near-silent 50 dB below the row's loudest one, or below -60 dB of full scale.
SILENT_SHARE = 10 ** (-50 / 20)
SILENT_RMS = 10 ** (-60 / 20)
INT16_UNIT = 1 / 32767  # of full scale, as `to_int16` makes them
FULL_SCALE = 1 - INT16_UNIT / 2  # rounds to the highest 16-bit value; from here on it is clipped
BLOCK_WINDOWS = 64


def silence_limit(rms: Array) -> float:
    """Return the RMS below which windows are silent, from the (n,) RMS of all windows."""
    return max(SILENT_RMS, SILENT_SHARE * float(rms.max(initial=0)))


def measure(samples: Array, audio_s: float) -> Levels:
    """Measure a row's audio.

    Args:
        samples: (n,) float32 in [-1, 1] or int16, n >= 1.
    """
    unit = INT16_UNIT if samples.dtype == np.int16 else 1.0
    window = max(1, round(WINDOW_S * len(samples) / audio_s))
    energies, rest = _energies(samples, window)
    low, high = float(samples.min()) * unit, float(samples.max()) * unit
    peak = max(-low, high)
    clipped = 0
    if peak >= FULL_SCALE:
        limit = FULL_SCALE / unit
        clipped = np.count_nonzero(samples >= limit) + np.count_nonzero(samples <= -limit)
    rms = np.sqrt(energies / window) * unit
    is_silent = rms < silence_limit(rms)
    start, inside, end = _silences(is_silent)
    window_s = window * audio_s / len(samples)
    return Levels(
        level_dbfs=decibels(math.sqrt((float(energies.sum()) + rest) / len(samples)) * unit),
        peak_dbfs=decibels(peak),
        clipped_share=clipped / len(samples),
        silence_start_s=start * window_s,
        silence_end_s=end * window_s,
        silence_inside_s=inside * window_s,
    )


def _energies(samples: Array, window: int) -> tuple[Array, float]:
    """Return (n // window,) float64 sums of squares, and the sum for the remaining samples."""
    whole = len(samples) // window * window
    energies = np.empty(whole // window)
    block = BLOCK_WINDOWS * window
    for start in range(0, whole, block):
        part = samples[start : min(start + block, whole)].astype(np.float32, copy=False)
        windows = part.reshape(-1, window)
        first = start // window
        energies[first : first + len(windows)] = np.einsum("ij,ij->i", windows, windows)
    tail = samples[whole:].astype(np.float64)
    return energies, float(tail @ tail)


def _silences(is_silent: Array) -> tuple[int, int, int]:
    """Return the lengths of runs of True in (n,) bool: at the start, longest inside, at the end."""
    starts, ends = runs(is_silent)
    lengths = ends - starts
    first = last = 0
    if len(starts) and starts[0] == 0:
        first, lengths, ends = int(lengths[0]), lengths[1:], ends[1:]
    if len(ends) and ends[-1] == len(is_silent):
        last, lengths = int(lengths[-1]), lengths[:-1]
    return first, int(lengths.max(initial=0)), last


def runs(is_true: Array) -> tuple[Array, Array]:
    """Return the start and end indices of the runs of True in (n,) bool."""
    edges = np.zeros(len(is_true) + 2, bool)
    edges[1:-1] = is_true
    changes = np.flatnonzero(edges[1:] != edges[:-1])
    return changes[::2], changes[1::2]


def decibels(amplitude: float) -> float | None:
    return 20 * math.log10(amplitude) if amplitude > 0 else None
