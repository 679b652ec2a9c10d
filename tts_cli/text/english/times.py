"""Times of day: 7:30 p.m., 12:00, 19:45, 9:05, 3-4 pm, 10:30:15."""

from __future__ import annotations

import re

from tts_cli.text.english.dates import NAMES, WEEKDAYS
from tts_cli.text.english.words import DASH, cardinal
from tts_cli.text.rule import ends_sentence, one_of, rule

_TIME = "(?P<h{0}>[0-5]?[0-9]):(?P<m{0}>[0-5][0-9])(?::(?P<s{0}>[0-5][0-9]))?"
_HALF = r"(?:[ \u00a0\u202f]?(?P<half>[ap]\.[ ]?m\.|A\.M\.|P\.M\.|[ap]m\b|AM\b|PM\b))"
_LEFT = r"(?<![\w.,:/])"
_RIGHT = r"(?![\w/]|[-.,:][0-9])"
_NAMED = re.compile(rf" (?:{one_of([*NAMES, *WEEKDAYS.values()])})\b")
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
    """A M or P M, with the full stop that ends the sentence as well."""
    half = match.groupdict().get("half")
    if not half:
        return ""
    is_end = half.endswith(".") and ends_sentence(match)
    is_named = _NAMED.match(match.string, match.end()) is not None
    return f" {half[0].upper()} M{'.' if is_end and not is_named else ''}"


def _time(match: re.Match[str]) -> str:
    groups = match.groupdict()
    half = _half(match)
    is_alone = not half and re.match(_SAID_AFTER, match.string[match.end() :][:12]) is None
    said = []
    for index in "01":
        if groups.get(f"h{index}"):
            seconds = groups[f"s{index}"]
            clock = _clock(int(groups[f"h{index}"]), int(groups[f"m{index}"]), is_alone)
            said.append(f"{clock} and {cardinal(int(seconds))} seconds" if seconds else clock)
    return " to ".join(said) + half


def _hours(match: re.Match[str]) -> str | None:
    hours = [int(match[name]) for name in ("first", "last") if match[name]]
    if not all(1 <= hour <= 12 for hour in hours):
        return None
    return " to ".join(map(cardinal, hours)) + _half(match)


RULES = (
    rule(
        rf"{_LEFT}{_TIME.format(0)}(?:{DASH}{_TIME.format(1)})?(?:{_HALF}|{_RIGHT})",
        _time,
    ),
    rule(rf"{_LEFT}(?P<first>[0-9]{{1,2}})(?:{DASH}(?P<last>[0-9]{{1,2}}))?{_HALF}", _hours),
)
