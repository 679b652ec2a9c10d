"""What is taken out of a row's sound: rumble and DC below its speech."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tts_cli import extras

Array = np.ndarray[Any, Any]

ORDER = 2  # of the Butterworth filter, which runs forwards and backwards: 24 dB an octave in all


def require_levels(flag: str) -> None:
    """Raise SetupError if the package of the extra `levels` is missing. Imports nothing."""
    extras.require("levels", "pyloudnorm", flag)


def highpass(samples: Array, rate_hz: int, cutoff_hz: float) -> Array:
    """Take out what lies below a frequency, where 6 dB are lost.

    Forwards and backwards, so that nothing is shifted in time, and DC at the first sample makes no
    thump.

    Args:
        samples: (n,) float32.
    Returns:
        (n,) float32; it may lie outside of [-1, 1].
    """
    from scipy.signal import sosfiltfilt

    # Long enough for what the filter's own start leaves to have died away.
    pad = min(len(samples) - 1, round(3 * rate_hz / cutoff_hz))
    filtered = sosfiltfilt(_sections(rate_hz, cutoff_hz), samples, padlen=pad)
    return np.asarray(filtered, dtype=np.float32)


@lru_cache(maxsize=8)
def _sections(rate_hz: int, cutoff_hz: float) -> Array:
    from scipy.signal import butter

    found: Array = butter(ORDER, cutoff_hz, "highpass", fs=rate_hz, output="sos")
    return found
