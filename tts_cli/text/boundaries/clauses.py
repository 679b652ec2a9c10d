"""Where clauses end: behind `;`, `:`, dashes and commas, and at the marks of a quotation.

A mark needs a space behind it, which keeps 12:30 and 1,299.50 whole, unless it is a Chinese or
Japanese one. A comma, an enumerating one and a bracket's or quotation's edge are weak.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tts_cli.text.boundaries.boundary import Boundary, Cut
from tts_cli.text.boundaries.characters import CLOSERS, is_cjk, is_space

WIDE = "；：，、﹔﹕﹐︰"
WEAK = ",，、،﹐"
_MARKS = re.compile(rf"[;:,،؛{WIDE}][{re.escape(CLOSERS)}]*")
_DASHES = re.compile(r"-{2,}|[—―]+|(?<=\s)[-–](?=\s)")


def clause_cuts(text: str) -> Iterator[Cut]:
    """Ends of clauses, in no order."""
    for found in _MARKS.finditer(text):
        mark, start, place = found.group()[0], found.start(), found.end()
        if place >= len(text):
            continue
        is_wide = mark in WIDE or (start and is_cjk(text[start - 1]) and is_cjk(text[place]))
        if not is_wide and not is_space(text[place]):
            continue
        if not _is_in_number(text, start, place):
            yield Cut(place, Boundary.CLAUSE, is_weak=mark in WEAK)
    for found in _DASHES.finditer(text):
        start, place = found.start(), found.end()
        if start and place < len(text) and not _is_in_number(text, start, place):
            yield Cut(place, Boundary.CLAUSE)


def edge_cuts(text: str, quotations: list[tuple[int, int]]) -> Iterator[Cut]:
    """The edges of quotations that have a space outside, as weak ends of clauses."""
    for start, end in quotations:
        if start and text[start - 1].isspace():
            yield Cut(_behind_word(text, start), Boundary.CLAUSE, is_weak=True)
        if end < len(text) and is_space(text[end]):
            yield Cut(end, Boundary.CLAUSE, is_weak=True)


def _behind_word(text: str, place: int) -> int:
    """The end of what stands before the spaces before `place`."""
    return len(text[max(0, place - 8) : place].rstrip()) + max(0, place - 8)


def _is_in_number(text: str, start: int, place: int) -> bool:
    """Whether digits stand on both sides of a mark, as in "Jan. 3, 2020" or 1990—1995."""
    after = place
    while after < len(text) and after < place + 2 and text[after].isspace():
        after += 1
    return text[start - 1 : start].isdigit() and text[after : after + 1].isdigit()
