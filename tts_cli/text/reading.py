"""A text as written beside the text as spoken: the changes that a reader made to it.

Every change holds its place in the written text. So the map between both texts is kept whole, and
readers of one text (a lexicon, then the normaliser) leave each other's changes alone.

One rule of a reader: a pattern and what is said for it.

Rules run one after the other over the whole text, the most particular ones first; what a rule took
is hidden from those behind it. All patterns have bounded repeats and begin at a boundary, so that
a text is read in linear time, whatever is in it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tts_cli.errors import TtsCliError


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


log = logging.getLogger(__name__)

PIECE = "it"  # a group of this name is what is replaced; without one, the whole match
Read = Callable[["re.Match[str]"], "str | None"]

_SENTENCE_END = re.compile(r"(?:^|(?:[a-z]{2}\.|[!?])[\"'\u201d\u2019)]?\s)[\"'\u201c\u2018(]?$")
_NEXT_SENTENCE = re.compile(r"[\"'”\u2019)]*(?:$|\s+[\"'“\u2018(]*[A-Z])")


@dataclass(frozen=True)
class Rule:
    """A pattern and its reader. The reader returns None for what it does not understand, which
    later rules may, and the piece unchanged for what nobody shall change.

    Both patterns are compiled when a text first asks for them, which few manifests do of most.
    """

    pattern: str
    read: Read
    flags: int = 0
    needs: str = ""  # a cheaper pattern: a text without a match of it has none of this one

    @cached_property
    def finds(self) -> Callable[[str], Iterator[re.Match[str]]]:
        """All places of the pattern in a text, one after the other."""
        return re.compile(self.pattern, self.flags).finditer

    @cached_property
    def may_find(self) -> Callable[[str], re.Match[str] | None]:
        """Whether a text has what the pattern needs."""
        return re.compile(self.needs).search


def where(needs: str, *rules: Rule) -> tuple[Rule, ...]:
    """Rules that are passed over together where a cheaper pattern finds nothing."""
    return tuple(replace(one, needs=needs) for one in rules)


def says(pattern: str, spoken: str, needs: str = "") -> Rule:
    """A rule that always says the same."""
    return Rule(pattern, lambda _: spoken, needs=needs)


def looks_up(pattern: str, table: Mapping[str, str]) -> Rule:
    """A rule whose piece is a key of a table, in lower case; what it lacks is left alone."""
    return Rule(pattern, lambda match: table.get(piece(match).lower()))


def table(text: str) -> dict[str, str]:
    """A table written as `from=to | from=to`, over lines as they come."""
    cells = text.replace("\n", "|").split("|")
    parts = (cell.strip().rpartition("=") for cell in cells if cell.strip())
    return {written: said for written, _, said in parts}


def one_of(words: Iterable[str]) -> str:
    """Pattern of any of these words, the longest first: letter by letter, so that hundreds are
    looked for at the cost of a few.
    """
    tree: dict[str, Any] = {}
    for word in words:
        node = tree
        for letter in word:
            node = node.setdefault(letter, {})
        node[""] = {}  # a word ends here
    return _branches(tree)


def _branches(node: dict[str, Any]) -> str:
    found = [re.escape(letter) + _branches(below) for letter, below in node.items() if letter]
    if len(found) == len(node) == 1:
        return found[0]
    return f"(?:{'|'.join(found)})" + "?" * ("" in node) if found else ""


def any_case(words: Iterable[str]) -> str:
    """Pattern of any of these words in lower case, with a capital or in capitals."""
    return one_of(form for word in words for form in (word, word.capitalize(), word.upper()))


def piece(match: re.Match[str]) -> str:
    """What a match would replace."""
    return match.group(_group(match))


def ends_sentence(match: re.Match[str]) -> bool:
    """Whether a full stop at the end of the match ends its sentence as well."""
    return _NEXT_SENTENCE.match(match.string, match.end()) is not None


def apply_rules(
    rules: Iterable[Rule],
    text: str,
    taken: Sequence[tuple[int, int]] = (),
    inner: Container[int] = (),
) -> list[Change]:
    """The changes that rules make to a text, outside the spans that are taken already; none begins
    or ends at an inner place.
    """
    changes: list[Change] = []
    left = without(text, taken)
    needs, is_met = "", True
    for one in rules:
        if one.needs is not needs:
            needs = one.needs
            is_met = one.may_find(left) is not None
        if not is_met:
            continue
        found = []
        for match in one.finds(left):
            start, end = match.span(_group(match))
            if start in inner or end in inner or (spoken := _read(one, match)) is None:
                continue
            if TAKEN in left[start:end]:
                continue
            found.append((start, end))
            if spoken != text[start:end]:
                changes.append(Change(start, end, spoken))
        if found:
            left = without(left, found)
    return [
        Change(change.start, change.end, _capital(left, change.start, change.spoken))
        for change in changes
    ]


def _read(one: Rule, match: re.Match[str]) -> str | None:
    """What a rule says of a match. A reader that fails understands nothing: it never ends a run,
    and is told of once, as texts are read several times.
    """
    try:
        return one.read(match)
    except (MemoryError, TtsCliError):
        raise
    except Exception as error:
        if one.pattern not in _failed:
            _failed.add(one.pattern)
            log.warning(
                "%r, and all other text with this problem, stays as written: it could not be "
                "read (%s: %s)",
                *(piece(match), type(error).__name__, error),
            )
        return None


_failed: set[str] = set()  # patterns of rules whose readers did


def _group(match: re.Match[str]) -> int | str:
    return PIECE if PIECE in match.re.groupindex else 0


def _capital(text: str, start: int, spoken: str) -> str:
    """A capital for what begins a sentence; no full stop that a rule took ends one."""
    if spoken[:1].islower() and _SENTENCE_END.search(text[max(0, start - 6) : start]):
        return spoken[0].upper() + spoken[1:]
    return spoken
