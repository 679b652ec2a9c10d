"""Recognize titles of chapters and parts, in the languages of the guide: a word such as CHAPTER,
KAPITEL or STAVE with a number or an ordinal, or a word such as PROLOGUE. Numbers, with or without a
title, are only titles in a series. The words are in `data/titles.toml`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tts_cli.plain import read_table
from tts_cli.text.english.roman import NUMERALS
from tts_cli.text.tables import expand

_TABLE = read_table(Path(__file__).parent / "data" / "titles.toml")
_WORDS = {name.upper(): "|".join(words) for name, words in _TABLE.items() if name != "pattern"}
_NUMBERED, _NUMBERED_BEFORE, _BELOW, _CJK, _ALONE, _NUMERAL = (
    re.compile(expand(_TABLE["pattern"][name], _WORDS, _TABLE["pattern"]))
    for name in ("NUMBERED", "NUMBERED_BEFORE", "BELOW", "CJK", "ALONE_LINE", "NUMERAL")
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
    """Return the title that a line is by its words; None: it is text.

    Args:
        is_loose: whether blank lines surround it, so that its title may start in lower case.
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
    """Return the value of a decimal or Roman numeral."""
    return int(number) if number.isdecimal() else _ROMAN.get(number)
