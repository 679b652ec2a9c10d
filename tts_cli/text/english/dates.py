"""Dates, years and decades.

3 October is "the third of October", and October 3 is "October third". In 10/3/1999 the month comes
first, as in American English, unless it cannot (25/12/1999); in 3.10.1999 the day comes first. 10/3
without a year is a date after on, by, until and the like, else a fraction. "may" and "march" in
lower case are months only next to an ordinal or a year.
"""

from __future__ import annotations

import re

from tts_cli.text.english.words import DASH, cardinal, ordinal, plural, to, year
from tts_cli.text.normalized_text import MASK
from tts_cli.text.rule import PIECE, Rule, looks_up, one_of, says, where
from tts_cli.text.tables import load_table

NAMES: list[str] = load_table("english")["months"].split()
MONTHS: dict[str, str] = {name.lower(): name for name in NAMES} | {
    short.lower() + dot: name
    for name in NAMES
    for short in {name[:3], *({"Sept"} if name == "September" else ())}
    for dot in ("", *("." if len(short) < len(name) else ""))
}
WEEKDAYS: dict[str, str] = load_table("english")["weekdays"]

# The character set comes first, because an alternation that ignores case is slow to fail.
_MONTH = rf"(?=[ADFJMNOSadfjmnos][ACEOPUaceopu])(?i:{one_of(MONTHS)})(?:(?<=\.)|(?!\w))"
_ANY_MONTH = rf"\b(?=[ADFJMNOSadfjmnos][ACEOPUaceopu])(?i:{one_of(name[:3] for name in NAMES)})"
_DAY = r"[0-3]?[0-9](?i:st|nd|rd|th)?"
_YEAR = "[12][0-9]{3}"
_RIGHT = rf"(?![\w/]|[-.,:][0-9]|[-\u2013](?!{_ANY_MONTH[2:]})\w)"
_LEFT = r"(?<![\w/])"
_SHORT_YEAR = f"(?P<year>{_YEAR}|[0-9]{{2}})"
_GOES_ON = re.compile(" [a-z]")
_NEXT_SENTENCE = re.compile(" [A-Z]")
_DAY_FIRST = re.compile(r"(?<![\w/])(?:1[3-9]|2[0-9]|3[01])/(?:0?[1-9]|1[0-2])/[0-9]{2}")
_CHANGED = re.compile(rf"\b{one_of(load_table('english')['cues']['changed'])}")


def _day(written: str) -> str | None:
    """third, for 3 or 3rd; None for a day that no month has."""
    number = int(written.rstrip("stndrhSTNDRH"))
    return ordinal(number) if 1 <= number <= 31 else None


def _days(match: re.Match[str], the: str) -> str | None:
    days = [_day(written) for written in (match["day"], match.groupdict().get("last")) if written]
    join = " and " if match.groupdict().get("slash") else " to "
    if join == " and " and int(match["day"]) >= int(re.sub("[a-z]", "", match["last"].lower())):
        return None  # 24/7 March
    return f"{join}{the}".join(day for day in days if day) if all(days) else None


def _month(match: re.Match[str]) -> str:
    return MONTHS[match["month"].lower()]


def _year_of(match: re.Match[str], before: str) -> str:
    """Return a date's year, perhaps of two digits, with the text that separates it from the day."""
    written = match.groupdict().get("year")
    if not written:
        return ""
    number = int(written)
    if len(written) == 2:
        number += 2000 if number < 70 else 1900
    return before + year(number)


def _is_date(match: re.Match[str]) -> bool:
    """Return whether may and march are months: may 4th, 4 may 1999; not: you may 4 times."""
    if match["month"].lower() not in ("may", "march") or match["month"].istitle() or match["year"]:
        return True
    is_first = match.start("month") < match.start("day")
    is_ordinal = not match["day"].isdecimal()
    return is_ordinal and (is_first or _GOES_ON.match(match.string, match.end()) is None)


def _month_first(match: re.Match[str]) -> str | None:
    days = _days(match, "")
    if days is None or not _is_date(match):
        return None
    return f"{_month(match)} {days}{_year_of(match, ', ')}"


def _day_first(match: re.Match[str]) -> str | None:
    days = _days(match, "the ")
    if days is None or not _is_date(match):
        return None
    the = match.groupdict().get("the") or "the "
    stop = (
        "."
        if match.group().endswith(".") and _NEXT_SENTENCE.match(match.string, match.end())
        else ""
    )
    return f"{the}{days} of {_month(match)}{_year_of(match, ' ')}{stop}"


def numeric(match: re.Match[str]) -> str | None:
    """10/3/1999, 25/12/1999, 3.10.1999, 1999-10-03, and 10/3 where only a date fits."""
    month, day = int(match["month"]), int(match["day"])
    is_dashed = match.groupdict().get("sep") in ("/", "-")
    if is_dashed and (month > 12 or (day <= 12 and _DAY_FIRST.search(match.string))):
        month, day = day, month
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return f"{NAMES[month - 1]} {ordinal(day)}{_year_of(match, ', ')}"


def _short(match: re.Match[str]) -> str | None:
    """10/3; None where a quantity changes by 1/3."""
    is_share = match["month"] in ("1", "2", "3") and match["day"] in ("2", "3", "4", "8", "10")
    before = match.string[max(0, match.start() - 60) : match.start()]
    return None if is_share and _CHANGED.search(before) else numeric(match)


def _decade(match: re.Match[str]) -> str | None:
    """nineteen nineties, eighteen hundreds, two thousands, eighties."""
    number = int(match["decade"])
    if number % 10:
        return None
    return "two thousands" if match["decade"] == "00" else plural(year(number))


def _years(match: re.Match[str]) -> str | None:
    first, last = match["first"], match["last"]
    if first[2:] == "99" and last == "00":
        last = str(int(first) + 1)
    if "/" in match.group() and len(last) == 1 and int(last) != int(first[-1]) + 1:
        return None  # 1660/4 is no year
    if int(last) <= int(first[-len(last) :]):
        is_month = len(last) == 2 and 1 <= int(last) <= 12 and "-" in match.group()
        return f"{NAMES[int(last) - 1]} {year(int(first))}" if is_month else None
    said = f"oh {year(int(last))}" if last[0] == "0" else year(int(last))
    join = " " if "/" in match.group() and len(last) == 1 else to(match)
    return f"{year(int(first))}{join}{said}"


def _one_year(match: re.Match[str]) -> str:
    return year(int(match[PIECE]))


_CUE = "(?:in|since|until|till|by|year|of|circa|from|before|after|to)"
_ERA = r"(?:BCE?|CE|AD|B\.C\.?|A\.D\.?)"
_ON = r"(?:on|by|until|till|since|before|after|from)"

RULES: tuple[Rule, ...] = (
    *where(
        " [-\u2013] ",
        says(  # between two dates
            rf"{_ANY_MONTH}[a-z]{{0,6}}\.? [0-3]?[0-9](?:, {_YEAR})?(?P<{PIECE}> [-\u2013] )"
            rf"(?={_ANY_MONTH}[a-z]{{0,6}}\.? [0-3]?[0-9](?!\w))",
            " to ",
        ),
        says(  # 30 May - 1 June
            rf"{_LEFT}{_DAY} {_MONTH}(?:,? {_YEAR})?(?P<{PIECE}> [-\u2013] )(?={_DAY} {_MONTH})",
            " to ",
        ),
        says(  # 26th - 29th May · 10am - 4pm · 10:00 - 16:00
            rf"(?:(?<=[0-9](?:st|nd|rd|th))(?= [-\u2013] {_DAY}(?: of)? {_MONTH})"
            r"|(?<=[0-9][ap]m)(?= [-\u2013] [0-9]{1,2}(?:[:.][0-9]{2})? ?[ap]m)"
            r"|(?<=[0-9])(?= [-\u2013] [0-9.]{1,6} ?(?:[mk]?g|ml|[kcm]m|mph|%|°)(?!\w))"
            r"|(?<=[0-9][:.][0-9]{2})(?= [-\u2013] [0-9]{1,2}[:.][0-9]{2}(?![\w:.])))"
            r" [-\u2013] ",
            " to ",
        ),
        Rule(
            rf"(?<![\w-])(?P<first>{_YEAR})(?P<{PIECE}> [-\u2013] )(?P<last>{_YEAR})(?![\w-])",
            lambda match: " to " if match["first"] < match["last"] else None,
        ),
    ),
    Rule(
        rf"{_LEFT}(?P<year>(?:19|20)[0-9]{{2}})(?P<month>0[1-9]|1[0-2])"
        rf"(?P<day>0[1-9]|[12][0-9]|3[01]){_RIGHT}",
        numeric,
        needs="[12][0-9]{7}",
    ),
    *where(
        "[0-9]s",
        Rule(  # the under-23s · 45s and 78s
            r"(?:(?<=\bunder-)|(?<=\bover-)|(?<!\w)(?=[0-9]{1,3}s and [0-9]{1,3}s\b)"
            rf"|(?<=[0-9{MASK}]s and )|(?<={MASK} and ))(?P<{PIECE}>[0-9]{{1,3}}s)(?!\w)",
            lambda match: plural(cardinal(int(match[PIECE][:-1]))),
        ),
    ),
    *where(
        _ANY_MONTH,
        Rule(
            rf"\b(?:from|between) (?P<{PIECE}>{_DAY})"
            rf"(?= (?:to|and|until) (?:the )?{_DAY}(?: of)? {_MONTH})",
            lambda match: f"the {_day(match[PIECE])}" if _day(match[PIECE]) else None,
        ),
        looks_up(
            rf"\b(?P<{PIECE}>(?P<name>{one_of(key.title() for key in WEEKDAYS)})\.?)"
            rf"(?=,? (?:{_MONTH}|{_DAY} {_MONTH}))",
            WEEKDAYS | {f"{key}.": name for key, name in WEEKDAYS.items()},
        ),
    ),
    *where(
        "[0-9][-/.] ?[0-9]",
        Rule(
            rf"{_LEFT}(?P<year>{_YEAR})(?P<sep>[-/.])(?P<month>[0-3]?[0-9])(?P=sep)"
            rf"(?P<day>[0-3]?[0-9]){_RIGHT}",
            numeric,
        ),
        Rule(
            rf"{_LEFT}(?P<month>[0-3]?[0-9])(?P<sep>[-/])(?P<day>[0-3]?[0-9])(?P=sep)"
            rf"(?P<year>{_YEAR}|(?<=/)[0-9]{{2}}){_RIGHT}",
            numeric,
        ),
        Rule(
            rf"{_LEFT}(?P<month>0?[1-9]|1[0-2])/(?P<year>(?:19|20)[0-9]{{2}}){_RIGHT}",
            lambda match: NAMES[int(match["month"]) - 1] + _year_of(match, " "),
        ),
        Rule(
            rf"{_LEFT}(?P<day>[0-3]?[0-9])(?P<sep>\.) ?(?P<month>[01]?[0-9])\. ?"
            rf"(?P<year>{_YEAR}){_RIGHT}",
            numeric,
        ),
        Rule(
            rf"\b{_ON} (?P<{PIECE}>(?P<month>[01]?[0-9])/(?P<day>[0-3]?[0-9])){_RIGHT}"
            r"(?! (?:to [0-9]|points?|of|pct|per|percent)\b)",
            _short,
            re.IGNORECASE,
        ),
    ),
    *where(
        _ANY_MONTH,
        Rule(
            rf"{_LEFT}(?P<year>{_YEAR})[/-](?P<month>{_MONTH})[/-](?P<day>{_DAY}){_RIGHT}",
            _month_first,
        ),
        Rule(
            rf"{_LEFT}(?P<the>(?i:the) )?(?P<day>{_DAY})"
            rf"(?:(?:{DASH}|(?P<slash>/))(?P<last>{_DAY}))?"
            rf"(?i: of)? "
            rf"(?P<month>{_MONTH})(?:,? (?P<year>{_YEAR}){_RIGHT})?",
            _day_first,
        ),
        Rule(
            rf"\b(?P<month>{_MONTH})(?: |(?<=\.))(?P<day>{_DAY})"
            rf"(?:(?:{DASH}|(?P<slash>/))(?P<last>{_DAY}))?"
            rf"(?:,? (?P<year>{_YEAR}))?{_RIGHT}",
            _month_first,
        ),
        Rule(
            rf"{_LEFT}(?P<day>{_DAY})[-/](?P<month>{_MONTH})(?:[-/]{_SHORT_YEAR})?{_RIGHT}",
            _day_first,
        ),
        Rule(
            rf"(?<![\w/-])(?P<month>{_MONTH})[-/](?P<day>{_DAY})(?:[-/]{_SHORT_YEAR})?{_RIGHT}",
            _month_first,
        ),
        Rule(
            rf"\b(?P<month>{_MONTH}),? (?P<year>{_YEAR}){_RIGHT}",
            lambda match: f"{_month(match)} {year(int(match['year']))}",
        ),
        looks_up(rf"\b{one_of(name[:3] for name in NAMES if name != 'May')}\.(?=\s|$)", MONTHS),
        looks_up(r"\bSept\.(?=\s|$)", MONTHS),
    ),
    *where(
        "[0-9]['\u2019]?s",
        Rule(  # $20s · 100s of people
            r"(?<!\w)(?:[$£€][0-9]{1,3}'?s\b|(?<![$£€])(?:10{1,3}|10{0,2},000)s(?= of\b))",
            lambda match: plural(cardinal(int(re.sub(r"\D", "", match.group())))).removeprefix(
                "one "
            ),
        ),
        Rule(r"(?<!\w)['\u2018\u2019]?(?P<decade>[0-9]{4}|[0-9]{2})['\u2019]?s\b", _decade),
    ),
    Rule(
        rf"{_LEFT}(?P<first>{_YEAR})[-/\u2013](?P<last>{_YEAR}|[0-9]{{1,2}}){_RIGHT}",
        _years,
        needs="[0-9][-/\u2013][0-9]",
    ),
    Rule(rf"{_LEFT}(?P<{PIECE}>[0-9]{{1,4}}) ?{_ERA}(?!\w)", _one_year, needs="[0-9] ?[ABC]"),
    Rule(rf"\b(?:AD|A\.D\.) (?P<{PIECE}>[0-9]{{1,4}}){_RIGHT}", _one_year, needs=r"D\.? [0-9]"),
    Rule(
        rf"\b{_CUE} (?P<{PIECE}>1[0-9]{{3}}){_RIGHT}(?! [a-z]{{1,3}}/[a-z])",
        _one_year,
        re.IGNORECASE,
        needs=" 1[0-9]{3}",
    ),
)
YEARS = where(
    "[12][0-9]{3}",
    Rule(
        rf"(?<![\w$£€])(?:(?<=[a-z]{{2}}-)|(?<!(?<![-.])[-.]))(?P<{PIECE}>1[1-9][0-9]{{2}}|20[0-9]{{2}})(?!\w)",
        _one_year,
    ),
)
