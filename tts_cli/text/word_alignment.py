"""Align the words of a written text with the words that are synthesized for them, by its edits.

`$3.50` is synthesized as five words. Written words that share an edit are matched one by one if the
edit has the same number of words.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tts_cli.text.frontend import normalize
from tts_cli.text.normalized_text import Edit, NormalizedText
from tts_cli.text.pauses import pause_spans

_SPOKEN_SIGNS = "&%@#$\u20ac\u00a3\u00a5+=\u00b0"  # that are read as words
_WORD = re.compile(r"[^\s\u2014\u2013]+")
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class WrittenWord:
    """A word of a text, or several words that share an edit."""

    text: str  # as written, without the marks around it
    start: int  # its position in the text
    end: int  # after its last character
    spoken: tuple[str, ...]  # the words that are synthesized for it, in lower case

    @property
    def said(self) -> tuple[str, ...]:
        """The words, as written if they are not edited."""
        return (self.text,) if self.spoken == (_fold(self.text),) else self.spoken


@dataclass(frozen=True)
class _Word:
    text: str
    start: int
    end: int
    outer_end: int  # with the marks after it


def written_words(normalized: NormalizedText) -> list[WrittenWord]:
    """Return the words of a text that are synthesized, in order."""
    text, spans = normalized.text, normalized.spans
    span_ends = [span.end for span in spans]
    spoken = list(_words(normalized.spoken))
    words: list[WrittenWord] = []
    done = 0  # synthesized words so far
    for block in _blocks(text, normalized.edits):
        end = block[-1].outer_end
        span = spans[bisect_left(span_ends, end)]
        spoken_end = span.spoken_end if span.is_edited else span.spoken_start + end - span.start
        first = done
        while done < len(spoken) and spoken[done].start < spoken_end:
            done += 1
        parts = [_fold(word.text) for word in spoken[first:done]]
        if len(parts) == len(block):
            words += [
                WrittenWord(word.text, word.start, word.end, (part,))
                for word, part in zip(block, parts, strict=True)
            ]
        elif parts:
            start, end = block[0].start, block[-1].end
            words.append(WrittenWord(text[start:end], start, end, tuple(parts)))
    if words and done < len(spoken):
        rest = (_fold(word.text) for word in spoken[done:])
        words[-1] = replace(words[-1], spoken=(*words[-1].spoken, *rest))
    return words


def _blocks(text: str, edits: Sequence[Edit]) -> Iterator[list[_Word]]:
    """Yield the words of a text; words that share an edit come together."""
    ends = [edit.end for edit in edits]
    block: list[_Word] = []
    for word in _words(text):
        if block:
            at = bisect_right(ends, word.start)
            if at == len(edits) or edits[at].start >= block[-1].outer_end:
                yield block
                block = []
        block.append(word)
    if block:
        yield block


def one_edit(text: str, spoken: str) -> NormalizedText:
    """Return a text with one edit between the words that both texts have in common at their ends,
    for texts whose edits are unknown.
    """
    start, most = _common(text, spoken), min(len(text), len(spoken))
    length = min(_common(text[::-1], spoken[::-1]), most - start)
    if start >= most:
        return NormalizedText(text)
    if start >= len(text) - length:
        start = length = 0
    part = spoken[start : len(spoken) - length]
    return NormalizedText(text, (Edit(start, len(text) - length, part),))


def _common(first: str, second: str) -> int:
    length = 0
    for one, other in zip(first.split(" "), second.split(" "), strict=False):
        if one != other:
            break
        length += len(one) + 1
    return length


def read_alone(word: str) -> list[str]:
    """Normalize one word by the rules of English."""
    spoken = NormalizedText.of(word, normalize(word, "english")).spoken
    return [_fold(found.text) for found in _words(spoken)]


def has_figures(word: str) -> bool:
    """Return whether a word has digits or no letters, so that no dictionary contains it."""
    return _DIGIT.search(word) is not None or not any(map(str.isalpha, word))


def _words(text: str) -> Iterator[_Word]:
    """Yield every word of a text, without the marks around it."""
    for start, end in pause_spans(text):
        text = text[:start] + " " * (end - start) + text[end:]
    for match in _WORD.finditer(text):
        kept = [place for place, char in enumerate(match[0]) if _is_spoken(char)]
        if kept:
            start, end = match.start() + kept[0], match.start() + kept[-1] + 1
            yield _Word(text[start:end], start, end, match.end())


def _is_spoken(char: str) -> bool:
    return char.isalnum() or char in _SPOKEN_SIGNS or unicodedata.combining(char) != 0


def _fold(word: str) -> str:
    return word.replace("\u2019", "'").casefold()
