"""Recognize titles of chapters and parts, in the languages of the guide: a word such as CHAPTER,
KAPITEL or STAVE with a number or an ordinal, or a word such as PROLOGUE. The words are in
`data/titles.toml`. Numbers, with or without a title, are only titles in a series.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tts_cli.plain import read_table
from tts_cli.text.english.roman import NUMERALS

_TABLE = read_table(Path(__file__).parent / "data" / "titles.toml")
_ANY_WORD, _ANY_ORDINAL, _CHAPTER_WORD, _PART_WORD, _ALONE_WORD = (
    "|".join(_TABLE[key]) for key in ("numbers", "ordinals", "chapter", "part", "alone")
)
_NUMBER = (
    rf"(?:[0-9]{{1,4}}|[IVXLCDM]{{1,9}}|(?i:(?:the|der|die|das|le|la)\s+)?(?i:{_ANY_ORDINAL})|"
    rf"(?i:(?:twenty|thirty|forty|fifty)[- ])?(?i:{_ANY_WORD}))(?![\w])"
)
_CHAPTER = rf"(?:CHAP|CH|Ch|Chap(?=\.)|(?i:{_CHAPTER_WORD}))"
_PART = rf"(?i:{_PART_WORD})"
_TITLE = r"(?:\s*[.:)–—-]\s*(?P<parted>[^\n]{0,160})|\s+(?P<loose>[^\n]{0,60}[^\s.!?,;:]))?"
_WORD = rf"(?:(?P<part>{_PART})|{_CHAPTER})"
_JOIN = r"(?:\s*[.#:№-]\s*|(?=[0-9])|\s+(?i:no\.?\s*|nr\.?\s*|[#№]\s*)?)"
_NUMBERED = re.compile(rf"{_WORD}{_JOIN}(?P<number>{_NUMBER}){_TITLE}")
_NUMBERED_BEFORE = re.compile(
    rf"(?i:(?:the|der|die|das|le|la)\s+)?(?i:{_ANY_ORDINAL})\s+{_WORD}(?!\w){_TITLE}"
)
# "Inferno: Canto I", "Volume 1, Chapter 2"
_BELOW = re.compile(
    rf"(?!(?i:see|cf|siehe|vgl|voir)\b)[^\W\d_][^\n.!?]{{0,40}}?\s*[•:,|–—-]\s*"
    rf"{_CHAPTER}{_JOIN}{_NUMBER}[.:]?"
)
_CJK = re.compile(
    r"(?:\S{0,12}[卷部篇集文]\S{0,12}\s+)?第\s?[0-9０-９一二三四五六七八九十百千〇零]{1,7}\s?(?:(?P<part>[部卷編])|[章回节節話话折幕])"
    r"(?P<title>[^\n。]{0,40})"
    r"|제\s?[0-9]{1,4}\s?(?:(?P<part_ko>[부권])|[장화막])(?P<title_ko>[^\n]{0,40})"
    r"|[0-9]{1,4}\s?[화장話话章](?:[\s.:]+[^\n。]{1,40})?"
)
_ALONE = re.compile(rf"(?i:{_ALONE_WORD})[.:]?")
_NUMERAL = re.compile(
    r"(?P<number>[0-9]{1,3}|[IVXLC]{1,8})(?:[.)]?|\s*[.:)–—-]\s*(?P<title>\S[^\n]{0,60}[^\s.!?,;:]))"
)
_DECORATED = re.compile(r"([*~=#_\[<|•·–—-]+\s*)(.*?)(\s*[*~=#_\]>|•·–—-]+)")
_ROMAN = {numeral: value for value, numeral in enumerate(NUMERALS)}


class Title(NamedTuple):
    """A line that is or may be a title."""

    text: str  # without decoration
    is_part: bool = False  # a part with chapters in it
    is_numbered: bool = False  # has a word and a number
    has_title: bool = False  # in addition to its number
    value: int | None = None  # of a number without a word
    number: int | None = None  # after its word


def title_of(line: str, *, is_loose: bool = False) -> Title | None:
    """Return the title in a line, recognized by its words, or None. With `is_loose`, blank lines
    surround the line, and the title may start in lower case.
    """
    line = line.strip()
    decorated = _DECORATED.fullmatch(line)
    text = decorated[2].strip() if decorated else line
    found = _NUMBERED.fullmatch(text) or _NUMBERED_BEFORE.fullmatch(text)
    if found is not None:
        loose, parted = found["loose"], found["parted"]
        if not is_loose and loose and loose[0].islower():
            return None
        if not is_loose and text[0].islower() and "number" not in found.groupdict():
            return None  # "... of the / seventh book. The ..."
        number = _value(found.groupdict().get("number") or "")
        return Title(text, found["part"] is not None, True, bool(loose or parted), number=number)
    if found := _CJK.fullmatch(text):
        title = (found["title"] or found["title_ko"] or "").strip()
        return Title(text, bool(found["part"] or found["part_ko"]), True, bool(title))
    if _ALONE.fullmatch(text) or (is_loose and _BELOW.fullmatch(text)):
        return Title(text)
    if found := _NUMERAL.fullmatch(text):
        value = _value(found["number"])
        return None if value is None else Title(text, has_title=bool(found["title"]), value=value)
    return None


def _value(number: str) -> int | None:
    return int(number) if number.isdecimal() else _ROMAN.get(number)
