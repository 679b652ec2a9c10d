"""Join the pieces of a text: cut the silence at their ends, and put pauses between them.

The silence at a piece's ends is random, so it is cut to a short margin. The pause depends on the
boundary alone and includes these margins. A window is silent 50 dB below the loudest window or
below -60 dBFS, by its RMS without its mean, because a voice may have a DC offset. The start of the
first piece and the end of the last one do not change. Cut edges fade to zero, which avoids clicks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tts_cli.audio.levels import silence_limit
from tts_cli.text.boundaries import Boundary

Array = np.ndarray[Any, Any]

WINDOW_S = 0.01
MARGIN_S = 0.02  # silence left at an end
FADE_S = 0.005


@dataclass(frozen=True)
class Pauses:
    """Seconds of silence after a piece, by the boundary at its end."""

    paragraph: float = 0.0
    sentence: float = 0.0
    clause: float = 0.0
    word: float = 0.0

    def seconds(self, boundary: Boundary) -> float:
        found: float = getattr(self, boundary.label)
        return found


@dataclass(frozen=True)
class JoinedPart:
    """The position of a piece in the joined samples."""

    start: int  # index of its first sample
    end: int  # index after its last sample


def join(
    parts: list[Array],
    pauses_s: Sequence[float],
    rate_hz: int,
    lead_s: float | None = None,
    tail_s: float | None = None,
) -> tuple[Array, list[JoinedPart]]:
    """Join the samples of pieces. Return (n,) samples of the same dtype, and the position of every
    piece.

    Args:
        parts: each (n,), all float32 in [-1, 1] or all int16.
        pauses_s: silence after each piece but the last.
        lead_s, tail_s: seconds of silence at both ends; None: as in the first and last piece.
    """
    if len(pauses_s) != len(parts) - 1:
        raise ValueError(f"{len(parts)} parts have {len(pauses_s)} pauses between them")
    if len(parts) == 1 and lead_s is None and tail_s is None:
        return parts[0], [JoinedPart(0, len(parts[0]))]
    pauses = [round(seconds * rate_hz) for seconds in pauses_s]
    outer = None if lead_s is None else 0, None if tail_s is None else 0
    pieces = list(joined_pieces(parts, pauses, rate_hz, outer))
    ends = (pieces[0].first, lead_s), (len(pieces[-1].samples) - pieces[-1].last, tail_s)
    before, after = (0 if s is None else max(0, round(s * rate_hz) - own) for own, s in ends)
    places: list[JoinedPart] = []
    place = before
    for piece in pieces:
        start = place + piece.silence
        place = start + len(piece.samples)
        places.append(JoinedPart(start, place))
    joined = np.zeros(place + after, dtype=parts[0].dtype)
    for piece, to in zip(pieces, places, strict=True):
        joined[to.start : to.end] = piece.samples
    return joined, places


class JoinedPiece(NamedTuple):
    """A piece as it is joined, in samples."""

    silence: int  # to add before it
    samples: Array  # (n,) cut and faded
    first: int  # start of its speech
    last: int  # end of its speech
    num_cut: int  # at its start


def joined_pieces(
    parts: Iterable[Array],
    pauses: Sequence[int],
    rate_hz: int,
    outer: tuple[int | None, int | None] = (None, None),
) -> Iterator[JoinedPiece]:
    """Yield the pieces of a text one by one.

    Args:
        parts: each (n,).
        pauses: samples of silence after each piece but the last.
        outer: samples outside of the margin that stay at the start of the first piece and at the
            end of the last one; None: all.
    """
    fade, existing = round(FADE_S * rate_hz), 0
    for index, samples in enumerate(parts):
        is_first, is_last = index == 0, index == len(pauses)
        cut = trim_to_speech(samples, rate_hz)
        silence = 0 if is_first else max(0, pauses[index - 1] - existing - cut.silence_before)
        start, end = cut.start, cut.end
        if is_first:
            start = 0 if outer[0] is None else max(0, start - outer[0])
        if is_last:
            end = len(samples) if outer[1] is None else min(len(samples), end + outer[1])
        piece = samples[start:end].copy()
        if start > 0 or not is_first or outer[0] == 0:
            fade_in_(piece[:fade])
        if end < len(samples) or not is_last or outer[1] == 0:
            fade_in_(piece[::-1][:fade])
        first, last = cut.start + cut.silence_before, cut.end - cut.silence_after
        yield JoinedPiece(silence, piece, first - start, last - start, start)
        existing = cut.silence_after


def rejoin(parts: list[Array], gaps: list[int], rate_hz: int) -> Array:
    """Join pieces again with the silence that was added before.

    Args:
        gaps: samples of silence added after each piece but the last.
    """
    cuts = [trim_to_speech(part, rate_hz) for part in parts]
    existing = [a.silence_after + b.silence_before for a, b in pairwise(cuts)]
    pauses_s = [(gap + own) / rate_hz for gap, own in zip(gaps, existing, strict=True)]
    return join(parts, pauses_s, rate_hz)[0]


def loud_span(spreads: Array) -> tuple[int, int] | None:
    """Return the first and the last window with sound, by (n,) deviations; None: all are silent."""
    is_loud = np.flatnonzero(spreads >= silence_limit(spreads))
    return (int(is_loud[0]), int(is_loud[-1])) if len(is_loud) else None


def speech_span(samples: Array, rate_hz: int) -> tuple[int, int]:
    """Return the start and end of speech in (n,) samples, in whole windows; (0, n) for silence."""
    window = max(1, round(WINDOW_S * rate_hz))
    whole = len(samples) // window * window
    windows = samples[:whole].astype(np.float32).reshape(-1, window)
    if samples.dtype == np.int16:
        windows /= 32768
    rms = windows.std(axis=1)
    if (span := loud_span(rms)) is None:
        return 0, len(samples)
    first, last = span
    end = len(samples) if last == len(windows) - 1 else (last + 1) * window
    return first * window, end


@dataclass(frozen=True)
class TrimmedPart:
    start: int
    end: int
    silence_before: int  # inside of the part
    silence_after: int


def trim_to_speech(samples: Array, rate_hz: int) -> TrimmedPart:
    """Cut (n,) samples to their speech and a margin."""
    margin, (first, last) = round(MARGIN_S * rate_hz), speech_span(samples, rate_hz)
    start, end = max(0, first - margin), min(len(samples), last + margin)
    return TrimmedPart(start, end, first - start, end - last)


def fade_in_(samples: Array) -> None:
    ramp = (np.arange(len(samples), dtype=np.float32) + 0.5) / max(1, len(samples))
    faded = samples * (0.5 - 0.5 * np.cos(np.pi * ramp))
    samples[:] = np.rint(faded) if samples.dtype == np.int16 else faded
