"""All rules of English in the order in which they run: the most specific ones come first."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tts_cli.text.english import (
    abbreviations,
    dates,
    electronic,
    identifiers,
    money,
    numbers,
    roman,
    symbols,
    times,
    units,
)
from tts_cli.text.english.numeric_tokens import token_spans
from tts_cli.text.normalized_text import Edit, mask
from tts_cli.text.rule import any_case, apply_rules

RULES = (
    *electronic.RULES,
    *identifiers.RULES,
    *times.LENGTHS,
    *dates.RULES,
    *times.RULES,
    *money.RULES,
    *roman.RULES,
    *units.RULES,
    *abbreviations.RULES,
    *identifiers.VERSIONS,
    *numbers.COMPOUND,
    *symbols.RULES,
    *dates.YEARS,
    *numbers.RULES,
)

# Besides letters, white space and full stops: marks that separate words, and signs of other texts.
_MARKS = ",;:!?'\"()[]-"
_PRINTED_MARKS = "\u2018\u2019\u201c\u201d\u2013\u2014\u2026"
_SIGN = "\1"
_PARTED = str.maketrans(
    {
        chr(code): _SIGN
        for code in range(128)
        if not (chr(code).isalpha() or chr(code).isspace() or chr(code) == ".")
    }
    | dict.fromkeys(_MARKS + _PRINTED_MARKS, " ")
)
_FOREIGN = re.compile(rf"[^\0-\x7f\s\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f{_PRINTED_MARKS}]")
_INNER_STOP = re.compile(r"\.[\w.]")
# Underscores around a phrase, which plain text of printed books uses for italics; not of a name.
_EMPHASIS = re.compile(r"(?<![\w\\])_(?![\s_])[^_]{1,300}(?<![\s\\])_(?!\w)")
# An I that may not be the pronoun.
_FIRST = re.compile(
    rf"\b{any_case([*roman.COUNTED, *roman.TITLES])} (?:[A-Z][a-z]+ ){{0,2}}I(?!\w)"
)


def _forms(word: str) -> set[str]:
    return {word, word.lower(), word.capitalize(), word.upper()}


_WORDS = frozenset(
    form
    for word in (
        *(f"{word}." for word in (*abbreviations.TITLES, *abbreviations.STREETS)),
        *abbreviations.UNDOTTED,
        "inst.",
        "ult.",
        "prox.",
        *abbreviations.STREETS,
        *abbreviations.BEFORE_WORDS,
        *abbreviations.ANYWHERE,
        *(f"{name}{dot}" for name in dates.WEEKDAYS for dot in ("", ".")),
        *(f"{name[:3].lower()}." for name in dates.NAMES),
        "sept.",
        "v.",
        *(f"{numeral}{dot}" for numeral in roman.NUMERALS[2:] for dot in ("", ".")),
    )
    for form in _forms(word)
)


def is_plain(text: str) -> bool:
    """Return whether it is certain that no rule edits a text, by its signs and words. This takes a
    few microseconds, all patterns half a millisecond.
    """
    parted = text.translate(_PARTED)
    return (
        _SIGN not in parted
        and _WORDS.isdisjoint(parted.split())
        and _INNER_STOP.search(text) is None
        and (" I" not in text or _FIRST.search(text) is None)
        and (text.isascii() or _FOREIGN.search(text) is None)
    )


def edits(text: str, protected: Sequence[tuple[int, int]] = ()) -> list[Edit]:
    """Return the edits of a text outside its protected spans. Underscores of emphasis are removed;
    rules see quotation marks in their places.
    """
    left = mask(text, protected)
    if is_plain(left):
        return []
    marks = []
    if "_" in left:
        characters = list(text)
        for match in _EMPHASIS.finditer(left):
            marks += [match.start(), match.end() - 1]
            characters[marks[-2]], characters[marks[-1]] = "\u201c\u201d"
        text = "".join(characters)
        left = mask(text, protected)
    inner, commas = token_spans(left)
    found = apply_rules(RULES, text, [*protected, *commas], inner)
    read = {place for edit in found for place in range(edit.start, edit.end)} if marks else ()
    return found + [Edit(place, place + 1, "") for place in marks if place not in read]
