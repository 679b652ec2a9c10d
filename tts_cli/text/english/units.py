"""Measures: 5 km, 70 MPH, 20 °C, 5'10", 30%, 5-10 kg, a 5 km run, 3 million km²."""

from __future__ import annotations

import re

from tts_cli.text.english.words import (
    AMOUNT,
    DASH,
    FRACTION,
    MEASURED,
    NO_PRICE,
    PARTS,
    SIGN,
    SPACE,
    START,
    cardinal,
    is_before_noun,
    is_one,
    is_range,
    plain,
    quantity,
    to,
    whole,
)
from tts_cli.text.rule import Rule, ends_sentence, one_of
from tts_cli.text.tables import load_table

# Written unit -> its name in the singular.
UNITS: dict[str, str] = dict(load_table("units")["units"])
_LENGTH_UNITS = {unit: UNITS.get(unit, "inch") for unit in ("ft", "in", "mi", "yd", "m", "km")}
_SQUARES = {
    f"{short}{dot} {unit}": f"{name} {length}"
    for short, name in (("sq", "square"), ("cu", "cubic"))
    for unit, length in _LENGTH_UNITS.items()
    for dot in ("", ".")
}
# Capitals of two letters or more are units too, except for manuscripts, states and the like.
UNITS |= {
    form: name
    for unit, name in tuple(UNITS.items())
    if unit.isalpha() and len(unit) > 1 and unit not in load_table("units")["never_capitals"]
    for form in (unit.upper(), *((unit.lower(),) if len(unit) > 2 else ()))
    if form not in UNITS
}
PERIODS: dict[str, str] = load_table("units")["per"]
UNITS |= _SQUARES
SAME: list[str] = load_table("units")["invariable"]
DOTTED = (*load_table("units")["dotted"], *_SQUARES)

_LOW = f"(?:{NO_PRICE}|(?<=[0-9]x))(?P<low>{MEASURED})"
_HIGH = f"(?:(?:%|°)?{DASH}(?P<high>{MEASURED}))?"
_SCALES = "hundred|thousand|million|billion|trillion"
_SCALE = rf"(?P<scale>{SPACE}(?:{_SCALES})(?![a-z]))?"
_POWER = r"[²³]|\^?[23](?![0-9])"
_UNIT = rf"(?P<unit>{one_of(UNITS)}|in(?=[²³^/)]))(?P<power>{_POWER})?"
_OVER = one_of({*PERIODS, *(unit for unit in UNITS if unit[0].isalpha())})
_THEN = "(?:/(?P<then>day|hour|week|min|h|d))?"
_PER = f"/(?P<count>[0-9]{{1,4}}{SPACE}?)?(?P<per>{_OVER})(?P<per_power>{_POWER})?{_THEN}"
_AFTER_INCHES = "across|and|by|deep|high|in|is|large|long|of|or|square|tall|thick|to|was|wide|x"
_BOTH = one_of(
    ("g", "kg", "oz", "lb", "lbs", "ml", "l", "pt", "km", "mi", "m", "ft", "cm", "in.", "yd")
)
_PLAIN = r"[0-9]{1,3}(?:\.[0-9]{1,9})?"
_SIDES = {"N": "north", "S": "south", "E": "east", "W": "west"}
_LETTERS = frozenset(unit for unit in UNITS if len(unit) == 1 and unit.isupper())
_MILLIONS = frozenset(load_table("units")["counted_by_millions"].split())
_LETTERED = re.compile(  # Route 9W · seats 12A, 12C and 14F · runways in use: 09L
    rf"(?:\b(?:{'|'.join(map(re.escape, load_table('english')['cues']['lettered']))})s?"
    r"(?: ?[0-9]{1,3}[A-Z]?(?:[,/]| and| or| to| &))*|[Rr]unway.*)\Z"
)
_WORD = re.compile(r" ([A-Za-z]+)")
_NAME = re.compile(r"(?<!\w)[A-Za-z]{2,15}-.\Z|[0-9]xs\Z")  # Tc-99m · 4x4s
_QUOTED = re.compile('(?:^|[\\s(\\[=])["\u201c\u201e](?!\\s)[^"\u201c-\u201e]*\\Z')  # no end yet
_LENGTHS = ("meter", "inch", "foot", "yard", "mile")


def _many(name: str) -> str:
    """Kilometers per hour, square feet, degrees Celsius, but percent."""
    head, per, rest = name.partition(" per ")
    if head in SAME:
        return name
    if head.endswith(" of mercury"):
        return f"{head.removesuffix(' of mercury')}s of mercury{per}{rest}"
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
    """per second, per cubic meter, per one hundred kilometers; "" without a rate."""
    if (per := match["per"]) is None:
        return ""
    name = _raised(PERIODS.get(per) or UNITS[per], match["per_power"])
    if match["then"]:
        name += f" per {PERIODS[match['then']]}"
    return f" per {quantity(match['count'])} {_many(name)}" if match["count"] else f" per {name}"


def _measure(match: re.Match[str]) -> str | None:
    low, high, scale = match["low"], match["high"], match["scale"] or ""
    unit = match["unit"] or match["dotted"]
    if unit in _LETTERS and _is_letter(match):
        return None
    if high and not is_range(low, high):
        return match.group()  # 10\u20133 g without its superscript
    before = match.string[max(0, match.start() - 16) : match.start()]
    if unit in ("m", "s") and not match["join"] and _NAME.search(before + unit):
        return None
    if unit == "m" and (not match["join"] or "." in low) and _is_millions(match):
        return f"{quantity(low)}{f' to {quantity(high)}' if high else ''} million"
    name = UNITS.get(unit, "inch")
    if unit == "m" and match.string.startswith(" ago", match.end()):
        name = "minute"
    if unit == "bps" and plain(low).isdecimal() and int(plain(low)) < 1000:
        name = "basis point"
    if match["power"] and not name.endswith(_LENGTHS):
        return None
    if match["count"] and match["per"] == match["unit"]:
        return None  # 8GB/16GB of memory
    name = _raised(name, match["power"]) + _rate(match)
    said = quantity(low) + (f"{to(match)}{quantity(high)}" if high else "") + scale
    is_one_only = is_one(low) and not (high or scale)
    is_single = is_one_only or is_before_noun(match) or match["join"] == "-"
    dot = "." if match["dot"] and ends_sentence(match) else ""
    return f"{said}{'-' if match['join'] == '-' else ' '}{name if is_single else _many(name)}{dot}"


def _is_letter(match: re.Match[str]) -> bool:
    """Return whether a capital is a letter and not a unit: Exit 12 W. toward Akron, runway 09L."""
    after = match.string[match.end() :]
    before = match.string[max(0, match.start() - 32) : match.start()].rstrip()
    is_code = match["low"][0] == "0" and match["low"][1:].isdecimal() and not match["join"]
    return (
        is_code
        or re.match(r"\. ?\w|-[0-9A-Z]", after) is not None
        or _LETTERED.search(before) is not None
    )


def _is_millions(match: re.Match[str]) -> bool:
    found = _WORD.match(match.string, match.end())
    return found is not None and found[1] in _MILLIONS


def _pair(match: re.Match[str]) -> str | None:
    """Two units of one quantity: two hundred grams or seven ounces."""
    if match["high"] in ("10", "100", "1000"):
        return None
    parts = ((match["low"], match["unit"]), (match["high"], match["other"]))
    said = (
        f"{quantity(low)} {UNITS[unit] if is_one(low) else _many(UNITS[unit])}"
        for low, unit in parts
    )
    return " or ".join(said)


def _inches(match: re.Match[str]) -> str | None:
    """a twenty seven-inch monitor; None where the mark closes a quotation."""
    if _QUOTED.search(match.string[max(0, match.start() - 300) : match.start()]):
        return None
    said, high = quantity(match["low"]), match["high"]
    if high:
        said = f"{said} to {quantity(high)}"
    if match["noun"]:
        return f"{said}-inch"
    return f"{said} {'inch' if is_one(match['low']) and not high else 'inches'}"


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
        rf"{START}(?P<feet>[0-9]{{1,2}})-(?:ft|foot|feet)-(?P<inches>[0-9]{{1,2}})(?!\w)",
        lambda match: f"{whole(match['feet'])}-foot-{whole(match['inches'])}",
        needs="-f",
    ),
    Rule(
        rf"{START}(?P<first>[0-9]{{1,2}})['\u2019\u2032] ?[x\u00d7] ?"
        rf"(?P<then>[0-9]{{1,2}})['\u2019\u2032](?![\w0-9])",
        lambda match: (
            f"{cardinal(int(match['first']))} foot by {cardinal(int(match['then']))} foot"
        ),
        needs="[0-9]['\u2019\u2032] ?[x\u00d7]",
    ),
    Rule(
        rf"{START}(?<!['\u2019\u2032])(?<!['\u2019\u2032][ -])(?P<low>{FRACTION}|{AMOUNT})"
        rf"(?:[\"\u2033]?{DASH}(?P<high>{FRACTION}|{AMOUNT}))?(?P<mark>[\"\u2033])"
        rf"(?=(?P<noun> (?!(?:{_AFTER_INCHES})\b)[a-z])|[ ,.;)]|$)",
        _inches,
        needs=f'[0-9{PARTS}]["\u2033]',
    ),
    Rule(
        rf"{START}(?P<low>{AMOUNT}){SPACE}?(?P<unit>{_BOTH})/(?P<high>{AMOUNT}){SPACE}?"
        rf"(?P<other>{_BOTH})(?![\w/])",
        _pair,
        needs="[a-z]/[0-9]",
    ),
    Rule(
        rf"{START}(?P<feet>[0-9]{{1,2}})['\u2019\u2032](?: |-(?=[0-9]+[\"\u201d\u2033]))?"
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
