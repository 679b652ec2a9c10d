"""Numbers that name instead of count: 2.0.1, Listing 7-22, John 3:16-18, Boeing 747-400, NY 10001,
PIN 4321, 10.0.0.1:8080, 1e-5, 401(k).
"""

from __future__ import annotations

import re

from tts_cli.text.english.words import (
    DASH,
    SAID_SIGNS,
    SIGN,
    cardinal,
    code,
    counted,
    has_article,
    plural,
    quantity,
    spelled,
    whole,
)
from tts_cli.text.rule import PIECE, Rule, any_case, ends_sentence, one_of, says, where
from tts_cli.text.tables import load_table

_NAMES = load_table("names")
_CUES: dict[str, list[str]] = load_table("english")["cues"]
_BOOK = rf"(?:{one_of(_NAMES['books'])}|{one_of(_NAMES['short_books'])}\.?)"
_SHORT_BOOKS = {"Rev": "Revelation", "Gen": "Genesis", "Col": "Colossians"}  # titles as well
_VERSES = (
    "[0-9]{1,3}:[0-9]{1,3}(?:(?:[,\u2013-]|[,;] (?=[0-9]{1,3}:))[0-9]{1,3}(?::[0-9]{1,3})?){0,4}"
)
_STATE, _STATE_NAME = one_of(_NAMES["states"]), one_of(_NAMES["state_names"])
_PAIR = f"[0-9]{{1,4}}{DASH}[0-9]{{1,4}}"
_NUMBERED = f"(?:{any_case(_NAMES['numbered'])}|{one_of(_NAMES['numbered_with_capital'])})"
_POSTCODE = rf"(?P<{PIECE}>[0-9]{{5}}(?:-[0-9]{{4}})?)(?![\w/]|[-.,:][0-9])"
# Words before a number that is read digit by digit.
_SECRET = (
    r"(?:PIN|pin|passcode|ISBN(?:-1[03])?|ZIP|OTP"
    r"|(?:zip|ZIP|Zip|post|postal|area|access|security) ?[Cc]ode"
    r"|(?:account|card|serial|phone|tracking|routing) number|code(?=[a-z: ]{1,5}[0-9]{5}))"
)
_LAST = (
    r"(?:[Cc]ard|[Aa]ccount|[Vv]isa|[Mm]astercard|number|phone)s?(?: that)? (?:ending|ends|ended)"
)
_SECRET_NUMBER = (
    rf"\b(?:{_SECRET}(?: code| number)?(?:,| is| was| of)?[: ] ?|{_LAST}(?: in| with)? "
    rf"|[Ll]ast (?:four|4)(?: digits)?(?: are| of)?:? )"
    rf"(?P<{PIECE}>97[89](?:[ -][0-9]{{1,10}}){{1,4}}|[0-9]{{3,16}})(?!\w)"
)
_EMERGENCY, _EMERGENCY_CUES = one_of(_NAMES["emergency"]), one_of(_NAMES["emergency_cues"])
_MODELS = one_of(_NAMES["with_plural"])
_MESSAGE = re.compile(rf"\b{any_case(_CUES['message'])}\b")
_OLD_PRICES = re.compile(r"[0-9]s\.(?:,| [0-9]{1,2}d\b| [a-z])|£[0-9,]{1,9} [0-9]{1,2}s\.")
_PAID = re.compile(rf"\b{one_of(_CUES['paid'])}\b")
_LASTING = re.compile(rf"\b{one_of(_CUES['lasting'])} $")
_LEFT = r"(?<![\w+-])"
_RIGHT = r"(?![\w/]|[-.,:][0-9])"
_CITY = re.compile(r"(?:^|[\s,])[A-Z][a-z]{2,20}$")
_RUNS = re.compile("[0-9]+|[A-Za-z]+")


def _numbered(match: re.Match[str]) -> str:
    """Versions and formations: 2.0.1, 4-4-2; ISBN and the like digit by digit."""
    written = match.group()
    if "-" in written:
        groups = written.split("-")
        if max(map(len, groups)) < 3:
            return ", ".join(map(whole, groups))
        return ", ".join(map(spelled, groups))
    groups = written.split(".")
    if len(groups) == 3 and {len(group) for group in groups[1:]} == {3}:
        return cardinal(int(written.replace(".", "")))  # 1.000.000, as most of Europe writes it
    return (" dot " if len(groups) == 4 else " point ").join(map(whole, groups))


def _address(match: re.Match[str]) -> str:
    """10.0.0.1:8080 and 10.0.0.0/8."""
    said = " dot ".join(map(whole, match["host"].split(".")))
    sign = {":": " colon ", "/": " slash "}[match["sign"]]
    return f"{said}{sign}{code(match['end'])}"


def _verses(written: str) -> str:
    """three sixteen to eighteen, twenty three, one to six."""
    return ", ".join(map(_chapter, re.split("[,;] ", written)))


def _chapter(written: str) -> str:
    chapter, *rest = re.split("([:,\u2013-])", written)
    said = whole(chapter)
    for sign, number in zip(rest[::2], rest[1::2], strict=True):
        join = {":": ", ", ",": " and "}.get(sign, " to ")
        said += (" " if sign == ":" and len(chapter) < 3 == len(number) + 1 else join) + whole(
            number
        )
    return said


def _dashed(match: re.Match[str]) -> str | None:
    """seven dash twenty two; but "a table 3-4 ..." and Figures 3-5 are ranges."""
    pairs = re.sub(DASH, " dash ", match[PIECE])
    is_plural = match.string[match.start(PIECE) - 2] == "s"
    if has_article(match) or (is_plural and pairs.count("dash") < 2):
        return None
    return re.sub("[0-9]+", lambda number: whole(number.group()), pairs)


def _digits(match: re.Match[str]) -> str:
    """Digit by digit, with a pause between groups."""
    return ", ".join(map(spelled, re.findall("[0-9]+", match[PIECE])))


def _runs(match: re.Match[str]) -> str:
    """Letters and digits in turn, as in a name: four oh one k, A three twenty two hundred."""
    runs = _RUNS.findall(match[PIECE])
    said = " ".join(code(run) if run.isdecimal() else run for run in runs)
    return f"{said[:-2]}s" if said.endswith(" s") else said


def _plural(match: re.Match[str]) -> str:
    """B-fifty twos, A three twenties, seven forty sevens."""
    name = match["name"] if match["name"].endswith("-") else f"{match['name']} ".lstrip()
    return name + plural(code(match["number"]))


def _short_code(match: re.Match[str]) -> str | None:
    """Digit by digit after the verb of a message: txt VILLA to 87077; None for a count."""
    before = match.string[max(0, match.start() - 90) : match.start(PIECE)]
    if match[PIECE].endswith("000") or not _MESSAGE.search(before):
        return None
    return _digits(match)


def _pence(match: re.Match[str]) -> str:
    is_end = match.group().endswith(".") and ends_sentence(match)
    return f"{whole(match['pence'])} {'penny' if match['pence'] == '1' else 'pence'}{'.' * is_end}"


def _shillings(match: re.Match[str]) -> str:
    """Old prices: 8s. 6d. is eight shillings six pence."""
    return f"{counted(match['shillings'], 'shilling')} {_pence(match)}"


def _old_price(match: re.Match[str]) -> str | None:
    """8s. is a price inside a sentence, and at its end in a text with more of them. Other cases
    stay as written, except times: in 8s.
    """
    if _OLD_PRICES.search(match.string):
        is_end = ends_sentence(match)
        return counted(match["shillings"], "shilling") + "." * is_end
    before = match.string[max(0, match.start() - 12) : match.start()]
    is_price = int(match["shillings"]) < 20 or _PAID.search(match.string)
    return match.group() if is_price and not _LASTING.search(before) else None


def _plural_model(match: re.Match[str]) -> str:
    """PlayStation twos; the s of iPhone 5s is part of the name."""
    said = code(match["number"])
    return f"{said} S" if match["model"] == "iPhone" else plural(said)


def _exponent(match: re.Match[str]) -> str:
    sign = SAID_SIGNS.get(match["sign"] or "", "")
    return f"{quantity(match['low'])} e {sign}{whole(match['power'])}"


def _hexadecimal(match: re.Match[str]) -> str:
    digits = (spelled(digit) if digit.isdecimal() else digit.upper() for digit in match["digits"])
    return " ".join(("zero x", *digits))


RULES = (
    # Formulas of TeX are not read.
    Rule(
        r"\$[A-Za-z\\({][^$\s]{0,60}\$|\$[0-9]{0,3}[A-Za-z\\({][^$\s]{0,60}[\^_\\][^$\s]{0,60}\$",
        lambda match: match.group(),
        needs=r"\$[^$]*\$",
    ),
    Rule(
        rf"(?:(?<![\w$£€.,-])(?<!Porsche )911|(?:(?<=\b[Aa] )|(?<=\b[Tt]he )){_EMERGENCY})"
        rf"(?= {_EMERGENCY_CUES}s?\b)",
        lambda match: spelled(match.group()),
        needs=f"{_EMERGENCY} [a-z]",
    ),
    Rule(
        rf"\b[Aa]rea codes "
        rf"(?P<{PIECE}>[2-9][0-9]{{2}}(?:(?:,|,? and|,? or) [2-9][0-9]{{2}}){{0,5}}){_RIGHT}",
        lambda match: re.sub("[0-9]+", lambda number: spelled(number.group()), match[PIECE]),
        needs="rea codes [2-9]",
    ),
    Rule(
        r"(?<![\w$£€.,-])[2-9][0-9]{2}(?= (?:area code|overlay)s?\b)",
        lambda match: spelled(match.group()),
        needs="[0-9] (?:area code|overlay)",
    ),
    *where(
        "[0-9]{5}",
        Rule(
            rf"\b(?i:to|call|te?xt|dial) (?P<{PIECE}>[0-9]{{5,6}})"
            r"(?![\w%/]|[-.,:][0-9]| (?:[a-z]{3,20}s|people)\b)",
            _short_code,
        ),
        Rule(
            rf"(?<=[a-z])(?<!otal)(?<!opulation)(?: [-\u2013] | ?[-\u2013]|, )"
            rf"(?P<{PIECE}>[1-9][0-9]{{5}})(?=[.;)]?(?:$|\s(?:(?![a-z])|(?:is|was|and)\b)))",
            lambda match: (
                _digits(match)
                if _CITY.search(match.string[max(0, match.start() - 24) : match.start()])
                else None
            ),
        ),
        Rule(
            rf"(?<=[A-Za-z][-_])(?P<{PIECE}>[0-9]{{6,8}})(?=[-_.][A-Za-z][\w.-]{{0,30}}\.[a-z])",
            _digits,
        ),
    ),
    *where(
        "[0-9][sd]",
        Rule(
            rf"\b(?P<model>{_MODELS}) (?P<{PIECE}>(?P<number>[0-9]{{1,4}})s)(?![\w-])",
            _plural_model,
        ),
        Rule(
            r"(?<![\w.,$£€])(?P<shillings>[0-9]{1,2})s\.,? ?(?P<pence>[0-9]{1,2})d(?:\.|(?!\w))",
            _shillings,
        ),
        Rule(r"(?<![\w.,$£€-])(?P<shillings>[0-9]{1,2})s\.(?![\w])", _old_price),
        Rule(r"(?<![\w.,$£€-])(?P<pence>[0-9]{1,2})d\.(?!\w)", _pence),
    ),
    Rule(
        rf"\b(?P<book>{one_of(_SHORT_BOOKS)})\.? (?P<verses>{_VERSES}){_RIGHT}",
        lambda match: f"{_SHORT_BOOKS[match['book']]} {_verses(match['verses'])}",
        needs=":",
    ),
    Rule(
        rf"\b{_BOOK}\.? (?P<{PIECE}>{_VERSES}){_RIGHT}(?! ?(?i:[ap]\.?m\b))",
        lambda match: _verses(match[PIECE]),
        needs=":",
    ),
    *where(
        f"{DASH}[0-9]",
        Rule(
            rf"\b{_BOOK}\.? (?P<{PIECE}>[0-9]{{1,3}}\.[0-9]{{1,3}}{DASH}[0-9]{{1,3}}){_RIGHT}",
            lambda match: _verses(match[PIECE].replace(".", ":")),
        ),
        Rule(
            rf"\b(?:No\.?|Docket|Case|Order|ISO|IEC) (?P<{PIECE}>(?P<first>[0-9]{{1,5}})-"
            rf"(?P<then>(?<=[0-9]{{3}}-)[0-9]|[0-9]{{3,5}})){_RIGHT}",
            lambda match: f"{code(match['first'])} dash {code(match['then'])}",
        ),
        Rule(
            rf"\b{_NUMBERED}s? (?P<{PIECE}>{_PAIR}(?:(?:,|,? (?:and|or|to)) {_PAIR}){{0,4}})"
            rf"{_RIGHT}(?! ?%| (?:percent|times|feet))",
            _dashed,
        ),
        Rule(
            rf"(?<![\w-])(?P<{PIECE}>7[0-9]7-[0-9]{{1,3}}(?:ER|LR|F|s)?"
            r"|[A-Z]{1,3}[0-9]{1,4}(?:[A-Z]{1,2}[0-9]{0,3})?-[0-9]{1,4}|[0-9]{1,2}W-[0-9]{2})(?![\w-])",
            _runs,
        ),
    ),
    # breath like a 747 · a Boeing 777 uses 14 tires
    Rule(
        rf"\b(?:an?|A|our|(?P<maker>Boeing)) (?P<{PIECE}>7[0-8]7)(?(maker)(?![\w-]|[.,][0-9])|"
        r"(?=[.!?;:\"\u201d]|,(?! ?[0-9])|$"
        r"| (?:jet|jumbo|plane|aircraft|airliner|pilot|crashed|landed|took|from|flying|with)))",
        lambda match: code(match[PIECE]),
        needs=" 7[0-8]7",
    ),
    Rule(
        r"(?<![\w.])(?P<name>[A-Z][A-Za-z]{0,3}-|[A-Z]{1,3}|(?=7[0-9]7s))(?P<number>[0-9]{1,4})s(?!\w)",
        _plural,
        needs="[0-9]s",
    ),
    *where(
        "[0-9]{5}",
        Rule(rf"(?:(?<=, )|(?<=[a-z] )(?!(?:HI|IN|ME|OH|OK|OR)\b)){_STATE},? {_POSTCODE}", _digits),
        Rule(rf"\b{_STATE_NAME},? {_POSTCODE}(?! [a-z])", _digits),
        Rule(rf"\b(?:ISO|IEC|RFC|DIN|EN) (?P<{PIECE}>[0-9]{{5}}){_RIGHT}", _digits),
    ),
    Rule(_SECRET_NUMBER, _digits, needs="[0-9]{3}"),
    Rule(
        r"\b1[-:]1(?P<many>s)?(?= (?:with|meeting|call|chat|session|conversation)|(?<=s)(?!\w))",
        lambda match: f"one on one{match['many'] or ''}",
        needs="1[-:]1",
    ),
    Rule(
        rf"(?<![\w+-])(?P<{PIECE}>[0-9]{{4}}(?:[ -][0-9]{{4}}){{3}}){_RIGHT}",
        _digits,
        needs="[0-9]{4}[ -][0-9]{4}",
    ),
    *where(
        r"[0-9][eEx(]",
        Rule(rf"(?<![\w)])(?P<{PIECE}>[1-9][0-9]{{0,2}}\([a-z]\)(?:\([a-z0-9]\)){{0,3}})", _runs),
        Rule(
            rf"(?<!\w)(?![0-9]{{1,2}}E[0-9]\b)(?P<low>{SIGN}[0-9]{{1,9}}(?:\.[0-9]{{1,20}})?)[eE]"
            rf"(?P<sign>[-+\u2212])?(?P<power>[0-9]{{1,3}}){_RIGHT}(?!\()",
            _exponent,
        ),
        Rule(  # 1920x1080
            r"(?<![\w,.])(?P<wide>[0-9]{3,4})x(?P<high>[0-9]{3,4})(?![\w.,])",
            lambda match: f"{code(match['wide'])} by {code(match['high'])}",
        ),
        Rule(r"(?<!\w)0x(?P<digits>[0-9A-Fa-f]{1,16})(?!\w)", _hexadecimal),
    ),
)
VERSIONS = (
    Rule(rf"(?<=#)(?P<{PIECE}>[0-9]{{1,6}}-[A-Z]{{1,3}})(?![\w-])", _runs, needs="#[0-9]+-"),
    *where(
        "[.-][0-9]",
        Rule(rf"(?<=[A-Za-z]-)(?P<{PIECE}>[0-9]{{1,5}}(?:-[0-9]{{1,5}}){{1,3}})(?!\w)", _runs),
        says(r"(?<!\w)[vV](?=[0-9]{1,4}\.[0-9])", "version "),
        Rule(
            rf"{_LEFT}(?P<host>[0-9]{{1,3}}(?:\.[0-9]{{1,3}}){{3}})(?P<sign>[:/])(?P<end>[0-9]{{1,5}}){_RIGHT}",
            _address,
        ),
        Rule(rf"{_LEFT}[0-9]{{1,5}}(?:-[0-9]{{1,7}}){{2,5}}{_RIGHT}", _numbered),
        Rule(rf"{_LEFT}[0-9]{{1,4}}(?:\.[0-9]{{1,5}}){{2,4}}{_RIGHT}", _numbered),
    ),
)
