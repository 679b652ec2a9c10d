"""Estimate when positions of a text are reached in its audio, without a recognizer.

Letters give a rough duration of a text; punctuation marks suggest where a voice may pause, and the
audio has its pauses. Both are aligned by dynamic programming, as in an edit distance: the letters
between two pauses have to fit the time between them, and every mark without a pause and every pause
without a mark has a cost. Positions between two aligned points are interpolated by letters.

The costs were tuned on nine minutes of one story. `tests/tools/chapter.py` measures the error: in
22 minutes of another text half of the positions were within 0.02 s of the word, 95 % within 0.26 s.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from tts_cli.audio.join import WINDOW_S, Array
from tts_cli.text.split import sentences

QUIET_SHARE = 10 ** (-40 / 20)  # of the loudest window, because pauses in speech have some noise
MIN_PAUSE_S = 0.06  # shorter silence is the closed lips of a p
DIGIT_LETTERS = 4  # 1987 is nineteen eighty seven
SIGN_LETTERS = 6  # dollars, percent
# Cost of a mark without a pause, in seconds of misfit.
SENTENCE_COST, CLAUSE_COST, COMMA_COST = 0.8, 0.7, 0.5
PAUSE_COST = 4.0  # per second of a pause without a mark
_SIGNS_BACK, _PAUSES_BACK = 8, 12  # most marks and pauses between two matches

_SIGN = re.compile(
    r"(?:([;:\u2013\u2014\uff1b\uff1a])|[,\uff0c\u3001])[\"'\u2019\u201d)\]]*(\s+|$)?"
)
_WIDE_SIGNS = "\uff1b\uff1a\uff0c\u3001"


class Pause(NamedTuple):
    """Near-silence inside of speech, in seconds."""

    start_s: float
    end_s: float


class _Point(NamedTuple):
    """A position of the text and its time in the speech, pauses left out."""

    letters: float
    voiced_s: float
    pause: int  # index of the pause; -1: none


def pauses_in(samples: Array, rate_hz: int, start_s: float = 0.0) -> list[Pause]:
    """Return the pauses inside of (n,) samples of speech that starts at `start_s`."""
    window = max(1, round(WINDOW_S * rate_hz))
    windows = samples[: len(samples) // window * window].astype(np.float32).reshape(-1, window)
    rms = windows.std(axis=1)
    is_quiet = rms < QUIET_SHARE * float(rms.max(initial=0))
    changes = np.flatnonzero(np.diff(is_quiet, prepend=False, append=False))
    window_s = window / rate_hz
    return [
        Pause(start_s + first * window_s, start_s + last * window_s)
        for first, last in zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True)
        if (last - first) * window_s >= MIN_PAUSE_S and first and last < len(rms)
    ]


def letters_of(text: str) -> list[float]:
    """Return the duration of each character, in English letters."""
    return [
        DIGIT_LETTERS
        if char.isdecimal()
        else len(char.encode("utf-8", "replace"))
        if char.isalpha()
        else SIGN_LETTERS * (char in "$\u20ac\u00a3\u00a5%&+=@")
        for char in text
    ]


def times_of(
    text: str, cuts: Sequence[int], start_s: float, end_s: float, pauses: Sequence[Pause]
) -> list[tuple[float, float]]:
    """Return for each cut of a text the end of the text before it and the start of the text after
    it.

    Args:
        cuts: indices of first characters, in order.
        start_s, end_s: start and end of the text's speech.
        pauses: pauses in the audio, in order.
    """
    pauses = [pause for pause in pauses if start_s < pause.start_s and pause.end_s < end_s]
    letters = [0.0, *accumulate(letters_of(text))]
    silent = [0.0, *accumulate(pause.end_s - pause.start_s for pause in pauses)]
    voiced = [
        pause.start_s - start_s - before for pause, before in zip(pauses, silent, strict=False)
    ]
    total_s = end_s - start_s - silent[-1]
    points = _fit(_signs(text), letters, voiced, pauses, total_s)
    return [_time(letters[cut], points, pauses, voiced, silent, start_s) for cut in cuts]


def _time(
    letters: float,
    points: Sequence[_Point],
    pauses: Sequence[Pause],
    voiced: Sequence[float],
    silent: Sequence[float],
    start_s: float,
) -> tuple[float, float]:
    """Return when a position is reached, and when it is left."""
    index = max(1, min(bisect_right(points, (letters,)), len(points) - 1))
    before, after = points[index - 1], points[index]
    for point in (before, after):
        if point.letters == letters and point.pause >= 0:
            return pauses[point.pause]
    width = after.letters - before.letters
    share = (letters - before.letters) / width if width else 0.0
    at_s = before.voiced_s + share * (after.voiced_s - before.voiced_s)
    time_s = start_s + at_s + silent[bisect_right(voiced, at_s)]
    return time_s, time_s


def _signs(text: str) -> list[tuple[int, float]]:
    """Return where a voice may pause: the index of the next character, and the cost of no pause."""
    found = {part.start: SENTENCE_COST for part in sentences(text) if part.start}
    for sign in _SIGN.finditer(text):
        is_clause = sign[1] is not None
        if (sign[2] or sign.group()[0] in _WIDE_SIGNS) and sign.end() < len(text):
            found.setdefault(sign.end(), CLAUSE_COST if is_clause else COMMA_COST)
    return sorted(found.items())


def _fit(
    signs: Sequence[tuple[int, float]],
    letters: Sequence[float],
    voiced: Sequence[float],
    pauses: Sequence[Pause],
    total_s: float,
) -> list[_Point]:
    """Return the points where marks and pauses match, with the ends of text and audio."""
    rate = total_s / max(1.0, letters[-1])
    skipped_signs = [0.0, *accumulate(cost for _, cost in signs)]
    skipped_pauses = [
        0.0, *accumulate(PAUSE_COST * (pause.end_s - pause.start_s) for pause in pauses)
    ]  # fmt: skip
    ends = (len(signs), len(pauses))
    best: dict[tuple[int, int], tuple[float, tuple[int, int] | None]] = {}

    def point(node: tuple[int, int]) -> _Point:
        if node == (-1, -1):
            return _Point(0.0, 0.0, -1)
        if node == ends:
            return _Point(letters[-1], total_s, -1)
        return _Point(letters[signs[node[0]][0]], voiced[node[1]], node[1])

    def reach(node: tuple[int, int]) -> None:
        here = point(node)
        found: tuple[float, tuple[int, int] | None] = (float("inf"), None)
        for i in range(max(-1, node[0] - _SIGNS_BACK), node[0]):
            for j in range(max(-1, node[1] - _PAUSES_BACK), node[1]):
                if (i, j) not in best:
                    continue
                there = point((i, j))
                off_s = here.voiced_s - there.voiced_s - rate * (here.letters - there.letters)
                cost = best[i, j][0] + abs(off_s)
                cost += skipped_signs[node[0]] - skipped_signs[i + 1]
                cost += skipped_pauses[node[1]] - skipped_pauses[j + 1]
                if cost < found[0]:
                    found = (cost, (i, j))
        if found[1] is not None:
            best[node] = found

    best[-1, -1] = (0.0, None)
    for i in range(len(signs)):
        for j in range(len(pauses)):
            reach((i, j))
    reach(ends)
    if ends not in best:
        return [point((-1, -1)), point(ends)]
    path = [ends]
    while (before := best[path[-1]][1]) is not None:
        path.append(before)
    return [point(node) for node in reversed(path)]
