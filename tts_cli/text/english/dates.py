"""Dates, years and decades.

3 October is "the third of October" and October 3 "October third", each as it is written.
In 10/3/1999 the month comes first, as in the rest of our American reading, unless it cannot
(25/12/1999); in 3.10.1999 the day does. 10/3 without a year is a date behind on, by, until and the
like, else a fraction.
"""

from __future__ import annotations

import re

from tts_cli.text.english.words import DASH, ordinal, plural, year
from tts_cli.text.rule import PIECE, Rule, looks_up, one_of, rule, table

NAMES = (
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
)
MONTHS: dict[str, str] = {name.lower(): name for name in NAMES} | {
    short.lower() + dot: name
    for name in NAMES
    for short in {name[:3], *({"Sept"} if name == "September" else ())}
    for dot in ("", ".")
}
WEEKDAYS = table(
    """
    mon=Monday | tue=Tuesday | tues=Tuesday | wed=Wednesday | thu=Thursday | thur=Thursday
    thurs=Thursday | fri=Friday | sat=Saturday | sun=Sunday
    """
)

_MONTH = rf"{one_of({key[0].upper() + key[1:] for key in MONTHS})}(?!\w)"
_DAY = r"[0-3]?[0-9](?:st|nd|rd|th)?"
_YEAR = "[12][0-9]{3}"
_RIGHT = r"(?![\w/]|[-.,:][0-9]|[-\u2013]\w)"
_LEFT = r"(?<![\w./-])(?<![0-9][,:])"


def _day(written: str) -> str | None:
    """third, for 3 or 3rd; None for a day no month has."""
    number = int(re.sub("[a-z]+", "", written))
    return ordinal(number) if 1 <= number <= 31 else None


def _days(match: re.Match[str], the: str) -> str | None:
    """One day or a range of days."""
    days = [_day(written) for written in (match["day"], match["last"]) if written]
    return f" to {the}".join(day for day in days if day) if all(days) else None


def _month(match: re.Match[str]) -> str:
    return MONTHS[match["month"].lower()]


def _month_first(match: re.Match[str]) -> str | None:
    days = _days(match, "")
    end = f", {year(int(match['year']))}" if match["year"] else ""
    return f"{_month(match)} {days}{end}" if days else None


def _day_first(match: re.Match[str]) -> str | None:
    days = _days(match, "the ")
    end = f" {year(int(match['year']))}" if match["year"] else ""
    return f"{match['the'] or 'the '}{days} of {_month(match)}{end}" if days else None


def _numeric(match: re.Match[str]) -> str | None:
    """10/3/1999, 25/12/1999, 3.10.1999, 1999-10-03, and 10/3 where a date must stand."""
    month, day = int(match["month"]), int(match["day"])
    written = match.groupdict().get("year")
    if match.groupdict().get("sep") in ("/", "-") and month > 12:
        month, day = day, month
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    end = ""
    if written:
        number = int(written)
        if len(written) == 2:
            number += 2000 if number < 70 else 1900
        end = f", {year(number)}"
    if match.groupdict().get("time"):
        end += " at "
    return f"{NAMES[month - 1]} {ordinal(day)}{end}"


def _decade(match: re.Match[str]) -> str | None:
    """nineteen nineties, eighteen hundreds, two thousands, eighties."""
    number = int(match["decade"])
    if number % 10:
        return None
    if match["decade"] == "00":
        return "two thousands"
    *before, last = year(number).split()
    return " ".join([*before, plural(last)])


def _years(match: re.Match[str]) -> str | None:
    first, last = match["first"], match["last"]
    if int(last) <= int(first[-len(last) :]):
        return None
    said = f"oh {year(int(last))}" if last[0] == "0" else year(int(last))
    return f"{year(int(first))} to {said}"


def _one_year(match: re.Match[str]) -> str:
    return year(int(match[PIECE]))


_CUE = "(?:in|since|until|till|by|year|of|circa|from|before|after|to)"
_ERA = r"(?:BCE?|CE|AD|B\.C\.|A\.D\.)"
_ON = r"(?:on|by|until|till|since|before|after|from)"

RULES: tuple[Rule, ...] = (
    looks_up(
        rf"\b(?P<{PIECE}>(?P<name>{one_of(key.title() for key in WEEKDAYS)})\.?)"
        rf"(?=,? (?:{_MONTH}|{_DAY} {_MONTH}))",
        WEEKDAYS | {f"{key}.": name for key, name in WEEKDAYS.items()},
    ),
    rule(
        rf"{_LEFT}(?P<year>{_YEAR})-(?P<month>[01][0-9])-(?P<day>[0-3][0-9])"
        rf"(?:(?P<time>T(?=[0-9]{{2}}:))|{_RIGHT})",
        _numeric,
    ),
    rule(
        rf"{_LEFT}(?P<month>[0-3]?[0-9])(?P<sep>/)(?P<day>[0-3]?[0-9])/"
        rf"(?P<year>{_YEAR}|[0-9]{{2}}){_RIGHT}",
        _numeric,
    ),
    rule(
        rf"{_LEFT}(?P<day>[0-3]?[0-9])(?P<sep>\.) ?(?P<month>[01]?[0-9])\. ?"
        rf"(?P<year>{_YEAR}){_RIGHT}",
        _numeric,
    ),
    rule(
        rf"\b{_ON} (?P<{PIECE}>(?P<month>[01]?[0-9])/(?P<day>[0-3]?[0-9])){_RIGHT}",
        _numeric,
        re.IGNORECASE,
    ),
    rule(
        rf"{_LEFT}(?P<the>[Tt]he )?(?P<day>{_DAY})(?:{DASH}(?P<last>{_DAY}))?(?: of)? "
        rf"(?P<month>{_MONTH})(?:,? (?P<year>{_YEAR}){_RIGHT})?",
        _day_first,
    ),
    rule(
        rf"\b(?P<month>{_MONTH}) (?P<day>{_DAY})(?:{DASH}(?P<last>{_DAY}))?"
        rf"(?:,? (?P<year>{_YEAR}))?{_RIGHT}",
        _month_first,
    ),
    rule(
        rf"\b(?P<month>{_MONTH}),? (?P<year>{_YEAR}){_RIGHT}",
        lambda match: f"{_month(match)} {year(int(match['year']))}",
    ),
    rule(r"(?<![\w.,])['\u2019]?(?P<decade>[0-9]{4}|[0-9]{2})['\u2019]?s\b", _decade),
    rule(
        rf"{_LEFT}(?P<first>{_YEAR})[-/\u2013](?P<last>{_YEAR}|[0-9]{{2}}){_RIGHT}",
        _years,
    ),
    rule(rf"{_LEFT}(?P<{PIECE}>[0-9]{{1,4}}) ?{_ERA}(?!\w)", _one_year),
    rule(rf"\b(?:AD|A\.D\.) (?P<{PIECE}>[0-9]{{1,4}}){_RIGHT}", _one_year),
    rule(rf"\b{_CUE} (?P<{PIECE}>1[0-9]{{3}}){_RIGHT}", _one_year, re.IGNORECASE),
    looks_up(rf"\b{one_of(name[:3] for name in NAMES if name != 'May')}\.(?=\s|$)", MONTHS),
    looks_up(r"\bSept\.(?=\s|$)", MONTHS),
)
YEARS = (
    rule(
        rf"(?<![\w.$£€-])(?<![0-9],)(?P<{PIECE}>1[1-9][0-9]{{2}}|20[0-9]{{2}})(?!\w|[.,][0-9])",
        _one_year,
    ),
)
