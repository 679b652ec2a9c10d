"""All rules of English in the order they run: what is most particular comes first.

Most texts have nothing to read otherwise than it is written, and hundreds of patterns take half a
millisecond to find that out. `is_plain` knows such texts by their signs and words in a few
microseconds.
"""

from __future__ import annotations

import re

from tts_cli.text.english import (
    abbreviations,
    contacts,
    dates,
    money,
    numbers,
    roman,
    symbols,
    times,
    units,
)
from tts_cli.text.rule import any_case

RULES = (
    *contacts.RULES,
    *dates.RULES,
    *times.RULES,
    *money.RULES,
    *roman.RULES,
    *units.RULES,
    *abbreviations.RULES,
    *contacts.VERSIONS,
    *numbers.COMPOUND,
    *symbols.RULES,
    *dates.YEARS,
    *numbers.RULES,
)

# All but letters of Latin scripts, white space and marks between words; and a full stop within one.
_SIGN = re.compile(
    r"[^A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\s"
    r".,;:!?'\"()\[\]\u2018\u2019\u201c\u201d\u2013\u2014\u2026-]|\.(?=[A-Za-z])"
)
# An I that may be no pronoun.
_FIRST = re.compile(
    rf"\b{any_case([*roman.COUNTED, *roman.TITLES])} (?:[A-Z][a-z]+ ){{0,2}}I(?!\w)"
)
_WORD = re.compile(r"[A-Za-z]+\.?")


def _forms(word: str) -> set[str]:
    return {word, word.lower(), word.capitalize(), word.upper()}


_WORDS = frozenset(
    form
    for word in (
        *(f"{word}." for word in (*abbreviations.TITLES, *abbreviations.STREETS)),
        *("mr", "mrs", "ms", "prof", "mt"),
        *abbreviations.STREETS,
        *abbreviations.BEFORE_WORDS,
        *abbreviations.ANYWHERE,
        *dates.WEEKDAYS,
        *(f"{name[:3].lower()}." for name in dates.NAMES),
        "sept.",
        "v.",
        *(f"{numeral}{dot}" for numeral in roman.NUMERALS[2:] for dot in ("", ".")),
    )
    for form in _forms(word)
)


def is_plain(text: str) -> bool:
    """Whether no rule changes a text. True is sure, False is not."""
    return (
        _SIGN.search(text) is None
        and _WORDS.isdisjoint(_WORD.findall(text))
        and (" I" not in text or _FIRST.search(text) is None)
    )
