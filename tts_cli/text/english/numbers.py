"""Plain numbers: 12,345 · 3.5 · -4 · 21st · 1/2 · 1/7th · 10-12 · 7-3=4 · A320 · 3D."""

from __future__ import annotations

import re

from tts_cli.text.english.dates import WEEKDAYS
from tts_cli.text.english.money import SCALES
from tts_cli.text.english.words import (
    AMOUNT,
    COMMA,
    DASH,
    LAKHS,
    NO_PRICE,
    PARTS,
    POINTED,
    QUANTITY,
    SIGN,
    SPACE,
    START,
    amount,
    cardinal,
    code,
    fraction,
    is_fraction,
    is_range,
    ordinal,
    quantity,
    spelled,
    to,
    whole,
)
from tts_cli.text.normalized_text import MASK
from tts_cli.text.rule import Rule, one_of, says, where
from tts_cli.text.tables import load_table

_MONEY: list[str] = load_table("units")["money_words"].split()
_CUES: dict[str, list[str]] = load_table("english")["cues"]
_RATED = re.compile(one_of(_CUES["rated"]), re.IGNORECASE)
_CALCULATED = rf"(?: of\b| ?[=*+\u00d7]| [-\u2212<>] |{MASK})"
_DAYS = tuple(f"{day} " for day in set(WEEKDAYS.values()))
_LAW = re.compile(r"(?:\b[A-Z]{2,6}|§) \Z")
MAX_DIGITS = 40  # more are left as written

_POINTS = r"(?:[1-9][0-9]{0,2}|0)(?:\.[0-9])?"
_RUNS = re.compile("[0-9]+|[^0-9]+")
# Words that may follow a number with a decimal comma; 3,4 alone is a list.
_COUNTED = (
    "(?:thousand|[mb]illion|percent|times|hour|minute|second|day|week|month|year|(?:kilo)?met[er]{2}"
    "|centimet[er]{2}|lit[er]{2}|mile|inch|f[eo]{2}t|ton|(?:kilo)?gram|point|degree|dollar|euro)"
)


def _ordinal(match: re.Match[str]) -> str:
    the = "the " if match.string.endswith(_DAYS, 0, match.start()) else ""  # Monday 24th
    return the + ordinal(int(match["number"].replace(",", "")))


def _range(match: re.Match[str]) -> str | None:
    """five to ten, three to two, fifty fifty; None if it may be the number of a law or a part."""
    low, high = match["low"], match["high"]
    if low == high:
        return f"{quantity(low)} {quantity(high)}"
    return _ratio(match) if is_range(low, high, may_fall=True) else None


def _ratio(match: re.Match[str]) -> str:
    return f"{quantity(match['low'])}{to(match)}{quantity(match['high'])}"


def _pair(match: re.Match[str]) -> str:
    """A ratio, but the section of a law (RSA 629:1) or minutes and seconds (62:20) without "to"."""
    low, high = match["low"], match["high"]
    if _LAW.search(match.string, max(0, match.start() - 8), match.start()):
        return f"{whole(low)}, {whole(high)}"
    if low.isdecimal() and int(low) > 24 and len(high) == 2 and int(high) < 60:
        return _ratio(match) if int(low) + int(high) == 100 else f"{whole(low)} {whole(high)}"
    return _ratio(match)


def _minus(match: re.Match[str]) -> str:
    return f"{amount(match['low'])} minus {amount(match['high'])}"


def _fraction(match: re.Match[str]) -> str | None:
    above, below = int(match["above"]), int(match["below"])
    if below < 2:
        return None
    said = fraction(above, below, is_ordinal=True)
    return f"{whole(match['whole'])} and {said}" if match["whole"] else said


def _rating(match: re.Match[str]) -> str | None:
    """six out of ten, four to five out of five; None above the maximum and for an unsure 4/5."""
    low, high, scale = match["low"], match["high"], match["scale"]
    near = match.string[max(0, match.start() - 60) : match.end() + 24]
    is_sure = high or scale != "5" or low in ("0", "5") or "." in low or _RATED.search(near)
    if float(high or low) > int(scale) or not is_sure:
        return None
    return f"{amount(low)}{f' to {amount(high)}' if high else ''} out of {cardinal(int(scale))}"


def _from_to(match: re.Match[str]) -> str:
    """seven thirty to eight: hours or verses."""
    first, then = match["first"], match["then"]
    join = " " if len(then) == 2 else ", "
    return f"{whole(first)}{join}{whole(then)} to {whole(match['last'])}"


def _mixed(match: re.Match[str]) -> str:
    """Letters and digits of a name in turn: MP three, A three twenty, three D."""
    return " ".join(
        code(run) if run[0] in "0123456789" else run for run in _RUNS.findall(match.group())
    )


def _whole(match: re.Match[str]) -> str:
    digits = match.group()
    return spelled(digits) if len(digits) > 18 else whole(digits)


COMPOUND = (
    Rule(
        rf"{NO_PRICE}(?P<low>{AMOUNT}){SPACE}?"
        rf"(?P<scale>bn|(?:mn|tn)(?={SPACE}{one_of(_MONEY)}))(?!\w)",
        lambda match: f"{amount(match['low'])} {SCALES[match['scale']]}",
        needs="[0-9] ?(?:bn|mn|tn)",
    ),
    Rule(
        rf"{START}(?P<low>{AMOUNT}){SPACE}?k"
        r"(?= (?:pull-?(?:up|down) )?(?:resist|potentiom|pull-?(?:up|down)))",
        lambda match: f"{amount(match['low'])} kilohm",
        needs="[0-9] ?k ",
    ),
    # Numbers of notes: findings.3 The · (1996).5 These · "none."[12]
    Rule(
        r"(?:(?<=[A-Za-z]{3}\.)|(?<=[)\]\"\u201d])\.)[0-9]{1,2}(?= [A-Z]|$)",
        lambda match: match.group(),
        needs=r"[A-Za-z)\]\"\u201d]\.[0-9]",
    ),
    Rule(
        rf"(?<=[\w.,;:!?\"'\u2019\u201d)\]{MASK}])\[[0-9]{{1,3}}\](?![\w(])",
        lambda match: match.group(),
        needs=r"\[[0-9]",
    ),
    Rule(
        rf"{START}(?!(?:19|20)(?!00))[1-9][0-9]{{3}}(?={SPACE}{one_of(_MONEY)}s?\b)",
        lambda match: whole(match.group()),
        needs=f"[0-9]{{4}}{SPACE}[a-z]",
    ),
    *where(
        f"[0-9](?:{DASH}[A-Z]|\\.x)",
        says(r"(?<=[0-9])\.x(?!\w)", " point x"),
        Rule(  # C5-C9
            rf"{START}(?P<letter>[A-Z])(?P<low>[0-9]{{1,3}}){DASH}(?P=letter)(?P<high>[0-9]{{1,3}})"
            r"(?!\w)",
            lambda match: " to ".join(
                f"{match['letter']} {code(match[n])}" for n in ("low", "high")
            ),
        ),
    ),
    # 16M examples
    Rule(
        rf"{NO_PRICE}(?P<low>{AMOUNT})M(?= [a-z]{{3,20}}s\b)",
        lambda match: f"{amount(match['low'])} million",
        needs="[0-9]M ",
    ),
    # the 22d of February, the 93d percentile
    Rule(
        rf"{START}(?P<number>[2-9]?[0-9]*[02-9][23])d(?=,? [A-Za-z]{{3}})", _ordinal, needs="[23]d"
    ),
    Rule(
        rf"{START}{COMMA}(?={SPACE}{_COUNTED}|-{_COUNTED})",
        lambda match: amount(match.group()),
        needs="[0-9][.,][0-9]",
    ),
    Rule(
        rf"{START}{POINTED}(?={SPACE}euros?\b(?! per ))",
        lambda match: whole(match.group().replace(".", "")),
        needs="0 euro",
    ),
    Rule(  # a .45 pistol
        rf"{START}(?<!\.)\.(?P<low>[1-9][0-9])(?=[ -]{one_of(_CUES['arms'])}\b)",
        lambda match: whole(match["low"]),
        needs=r"\.[1-9][0-9][ -][A-Za-z]",
    ),
    Rule(  # the 49ers
        r"(?<!\w)(?P<number>[2-9][1-9])ers(?!\w)",
        lambda match: cardinal(int(match["number"])).removesuffix("e") + "ers",
        needs="[0-9]ers",
    ),
    *where(
        "=",
        Rule(
            rf"{START}(?P<low>{AMOUNT})[-\u2212](?P<high>{AMOUNT})(?=[-+*/\u00d7 0-9.]{{0,20}}=)",
            _minus,
        ),
        Rule(rf"(?<=\b[A-Za-z]=)(?P<low>{AMOUNT})[-\u2212](?P<high>{AMOUNT})(?!\w)", _minus),
    ),
    *where(
        ":",
        Rule(
            rf"{START}(?<!:)(?P<low>1):(?P<high>[0-9]{{1,3}}(?:,[0-9]{{3}}){{1,3}})"
            r"(?![\w:]|[.,/-][0-9])",
            _ratio,
        ),
        Rule(
            rf"{START}(?<!:)(?P<low>[0-9]{{1,3}}(?:\.[0-9]{{1,2}})?):(?P<high>[0-9]{{1,3}})"
            r"(?![\w:]|[.,/-][0-9])",
            _pair,
        ),
        Rule(
            rf"{START}(?P<first>[0-9]{{1,3}}):(?P<then>[0-9]{{1,3}}){DASH}(?P<last>[0-9]{{1,3}})"
            r"(?!\w)",
            _from_to,
        ),
    ),
    *where(
        "/[0-9]",
        Rule(  # six eight time
            rf"{START}(?P<first>[1-9][0-9]?)/(?P<last>[248]|16)(?= (?:time|beat|met[er]{{2}})\b)",
            lambda match: f"{whole(match['first'])} {whole(match['last'])}",
        ),
        Rule(
            rf"{START}(?:(?P<whole>[0-9]{{1,3}})[ -])?(?P<above>[0-9]{{1,3}})/"
            r"(?P<below>[0-9]{1,4})(?:st|nd|rd|th)s?(?!\w)",
            _fraction,
            re.IGNORECASE,
        ),
        Rule(
            rf"{NO_PRICE}(?<![0-9][ -])(?P<low>{_POINTS})(?:{DASH}(?P<high>{_POINTS}))?/"
            rf"(?P<scale>5|10|100)(?![\w/-]|[.,][0-9]| (?:of|{_COUNTED})\b)",
            _rating,
        ),
        Rule(  # 12/19 may be a date, a season or a name.
            rf"{NO_PRICE}(?<![0-9][ -])(?!1/)(?P<above>[0-9]{{1,4}})/(?P<below>[0-9]{{1,4}})"
            rf"(?![\w/]|[.,-][0-9]|{_CALCULATED})",
            lambda match: (
                None if is_fraction(*map(int, match.group("above", "below"))) else match.group()
            ),
        ),
        Rule(
            rf"{START}(?P<low>[0-9]{{1,2}}/[0-9]{{1,2}}){DASH}(?P<high>[0-9]{{1,2}}/[0-9]{{1,2}})"
            r"(?!\w)",
            _ratio,
        ),
    ),
    Rule(
        rf"{START}(?P<number>[0-9]{{1,3}}(?:,[0-9]{{3}}){{1,4}}|[0-9]{{1,15}})"
        r"(?i:st|nd|rd|th)(?!\w)",
        _ordinal,
        needs="[0-9](?i:[snrt][tdh])",
    ),
    Rule(
        rf"{START}(?<![A-Za-z]-)(?P<low>{SIGN}{AMOUNT}){DASH}"
        rf"(?P<high>{SIGN}(?:[0-9]{{1,3}} [0-9]/[0-9]|{AMOUNT}))(?=x\b|\W|$)(?! M\b)",
        _range,
        needs=f"[0-9]{DASH}[-+\u2212.0-9]",
    ),
)
RULES = (
    Rule(
        r"(?<!\w)(?:(?<!(?<![.-])[.-])|(?<=[A-Za-z]-)|(?<=[A-Za-z][0-9]-))(?:[A-Za-z]{1,6}[0-9]{1,4}(?:[A-Za-z]{1,3}[0-9]{0,3})?|[A-Z]?[a-z]{6,12}[0-9]|[0-9]{1,2}[A-Z]?[a-z]{7,12}"
        r"|[A-Z]{1,3}[0-9]{1,4}(?:[A-Z]{1,3}[0-9]{1,4}){1,3}[A-Z]{0,2}"
        r"|[0-9]{1,4}[A-Za-z]{1,6}[0-9]{0,3})(?!\w|[-.][0-9])",
        _mixed,
        needs="[0-9](?:(?<=[A-Za-z].)|(?=[A-Za-z]))",
    ),
    Rule(
        rf"{START}(?<!tion |dule )(?P<low>[0-9]{{1,9}}\.[0-9]{{1,9}})(?P<scale>[kKMB]|bn)(?!\w)",
        lambda match: f"{amount(match['low'])} {SCALES[match['scale'].lower()]}",
        needs=r"\.[0-9]{1,9}[kKMBb]",
    ),
    Rule(rf"{START}(?=[0-9,]*,0){LAKHS}(?!\w)", lambda match: amount(match.group()), needs=",0"),
    # 100.000 may be a hundred thousand, as most of Europe writes it.
    Rule(
        rf"{NO_PRICE}(?=[-+.0-9\u2212{PARTS}])(?!{SIGN}[1-9][0-9]{{1,2}}\.000(?![0-9])){QUANTITY}"
        r"(?![\w°]|[.,/][0-9])",
        lambda match: quantity(match.group()),
    ),
    Rule(  # not for prices: quoted at 1.5130/40
        rf"{NO_PRICE}(?!0[0-9])(?P<low>{AMOUNT})/(?!0)(?P<high>{AMOUNT})(?!\w|[.,/][0-9])"
        rf"(?:(?<=\.0)|(?={_CALCULATED}))",
        lambda match: f"{amount(match['low'])} over {amount(match['high'])}",
        needs="[0-9]/[0-9.]",
    ),
    Rule(rf"{NO_PRICE}[0-9]{{1,{MAX_DIGITS}}}(?![\w°])", _whole, needs="[0-9]"),
)
