"""Signs between and before words and numbers: &, +, =, @, #5, ~5, 2x4, 10²."""

from __future__ import annotations

import re
from unicodedata import normalize

from tts_cli.text.english.money import PERIODS
from tts_cli.text.english.words import SAID_SIGNS, quantity, whole
from tts_cli.text.normalized_text import MASK
from tts_cli.text.rule import Rule, looks_up, one_of, says, where
from tts_cli.text.tables import load_table

_BEFORE = rf"(?<=[\w{MASK})\]])"
_BEHIND = rf"(?=[\w{MASK}(\[\u201c\u2018]|[-\u2212\u2013][0-9{MASK}])"
_NUMBER = rf"(?=[.$£€]?[0-9{MASK}])"

BETWEEN: dict[str, str] = load_table("english")["between_words"]
BEFORE_NUMBERS: dict[str, str] = load_table("english")["signs_before_numbers"]
POWERS = {"²": " squared", "³": " cubed", "^2": " squared", "^3": " cubed"}


def _signs(words: dict[str, str]) -> str:
    return "[" + re.escape("".join(words)) + "]"


def _between(match: re.Match[str]) -> str | None:
    """greater than; None between words, where > may separate steps of a menu and * is a mark."""
    sign = match.group().strip()
    is_term = _TERM.search(match.string[max(0, match.start() - 2) : match.end() + 2])
    return f" {BETWEEN[sign]} " if is_term or sign not in _LOOSE else None


_LOOSE = ">*\u2212"
_TERM = re.compile(rf"[0-9{MASK}]|(?<!\w)[A-Za-z] \S |\S [A-Za-z](?!\w)")
_KEYS = {"Ctrl": "Control", "Cmd": "Command"}
_UNKNOWN = re.compile(
    rf"[0-9{MASK}]x (?:squared|cubed|plus|minus|equals)\b|(?<!\w)[a-z] = "
)  # 2x and 3x squared
RULES: tuple[Rule, ...] = (
    *where(
        "[+#~\u00ae\u2122\u2192]",
        says(rf" ?\+/[-\u2212\u2013=] ?(?=[0-9{MASK}])", " plus or minus "),
        says("[\u00ae\u2122]", ""),
        says(r"(?<!\w)C\+\+(?!\w)", "C plus plus"),
        says(r"(?<=\b[CF])#(?!\w)", " sharp"),
        says(rf"(?<=[A-Za-z]{{2}})\+(?![\w+{MASK}])", " plus"),  # Google+
        Rule(
            r"\b(?:Ctrl|Alt|Shift|Cmd)\+(?=\w)",
            lambda match: f"{_KEYS.get(match.group()[:-1], match.group()[:-1])} ",
        ),
        says(rf"(?<=\b[Aa] )~(?=[0-9{MASK}])", "roughly "),
        says(rf"(?<=[0-9{MASK}])(?:~| ?\u2192 ?)(?=[-\u2212]?[0-9{MASK}])", " to "),
    ),
    *where(
        f"[0-9½¼¾{MASK}] ?x",
        says(r"(?<=[0-9])x/(?=(?:day|week|month|year|hour)\b)", " times per "),
        says(
            rf"(?<=[0-9½¼¾])(?: ?x ?(?=[0-9])(?<! x(?=86\b))| x (?={MASK})|x(?={MASK}))"
            rf"|(?<={MASK})(?: x (?=[0-9{MASK}])|x(?={MASK}))",
            " by ",
        ),
    ),
    says(r"(?<!\w)&c\b(?!\.)", "et cetera", needs="&c"),
    *where(
        "&",
        says(rf"(?<=[\w{MASK}])(?! &[a-z]) ?&(?!#?\w+;) ?(?=[\w{MASK}])", " and "),
        says(rf"(?<=[,.;)\]'\u2019\"\u201d] )&(?= [\w{MASK}])", "and"),
    ),
    Rule(  # 12.5 BTC/block
        rf"(?<=[0-9{MASK}] )(?P<what>[A-Za-z]{{2,20}})/(?P<per>{one_of(PERIODS)}|block)(?![\w/])",
        lambda match: f"{match['what']} per {PERIODS.get(match['per'], match['per'])}",
        needs=rf"[0-9{MASK}] [A-Za-z]+/",
    ),
    *where(
        f"[0-9{MASK}] ?[-\u2013]",
        says(rf"(?<=[0-9{MASK}]) - (?=[0-9.{MASK}]{{1,20}} ?=)", " minus "),
        says(rf"(?<={MASK})[-\u2013](?={MASK})", " to "),
    ),
    says(
        rf"(?<=[0-9{MASK}]) [/÷] (?=[0-9.{MASK}]{{1,20}} ?=)", " divided by ", needs="[/÷] [^=]+="
    ),
    says(r"(?<=[0-9][a-z]) [-\u2212] (?=[0-9])", " minus ", needs=r"[0-9][a-z] [-\u2212] [0-9]"),
    Rule(
        rf"(?<=[0-9{MASK}])(?<![A-Za-z][0-9])[x\u00d7](?![\w+={MASK}]| ?[-+])",
        lambda match: None if _UNKNOWN.search(match.string) else " times",
        needs=rf"[0-9{MASK}][x\u00d7]",
    ),
    says(  # a dash for a minus
        r"(?:(?<=[(=<>\u2264\u2265])|(?<=[=<>\u2264\u2265] ))\u2013(?=\.?[0-9])",
        "minus ",
        needs=r"[(=<>\u2264\u2265] ?\u2013",
    ),
    *where(
        _signs(BETWEEN),
        Rule(
            rf"{_BEFORE}(?: {_signs(BETWEEN)} |(?<=[0-9{MASK}])[+=*\u00d7÷](?=[0-9{MASK}]))"
            f"{_BEHIND}",
            _between,
        ),
        says(rf"(?<=[0-9{MASK}])\+(?!\w)", " plus"),
    ),
    *where(
        "[⁻⁰¹²³⁴-⁹₀-₉]",
        Rule(
            rf"(?<=[0-9{MASK}])(?<![0-9]{{4}})(?:⁻[⁰¹²³⁴-⁹]{{1,3}}|[⁰¹²³⁴-⁹]{{2,3}}|[⁴-⁹])(?!\w)",
            lambda match: f" to the power of {quantity(normalize('NFKC', match.group()))}",
        ),
        Rule(
            r"(?<=[A-Za-z)\]])[₀-₉]{1,3}(?=(?P<next>[A-Za-z]?))",
            lambda match: (
                f" {whole(normalize('NFKC', match.group()))}{' ' if match['next'] else ''}"
            ),
        ),
    ),
    Rule(
        rf"(?<=UTC|GMT)[-+\u2212](?=[0-9]{{1,2}}(?!\w)|{MASK})",
        lambda match: f" {SAID_SIGNS[match.group()]}",
        needs=r"[CT][-+\u2212]",
    ),
    says(rf"§§ ?{_NUMBER}", "sections ", needs="§§"),
    *where(
        rf"[\^²³©]|{_signs(BEFORE_NUMBERS)}",
        says(r"(?<=[0-9])\^(?=[-\u2212]?[0-9])", " to the power of "),
        looks_up(r"(?<=[A-Za-z)])\^[23](?![\w.^])", POWERS),
        looks_up(r"(?<=[\w)])[²³](?!\w)", POWERS),
        Rule(
            rf"(?<![\w#&]){_signs(BEFORE_NUMBERS)} ?{_NUMBER}",
            lambda match: f"{BEFORE_NUMBERS[match.group().strip()]} ",
        ),
        Rule(
            r"(?:(?P<word>[Cc]opyright) )?© ?(?=(?P<next>\w?))",
            lambda match: (match["word"] or "copyright") + " " * bool(match["next"]),
        ),
    ),
)
