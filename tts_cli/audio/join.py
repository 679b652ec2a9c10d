"""Join the spoken parts of a text: cut the silence at their ends, and put pauses between them.

What a part begins and ends with differs from part to part and says nothing of the text, so it is
cut to a short margin, and the pause is what the boundary asks for, margins counted. Silence is told
in short windows from their RMS without their mean, because a voice may carry DC: 50 dB below the
loudest window or -60 dB of full scale. The
beginning of the first part and the end of the last one stay as they were spoken. Cut edges fade to
zero, so that nothing clicks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from tts_cli.audio.levels import SILENT_RMS, SILENT_SHARE
from tts_cli.text.boundaries import Boundary

Array = np.ndarray[Any, Any]

WINDOW_S = 0.01
MARGIN_S = 0.02  # kept of the silence at an end
FADE_S = 0.005


@dataclass(frozen=True)
class Pauses:
    """Seconds of silence behind a part, by what ends there."""

    paragraph: float = 0.0
    sentence: float = 0.0
    clause: float = 0.0
    word: float = 0.0

    def seconds(self, boundary: Boundary) -> float:
        """The pause of a boundary."""
        found: float = getattr(self, boundary.label)
        return found


@dataclass(frozen=True)
class JoinedPart:
    """Where a part lies in the joined samples."""

    start: int  # index of its first sample
    end: int  # behind its last one


def join(
    parts: list[Array],
    pauses_s: Sequence[float],
    rate_hz: int,
    lead_s: float | None = None,
    tail_s: float | None = None,
) -> tuple[Array, list[JoinedPart]]:
    """Join the samples of parts.

    Args:
        parts: each (n,) float32 in [-1, 1] or int16, all alike.
        pauses_s: silence behind each part but the last.
        lead_s, tail_s: seconds of silence at both ends; None: as they were spoken.
    Returns:
        (n,) samples of the same kind, and the place of every part.
    """
    if len(pauses_s) != len(parts) - 1:
        raise ValueError(f"{len(parts)} parts have {len(pauses_s)} pauses between them")
    if len(parts) == 1 and lead_s is None and tail_s is None:
        return parts[0], [JoinedPart(0, len(parts[0]))]
    last = len(parts) - 1
    fade = round(FADE_S * rate_hz)
    cuts = [cut_ends(part, rate_hz) for part in parts]
    if lead_s is None:
        cuts[0] = replace(cuts[0], start=0)
    if tail_s is None:
        cuts[last] = replace(cuts[last], end=len(parts[last]))
    places: list[JoinedPart] = []
    place = _silence(lead_s, rate_hz, cuts[0].silence_before)
    for index, cut in enumerate(cuts):
        places.append(JoinedPart(place, place + cut.end - cut.start))
        place = places[-1].end
        if index < last:
            kept = cut.silence_behind + cuts[index + 1].silence_before
            place += _silence(pauses_s[index], rate_hz, kept)
    place += _silence(tail_s, rate_hz, cuts[last].silence_behind)
    joined = np.zeros(place, dtype=parts[0].dtype)
    for index, (part, cut, to) in enumerate(zip(parts, cuts, places, strict=True)):
        piece = joined[to.start : to.end]
        piece[:] = part[cut.start : cut.end]
        if index or lead_s is not None:
            fade_in_(piece[:fade])
        if index < last or tail_s is not None:
            fade_in_(piece[::-1][:fade])
    return joined, places


def join_again(parts: list[Array], gaps: list[int], rate_hz: int) -> Array:
    """Join parts as they were joined before.

    Args:
        gaps: samples of silence put behind each part but the last.
    """
    cuts = [cut_ends(part, rate_hz) for part in parts]
    kept = [a.silence_behind + b.silence_before for a, b in pairwise(cuts)]
    pauses_s = [(gap + own) / rate_hz for gap, own in zip(gaps, kept, strict=True)]
    return join(parts, pauses_s, rate_hz)[0]


def _silence(seconds: float | None, rate_hz: int, kept: int) -> int:
    """Samples to be added to so many that are kept of a part's own silence."""
    return 0 if seconds is None else max(0, round(seconds * rate_hz) - kept)


def speech(samples: Array, rate_hz: int) -> tuple[int, int]:
    """Where speech begins and ends in (n,) samples, to a window; all of it where there is none."""
    window = max(1, round(WINDOW_S * rate_hz))
    whole = len(samples) // window * window
    windows = samples[:whole].astype(np.float32).reshape(-1, window)
    if samples.dtype == np.int16:
        windows /= 32768
    rms = windows.std(axis=1)
    is_loud = np.flatnonzero(rms >= max(SILENT_RMS, SILENT_SHARE * float(rms.max(initial=0))))
    if not len(is_loud):
        return 0, len(samples)
    first, last = int(is_loud[0]), int(is_loud[-1])
    end = len(samples) if last == len(windows) - 1 else (last + 1) * window
    return first * window, end


@dataclass(frozen=True)
class KeptPart:
    """What is kept of a part, in samples."""

    start: int
    end: int
    silence_before: int  # of what is kept
    silence_behind: int


def cut_ends(samples: Array, rate_hz: int) -> KeptPart:
    """Cut (n,) samples to their speech and a margin."""
    margin, spoken = round(MARGIN_S * rate_hz), speech(samples, rate_hz)
    start, end = max(0, spoken[0] - margin), min(len(samples), spoken[1] + margin)
    return KeptPart(start, end, spoken[0] - start, end - spoken[1])


def fade_in_(samples: Array) -> None:
    """Let samples grow from zero, in place."""
    ramp = (np.arange(len(samples), dtype=np.float32) + 0.5) / max(1, len(samples))
    faded = samples * (0.5 - 0.5 * np.cos(np.pi * ramp))
    samples[:] = np.rint(faded) if samples.dtype == np.int16 else faded
