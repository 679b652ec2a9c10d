"""What is written beside what is spoken: a text and the changes a reader made to it.

Every change holds its place in the written text. So the map between both texts is kept whole, and
readers of one text (a lexicon, then the normaliser) leave each other's changes alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Change:
    """One piece of a text that is spoken otherwise than it is written."""

    start: int  # of the written text
    end: int  # behind the last character; more than start
    spoken: str
    line: int | None = None  # of the lexicon's file; None: the normaliser's doing


@dataclass(frozen=True)
class Span:
    """A piece of the written text and where it stands in the spoken one."""

    written_start: int
    written_end: int
    spoken_start: int
    spoken_end: int
    is_changed: bool


@dataclass(frozen=True)
class Reading:
    """A written text with its changes, in order and apart from each other."""

    written: str
    changes: tuple[Change, ...] = ()

    @classmethod
    def of(cls, written: str, changes: Sequence[Change]) -> Reading:
        """Changes in any order; they must not overlap."""
        if not changes:
            return cls(written)
        return cls(written, tuple(sorted(changes, key=lambda change: change.start)))

    @cached_property
    def spoken(self) -> str:
        """The text with its changes made, every space a plain one."""
        return self.spaced if self.spaced.isascii() else self.spaced.translate(_PLAIN_SPACES)

    @cached_property
    def spaced(self) -> str:
        """The same with its no-break and typographic spaces, by which it may be cut."""
        if not self.changes:
            return self.written
        return "".join(
            change.spoken if change else self.written[start:end]
            for start, end, change in self._pieces()
        )

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """Both texts from end to end, in order: what was kept and what was changed by turns."""
        spans = []
        place = 0
        for start, end, change in self._pieces():
            length = end - start if change is None else len(change.spoken)
            spans.append(Span(start, end, place, place + length, change is not None))
            place += length
        return tuple(spans)

    def written_place(self, place: int) -> int:
        """Where a place of the spoken text, its end included, lies in the written one; one within a
        change lies at the change's end.
        """
        for span in self.spans:
            if place < span.spoken_end:
                inside = place - span.spoken_start
                if not span.is_changed or inside == 0:
                    return span.written_start + inside
                return span.written_end
        return len(self.written)

    def _pieces(self) -> list[tuple[int, int, Change | None]]:
        """Start, end and change, None for a kept piece."""
        pieces: list[tuple[int, int, Change | None]] = []
        place = 0
        for change in self.changes:
            assert place <= change.start < change.end <= len(self.written), change
            if place < change.start:
                pieces.append((place, change.start, None))
            pieces.append((change.start, change.end, change))
            place = change.end
        if place < len(self.written):
            pieces.append((place, len(self.written), None))
        return pieces


# No-break and typographic spaces of any width; the wide one of Chinese is the usual one there.
ODD_SPACES = "\u00a0\u1680\u2000-\u200a\u202f\u205f"
ODD_SPACE = re.compile(f"[{ODD_SPACES}]")
_PLAIN_SPACES = dict.fromkeys((0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F), " ")

TAKEN = "\0"  # no text of a row holds it


def without(text: str, taken: Sequence[tuple[int, int]]) -> str:
    """A text of the same length with TAKEN where others have been, as readers search it."""
    if not taken:
        return text
    pieces = []
    place = 0
    for start, end in sorted(taken):
        start = max(start, place)
        if end > start:
            pieces += [text[place:start], TAKEN * (end - start)]
            place = end
    return "".join([*pieces, text[place:]])
