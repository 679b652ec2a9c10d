"""Which entries of a table of contents begin chapters.

Entries that point at whole documents do, however deep they lie. Of those that point inside of one,
the levels down to the first that has two entries or more: below a single title at the top, the
chapters. A chapter of more than an hour is divided by the entries right below its own, and so
is what comes of that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from tts_cli.book.chapter import Block, ChapterMark, Heading, Text
from tts_cli.text.words import usual_s

LONG_S = 3600.0


def chapters_of(blocks: Sequence[Block]) -> list[Block]:
    """The blocks, with the marks of those entries alone that begin chapters."""
    entries = [one for one in blocks if isinstance(one, ChapterMark)]
    depths = [one.depth for one in entries]
    seconds = _seconds(blocks)
    base = _base_depth(depths, seconds)
    chosen = {n for n, one in enumerate(entries) if one.is_document or one.depth <= base}
    spans = list(pairwise([*sorted(chosen), len(entries)]))
    while spans:
        first, end = spans.pop()
        below = [n for n in range(first + 1, end) if depths[n] > depths[first]]
        if below and sum(seconds[first:end]) > LONG_S:
            highest = min(depths[n] for n in below)
            parts = [n for n in below if depths[n] == highest]
            chosen.update(parts)
            spans += pairwise([first, *parts, end])
    numbers = iter(range(len(entries)))
    return [one for one in blocks if not isinstance(one, ChapterMark) or next(numbers) in chosen]


def _seconds(blocks: Sequence[Block]) -> list[float]:
    """What the text behind each mark takes, up to the next of any depth."""
    seconds: list[float] = []
    for one in blocks:
        if isinstance(one, ChapterMark):
            seconds.append(0.0)
        elif isinstance(one, Text | Heading) and seconds:
            seconds[-1] += usual_s(one.text)
    return seconds


def _base_depth(depths: Sequence[int], seconds: Sequence[float]) -> int:
    """The highest level with two entries that have text, or entries below them."""
    counts: Counter[int] = Counter()
    for depth, text_s, behind in zip(depths, seconds, [*depths, 0][1:], strict=True):
        counts[depth] += text_s > 0 or behind > depth
    return min((depth for depth, times in counts.items() if times > 1), default=1)
