"""Times: 7:30 p.m., 8.30pm, 12:00, 19:45, 3-4 pm, 10:30:15, 2024-03-15T10:30Z, 1:23.45."""

from __future__ import annotations

import re

from tts_cli.text.english.dates import NAMES, WEEKDAYS, numeric
from tts_cli.text.english.words import (
    DASH,
    SAID_SIGNS,
    SPACE,
    START,
    cardinal,
    counted,
    has_article,
)
from tts_cli.text.rule import Rule, any_case, ends_sentence, one_of, where
from tts_cli.text.tables import load_table

_TIME = "(?P<h{0}>[0-5]?[0-9]):(?P<m{0}>[0-5][0-9])(?::(?P<s{0}>[0-5][0-9]))?"
_HOUR = "(?P<h{0}>[0-2]?[0-9])(?:[.:](?P<m{0}>[0-5][0-9]))?"
_STOP = r"(?:\.(?!\w)|\b)"
_CUES = load_table("english")["cues"]
_HALF = rf"(?:{SPACE}?(?P<half>[ap]\. ?m{_STOP}|[AP]\.M{_STOP}|[ap]m\b|[AP]M\b))"
_DATE = "(?P<year>[12][0-9]{3})-(?P<month>[01][0-9])-(?P<day>[0-3][0-9])"
_ZONE = r"(?P<zone>Z|(?P<sign>[-+\u2212])(?P<off>[01][0-9]):?(?P<minutes>[0-5][0-9]))?(?!\w)"
_RIGHT = r"(?![\w/]|[-.,:][0-9])"
_ZONES = (
    "GMT",
    "UTC",
    "BST",
    "CET",
    "CEST",
    *(f"{zone}{kind}T" for zone in "ECMP" for kind in "SD"),
)
_NAMED = re.compile(rf" (?:{one_of([*NAMES, *WEEKDAYS.values(), *_ZONES])}|[ECMP]T)\b")
_SAID_AFTER = r" (?:noon|midnight|o['\u2019]clock|hours)\b"


def _clock(hour: int, minute: int, is_alone: bool) -> str:
    """seven thirty, nine oh five, seven o'clock; without "o'clock" unless the time is alone."""
    if minute:
        return f"{cardinal(hour)} {'oh ' if minute < 10 else ''}{cardinal(minute)}"
    if not is_alone:
        return cardinal(hour)
    if hour in (0, 24):
        return "midnight"
    return f"{cardinal(hour)} hundred" if hour > 12 else f"{cardinal(hour)} o'clock"


def _half(match: re.Match[str]) -> str:
    """A M or P M, and the full stop if it also ends the sentence."""
    half = match.groupdict().get("half")
    if not half:
        return ""
    is_end = half.endswith(".") and ends_sentence(match)
    is_named = _NAMED.match(match.string, match.end()) is not None
    return f" {half[0].upper()} M{'.' if is_end and not is_named else ''}"


def _and_seconds(clock: str, written: str | None) -> str:
    seconds = _trimmed(written or "")
    return f"{clock} and {counted(seconds, 'second')}" if seconds.strip("0") else clock


def _trimmed(seconds: str) -> str:
    """05.25, for 05,250: without trailing zeros."""
    seconds = seconds.replace(",", ".")
    return seconds.rstrip("0").rstrip(".") if "." in seconds else seconds


def _time(match: re.Match[str]) -> str | None:
    groups = match.groupdict()
    half = _half(match)
    is_alone = not half and re.match(_SAID_AFTER, match.string[match.end() :][:12]) is None
    shift = match.string[match.start() - 1 : match.start()]  # of UTC+02:00
    is_alone = is_alone and shift not in SAID_SIGNS
    said = []
    for index in "01":
        if groups.get(f"h{index}"):
            hour, minute = int(groups[f"h{index}"]), groups[f"m{index}"]
            if minute is None and not 1 <= hour <= 12:
                return None
            clock = _clock(hour, int(minute or 0), is_alone)
            said.append(_and_seconds(clock, groups.get(f"s{index}")))
    return (groups.get("join") or " to ").join(said) + half


def _instant(match: re.Match[str]) -> str | None:
    """2024-03-15T10:30:00Z: a day, a time and its offset from UTC."""
    if (day := numeric(match)) is None:
        return None
    clock = _clock(int(match["h"]), int(match["m"]), is_alone=True)
    said = f"{day} at {_and_seconds(clock, match['s'])}"
    if match["zone"] is None:
        return said
    if match["sign"] is None or not int(match["off"] + match["minutes"]):
        return f"{said} U T C"
    minutes = f" {cardinal(int(match['minutes']))}" if int(match["minutes"]) else ""
    sign = "plus" if match["sign"] == "+" else "minus"
    return f"{said} U T C {sign} {cardinal(int(match['off']))}{minutes}"


def _duration(match: re.Match[str]) -> str | None:
    """1:23.45 · 00:01:02,500 · 72:15:00: no time of day has parts of a second, or 72 hours."""
    hours, seconds = match["h"], _trimmed(match["s"])
    if "," in match["s"] and not hours:
        return None  # 1:25,000 is a scale
    if match["s"].isdecimal() and (not hours or int(hours) < 25):
        return None
    parts = ((hours, "hour"), (match["m"], "minute"), (seconds, "second"))
    said = [counted(number, name) for number, name in parts if number and number.strip("0")]
    *before, last = said or ["zero seconds"]
    return f"{' '.join(before)} and {last}" if before else last


def _lasting(match: re.Match[str]) -> str:
    """1h 30m · 5m 30s: an m after hours or before seconds means minutes, and 30s are seconds."""
    parts = (("h", "hour"), ("m", "minute"), ("minutes", "minute"), ("s", "second"))
    said = " ".join(counted(match[key], name) for key, name in parts if match[key])
    return re.sub(r"(?<=hour|nute|cond)s\b", "", said) if has_article(match) else said


# Before decades.
LENGTHS = where(
    "[0-9] ?[hm]",
    Rule(
        rf"{START}(?:(?P<h>[0-9]{{1,3}}) ?h(?:rs?)? ?(?P<m>[0-9]{{1,2}}) ?m(?:ins?)?"
        r"|(?P<minutes>[0-9]{1,3})m(?:ins?)?(?= ?[0-9]{1,2} ?s))"
        r"(?: ?(?P<s>[0-9]{1,2}) ?s(?:ecs?)?)?(?!\w)",
        _lasting,
    ),
)
_CLOCK, _TIMED = r"(?P<h0>1?[0-9]|2[0-3])\.(?P<m0>[0-5][05])", one_of(_CUES["timed"])
_MET = re.compile(rf"\b{any_case(_CUES['met'])}")
RULES = (
    Rule(
        r"(?<![\w.:])12[.:]00(?= (?:noon|midnight|midday)\b)",
        lambda _: "twelve",
        needs=r"12[.:]00 ",
    ),
    Rule(
        r"(?<=\bat )(?P<h0>[1-9]|1[0-2])(?P<m0>00|15|30|45)"
        r"(?=[.!?]?$|[.!?,] [A-Za-z]| (?:on|tonight|tomorrow|today|sharp)\b)",
        lambda match: _time(match) if _MET.search(match.string, 0, match.start()) else None,
        needs="at [0-9]{3}",
    ),
    *where(
        ":",
        Rule(
            rf"{START}{_DATE}T(?P<h>[0-2][0-9]):(?P<m>[0-5][0-9])"
            rf"(?::(?P<s>[0-5][0-9](?:[.,][0-9]{{1,9}})?))?{_ZONE}",
            _instant,
        ),
        Rule(
            rf"{START}(?:(?P<h>[0-9]{{1,4}}):)?(?P<m>[0-9]{{1,3}}):"
            r"(?P<s>[0-5][0-9](?:\.[0-9]{1,6}|,[0-9]{3})?)(?![\w:])",
            _duration,
        ),
        Rule(rf"{START}{_TIME.format(0)}(?:{DASH}{_TIME.format(1)})?(?:{_HALF}|{_RIGHT})", _time),
    ),
    Rule(  # Sunday's 10.30 Mass
        r"(?:(?<=day )|(?<=day at )|(?<=day's )|(?<=day\u2019s )"
        rf"|{START}(?=[0-9]{{1,2}}\.[0-9]{{2}} (?:Sung )?{_TIMED}\b))"
        rf"(?<![$£€]){_CLOCK}(?![\w%]|[.,:/-][0-9])",
        _time,
        needs=r"[0-9]\.[0-5][05] ",
    ),
    Rule(
        rf"{START}(?<![$£€#]){_HOUR.format(0)}"
        rf"(?:(?:{DASH}|(?P<join> (?:to|and|or|until|till) )){_HOUR.format(1)})?{_HALF}",
        _time,
        needs=f"[0-9]{SPACE}?[apAP][.mM]",
    ),
)
