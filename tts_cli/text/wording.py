"""The words of a written text, each with what is spoken for it.

Both texts are laid beside each other word by word. What stands between words that are the same in
both belongs together: `$3.50` is spoken as five words. Several changed words side by side are told
apart by reading each alone; what that does not give as it was spoken stays one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

from tts_cli.text.care import normalize
from tts_cli.text.pauses import pause_spans
from tts_cli.text.reading import Reading

_SAID_SIGNS = "&%@#$\u20ac\u00a3\u00a5+=\u00b0"  # that are read as words
_WORD = re.compile(r"[^\s\u2014\u2013]+")
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class WrittenWord:
    """A word of a text; more than one where nobody knows which of them is spoken how."""

    text: str  # as written, without the marks around it
    start: int  # its place in the written text
    end: int  # behind its last character
    spoken: tuple[str, ...]  # the words that are said for it, in small letters

    @property
    def said(self) -> tuple[str, ...]:
        """The same, in the letters of the text where it is said as it is written."""
        return (self.text,) if self.spoken == (_fold(self.text),) else self.spoken


def written_words(written: str, spoken: str) -> list[WrittenWord]:
    """The words of a written text that are spoken, in order."""
    found, said = list(_words(written)), [_fold(text) for _, _, text in _words(spoken)]
    keys = [_fold(text) for _, _, text in found]
    words: list[WrittenWord] = []
    early: list[str] = []  # what is spoken before the first word
    for kind, first, last, start, end in SequenceMatcher(
        None, keys, said, autojunk=False
    ).get_opcodes():
        block, parts = found[first:last], said[start:end]
        if kind == "equal" or len(block) == len(parts):
            groups = [_Group((one,), (part,)) for one, part in zip(block, parts, strict=True)]
        elif not block:
            if words:
                before = words.pop()
                spoken_words = (*before.spoken, *parts)
                words.append(WrittenWord(before.text, before.start, before.end, spoken_words))
            else:
                early += parts
            continue
        elif not parts:
            continue
        else:
            groups = _told_apart(block, parts)
        for group, heard in groups:
            place, behind = group[0][0], group[-1][1]
            words.append(WrittenWord(written[place:behind], place, behind, (*early, *heard)))
            early = []
    return words


_Place = tuple[int, int, str]


class _Group(NamedTuple):
    """Words that belong together."""

    written: tuple[_Place, ...]
    said: tuple[str, ...]


def _told_apart(block: Sequence[_Place], parts: Sequence[str]) -> list[_Group]:
    """Words that rules of English read as they are spoken, from both ends; the rest is one."""
    left, said = list(block), list(parts)
    front: list[_Group] = []
    back: list[_Group] = []
    while left and (alone := read_alone(left[0][2])) == said[: len(alone)] and alone:
        front.append(_Group((left.pop(0),), tuple(alone)))
        del said[: len(alone)]
    while left and (alone := read_alone(left[-1][2])) == said[-len(alone) :] and alone:
        back.insert(0, _Group((left.pop(),), tuple(alone)))
        del said[-len(alone) :]
    if left and said:
        pairs = zip(left, said, strict=True) if len(left) == len(said) else ()
        front += [_Group((one,), (part,)) for one, part in pairs] or [
            _Group(tuple(left), tuple(said))
        ]
    elif said:
        return [_Group(tuple(block), tuple(parts))]
    return front + back


def read_alone(word: str) -> list[str]:
    """The words that rules of English say for one."""
    spoken = Reading.of(word, normalize(word, "english")).spoken
    return [_fold(text) for _, _, text in _words(spoken)]


def has_figures(word: str) -> bool:
    """Whether no dictionary has it, because it is no word."""
    return _DIGIT.search(word) is not None or not any(map(str.isalpha, word))


def _words(text: str) -> Iterator[_Place]:
    """Place and text of every word, the marks around it left out."""
    for start, end in pause_spans(text):
        text = text[:start] + " " * (end - start) + text[end:]
    for match in _WORD.finditer(text):
        kept = [place for place, char in enumerate(match[0]) if _is_said(char)]
        if kept:
            start, end = match.start() + kept[0], match.start() + kept[-1] + 1
            yield start, end, text[start:end]


def _is_said(char: str) -> bool:
    return char.isalnum() or char in _SAID_SIGNS or unicodedata.combining(char) != 0


def _fold(word: str) -> str:
    return word.replace("\u2019", "'").casefold()
