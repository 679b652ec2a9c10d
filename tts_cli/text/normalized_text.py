"""A text and the edits that turn it into the text to synthesize. Edits align both texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Edit:
    """A span of a text that is synthesized differently from how it is written."""

    start: int  # position in the text
    end: int  # after the last character; more than start
    spoken: str
    line: int | None = None  # line of the lexicon's file; None: an edit of the normalizer


@dataclass(frozen=True)
class Span:
    start: int
    end: int
    spoken_start: int
    spoken_end: int
    is_edited: bool


@dataclass(frozen=True)
class NormalizedText:
    """A text with its edits, in order and not overlapping."""

    text: str
    edits: tuple[Edit, ...] = ()

    @classmethod
    def of(cls, text: str, edits: Sequence[Edit]) -> NormalizedText:
        """Return the text with edits that may be in any order; they must not overlap."""
        return cls(text, tuple(sorted(edits, key=lambda edit: edit.start)))

    def as_tuples(self) -> tuple[tuple[int, int, str], ...]:
        return tuple((edit.start, edit.end, edit.spoken) for edit in self.edits)

    @cached_property
    def spoken(self) -> str:
        """The edited text, with plain spaces only."""
        return self.spaced if self.spaced.isascii() else self.spaced.translate(_PLAIN_SPACES)

    @cached_property
    def spaced(self) -> str:
        """The edited text with no-break and typographic spaces, for cutting it."""
        if not self.edits:
            return self.text
        return "".join(
            edit.spoken if edit else self.text[start:end] for start, end, edit in self._pieces()
        )

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        spans = []
        place = 0
        for start, end, edit in self._pieces():
            length = end - start if edit is None else len(edit.spoken)
            spans.append(Span(start, end, place, place + length, edit is not None))
            place += length
        return tuple(spans)

    def written_place(self, place: int) -> int:
        """Return the position in the written text; for one inside an edit, the edit's end."""
        for span in self.spans:
            if place < span.spoken_end:
                inside = place - span.spoken_start
                return span.end if span.is_edited and inside else span.start + inside
        return len(self.text)

    def _pieces(self) -> list[tuple[int, int, Edit | None]]:
        """Return start, end and edit; None for a span without an edit."""
        pieces: list[tuple[int, int, Edit | None]] = []
        place = 0
        for edit in self.edits:
            assert place <= edit.start < edit.end <= len(self.text), edit
            if place < edit.start:
                pieces.append((place, edit.start, None))
            pieces.append((edit.start, edit.end, edit))
            place = edit.end
        if place < len(self.text):
            pieces.append((place, len(self.text), None))
        return pieces


# No-break and typographic spaces of any width, without the wide one that is usual in Chinese.
ODD_SPACES = "\u00a0\u1680\u2000-\u200a\u202f\u205f"
ODD_SPACE = re.compile(f"[{ODD_SPACES}]")
_PLAIN_SPACES = dict.fromkeys((0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F), " ")

MASK = "\0"  # does not occur in the text of a row


def mask(text: str, protected: Sequence[tuple[int, int]]) -> str:
    """Return a text of the same length in which protected spans are replaced by MASK."""
    if not protected:
        return text
    pieces = []
    place = 0
    for start, end in sorted(protected):
        start = max(start, place)
        if end > start:
            pieces += [text[place:start], MASK * (end - start)]
            place = end
    return "".join([*pieces, text[place:]])
