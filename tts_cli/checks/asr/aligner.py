"""What `align` asks of an aligner: takes and their words go in, times come out, in any order.

An aligner is told the words and finds the way through the sound on which they fit best. It finds
one for a wrong text too, or none at all; the score tells the two apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Protocol

from tts_cli.checks.asr.recognizer import RATE_HZ, Array, Identity

FRAME_S = 0.01  # no word is shorter
NOT_FOUND = "its words were not found in its audio"


class Known(str, Enum):
    """How it is known what a word sounds like."""

    DICTIONARY = "dictionary"
    LETTERS = "letters"  # sounded out
    MODEL = "model"  # it reads any word
    NEIGHBOURS = "neighbours"  # it is not: what its neighbours leave


class Passage(NamedTuple):
    """A passage of a take, and the words that are said in it."""

    start_s: float
    end_s: float | None  # None: the end of the file
    words: tuple[tuple[str, ...], ...]  # what is spoken for each


class ToAlign(NamedTuple):
    """A take and its words."""

    place: int  # in the list of what is to be aligned
    path: Path
    language: str | None  # code, such as `en`; None: not known
    passages: tuple[Passage, ...]


class WithinWord(NamedTuple):
    """A word inside of what is written as one, in a script that puts no spaces between words."""

    start: int  # its first character in what is spoken for the one, from 0
    end: int  # behind its last
    start_s: float
    end_s: float
    score: float


class SaidWord(NamedTuple):
    """When a word is said, in seconds of the file."""

    start_s: float
    end_s: float
    score: float | None  # [0 to 1]; None: it was not looked for
    known: Known
    inside: tuple[WithinWord, ...] = ()  # none: it is one


class Aligned(NamedTuple):
    """The words of a take, all of them, or why there are none."""

    place: int
    words: tuple[SaidWord, ...] = ()
    score: float = 0.0  # of all words together
    sha256: str = ""  # of the file
    audio_s: float = 0.0
    problem: str | None = None


class Aligner(Protocol):
    """An aligner with its weights in memory, to be closed: a recognizer that knows the words."""

    identity: Identity

    def run(self, asked: Iterable[ToAlign | None]) -> Iterator[Aligned]:
        """Every take, as it is done, and those before a None at once; a file that cannot be read
        answers with its problem. Raises StoppedEarly.
        """
        ...

    def close(self) -> None:
        """Give back processes and memory."""
        ...


def samples_of(passage: Passage, samples: Array) -> Array:
    """Those of (n,) samples at 16 kHz that are of a passage; there may be none."""
    end = len(samples) if passage.end_s is None else round(passage.end_s * RATE_HZ)
    return samples[round(passage.start_s * RATE_HZ) : end]


def all_words(
    count: int, found: Mapping[int, SaidWord], start_s: float, end_s: float
) -> Iterator[SaidWord]:
    """Every word of a passage: those that were not found share what their neighbours leave.

    Args:
        count: of the words.
        found: by their numbers, at least one.
    """
    numbers = sorted(found)
    for number in range(count):
        if number in found:
            yield found[number]
            continue
        before = max((one for one in numbers if one < number), default=None)
        behind = min((one for one in numbers if one > number), default=None)
        left_s = start_s if before is None else found[before].end_s
        right_s = end_s if behind is None else found[behind].start_s
        first = 0 if before is None else before + 1
        share_s = (right_s - left_s) / ((count if behind is None else behind) - first)
        place_s = left_s + (number - first) * share_s
        yield SaidWord(place_s, place_s + share_s, None, Known.NEIGHBOURS)


def mean_score(words: Iterable[SaidWord]) -> float:
    """The score of all words together, the longer of more weight."""
    found = [
        (max(one.end_s - one.start_s, FRAME_S), one.score) for one in words if one.score is not None
    ]
    sums = sum(length_s * math.log(max(score, 1e-12)) for length_s, score in found)
    return math.exp(sums / sum(length_s for length_s, _ in found)) if found else 0.0
