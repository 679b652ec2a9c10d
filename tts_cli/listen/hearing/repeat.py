"""A phrase that stands twice in a row, by its letters: what a voice that says words again leaves in
a transcript.

A recogniser seldom hears the same words the same way twice ("by mr peterman second in mr peterman
seconded by"), so the two need not be equal, only alike; and two equal words are nothing, because
short ones stand beside each other by chance ("of the day of the").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

ALIKE = 0.75  # share of both phrases' letters that are the same in the same order
PIECE = {"words": 3, "characters": 1}  # letters in a row that both must have
MOST_UNITS = {"words": 8, "characters": 24}  # of a phrase
MOST_OFF = {"words": 2, "characters": 1}  # units that one of the two has more


class Repeat(NamedTuple):
    """A phrase that stands twice."""

    phrase: str  # as it stands first
    num_letters: int  # that both have in the same order


def repeat_of(units: Sequence[str], unit: str) -> Repeat | None:
    """The clearest repeat: most letters that are the same, less those that are not. None: there is
    none.

    Args:
        units: words, or characters, in order.
        unit: which of the two.
    """
    best: Repeat | None = None
    most = 0
    pieces = _pieces(units, PIECE[unit])
    for start, middle, end in _neighbours(len(units), unit):
        if not _union(pieces[start:middle]) & _union(pieces[middle:end]):
            continue
        left, right = "".join(units[start:middle]), "".join(units[middle:end])
        total = len(left) + len(right)
        if 4 * min(len(left), len(right)) - total <= most:
            continue
        same = _num_same(left, right)
        if 2 * same >= ALIKE * total and 4 * same - total > most:
            most = 4 * same - total
            best = Repeat((" " if unit == "words" else "").join(units[start:middle]), same)
    return best


def _neighbours(num_units: int, unit: str) -> Iterator[tuple[int, int, int]]:
    """Start, middle and end of phrases that follow each other, the longest first."""
    for size in range(min(MOST_UNITS[unit], num_units // 2), 0, -1):
        for start in range(num_units - size):
            middle = start + size
            for other in range(max(1, size - MOST_OFF[unit]), size + MOST_OFF[unit] + 1):
                if middle + other <= num_units:
                    yield start, middle, middle + other


def _pieces(units: Sequence[str], size: int) -> list[int]:
    """The runs of so many letters that start in each unit, a bit each. Two phrases that are alike
    share some, most others do not: that takes a tenth of the time of comparing them all.
    """
    letters = "".join(units)
    numbers: dict[str, int] = {}
    found, place = [], 0
    for one in units:
        bits = 0
        for at in range(place, place + len(one)):
            bits |= 1 << numbers.setdefault(letters[at : at + size], len(numbers))
        found.append(bits)
        place += len(one)
    return found


def _union(pieces: Sequence[int]) -> int:
    found = 0
    for bits in pieces:
        found |= bits
    return found


def _num_same(left: str, right: str) -> int:
    """Letters that both have in the same order; 0: by far too few."""
    found = SequenceMatcher(None, left, right, autojunk=False)
    if found.quick_ratio() < ALIKE:
        return 0
    return sum(block.size for block in found.get_matching_blocks())
