"""Numbers in words, as Americans say them: no "and" inside, no hyphens ("forty two").

No library is used: num2words writes "one hundred and one" and "forty-two", so every result would
need edits; inflect takes 8 s to import. The tests compare with num2words.
"""

from __future__ import annotations

import re

from tts_cli.text.tables import load_table

_TABLES = load_table("english")
_SMALL: list[str] = _TABLES["numbers"]["small"].split()
DIGITS = _SMALL[:10]
_TENS: list[str] = ["", "", *_TABLES["numbers"]["tens"].split()]
_THOUSANDS: list[str] = _TABLES["numbers"]["scales"].split()
_SCALES = [(1000 ** (index + 1), name) for index, name in enumerate(_THOUSANDS)][::-1]
_SCALES.append((100, "hundred"))
_ORDINALS: dict[str, str] = _TABLES["ordinals"]
_SAYINGS = {(24, 7), (9, 11), (20, 20)}
_HALVES = {2: ("half", "halves"), 4: ("quarter", "quarters")}
_DENOMINATORS = {*range(2, 13), 16, 20, 32, 64, 100, 1000}
_INCHES = {16, 32, 64, 100, 1000}
_PADDED = re.compile("0[0-9]")
_SIGNS: dict[str, str] = _TABLES["fractions"]

SAID_SIGNS = {"-": "minus ", "\u2212": "minus ", "\u2013": "minus ", "+": "plus "}
# Patterns of what `quantity` reads. An amount: 1,234.5 or 1234 or .5; none starts inside another.
SPACE = "[ \u00a0\u202f]"
DASH = "[-\u2010\u2011\u2013]"  # a dash with spaces around it is a pause
START = r"(?<!\w)"
NO_PRICE = rf"{START}(?<![$£€^])"
_WHOLE = (
    "(?:[0-9]{1,3}(?:(?:,[0-9]{3}){1,11}|(?:['\u2019][0-9]{3}){1,5}|(?:[\u00a0\u202f][0-9]{3}){1,5}"
    "|(?: 000){1,5})|[0-9]{1,18})(?![0-9])"
)
AMOUNT = rf"(?:{_WHOLE}(?:\.[0-9]{{1,20}})?|(?<![\w.])\.[0-9]{{1,20}})"
# Groups as in India: 1,00,000. Without a zero after a comma it may be a list: 1,64,256.
LAKHS = r"[0-9]{1,2}(?:,[0-9]{2}){1,5},[0-9]{3}(?![0-9])"
# A comma before the decimals, if a unit or a currency shows that it is one: 1,5 kg.
# Likewise for points between groups: 1.000.000 €.
COMMA = (
    r"(?:[0-9]{1,3}(?:(?:[. \u00a0\u202f][0-9]{3}){1,5}|[0-9]{0,6}),[0-9]{1,2}"
    r"|[0-9]{1,3}(?:\.[0-9]{3}){2})(?![.,]?[0-9])"
)
# A point between groups, if a currency of Europe shows that it is one: 12.500 euros.
POINTED = "[1-9][0-9]{0,2}\\.[0-9]{2}0"
PRICE = rf"(?:{LAKHS}(?:\.[0-9]{{1,2}})?|{COMMA}|{AMOUNT})"
# Signs are rare, so the pattern looks for one first, and then at the characters before it.
SIGN = (
    r"(?:[-+\u2212](?<![-+\w)\]\u2014].)(?<!(?<![0-9])\u2013.)"
    r"|\u2013(?:(?<=[=<>\u2264\u2265] .)|(?<=[(=<>\u2264\u2265].)))?"
)
PARTS = "".join(_SIGNS)
FRACTION = (
    rf"(?:[0-9]{{1,4}}{SPACE}?[{PARTS}]|[{PARTS}]"
    rf"|(?<!/)(?:[0-9]{{1,3}}[ -])?(?!0[0-9])[0-9]{{1,3}}/[1-9][0-9]{{0,3}}(?![\w/]))"
)
QUANTITY = f"(?:{SIGN}(?:{FRACTION}|{AMOUNT}))"
MEASURED = f"(?:{SIGN}(?:{FRACTION}|{PRICE}))"

_ARTICLE = re.compile(r"(?<!\w)[Aa]n? $")
# A noun after an amount is a word that is neither listed nor a participle.
_DETERMINER = re.compile(
    r"\b(?:[Tt]he|[Ii]ts|[Hh]is|[Hh]er|[Tt]heir|[Oo]ur|[Yy]our)(?: original)? $"
)
NOUN = re.compile(
    rf" (?!(?:{'|'.join(_TABLES['after_amounts'].split())})\b|[a-z]+(?:ed|en|ly)\b)[A-Za-z]{{3}}"
)
_SINGULAR = re.compile(rf"1|[0-9]+/[0-9]+|[{PARTS}]")


def cardinal(number: int) -> str:
    """0 .. 10**36 - 1 in words."""
    assert 0 <= number < 10**36, number
    for scale, name in _SCALES:
        if number >= scale:
            rest = f" {cardinal(number % scale)}" if number % scale else ""
            return f"{cardinal(number // scale)} {name}{rest}"
    if number < 20:
        return _SMALL[number]
    rest = f" {_SMALL[number % 10]}" if number % 10 else ""
    return _TENS[number // 10] + rest


def ordinal(number: int) -> str:
    """first, second, ... twenty first."""
    *before, last = cardinal(number).split()
    if last in _ORDINALS:
        last = _ORDINALS[last]
    else:
        last = f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"
    return " ".join([*before, last])


def year(number: int) -> str:
    """nineteen oh five, two thousand nine, twenty ten; 0 .. 9999."""
    century, rest = divmod(number, 100)
    if number < 1000 or (century % 10 == 0 and (century > 10 or rest == 0) and rest < 10):
        return cardinal(number)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"


def plural(word: str) -> str:
    """The plural of a number in words: nineties, hundreds, twenty sixes."""
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith("x") else f"{word}s"


def spelled(digits: str) -> str:
    """Digit by digit."""
    return " ".join(DIGITS[int(digit)] for digit in digits)


def whole(digits: str) -> str:
    """Return a whole number as a count: twenty five hundred, one thousand nine hundred sixty three.
    Numbers with a leading zero or more than 18 digits are read digit by digit.
    """
    number = int(digits)
    if len(digits) > 18 or (len(digits) > 1 and digits[0] == "0"):
        return spelled(digits)
    if len(digits) == 4 and digits.endswith("00") and digits[1] != "0":
        return f"{cardinal(number // 100)} hundred"
    return cardinal(number)


def code(digits: str) -> str:
    """Return a number that names something, as in A320: three twenty."""
    if digits[0] == "0" or len(digits) > 4:
        return spelled(digits)
    if len(digits) < 3 or digits.endswith("00"):
        return whole(digits)
    head, tail = digits[:-2], digits[-2:]
    return f"{cardinal(int(head))} {'oh ' if tail[0] == '0' else ''}{cardinal(int(tail))}"


def plain(written: str) -> str:
    """Return an amount without separators between groups of digits, with a dot as decimal point."""
    if re.fullmatch(COMMA, written):
        written = written.replace(".", "").replace(",", ".")
    return re.sub("[^0-9.]", "", written)


def amount(written: str) -> str:
    """Return a match of PRICE in words: 1,234.5 or .5 or 1,5."""
    before, point, after = plain(written).partition(".")
    if len(before) < len(re.split(r"\.|,[0-9]{1,2}$", written)[0]):
        said = cardinal(int(before))
    else:
        said = whole(before or "0")
    return f"{said} point {spelled(after)}" if point else said


def fraction(above: int, below: int, is_ordinal: bool = False) -> str:
    """one half, three quarters; "seven over thirty" unless written as an ordinal (1/17th)."""
    if _is_saying(above, below) and not is_ordinal:
        return f"{cardinal(above)} {cardinal(below)}"
    if above == below and not is_ordinal:
        return f"{cardinal(above)} out of {cardinal(below)}"
    if not is_ordinal and (below not in _DENOMINATORS or not 0 < above < below):
        return f"{cardinal(above)} over {cardinal(below)}"
    one, many = _HALVES.get(below) or (ordinal(below), f"{ordinal(below)}s")
    return f"{cardinal(above)} {one if above == 1 else many}"


def _is_saying(above: int, below: int) -> bool:
    """Return whether above/below is read without a word between them: 24/7, a 60/40 split."""
    return (above, below) in _SAYINGS or (above + below == 100 and above % 5 == 0 < above < 100)


def is_fraction(above: int, below: int) -> bool:
    """Return whether above/below has one reading: 3/4, 24/7, 120/80, but not 12/19."""
    if _is_saying(above, below) or above == below <= 100:
        return True
    if 60 <= above <= 260 and 30 <= below <= 160:
        return below < above
    return 0 < above < below and below in _DENOMINATORS and (above < 10 or below in _INCHES)


def is_range(low: str, high: str, may_fall: bool = False) -> bool:
    """Return whether two numbers with a dash between them are a range: 5-10, but not 46-1996 or
    10-05. With `may_fall` they may be a score: 22-4, 300-131.
    """
    if not re.fullmatch("[0-9.,]+-[0-9.,]+", f"{low}-{high}"):
        return True  # fractions and signs
    if _PADDED.match(low) or _PADDED.match(high):
        return False
    first, then = float(plain(low)), float(plain(high))
    if first > then:
        return may_fall and (low + high).isdecimal() and (first < 100 or 50 <= then <= first < 1000)
    if then < 100 or "," in high or then <= 20 * first:
        return True
    return not then % 10 and (first <= 1 or then <= 50 * first) and high not in ("800", "900")


def quantity(written: str) -> str:
    """Return a match of QUANTITY in words: an amount or a fraction, perhaps with a sign."""
    sign = SAID_SIGNS.get(written[0], "")
    written = written.lstrip("-+\u2212\u2013")
    if not written.isascii():
        written = "".join(f" {_SIGNS[char]}" if char in _SIGNS else char for char in written)
    if "/" not in written:
        return sign + amount(written)
    *before, last = re.split("[ \u00a0\u202f-]+", written.strip())
    above, below = last.split("/")
    part = fraction(int(above), int(below))
    if not before:
        return sign + part
    article = "an " if below == "8" else "a "
    return f"{sign}{whole(before[0])} and {part.replace('one ', article, 1)}"


def counted(written: str, name: str) -> str:
    """Return a number with its unit: one second, 2.5 seconds."""
    number = written.lstrip("0") or "0"
    return f"{amount(number)} {name}{'' if is_one(number) else 's'}"


def to(match: re.Match[str]) -> str:
    """Return the word for the dash of a range, with spaces: "and" after "between"."""
    return " and " if match.string.endswith("etween ", 0, match.start()) else " to "


def has_article(match: re.Match[str]) -> bool:
    """Return whether "a" or "an" comes before a match, whose unit is then singular."""
    return _ARTICLE.search(match.string, max(0, match.start() - 4), match.start()) is not None


def is_before_noun(match: re.Match[str]) -> bool:
    """Return whether a match describes the noun after it, as in "a ten mile walk"."""
    start = match.start()
    return has_article(match) or (
        _DETERMINER.search(match.string, max(0, start - 16), start) is not None
        and NOUN.match(match.string, match.end()) is not None
    )


def is_one(written: str) -> bool:
    """Return whether the unit of a number is singular: 1 mile, 1/2 mile, but 1.5 miles."""
    above, _, below = (written := written.lstrip("-+\u2212")).partition("/")
    return _SINGULAR.fullmatch(written) is not None and not (below and int(above) > int(below))
