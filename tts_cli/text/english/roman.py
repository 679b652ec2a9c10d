"""Roman numerals: after Chapter, Part, Act and the like, and after the names of rulers.

`I` is usually the pronoun: it is a numeral only after a title and a name (King Charles I), or if
the following text shows it (Chapter I. · Act I, · Part I of).
"""

from __future__ import annotations

import re

from tts_cli.text.english.words import cardinal, ordinal
from tts_cli.text.rule import PIECE, Rule, any_case, one_of, where
from tts_cli.text.tables import load_table

_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
# 0 .. 399; higher numerals do not occur after these words.
NUMERALS = tuple(
    hundreds + tens + ones
    for hundreds in ("", "C", "CC", "CCC")
    for tens in ("", "X", "XX", "XXX", "XL", "L", "LX", "LXX", "LXXX", "XC")
    for ones in ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
)
_NUMERAL = r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"

_NAMES = load_table("names")
COUNTED: list[str] = _NAMES["counted_by_numerals"]
TITLES: list[str] = _NAMES["titles_of_rulers"]
RULERS: list[str] = _NAMES["rulers"]
_COUNTED = any_case(COUNTED)
_GOES_ON = ("of", "in", "and", "to", "is", "was", "begins", "began", "ends", "ended", "-", "\u2013")
_BEHIND_I = rf"(?=[.,;:!?)\]\"\u201d]|$|\n| {one_of(_GOES_ON)} | [A-Z])"


def value(numeral: str) -> int | None:
    """Return the value, 1 .. 3999; None if it is not written as Romans did."""
    if not numeral or not re.fullmatch(_NUMERAL, numeral):
        return None
    digits = [_VALUES[letter] for letter in numeral]
    return sum(
        -digit if digit < after else digit
        for digit, after in zip(digits, [*digits[1:], 0], strict=True)
    )


def _count(match: re.Match[str]) -> str | None:
    number = value(match[PIECE].upper())
    return None if number is None else cardinal(number)


def _rank(match: re.Match[str]) -> str | None:
    number = value(match[PIECE])
    return None if number is None or number > 40 else f"the {ordinal(number)}"


_NOT_I = r"(?!I\b)"
RULES = where(
    r" (?:[IVXLC]{1,12}|[ivxl]{2,8})(?!\w)",
    Rule(rf"\b{_COUNTED} (?P<{PIECE}>{_NOT_I}(?![CL]\b)[IVXLC]{{1,12}})(?!\w)", _count),
    Rule(rf"\b{_COUNTED} (?P<{PIECE}>[ivxl]{{2,8}})(?!\w)", _count),
    Rule(rf"\b(?=[A-Z]){_COUNTED} (?P<{PIECE}>I){_BEHIND_I}", _count),
    Rule(
        rf"\b{any_case(TITLES)} [A-Z][a-z]{{1,20}}(?: [A-Z][a-z]{{1,20}})? "
        rf"(?P<{PIECE}>[IVX]{{1,8}})(?!\w)",
        _rank,
    ),
    Rule(  # Stanley R. West, II, was
        rf"(?:[A-Z][a-z]{{1,20}} |[A-Z]\. )[A-Z][a-z]{{1,20}}, (?P<{PIECE}>I{{2,3}}|IV)(?=,)", _rank
    ),
    Rule(rf"\b{one_of(RULERS)} (?P<{PIECE}>{_NOT_I}[IVX]{{1,8}})(?!\w|(?<= [VX])\. [A-Z])", _rank),
)
