"""Split a long text into parts of a length that a checkpoint synthesizes well.

All cuts are chosen together by dynamic programming. The sum of (1 - size / limit)^2 over the parts
favours few parts of equal length; each cut adds a price: none between paragraphs, low between
sentences, higher between clauses, highest between words. A part contains the end of a paragraph
only if one side would be very short, because the sample voice loses words after an empty line. Cuts
inside a sentence are considered if the sentence is too long, or at a high price next to a part of
one word. The time is linear in the length of the text.

Spans that `boundaries` never cuts stay whole. Tags in force at the end of a part are repeated at
the start of the next.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tts_cli.text.boundaries import (
    BAD,
    NEVER,
    Boundary,
    Cut,
    addresses,
    clause_cuts,
    edge_cuts,
    inside,
    quality,
    quotations,
    sentence_cuts,
    spans_of,
)

Array = np.ndarray[Any, Any]

# Prices of cuts, in units of (1 - size / limit)^2.
PRICES = {Boundary.PARAGRAPH: 0.0, Boundary.SENTENCE: 0.1, Boundary.CLAUSE: 0.3, Boundary.WORD: 1.0}
WEAK_PRICE = 0.2  # added for a weak cut
NEEDLESS_PRICE = 2.0  # added if the sentence or clause would fit
CROSSED_PRICE = 2.0  # for each paragraph that ends inside a part; more than two parts can cost
TINY_PRICE = 5.0  # for a part of one word
SILENT_PRICE = 50.0  # for a part without words
MAX_CUTS = 32  # of a kind, that one part has to choose from
TINY_BYTES = 16  # of letters and digits: one word, or two short ones


@dataclass(frozen=True)
class Part:
    start: int  # index of the first character, which is not a space
    end: int
    boundary: Boundary | None  # the boundary after it; None: the end of the text


def split(
    text: str, limit: int, *, markup: str | None = None, unbroken: str | None = None
) -> list[Part]:
    """Cut a text into parts of at most `limit` UTF-8 bytes without markup. A part that cannot be
    cut may be longer. White space between parts is dropped; an empty text has no parts.

    Args:
        markup: regular expression of markup; a match is never cut and counts as one byte.
        unbroken: regular expression of further text that is never cut.
    """
    return _Splitter(text, limit, markup, unbroken).parts()


def sentences(text: str, *, markup: str | None = None) -> list[Part]:
    """Return the sentences of a text, also those inside quotations. `markup` is never cut."""
    begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
    tags = spans_of(markup, text)
    is_whole = inside(len(text), tags)
    found = {
        cut.place: cut.boundary
        for cut in sorted(sentence_cuts(text, dict(tags)), reverse=True)  # the strongest comes last
        if cut.boundary < Boundary.CLAUSE and begin < cut.place < end and not is_whole[cut.place]
    }
    parts, start = [], begin
    for place in sorted(found):
        parts.append(Part(start, place, found[place]))
        start = _behind_space(text, place)
    return [*parts, Part(start, end, None)] if begin < end else []


class _Splitter:
    def __init__(self, text: str, limit: int, markup: str | None, unbroken: str | None) -> None:
        if limit < 1:
            raise ValueError(f"limit: is {limit}, must be at least 1")
        self.text, self.limit = text, limit
        tags = spans_of(markup, text)
        self.tags = dict(tags)
        widths, letters = _widths(text, tags)
        self.sums: list[int] = [0, *np.cumsum(widths).tolist()]  # bytes of text[:i]
        self.spoken: list[int] = [
            0,
            *np.cumsum(letters).tolist(),
        ]  # of those, of letters and digits
        whole = [*tags, *spans_of(unbroken, text), *filter(self._fits, addresses(text))]
        self.is_whole = inside(len(text), whole)
        self.quotations = list(quotations(text))
        self.is_quoted = inside(len(text), [*filter(self._fits, self.quotations)])
        self.behind_tag = set(self.tags.values())

    def parts(self) -> list[Part]:
        text = self.text
        begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
        if begin >= end:
            return []
        if self._size(begin, end) <= self.limit:
            return [Part(begin, end, None)]
        cuts = self._cuts(begin, end)
        places = [cut.place for cut, _ in cuts] + [end]
        starts = [begin] + [_behind_space(text, cut.place) for cut, _ in cuts]
        is_paragraph = [cut.boundary is Boundary.PARAGRAPH for cut, _ in cuts]
        chosen = self._choose(starts, places, [price for _, price in cuts], is_paragraph)
        return [
            Part(starts[first], places[last], cuts[last][0].boundary if last < len(cuts) else None)
            for first, last in chosen
        ]

    def _cuts(self, begin: int, end: int) -> list[tuple[Cut, float]]:
        """Return all possible cuts with their prices, in order."""
        sentences = self._usable(sentence_cuts(self.text, self.tags), begin, end)
        clauses = self._usable(clause_cuts(self.text), begin, end)
        clauses += self._usable(edge_cuts(self.text, self.quotations), begin, end)
        clauses += [cut for cut in sentences if cut.boundary is Boundary.CLAUSE]
        cuts = self._thinned([cut for cut in sentences if cut.boundary < Boundary.CLAUSE])
        offered = [(cut, _price(cut)) for cut in cuts]
        places = [begin, *(cut.place for cut in cuts), end]
        offered += self._within(places, self._thinned(clauses))
        places = sorted({*places, *(cut.place for cut, _ in offered)})
        offered += self._words(places)
        return sorted(offered)

    def _within(self, places: list[int], clauses: list[Cut]) -> Iterator[tuple[Cut, float]]:
        at = [cut.place for cut in clauses]
        for first, last in pairwise(places):
            size = self._size(first, last)
            if 4 * size <= self.limit:
                continue
            more = 0.0 if size > self.limit else NEEDLESS_PRICE
            for cut in clauses[bisect_right(at, first) : bisect_left(at, last)]:
                yield cut, _price(cut) + more

    def _words(self, places: list[int]) -> Iterator[tuple[Cut, float]]:
        for first, last in pairwise(places):
            size = self._size(first, last)
            if 2 * size <= self.limit:
                continue
            more = 0.0 if size > self.limit else NEEDLESS_PRICE
            pieces = max(2, -(-size // self.limit))
            while pieces > 1:
                place = self._word_end(first, last, self._size(first, last) / pieces)
                if place is None:
                    break
                cut = Cut(place, Boundary.WORD)
                yield cut, _price(cut) + more
                first = place
                size = self._size(first, last)
                pieces = min(pieces - 1, 1) if size <= self.limit else -(-size // self.limit)

    def _word_end(self, first: int, last: int, aim: float) -> int | None:
        """Return the best position in text[first:last] about `aim` bytes after `first`, or None."""
        sums, base = self.sums, self.sums[_behind_space(self.text, first) if first else first]
        middle = bisect_left(sums, base + aim)
        lowest = max(first + 1, bisect_left(sums, base + aim / 2))
        highest = min(last - 1, bisect_right(sums, base + self.limit) - 1)
        for places in (range(lowest, highest + 1), range(first + 1, min(lowest, last))):
            ranked = [(self._quality(place), abs(place - middle), place) for place in places]
            if ranked and (found := min(ranked))[0] < NEVER:
                return found[2]
        for place in range(highest + 1, last):
            if self._quality(place) < NEVER:
                return place
        return None

    def _quality(self, place: int) -> int:
        if self.is_whole[place]:
            return NEVER
        found = quality(self.text, place)
        if found < BAD and (place in self.behind_tag or self.is_quoted[place]):
            return BAD
        return found

    def _usable(self, cuts: Iterator[Cut], begin: int, end: int) -> list[Cut]:
        return [
            cut
            for cut in cuts
            if begin < cut.place < end
            and not self.is_whole[cut.place]
            and not self.is_quoted[cut.place]
        ]

    def _thinned(self, cuts: list[Cut]) -> list[Cut]:
        """Return cuts in order, only the strongest of those at or close to one place."""
        kept: list[Cut] = []
        least = self.limit / MAX_CUTS
        for cut in sorted(cuts):
            if not kept or self._size(kept[-1].place, cut.place) >= least:
                kept.append(cut)
            elif cut[1:] < kept[-1][1:]:
                kept[-1] = cut
        return kept

    def _choose(
        self, starts: list[int], places: list[int], prices: list[float], is_paragraph: list[bool]
    ) -> list[tuple[int, int]]:
        """Group pieces into parts. Return the first and the last piece of each part.

        Args:
            starts, places: index of the first character of each piece, and its end.
            prices: price of the cut after each piece but the last.
            is_paragraph: whether a paragraph ends after each piece.
        """
        sums, spoken, limit = self.sums, self.spoken, self.limit
        tiny = min(TINY_BYTES, limit / 8)
        best = [0.0]  # the least cost of the pieces before
        before = []  # the first piece of the part that ends with this one
        for last, place in enumerate(places):
            end, said_end = sums[place], spoken[place]
            least, least_first = float("inf"), last
            crossed = 0.0
            for first in range(last, -1, -1):
                start = starts[first]
                size = end - sums[start]
                if size > limit and first < last:
                    break
                if first < last and is_paragraph[first]:
                    crossed += CROSSED_PRICE
                cost = best[first] + (1 - min(1.0, size / limit)) ** 2 + crossed
                if (said := said_end - spoken[start]) < tiny:
                    cost += TINY_PRICE if said else SILENT_PRICE
                if cost < least:
                    least, least_first = cost, first
            before.append(least_first)
            best.append(least + (prices[last] if last < len(prices) else 0))
        chosen, last = [], len(places) - 1
        while last >= 0:
            chosen.append((before[last], last))
            last = before[last] - 1
        return chosen[::-1]

    def _fits(self, span: tuple[int, int]) -> bool:
        return self._size(*span) <= self.limit

    def _size(self, start: int, end: int) -> int:
        return self.sums[end] - self.sums[start]


def _behind_space(text: str, place: int) -> int:
    """Return the index of the first character from `place` on that is not white space."""
    while text[place].isspace():
        place += 1
    return place


def _widths(text: str, tags: list[tuple[int, int]]) -> tuple[Array, Array]:
    """Return (len,) UTF-8 bytes per character, and those of letters and digits only. All bytes of a
    tag count at its first character.
    """
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    widths = 1 + (points > 0x7F).astype(np.int64) + (points > 0x7FF) + (points > 0xFFFF)
    for start, end in tags:
        widths[start:end] = 0
        widths[start] = 1
    is_letter = np.fromiter(map(str.isalnum, text), dtype=bool, count=len(text))
    for start, end in tags:
        is_letter[start:end] = False
    return widths, widths * is_letter


def _price(cut: Cut) -> float:
    return PRICES[cut.boundary] + WEAK_PRICE * cut.is_weak


def with_tags_in_force(parts: list[str], kinds: tuple[str, ...]) -> Iterator[str]:
    """Return the parts, each preceded by the tags that are in force at its start.

    Args:
        kinds: regular expressions of tags, the outer kind first. The last tag of a kind is in force
            until the next one of that kind or of an outer one.
    """
    in_force = [""] * len(kinds)
    for text in parts:
        outermost = _first_kind(text, kinds)
        yield "".join(in_force[:outermost]) + text
        for _, kind, tag in sorted(_tags(text, kinds)):
            in_force[kind:] = [tag] + [""] * (len(kinds) - kind - 1)


def _tags(text: str, kinds: tuple[str, ...]) -> Iterator[tuple[int, int, str]]:
    for kind, pattern in enumerate(kinds):
        for found in re.finditer(pattern, text):
            yield found.start(), kind, found.group()


def _first_kind(text: str, kinds: tuple[str, ...]) -> int:
    """Return the outermost kind of the tags that a text begins with, or len(kinds)."""
    outermost, place = len(kinds), 0
    while place < len(text):
        found = [
            (kind, re.compile(pattern).match(text, place)) for kind, pattern in enumerate(kinds)
        ]
        tags = [(kind, match.end()) for kind, match in found if match and match.end() > place]
        if tags:
            outermost, place = min(outermost, tags[0][0]), tags[0][1]
        elif text[place].isspace():
            place += 1
        else:
            break
    return outermost
