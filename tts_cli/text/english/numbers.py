"""Plain numbers: 12,345 · 3.5 · -4 · 21st · 1/2 · 10-12 · A320 · 3D."""

from __future__ import annotations

import re

from tts_cli.text.english.money import SCALES
from tts_cli.text.english.words import (
    AMOUNT,
    DASH,
    QUANTITY,
    SIGN,
    START,
    amount,
    code,
    ordinal,
    quantity,
    spelled,
    whole,
)
from tts_cli.text.rule import rule

MOST_DIGITS = 40  # more are left as written

_RUNS = re.compile("[0-9]+|[^0-9]+")
_FRACTION_END = r"(?!\w|[.,/][0-9])"


def _ordinal(match: re.Match[str]) -> str:
    return ordinal(int(match["number"].replace(",", "")))


def _range(match: re.Match[str]) -> str:
    low, high = match["low"], match["high"]
    if low == high:
        return f"{quantity(low)} {quantity(high)}"  # a fifty fifty chance
    return f"{quantity(low)} to {quantity(high)}"


def _mixed(match: re.Match[str]) -> str:
    """Letters and digits of a name by turns: MP three, A three twenty, three D."""
    return " ".join(
        code(run) if run[0] in "0123456789" else run for run in _RUNS.findall(match.group())
    )


def _whole(match: re.Match[str]) -> str:
    digits = match.group()
    return spelled(digits) if len(digits) > 18 else whole(digits)


COMPOUND = (
    rule(
        rf"{START}(?<!:)(?P<low>[0-9]{{1,3}}):(?P<high>[0-9]{{1,3}})(?![\w:]|[.,/-][0-9])", _range
    ),
    rule(
        rf"{START}(?P<number>[0-9]{{1,3}}(?:,[0-9]{{3}}){{1,4}}|[0-9]{{1,15}})(?:st|nd|rd|th)(?!\w)",
        _ordinal,
    ),
    rule(
        rf"{START}(?<![0-9]-)(?P<low>{SIGN}{AMOUNT}){DASH}(?P<high>{AMOUNT})(?!\w|[-/][0-9]|[.,][0-9])",
        _range,
    ),
)
RULES = (
    rule(
        r"(?<![\w.-])(?:[A-Za-z]{1,6}[0-9]{1,4}(?:[A-Za-z]{1,3}[0-9]{0,3})?"
        r"|[0-9]{1,4}[A-Za-z]{1,6}[0-9]{0,3})(?!\w|[-.][0-9])",
        _mixed,
    ),
    rule(
        rf"{START}(?P<low>[0-9]{{1,9}}\.[0-9]{{1,9}})(?P<scale>[kKMB]|bn)(?!\w)",
        lambda match: f"{amount(match['low'])} {SCALES[match['scale'].lower()]}",
    ),
    rule(rf"{START}{QUANTITY}{_FRACTION_END}", lambda match: quantity(match.group())),
    rule(
        rf"{START}(?P<low>{AMOUNT})/(?P<high>{AMOUNT})(?!\w|[.,/][0-9])",
        lambda match: f"{amount(match['low'])} over {amount(match['high'])}",
    ),
    rule(rf"(?<!\w)(?<![0-9]\.)[0-9]{{1,{MOST_DIGITS}}}(?!\w|\.[0-9])", _whole),
)
