"""Signs between and before words and numbers: &, +, =, @, #5, ~5, 2x4, 10²."""

from __future__ import annotations

import re
from unicodedata import normalize

from tts_cli.text.english.words import SAID_SIGNS, quantity, whole
from tts_cli.text.reading import TAKEN, Rule, looks_up, says, table, where

_BEFORE, _BEHIND = rf"(?<=[\w{TAKEN})\]])", rf"(?=[\w{TAKEN}(\[])"
_NUMBER = rf"(?=[.$£€]?[0-9{TAKEN}])"

BETWEEN = table(
    """
    +=plus | ==equals | \u00d7=times | ÷=divided by | @=at | \u2212=minus | *=times
    ≠=is not equal to | ≈=is about | <=less than | >=greater than | ≤=less than or equal to
    ≥=greater than or equal to | ±=plus or minus
    """
)
BEFORE_NUMBERS = table(
    """
    ~=about | ≈=about | <=less than | >=more than | ≤=at most | ≥=at least | ±=plus or minus
    #=number | §=section | №=number
    """
)
POWERS = {"²": " squared", "³": " cubed"}


def _signs(words: dict[str, str]) -> str:
    return "[" + re.escape("".join(words)) + "]"


RULES: tuple[Rule, ...] = (
    says(rf"(?<=[\w{TAKEN}]) ?&(?!#?\w+;) ?(?=[\w{TAKEN}])", " and ", needs="&"),
    *where(
        f"[0-9{TAKEN}] ?[-\u2013]",
        says(rf"(?<=[0-9{TAKEN}]) - (?=[0-9.{TAKEN}]{{1,20}} ?=)", " minus "),
        says(rf"(?<={TAKEN})[-\u2013](?={TAKEN})", " to "),
    ),
    *where(
        _signs(BETWEEN),
        Rule(
            rf"{_BEFORE}(?: {_signs(BETWEEN)} |(?<=[0-9{TAKEN}])[+=*\u00d7÷](?=[0-9{TAKEN}]))"
            f"{_BEHIND}",
            lambda match: f" {BETWEEN[match.group().strip()]} ",
        ),
        says(rf"(?<=[0-9{TAKEN}])\+(?!\w)", " plus"),
    ),
    says(
        rf"(?<=[0-9½¼¾{TAKEN}])(?: ?x ?(?=[0-9])| x (?={TAKEN})|x(?={TAKEN}))",
        " by ",
        needs=f"[0-9½¼¾{TAKEN}] ?x",
    ),
    *where(
        "[⁻⁰¹²³⁴-⁹₀-₉]",
        Rule(
            rf"(?<=[0-9{TAKEN}])(?<![0-9]{{4}})(?:⁻[⁰¹²³⁴-⁹]{{1,3}}|[⁰¹²³⁴-⁹]{{2,3}}|[⁴-⁹])(?!\w)",
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
        rf"(?<=UTC|GMT)[-+\u2212](?=[0-9]{{1,2}}(?!\w)|{TAKEN})",
        lambda match: f" {SAID_SIGNS[match.group()]}",
        needs=r"[CT][-+\u2212]",
    ),
    says(rf"§§ ?{_NUMBER}", "sections ", needs="§§"),
    says(rf"(?<=[0-9{TAKEN}])[x\u00d7](?![\w+=])", " times", needs=rf"[0-9{TAKEN}][x\u00d7]"),
    *where(
        rf"[\^²³©]|{_signs(BEFORE_NUMBERS)}",
        says(r"(?<=[0-9])\^(?=[-\u2212]?[0-9])", " to the power of "),
        looks_up(r"(?<=[\w)])[²³](?!\w)", POWERS),
        Rule(
            rf"(?<![\w#&]){_signs(BEFORE_NUMBERS)} ?{_NUMBER}",
            lambda match: f"{BEFORE_NUMBERS[match.group().strip()]} ",
        ),
        says("©", "copyright"),
    ),
)
