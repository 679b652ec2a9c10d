"""Abbreviations, titles, and words before a number (pp. 10-12). Acronyms (NASA, U.S.) stay."""

from __future__ import annotations

import re

from tts_cli.text.normalized_text import MASK
from tts_cli.text.rule import (
    PIECE,
    Rule,
    any_case,
    ends_sentence,
    ends_surely,
    looks_up,
    one_of,
    piece,
    says,
    where,
)
from tts_cli.text.tables import load_table, script

_TABLES = load_table("english")
TITLES: dict[str, str] = _TABLES["titles"]
STREETS: dict[str, str] = _TABLES["streets"]
BEFORE_NUMBERS: dict[str, str] = _TABLES["before_numbers"]
BEFORE_WORDS: dict[str, str] = _TABLES["before_words"]
ANYWHERE: dict[str, str] = _TABLES["anywhere"]
# Names keep their capital: Smith Bros. and Acme Inc., but the word "etc." has none.
_CAPITALS = {"Inc.", "Ltd.", "Corp.", "Bros.", "Jr.", "Sr.", "Ave.", "Blvd.", "Rd.", "Co.", "Univ."}
_LOUD_TITLE = one_of(title.upper() for title in TITLES if title != "st")
_NAME = re.compile(rf"(?:[A-Z{MASK}][^ ]*|[0-9](?:st|nd|rd|th)|[&)]|\b(?:and|of)),? $")
_NEXT_NAME = (
    rf"(?= (?:(?:{'|'.join(_TABLES['cues']['particles'])}) )?(?:[{script('latin_capitals')}]|\0))"
)
_ADDRESS = re.compile(r"(?:\b[0-9][\w-]{0,7}|\0) (?:[NSEW]\.? )?(?:[A-Z][\w'\u2019]{0,20} ){1,3}$")
_NUMBERED_STREET = re.compile(r"\b[0-9]{1,3}(?:st|nd|rd|th) $")
_CAPITAL_BEFORE = re.compile(rf"[A-Z][a-z\u2019']{{1,20}} $|{_NUMBERED_STREET.pattern}")
_EDITION = re.compile(rf"(?:[0-9{MASK}](?:st|nd|rd|th)?|[Rr]ev\.|[a-z](?:st|nd|rd|th)) $")
# Titles that are also written without a full stop.
UNDOTTED = ("mr", "mrs", "ms", "dr", "prof", "mt", "st", "fr", "lt", "lieut", "capt", "sgt", "rev")
TAIL = 90  # characters before a match that rules examine


def _before(match: re.Match[str]) -> str:
    start = match.start(PIECE) if PIECE in match.re.groupindex else match.start()
    return match.string[max(0, start - TAIL) : start]


def _title(match: re.Match[str]) -> str | None:
    """Mister, Saint; None in an address (12 Main St. Boston)."""
    name = piece(match).rstrip(".").lower()
    before = _before(match)
    if name in STREETS and (_ADDRESS.search(before) or _NUMBERED_STREET.search(before)):
        return None
    return TITLES[name]


def _street(match: re.Match[str]) -> str | None:
    """Street, Drive; a full stop that ends the sentence stays."""
    if not _CAPITAL_BEFORE.search(_before(match)):
        return None
    name = STREETS[piece(match).rstrip(".").lower()]
    return name + ("." if piece(match).endswith(".") and ends_surely(match) else "")


def _anywhere(match: re.Match[str]) -> str | None:
    name = match.group().lower()
    if name == "ed." and not _EDITION.search(_before(match)):
        return None  # Higher Ed.
    if name.capitalize() in _CAPITALS and not _NAME.search(_before(match)):
        return None  # 25 percent on RD.
    said = ANYWHERE[name]
    if match.group() not in _CAPITALS:
        return said + ("." if ends_sentence(match) else "")
    return said.capitalize() + ("." if ends_surely(match) else "")


def _capitals(words: dict[str, str]) -> str:
    return one_of(word.capitalize() for word in words)


# The words of all rules about words in one pattern, which costs as much as one rule's own.
_WORDS = (
    f"{_capitals({**TITLES, **STREETS})}|{_LOUD_TITLE}|{any_case({**ANYWHERE, **BEFORE_WORDS})}"
)

RULES = (
    says(  # Smith v. 150 Realty, LLC
        r"(?:(?<=[a-z] )|(?<=[a-z]\. )|(?<=[A-Z]{2} ))v\.(?= (?:[0-9]{1,5} )?[A-Z])",
        "versus",
        needs=r" v\. ",
    ),
    Rule(
        rf"(?<![\w./])(?<!Civ\. |rim\. |App\. )(?P<{PIECE}>{any_case(BEFORE_NUMBERS)}\.)"
        rf" ?(?=[0-9#{MASK}])",
        lambda match: BEFORE_NUMBERS[piece(match)[:-1].lower()] + " " * (match.group()[-1] != " "),
        needs=rf"\. ?[0-9#{MASK}]",
    ),
    *where(
        rf"(?<![\w.])(?:{_WORDS}|Ph\.D\.|ca|inst\.|ult\.|prox\.)(?!\w)",
        says(r"\bca(?= [0-9])", "circa"),
        Rule(
            r"(?<=[0-9](?:st|nd|rd|th) )(?:inst|ult|prox)\.",
            lambda match: (
                {"i": "instant", "u": "ultimo", "p": "proximo"}[match.group()[0]]
                + "." * ends_sentence(match)
            ),
        ),
        Rule(
            rf"(?<![\w.])(?P<{PIECE}>(?:{_capitals(TITLES)}|{_LOUD_TITLE})\.){_NEXT_NAME}", _title
        ),
        Rule(rf"(?<![\w.])(?P<{PIECE}>{one_of(map(str.title, UNDOTTED))}){_NEXT_NAME}", _title),
        Rule(rf"(?<![\w.]){_capitals(STREETS)}(?:\.(?!\w)|(?=,| [A-Z0-9]|$))", _street),
        Rule(rf"(?<![\w.])(?:{any_case(ANYWHERE)}|Ph\.D\.)(?!\w)", _anywhere),
        looks_up(rf"(?<![\w./]){any_case(BEFORE_WORDS)}(?!\w)", BEFORE_WORDS),
    ),
    says(r"(?<!\w)w/ ?(?=\w)(?!(?:w|v|vol)\b)", "with ", needs="w/"),
)
