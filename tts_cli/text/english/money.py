"""Money: $1,299.50, £5, €3.20, $3.5 million, 5¢, 50 EUR, a $5 bill, $40/month."""

from __future__ import annotations

import re

from tts_cli.text.english.words import (
    AMOUNT,
    DASH,
    SPACE,
    START,
    amount,
    cardinal,
    has_article,
    is_one,
    plain,
    whole,
)
from tts_cli.text.rule import one_of, rule, table

# What is written -> one, many, one hundredth, many hundredths.
_DOLLAR, _CENT = ("dollar", "dollars"), ("cent", "cents")
CURRENCIES = {
    "$": (*_DOLLAR, *_CENT),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", *_CENT),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₩": ("won", "won", "jeon", "jeon"),
    "₽": ("ruble", "rubles", "kopek", "kopeks"),
}
PREFIXES = table(
    """
    US=U S | A=Australian | AU=Australian | C=Canadian | CA=Canadian | NZ=New Zealand
    HK=Hong Kong | S=Singapore
    """
)
CURRENCIES |= {
    f"{code}$": (f"{name} dollar", f"{name} dollars", *_CENT) for code, name in PREFIXES.items()
}
CURRENCIES |= {
    "USD": CURRENCIES["US$"],
    "EUR": CURRENCIES["€"],
    "GBP": CURRENCIES["£"],
    "JPY": CURRENCIES["¥"],
    "CHF": ("Swiss franc", "Swiss francs", "centime", "centimes"),
}
SCALES = table(
    """
    k=thousand | m=million | mn=million | b=billion | bn=billion | tn=trillion
    thousand=thousand | million=million | billion=billion | trillion=trillion
    """
)
PERIODS = table(
    """
    second=second | minute=minute | hour=hour | day=day | night=night | week=week | month=month
    year=year | person=person | head=head | piece=piece | page=page | word=word | mile=mile
    hr=hour | h=hour | mo=month | yr=year | kg=kilogram | lb=pound
    """
)

_CURRENCY = one_of(CURRENCIES)
_SCALE = rf"(?:{SPACE}(?:thousand|million|billion|trillion)|(?:[kKmMbB]|[mMbBtT]n)(?!\w))"
_PER = rf"(?:/(?P<per>{one_of(PERIODS)})(?!\w))?"
_LOW = rf"(?P<minus>[-\u2212])?(?P<currency>{_CURRENCY}){SPACE}?(?P<low>{AMOUNT})(?P<one>{_SCALE})?"
_HIGH = rf"(?:{DASH}{_CURRENCY}?{SPACE}?(?P<high>{AMOUNT}))?(?P<scale>{_SCALE})?"


def _coins(written: str, names: tuple[str, ...]) -> str | None:
    """Dollars and cents, where there are two decimals and nothing follows."""
    before, _, after = plain(written).partition(".")
    if len(after) != 2 or len(before) > 18:
        return None
    count, cents = int(before or "0"), int(after)
    parts = []
    if count or not cents:
        said = cardinal(count) if "," in written else whole(str(count))
        parts.append(f"{said} {names[count != 1]}")
    if cents:
        parts.append(f"{cardinal(cents)} {names[2 + (cents != 1)]}")
    return " and ".join(parts)


def _price(match: re.Match[str]) -> str:
    groups = match.groupdict()
    names = CURRENCIES[match["currency"].upper()]
    low, high = match["low"], groups.get("high")
    scale = (groups.get("scale") or groups.get("one") or "").strip().lower()
    minus = "minus " if groups.get("minus") else ""
    per = f" per {PERIODS[match['per']]}" if groups.get("per") else ""
    is_adjective = has_article(match) or _ADJECTIVE.match(match.string, match.end())
    if not scale and not high and not is_adjective and (said := _coins(low, names)):
        return f"{minus}{said}{per}"
    said = amount(low) + (f" to {amount(high)}" if high else "")
    if scale:
        said += f" {SCALES[scale]}"
    is_single = bool(is_adjective) or (is_one(low) and not high and not scale)
    return f"{minus}{said} {names[0 if is_single else 1]}{per}"


def _small(match: re.Match[str]) -> str:
    return f"{amount(match['low'])} {_CENT[not is_one(match['low'])]}"


_ADJECTIVE = re.compile(r"-[A-Za-z]")  # a $10-an-hour job

RULES = (
    rule(rf"(?<!\w){_LOW}{_HIGH}(?!\w){_PER}", _price),
    rule(
        rf"{START}(?P<low>{AMOUNT})(?:{DASH}(?P<high>{AMOUNT}))?"
        rf"(?P<scale>{_SCALE})?{SPACE}?(?P<currency>{one_of(k for k in CURRENCIES if k != '$')})"
        rf"(?![\w$]){_PER}",
        _price,
    ),
    rule(rf"{START}(?P<low>{AMOUNT}){SPACE}?¢", _small),
)
