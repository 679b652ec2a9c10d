"""What is measured: 5 km, 70 MPH, 20 °C, 5'10", 30%, 5-10 kg, a 5 km run, 3 million km²."""

from __future__ import annotations

import re

from tts_cli.text.english.words import (
    AMOUNT,
    DASH,
    MEASURED,
    PARTS,
    SIGN,
    SPACE,
    START,
    cardinal,
    has_article,
    is_one,
    quantity,
)
from tts_cli.text.rule import Rule, ends_sentence, one_of
from tts_cli.text.tables import load_table

# What is written -> the name of one.
UNITS: dict[str, str] = dict(load_table("units")["units"])
_LENGTH_UNITS = {unit: UNITS.get(unit, "inch") for unit in ("ft", "in", "mi", "yd", "m", "km")}
_SQUARES = {
    f"{short}{dot} {unit}": f"{name} {length}"
    for short, name in (("sq", "square"), ("cu", "cubic"))
    for unit, length in _LENGTH_UNITS.items()
    for dot in ("", ".")
}
# Capitals of two letters or more are units too, but for manuscripts, states and the like.
UNITS |= {
    form: name
    for unit, name in tuple(UNITS.items())
    if unit.isalpha() and len(unit) > 1 and unit not in ("ms", "mA", "pt", "ha")
    for form in (unit.upper(), *((unit.lower(),) if len(unit) > 2 else ()))
    if form not in UNITS
}
PERIODS: dict[str, str] = load_table("units")["per"]
UNITS |= _SQUARES
SAME = ("percent", "per mille", "hertz", "kilohertz", "megahertz", "gigahertz", "horsepower")
DOTTED = ("ft", "lb", "lbs", "oz", "hr", "hrs", "min", "sec", "yd", "mi", "gal", *_SQUARES)

_LOW = f"(?:{START}(?<![$£€])|(?<=[0-9]x))(?P<low>{MEASURED})"
_HIGH = f"(?:(?:%|°)?{DASH}(?P<high>{MEASURED}))?"
_SCALES = "hundred|thousand|million|billion|trillion"
_SCALE = rf"(?P<scale>{SPACE}(?:{_SCALES}))?"
_POWER = r"[²³]|\^?[23](?![0-9])"
_UNIT = rf"(?P<unit>{one_of(UNITS)}|in(?=[²³^/]))(?P<power>{_POWER})?"
_OVER = one_of({*PERIODS, *(unit for unit in UNITS if unit[0].isalpha())})
_PER = f"/(?P<count>[0-9]{{1,4}}{SPACE}?)?(?P<per>{_OVER})(?P<per_power>{_POWER})?"
_PLAIN = r"[0-9]{1,3}(?:\.[0-9]{1,9})?"
_SIDES = {"N": "north", "S": "south", "E": "east", "W": "west"}
_LENGTHS = ("meter", "inch", "foot", "yard", "mile")


def _many(name: str) -> str:
    """Kilometers per hour, square feet, degrees Celsius, but percent."""
    head, per, rest = name.partition(" per ")
    if head in SAME:
        return name
    if head.startswith("degree "):
        return head.replace("degree", "degrees")
    if head.endswith("inch"):
        return f"{head}es{per}{rest}"
    return (head[:-4] + "feet" if head.endswith("foot") else f"{head}s") + per + rest


def _raised(name: str, power: str | None) -> str:
    """Square meter, cubic foot, but second squared."""
    if not power:
        return name
    is_square = power[-1] in "2²"
    if name.endswith(_LENGTHS):
        return f"{'square' if is_square else 'cubic'} {name}"
    return f"{name} {'squared' if is_square else 'cubed'}"


def _rate(match: re.Match[str]) -> str:
    """Per second, per cubic meter, per one hundred kilometers; nothing for no rate."""
    if (per := match["per"]) is None:
        return ""
    name = _raised(PERIODS.get(per) or UNITS[per], match["per_power"])
    return f" per {quantity(match['count'])} {_many(name)}" if match["count"] else f" per {name}"


def _measure(match: re.Match[str]) -> str | None:
    low, high, scale = match["low"], match["high"], match["scale"] or ""
    name = UNITS.get(match["unit"] or match["dotted"], "inch")
    if match["power"] and not name.endswith(_LENGTHS):
        return None
    if match["count"] and match["per"] == match["unit"]:
        return None  # 8GB/16GB of memory
    name = _raised(name, match["power"]) + _rate(match)
    said = quantity(low) + (f" to {quantity(high)}" if high else "") + scale
    is_one_only = is_one(low) and not (high or scale)
    is_single = is_one_only or has_article(match) or match["join"] == "-"
    dot = "." if match["dot"] and ends_sentence(match) else ""
    return f"{said}{'-' if match['join'] == '-' else ' '}{name if is_single else _many(name)}{dot}"


def _angle(match: re.Match[str]) -> str:
    """40°26'46" N is forty degrees twenty six minutes forty six seconds north."""
    parts = [(match[f"{name}s"], name) for name in ("degree", "minute", "second")]
    said = [f"{quantity(part)} {name}{'' if is_one(part) else 's'}" for part, name in parts if part]
    return " ".join([*said, _SIDES.get(match["side"], "")]).strip()


def _feet(match: re.Match[str]) -> str:
    """5'10" is five feet ten inches; 6 ft 2 in likewise."""
    feet, inches = int(match["feet"]), int(match["inches"])
    return (
        f"{cardinal(feet)} {'foot' if feet == 1 else 'feet'} "
        f"{cardinal(inches)} {'inch' if inches == 1 else 'inches'}"
    )


RULES = (
    Rule(
        rf"{START}(?P<degrees>{SIGN}{_PLAIN}) ?°(?: ?(?P<minutes>{_PLAIN})['\u2019\u2032]"
        rf"(?: ?(?P<seconds>{_PLAIN})(?:[\"\u201d\u2033]|['\u2019\u2032]{{2}}))?)?"
        r"(?: ?(?P<side>[NSEW])(?![\w'\u2019])|(?<=[\u2032\u2033'\"\u2019\u201d]))",
        _angle,
        needs="°",
    ),
    Rule(
        rf"{START}(?P<feet>[0-9]{{1,2}})['\u2019\u2032] ?"
        rf"(?P<inches>[0-9]{{1,2}})(?:[\"\u201d\u2033]|(?![\w'\u2019]))",
        _feet,
        needs="[0-9]['\u2019\u2032]",
    ),
    Rule(
        rf"{START}(?P<feet>[0-9]{{1,2}}) ?ft\.? (?P<inches>[0-9]{{1,2}}) ?in\b\.?",
        _feet,
        needs="[0-9] ?ft",
    ),
    Rule(
        rf"{_LOW}{_HIGH}{_SCALE}(?P<join>{SPACE}?|-)(?:(?P<dotted>{one_of(DOTTED)})(?P<dot>\.)"
        rf"|{_UNIT}(?:{_PER})?(?![\w²³^⁻]|/(?![-\u2212]?[0-9]))(?<!KV(?= [a-z]{{1,20}}s\b)))",
        _measure,
        needs=rf"[0-9{PARTS}](?:{SPACE}(?:{_SCALES}))?(?:{SPACE}|-)?(?:{one_of(UNITS)}|in)(?![A-Za-z])",
    ),
    Rule(
        rf"{START}(?P<low>{AMOUNT})(?!/[0-9]){_PER}(?!\w)(?<=[a-z]{{2}})",
        lambda match: quantity(match["low"]) + _rate(match),
        needs="/[0-9a-z]",
    ),
)
