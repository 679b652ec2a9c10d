"""What the audio of a row says about it: whether it stands still, repeats itself or goes on too
long. Measured once, on the host, from samples and codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

WINDOW_S = 0.02
# A window is near-silent 50 dB below the row's loudest one, or below -60 dB of full scale.
SILENT_SHARE = 10 ** (-50 / 20)
SILENT_RMS = 10 ** (-60 / 20)
SUSPECT_SILENCE_S = 2.0
SUSPECT_REPEAT_S = 1.0
STUCK_S = 4.0  # of either; pauses of released models are shorter
# Longer than this is too long for its text; where neither row nor flag gives a cap, the cap has
# three times the usual rate and 5 s.
LONG_SHARE = 2.0
LONG_S = 2.5


@dataclass(frozen=True)
class Verdict:
    """What was found in one row's audio."""

    audio_s: float
    expected_s: float  # what the text usually takes; 0: not known
    silence_s: float  # longest near-silence
    repeat_s: float  # longest run of one first code

    @property
    def is_stuck(self) -> bool:
        """Whether the speech stood still for too long to be a pause."""
        return max(self.silence_s, self.repeat_s) >= STUCK_S

    @property
    def suspect(self) -> list[str]:
        """What somebody should listen for; empty where nothing was found."""
        found = []
        if self.expected_s and self.audio_s > LONG_SHARE * self.expected_s + LONG_S:
            found.append(f"{self.audio_s:.1f} s where about {self.expected_s:.1f} s were expected")
        if self.silence_s >= SUSPECT_SILENCE_S:
            found.append(f"near-silence for {self.silence_s:.1f} s")
        if self.repeat_s >= SUSPECT_REPEAT_S:
            found.append(f"one first code for {self.repeat_s:.1f} s")
        return found


def judge(samples: Array, codes: Array, frame_s: float, expected_s: float) -> Verdict:
    """Measure a row.

    Args:
        samples: (n,) float32 in [-1, 1] or int16, n >= 1. codes: (F, K) integers, F >= 1.
        expected_s: what the row's text usually takes; 0: not known.
    """
    audio_s = len(codes) * frame_s
    window = max(1, round(WINDOW_S * len(samples) / audio_s))
    silent = longest_run(_near_silent(samples, window)) * window / len(samples)
    same = longest_run(codes[1:, 0] == codes[:-1, 0])
    return Verdict(
        audio_s=audio_s,
        expected_s=expected_s,
        silence_s=silent * audio_s,
        repeat_s=(same + 1) * frame_s,
    )


def _near_silent(samples: Array, window: int) -> Array:
    """(n // window,) bool: which windows have hardly any sound."""
    scale = np.float32(1 / 32768 if samples.dtype == np.int16 else 1)
    whole = len(samples) // window * window
    windows = samples[:whole].astype(np.float32).reshape(-1, window) * scale
    rms: Array = np.sqrt(np.einsum("ij,ij->i", windows, windows) / window)
    is_silent: Array = rms < max(SILENT_RMS, SILENT_SHARE * float(rms.max(initial=0)))
    return is_silent


def longest_run(is_true: Array) -> int:
    """Length of the longest run of true values in (n,) bool."""
    ends = np.flatnonzero(np.diff(is_true, prepend=False, append=False))
    return int((ends[1::2] - ends[::2]).max(initial=0))
