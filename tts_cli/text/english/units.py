"""What is measured: 5 km, 70 mph, 20 °C, 5'10", 30%, 5-10 kg, a 5 km run."""

from __future__ import annotations

import re

from tts_cli.text.english.words import (
    DASH,
    QUANTITY,
    SPACE,
    START,
    cardinal,
    has_article,
    is_one,
    quantity,
)
from tts_cli.text.rule import ends_sentence, one_of, rule, table

# What is written -> the name of one.
UNITS = table(
    """
    km=kilometer | cm=centimeter | mm=millimeter | nm=nanometer | m=meter | mi=mile | yd=yard
    nmi=nautical mile | µm=micrometer | ha=hectare | kg=kilogram | g=gram | mg=milligram
    µg=microgram | lb=pound | lbs=pound | oz=ounce | l=liter | L=liter | ml=milliliter
    mL=milliliter | cl=centiliter | dl=deciliter | gal=gallon | pt=pint | h=hour | hr=hour
    hrs=hour | min=minute | mins=minute | s=second | sec=second | secs=second | ms=millisecond
    yrs=year | yr=year | V=volt | kV=kilovolt | W=watt | kW=kilowatt | MW=megawatt | GW=gigawatt
    kWh=kilowatt hour | mAh=milliamp hour | kB=kilobyte | KB=kilobyte | MB=megabyte
    GB=gigabyte | TB=terabyte | kcal=kilocalorie | cal=calorie | dB=decibel | px=pixel
    sq mi=square mile | kPa=kilopascal | m2=square meter | m²=square meter
    km2=square kilometer | km²=square kilometer | cm²=square centimeter | m3=cubic meter
    m³=cubic meter | cm³=cubic centimeter | sq m=square meter | sq km=square kilometer
    tsp=teaspoon | tbsp=tablespoon | mol=mole | °=degree | bbl=barrel | ft=foot
    sq ft=square foot | ft²=square foot | °C=degree Celsius | °F=degree Fahrenheit
    ℃=degree Celsius | ℉=degree Fahrenheit | km/h=kilometer per hour | kmh=kilometer per hour
    kph=kilometer per hour | mph=mile per hour | m/s=meter per second | mpg=mile per gallon
    ft/s=foot per second | bps=bit per second | Mbps=megabit per second
    Gbps=gigabit per second | fps=frame per second | bpm=beat per minute
    rpm=revolution per minute | dpi=dot per inch | m/s²=meter per second squared | %=percent
    ‰=per mille | Hz=hertz | kHz=kilohertz | MHz=megahertz | GHz=gigahertz
    in.=inch | hp=horsepower
    """
)
SAME = ("percent", "per mille", "hertz", "kilohertz", "megahertz", "gigahertz", "horsepower")
DOTTED = ("ft", "lb", "lbs", "oz", "hr", "hrs", "min", "sec", "yd", "mi", "gal")

_LOW = f"{START}(?P<low>{QUANTITY})"
_HIGH = f"(?:(?:%|°)?{DASH}(?P<high>{QUANTITY}))?"


def _many(name: str) -> str:
    """Kilometers per hour, square feet, degrees Celsius, but percent."""
    if name in SAME:
        return name
    head, per, rest = name.partition(" per ")
    if head.startswith("degree "):
        return head.replace("degree", "degrees")
    if head.endswith("inch"):
        return f"{head}es{per}{rest}"
    return (head[:-4] + "feet" if head.endswith("foot") else f"{head}s") + per + rest


def _measure(match: re.Match[str]) -> str:
    low, high, name = match["low"], match["high"], UNITS[match["unit"] or match["dotted"]]
    said = quantity(low) + (f" to {quantity(high)}" if high else "")
    is_single = (is_one(low) and not high) or has_article(match) or match["join"] == "-"
    dot = "." if match["dot"] and ends_sentence(match) else ""
    return f"{said}{'-' if match['join'] == '-' else ' '}{name if is_single else _many(name)}{dot}"


def _feet(match: re.Match[str]) -> str:
    """5'10" is five feet ten inches; 6 ft 2 in likewise."""
    feet, inches = int(match["feet"]), int(match["inches"])
    return (
        f"{cardinal(feet)} {'foot' if feet == 1 else 'feet'} "
        f"{cardinal(inches)} {'inch' if inches == 1 else 'inches'}"
    )


RULES = (
    rule(
        rf"{START}(?P<feet>[0-9]{{1,2}})['\u2019\u2032] ?"
        rf"(?P<inches>[0-9]{{1,2}})(?:[\"\u201d\u2033]|(?![\w'\u2019]))",
        _feet,
    ),
    rule(
        rf"{START}(?P<feet>[0-9]{{1,2}}) ?ft\.? (?P<inches>[0-9]{{1,2}}) ?in\b\.?",
        _feet,
    ),
    rule(
        rf"{_LOW}{_HIGH}(?P<join>{SPACE}?|-)"
        rf"(?:(?P<dotted>{one_of(DOTTED)})(?P<dot>\.)|(?P<unit>{one_of(UNITS)})(?![\w²³/]))",
        _measure,
    ),
)
