"""Money: $1,299.50, £5, €3.20, $3.5 million, 5¢, 50 EUR, a $5 bill, $40/month."""

from __future__ import annotations

import re

from tts_cli.text.english.words import (
    AMOUNT,
    DASH,
    NOUN,
    POINTED,
    PRICE,
    SAID_SIGNS,
    SIGN,
    SPACE,
    START,
    amount,
    cardinal,
    is_before_noun,
    is_one,
    plain,
    whole,
)
from tts_cli.text.rule import Rule, one_of, where
from tts_cli.text.tables import load_table

_TABLES = load_table("units")
_CENT = ("cent", "cents")
# What is written -> one, many, one hundredth, many hundredths.
CURRENCIES: dict[str, list[str]] = dict(_TABLES["currencies"])
CURRENCIES |= {
    f"{sign}$": [f"{name} dollar", f"{name} dollars", *_CENT]
    for sign, name in _TABLES["dollars"].items()
}
CURRENCIES |= {code: CURRENCIES[sign] for code, sign in _TABLES["codes"].items()}
SCALES: dict[str, str] = _TABLES["scales"]
PERIODS: dict[str, str] = _TABLES["price_per"]

_CURRENCY = one_of(CURRENCIES)
_MANY = "thousand|million|billion|trillion|lakh|crore"
_SHORT = rf"{SPACE}?(?:[mMbBtT]n|[MmBb]ln\.?(?=[ ,;)]|$))|{SPACE}m(?![\w²³/'\u2019])"
_SCALE = rf"(?:(?:{SPACE}|-)(?:{_MANY})|[kKmMbB]|MM|{_SHORT})(?!\w)"
_PER = (
    rf"(?:/(?P<per>{one_of(PERIODS)})(?!\w)"
    r"|/(?P<count>[1-9][0-9]{0,2})(?= (?:minute|hour|day|night|week|month|year|person|people)"
    r"s?\b))?"
)
_LOW = rf"(?P<minus>{SIGN})(?P<currency>{_CURRENCY}){SPACE}?(?P<low>{PRICE})(?P<one>{_SCALE})?"
_HIGH = rf"(?:{DASH}(?:(?P=currency){SPACE}?)?(?P<high>{PRICE}))?(?P<scale>{_SCALE})?"
_AGAIN = r"(?P<again>[ -](?:dollar|euro|pound|buck)s?\b)?"  # $5 million dollars


def _coins(written: str, names: list[str]) -> str | None:
    """Dollars and cents of an amount with two decimals."""
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
    if names[0] == "euro" and _POINTED.fullmatch(low) and not groups.get("per"):
        low = low.replace(".", "")
    written = [groups.get(name) or "" for name in ("one", "scale")]
    one, scale = (word.strip("-. \u00a0\u202f").lower() for word in written)
    minus = SAID_SIGNS.get(groups.get("minus") or "", "")
    if match["currency"] == "$" and _UNSURE.fullmatch(low):
        return match.group()  # $100,00 may lack a zero
    per = f" per {PERIODS[match['per']]}" if groups.get("per") else ""
    if groups.get("count"):
        per = f" per {whole(match['count'])}"
    is_adjective = is_before_noun(match) or _ADJECTIVE.match(match.string, match.end()) is not None
    before = match.string[max(0, match.start() - 30) : match.start()]
    is_adjective = is_adjective or (
        _SEVERAL.search(before) is not None and _PRICED.match(match.string, match.end()) is not None
    )
    if "-" in "".join(written):
        is_adjective = is_adjective or NOUN.match(match.string, match.end()) is not None
    is_adjective = is_adjective or (groups.get("again") or "").endswith("r")
    if not (scale or one or is_adjective):
        coins = {written: _coins(written, names) for written in (low, high) if written}
        if any(coins.values()):
            said = " to ".join(
                coins[written] or f"{amount(written)} {names[not is_one(written)]}"
                for written in coins
            )
            return f"{minus}{said}{per}"
    said = amount(low)
    if is_adjective and not (high or scale or one or per) and (cents := _CENTS.fullmatch(low)):
        return f"{minus}{whole(cents[1])} {names[0]} {cardinal(int(cents[2]))}"
    if one and one != scale:
        said += f" {SCALES[one]}"
    said += (f" to {amount(high)}" if high else "") + (f" {SCALES[scale]}" if scale else "")
    is_single = is_adjective or (is_one(low) and not (high or scale or one))
    return f"{minus}{said} {names[0 if is_single else 1]}{per}"


_POINTED = re.compile(POINTED)
# two $100 prizes · the $60 and $100 rewards
_SEVERAL = re.compile(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|several|many|[Ee]ach|[Ee]very"
    r"|[Tt]he(?: [$£€][0-9,.]{1,9},? (?:and|or))?) $"
)
_PRICED = re.compile(rf"(?:,? (?:and|or) [$£€][0-9,.]{{1,9}})?{NOUN.pattern}")
_CENTS = re.compile(r"([1-9][0-9]{0,3})\.([1-9][0-9])")  # the $9.50 price
_UNSURE = re.compile("[0-9]+,[0-9]{1,2}")
_ADJECTIVE = re.compile(r"-[A-Za-z]")  # a $10-an-hour job

_SIGNS = "$¢" + "".join(key for key in CURRENCIES if len(key) == 1)
RULES = where(
    f"[{_SIGNS}DFPRY](?:(?<=[{_SIGNS}])|(?<=USD|EUR|GBP|JPY|CHF))",
    Rule(  # between £1.7 and £1.8 billion
        rf"(?:(?<=between )|(?<=from ))(?P<currency>{_CURRENCY})(?P<low>{AMOUNT})"
        rf"(?= (?:and|to) (?P=currency)(?P<high>{AMOUNT}){SPACE}(?:{_MANY})\b)",
        lambda match: (
            amount(match["low"])
            if float(plain(match["low"])) < float(plain(match["high"]))
            else None
        ),
    ),
    Rule(rf"(?<!\w){_LOW}{_HIGH}(?!\w){_AGAIN}{_PER}", _price),
    Rule(
        rf"{START}(?P<low>{PRICE})(?:{DASH}(?P<high>{PRICE}))?"
        rf"(?P<scale>{_SCALE})?{SPACE}?(?P<currency>{one_of(k for k in CURRENCIES if k != '$')})"
        rf"(?![\w$]){_PER}",
        _price,
    ),
    Rule(rf"(?<![\w$])(?P<low>{PRICE})(?P<currency>\$)(?![\w$]){_PER}", _price),  # 50$
    Rule(
        rf"{START}(?P<low>{AMOUNT}){SPACE}?¢",
        lambda match: f"{amount(match['low'])} {_CENT[not is_one(match['low'])]}",
    ),
)
