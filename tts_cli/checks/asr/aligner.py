"""The interface of aligners: takes and their words go in and times come out, in any order.

An aligner gets the words and finds the path through the audio on which they fit best. It may also
find one for a wrong text; the score tells the two apart.
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
    """How the pronunciation of a word is known."""

    DICTIONARY = "dictionary"
    LETTERS = "letters"  # guessed from its letters
    MODEL = "model"  # the model reads any word
    NEIGHBOURS = "neighbours"  # they are not: the word has the time between its neighbours


class Passage(NamedTuple):
    start_s: float
    end_s: float | None  # None: the end of the file
    words: tuple[tuple[str, ...], ...]  # for each, the words that are pronounced


class AlignRequest(NamedTuple):
    place: int  # in the list of the caller
    path: Path
    language: str | None  # code, such as `en`; None: unknown
    passages: tuple[Passage, ...]


class WordPart(NamedTuple):
    """A word inside of another one, in a script without spaces between words."""

    start: int  # index of its first character in the pronounced text of the other one
    end: int  # position after its last character
    start_s: float
    end_s: float
    score: float


class AlignedWord(NamedTuple):
    """Times of a word, in seconds of the file."""

    start_s: float
    end_s: float
    score: float | None  # [0 to 1]; None: it was not searched for
    known: Known
    inside: tuple[WordPart, ...] = ()  # empty: it is a single word


class AlignResult(NamedTuple):
    place: int
    words: tuple[AlignedWord, ...] = ()
    score: float = 0.0  # of all words together
    sha256: str = ""  # of the file
    audio_s: float = 0.0
    problem: str | None = None


class Aligner(Protocol):
    """An aligner with its weights in memory; the caller closes it."""

    identity: Identity

    def run(self, requests: Iterable[AlignRequest | None]) -> Iterator[AlignResult]:
        """Yield the result of every request, as they finish. A file that cannot be read gives a
        problem. None among the requests: do not wait for a full batch. Raises StoppedEarly.
        """
        ...

    def close(self) -> None: ...


def samples_of(passage: Passage, samples: Array) -> Array:
    """Return the samples of a passage, of (n,) at 16 kHz; may be empty."""
    end = len(samples) if passage.end_s is None else round(passage.end_s * RATE_HZ)
    return samples[round(passage.start_s * RATE_HZ) : end]


def all_words(
    count: int, found: Mapping[int, AlignedWord], start_s: float, end_s: float
) -> Iterator[AlignedWord]:
    """Yield every word of a passage. Words that were not found share the time between their
    neighbours.

    Args:
        count: number of words.
        found: by number, at least one.
    """
    numbers = sorted(found)
    for number in range(count):
        if number in found:
            yield found[number]
            continue
        before = max((one for one in numbers if one < number), default=None)
        after = min((one for one in numbers if one > number), default=None)
        left_s = start_s if before is None else found[before].end_s
        right_s = end_s if after is None else found[after].start_s
        first = 0 if before is None else before + 1
        share_s = (right_s - left_s) / ((count if after is None else after) - first)
        place_s = left_s + (number - first) * share_s
        yield AlignedWord(place_s, place_s + share_s, None, Known.NEIGHBOURS)


def mean_score(words: Iterable[AlignedWord]) -> float:
    found = [
        (max(one.end_s - one.start_s, FRAME_S), one.score) for one in words if one.score is not None
    ]
    sums = sum(length_s * math.log(max(score, 1e-12)) for length_s, score in found)
    return math.exp(sums / sum(length_s for length_s, _ in found)) if found else 0.0
