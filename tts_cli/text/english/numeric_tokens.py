"""Numeric tokens: 1,234.50 · 2016/07/03 · 10.0.0.1:8080 · 1e-5.

Digits that are joined without a space only have a meaning together: the 8080 of that address is not
a year. So no rule may edit a part of a token. A token that no rule reads as a whole is left as
written and reported. Words joined to numbers do not belong to it (COVID-19, 9-to-5).
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

_HEX = "[0-9A-Fa-f]"
# Hexadecimal numbers; the end of a name (v1.2.3, but part3/7 are two); everything else, in which
# the sign of an exponent or of a time zone may follow another character than a digit.
_FIGURE = re.compile(
    rf"(?<![\w:-])(?=[0-9:-]*[A-Fa-fxX])(?:0[xX]{_HEX}{{1,16}}|(?:{_HEX}{{2}}[:-]){{5}}{_HEX}{{2}}"
    rf"|{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}|(?:{_HEX}{{1,4}}::?){{2,7}}{_HEX}{{1,4}}"
    rf"|{_HEX}{{1,4}}::{_HEX}{{1,4}})(?![\w:-]|[.,'\u2019/\u2013][0-9])"
    r"|(?<=[A-Za-z])[0-9]+(?:[.-][0-9]+)*"
    r"|(?:(?<![\w.])\.)?[0-9]+(?:(?:::|[.,:'\u2019/Tx\u2010\u2011\u2013-]|[eE][-+\u2212]?"
    r"|\+(?=[0-9]{2}:?[0-9]{2}(?!\w)))[0-9]+)*"
)
# A fast check for joined tokens.
_JOINT = re.compile(
    "[0-9](?:[.,:'\u2019/Tx\u2010\u2011\u2013-][0-9A-Fa-f:]|[eE][-+\u2212]?[0-9]|(?<=0)X|\\+[0-9])"
)
_LIST = re.compile(r"[0-9]+(?:[-\u2013][0-9]+)?(?:,[0-9]+(?:[-\u2013][0-9]+)?)+")
_SIZE = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?"
_SIZES = re.compile(f"{_SIZE}(?:x{_SIZE})+")
_GROUPED = re.compile("[0-9]{1,3}(?:,[0-9]{3})+")
# 3,4 and 5 · 2,4-dinitro, but 1,5-liter.
_GOES_ON = re.compile(
    r",? (?:and|or|&|to) [0-9]"
    r"|-(?!lit|met|inch|f[eo]|mile|hour|min|sec|ton|gram|kilo|per|vol|watt|gal)[A-Za-z]"
)
_LISTED = re.compile(
    r"(?:chapter|day|episode|exercise|figure|item|level|line|number|page|part|question|row|rule"
    r"|section|step|table|unit|verse|volume|week)s $|\b(?:no|p|vol|fig)s?\. $",
    re.IGNORECASE,
)
_DIGIT = re.compile("[0-9]")
_NAME_BEFORE, _NAME_AFTER = re.compile(r"[\w.-]+\Z"), re.compile(r"\A\w+")


class TokenSpans(NamedTuple):
    """Limits for edits: rules may neither split tokens nor join the items of a list."""

    inner: set[int]  # no edit may begin or end there
    commas: list[tuple[int, int]]  # and dashes in lists; no edit may contain one


def token_spans(text: str) -> TokenSpans:
    found = TokenSpans(set(), [])
    for match in _FIGURE.finditer(text) if _JOINT.search(text) else ():
        place = match.start()
        for item in _items(match):
            found.inner.update(range(place + 1, place + len(item)))
            place += len(item) + 1
            if place <= match.end() and text[place - 1] != "x":
                found.commas.append((place - 1, place))
    return found


def left_as_written(text: str) -> str | None:
    """Return the first number that is left in a normalized text, with the letters joined to it."""
    for match in _FIGURE.finditer(text):
        if _DIGIT.search(match.group()):
            before = "".join(_NAME_BEFORE.findall(text, max(0, match.start() - 40), match.start()))
            return before + match.group() + "".join(_NAME_AFTER.findall(text[match.end() :])[:1])
    return None


def _items(match: re.Match[str]) -> list[str]:
    """Return the numbers of a list or of sizes (2x4), which are read one by one, else the token."""
    written = match.group()
    if "x" in written and _SIZES.fullmatch(written):
        return written.split("x")
    return re.split("[,\u2013-]", written) if "," in written and _is_list(match) else [written]


def _is_list(match: re.Match[str]) -> bool:
    """Return whether commas separate a list: 1,3-5 · 3,4 and 5 · 6-4,6-3. 1,5 may be a decimal."""
    written = match.group()
    behind = match.string[match.end() : match.end() + 1]
    if not _LIST.fullmatch(written) or behind.isalnum():
        return False
    if any(_GROUPED.fullmatch(part) for part in re.split("[-\u2013]", written)):
        return False
    if all(re.search("[-\u2013]", item) for item in written.split(",")):
        return True
    numbers = re.split("[^0-9]", written)
    ranges = [
        [int(number) for number in re.split("[-\u2013]", item)] for item in written.split(",")
    ]
    if any(pair != sorted(pair) for pair in ranges):
        return False  # 1,5-2 has a decimal comma
    if any(number[0] == "0" for number in numbers):
        return False
    is_rising = all(int(first) < int(then) for first, then in pairwise(numbers))
    if len(numbers) > 2 and (is_rising or len(numbers[-1]) != 3):
        return True
    if not is_rising or _GOES_ON.match(match.string, match.end()):
        return is_rising
    return _LISTED.search(match.string, max(0, match.start() - 12), match.start()) is not None
