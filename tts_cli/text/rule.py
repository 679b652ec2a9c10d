"""Rules that rewrite a text: patterns, each with a function that returns the replacement.

Rules run one after the other over the whole text, the most specific ones first; later rules do not
see what an earlier one matched. All patterns have bounded repeats and begin at a boundary, so that
any text is read in linear time.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tts_cli.errors import TtsCliError
from tts_cli.text.boundaries import STARTERS
from tts_cli.text.normalized_text import MASK, Edit, mask
from tts_cli.text.tables import load_table

log = logging.getLogger(__name__)

PIECE = "it"  # the group of this name is replaced; without one, the whole match
Read = Callable[["re.Match[str]"], "str | None"]

_SENTENCE_END = re.compile(r"(?:^|(?:[a-z]{2}\.|[!?])[\"'\u201d\u2019)]?\s)[\"'\u201c\u2018(]?$")
_WORD_WITH_STOP = re.compile(r"(\w+)\.\s$")
_NO_END = frozenset(
    f"{load_table('abbreviations')['titles']} {load_table('abbreviations')['counted']}".split()
)
_NEXT_SENTENCE = re.compile(r"[\"'”\u2019)]*(?:$|\s+[\"'“\u2018]*\(?([A-Z]\w*))")


@dataclass(frozen=True)
class Rule:
    """A pattern, compiled on first use, and its reader. The reader returns None if it does not
    understand a text, which later rules may, and the unchanged text to protect it from them.
    """

    pattern: str
    read: Read
    flags: int = 0
    needs: str = ""  # a cheaper pattern: a text without a match of it has none of this one

    @cached_property
    def finds(self) -> Callable[[str], Iterator[re.Match[str]]]:
        return re.compile(self.pattern, self.flags).finditer

    @cached_property
    def may_find(self) -> Callable[[str], re.Match[str] | None]:
        """Search a text for `needs`."""
        return re.compile(self.needs).search


def where(needs: str, *rules: Rule) -> tuple[Rule, ...]:
    """Return rules that are skipped together unless a cheaper pattern matches."""
    return tuple(replace(one, needs=needs) for one in rules)


def says(pattern: str, spoken: str, needs: str = "") -> Rule:
    return Rule(pattern, lambda _: spoken, needs=needs)


def looks_up(pattern: str, table: Mapping[str, str]) -> Rule:
    """Return a rule that replaces a piece by its entry in a table of lower-case keys, if any."""
    return Rule(pattern, lambda match: table.get(piece(match).lower()))


def one_of(words: Iterable[str]) -> str:
    """Return a pattern of words, the longest first, as a trie: fast for hundreds of words."""
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
    """Return a pattern of words in lower case, with a capital or in capitals."""
    return one_of(form for word in words for form in (word, word.capitalize(), word.upper()))


def piece(match: re.Match[str]) -> str:
    """Return the part of a match that the rule replaces."""
    return match.group(_group(match))


def ends_sentence(match: re.Match[str]) -> bool:
    """Return whether the full stop at the end of a match also ends its sentence."""
    return _NEXT_SENTENCE.match(match.string, match.end()) is not None


def ends_surely(match: re.Match[str]) -> bool:
    """Return whether a name's full stop at the end of a match also ends its sentence. Names may
    follow it, so only words that usually begin a sentence show it.
    """
    found = _NEXT_SENTENCE.match(match.string, match.end())
    return found is not None and (found[1] is None or found[1].lower() in STARTERS)


def apply_rules(
    rules: Iterable[Rule],
    text: str,
    protected: Sequence[tuple[int, int]] = (),
    inner: Container[int] = (),
) -> list[Edit]:
    """Return the edits of rules outside protected spans. None begins or ends at an inner place."""
    edits: list[Edit] = []
    left = mask(text, protected)
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
            if MASK in left[start:end]:
                continue
            found.append((start, end))
            if spoken != text[start:end]:
                edits.append(Edit(start, end, spoken))
        if found:
            left = mask(left, found)
    return [Edit(edit.start, edit.end, _capital(left, edit.start, edit.spoken)) for edit in edits]


def _read(one: Rule, match: re.Match[str]) -> str | None:
    """Return the reading of a match, or None. An exception is logged once and never ends a run."""
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


_failed: set[str] = set()  # patterns of rules whose readers failed


def _group(match: re.Match[str]) -> int | str:
    return PIECE if PIECE in match.re.groupindex else 0


def _capital(text: str, start: int, spoken: str) -> str:
    """Capitalize what begins a sentence. The full stop of an abbreviation does not end one."""
    if spoken[:1].islower() and _SENTENCE_END.search(text[max(0, start - 6) : start]):
        found = _WORD_WITH_STOP.search(text[max(0, start - 12) : start])
        if found and found[1].lower() in _NO_END:
            return spoken
        return spoken[0].upper() + spoken[1:]
    return spoken
