"""E-mail and web addresses, names on networks, phone numbers."""

from __future__ import annotations

import re

from tts_cli.text.english.words import code, spelled, whole
from tts_cli.text.rule import PIECE, Rule, one_of, says, where
from tts_cli.text.tables import load_table

LONGEST_ADDRESS = 100  # characters; longer ones are left as written

_SIGNS: dict[str, str] = load_table("english")["address_signs"]
_SPELLED = frozenset(load_table("names")["spelled_in_addresses"])
_ENDINGS = one_of(load_table("names")["domains"])
_PART = re.compile(r"[^\W\d_]+|[0-9]+|.")
_VOWEL = re.compile("[aeiouy]", re.I)


def _address(match: re.Match[str]) -> str:
    """Word by word with its signs, but without the protocol."""
    written = match.group()
    address = re.sub(r"^https?://", "", written.strip("<>"), flags=re.I).rstrip("/")
    if len(address) > LONGEST_ADDRESS or not address:
        return written
    return " ".join(_part(part) for part in _PART.findall(address))


def _part(part: str) -> str:
    if part in _SIGNS or not part.isalnum():
        return _SIGNS.get(part, part)
    if part[0] in "0123456789":
        return code(part)
    is_spelled = part.lower() in _SPELLED or (len(part) < 5 and not _VOWEL.search(part))
    return " ".join(part) if is_spelled else part


def _groups(match: re.Match[str]) -> str | None:
    """Digit by digit with a pause between groups; toll-free prefixes as hundreds."""
    plus = "plus " if "+" in match.group() else ""
    written = match[PIECE] if PIECE in match.re.groupindex else match.group()
    groups = re.findall("[0-9]+|[A-Z]+|x", written)
    if plus and not 8 <= sum(map(str.isdecimal, match.group().partition("x")[0])) <= 15:
        return None
    said = (
        whole(group) if group in ("800", "900") else spelled(group) if group.isdecimal() else group
        for group in groups
    )
    return plus + ", ".join(said).replace(", x, ", ", extension ")


def _next(match: re.Match[str]) -> str | None:
    """A full stop and the missing space; None inside requests.exceptions.Timeout."""
    before = match.string[max(0, match.start() - 60) : match.start()]
    return None if _DOTTED_NAME.search(before) else ". "


_DOTTED_NAME = re.compile(r"[.:~/_]\w+$")
_LEFT = r"(?<![\w+(-])"
_RIGHT = r"(?![\w/]|[-.,:][0-9])"
_EXTENSION = r"(?: x ?[0-9]{1,5})?"
_HOST = r"(?:[a-z0-9][a-z0-9-]{0,62}\.){1,5}"
_PATH = r"""(?:[/?#][^\s<>"'”\u2019)\]]{0,300}(?<![.,;:!?]))?"""

RULES = (
    Rule(r"<[\w+-][\w.+-]{0,63}@(?:[\w-]{1,63}\.){1,5}[A-Za-z]{2,24}>", _address, needs="<"),
    Rule(
        r"(?<![\w.+-])[\w+-][\w.+-]{0,63}@(?:[\w-]{1,63}\.){1,5}[A-Za-z]{2,24}(?![\w-])",
        _address,
        needs="@",
    ),
    *where(
        r"[.:]\S",
        Rule(  # 10.5281/zenodo.4557636
            r"""(?<![\w/.])10\.[0-9]{4,9}/[^\s<>"'”\u2019)\]]{1,80}(?<![.,;:!?])""", _address
        ),
        Rule(
            r"""(?<!\w)(?:https?://|www\.(?=\w))[^\s<>"'”\u2019)\]]{1,2000}(?<![.,;:!?])""",
            _address,
            re.IGNORECASE,
        ),
        Rule(
            rf"(?<![\w.@-]){_HOST}(?-i:(?![A-Z][a-z])){_ENDINGS}\b(?!\.\w|-){_PATH}",
            _address,
            re.IGNORECASE,
        ),
    ),
    Rule(r"(?<=[a-z]{3})\.(?=[A-Z][a-z]{1,12},? [a-z])", _next, needs=r"[a-z]\.[A-Z]"),
    *where(
        "[@#]",
        says(r"(?<![\w@])@(?=[0-9]+(?!\w|[.:/-]\w))", "at "),
        says(r"(?<=\bat )@(?=[A-Za-z]\w)", ""),
        Rule(r"(?<![\w@])@(?P<name>\w{1,30})", lambda match: f"at {match['name']}"),
        Rule(
            r"(?<![\w&#])#(?P<name>[A-Z]{1,4})-(?P<number>[0-9]{1,7})(?!\w)",
            lambda match: f"number {match['name']} {code(match['number'])}",
        ),
        Rule(r"(?<![\w&#])#(?P<name>[A-Za-z]\w{0,50})", lambda match: f"hashtag {match['name']}"),
    ),
    # +44 20 7946 0958 · (212) 555-0187 · 1-800-555-0199 · 020 7946 0958 · 555-0142
    *where(
        r"[+(] ?[0-9]",
        Rule(
            rf"(?<![\w+])\+ ?[0-9]{{1,3}}(?: ?\(0\))?(?:[ .-]?\(?[0-9]{{1,4}}\)?){{2,6}}"
            rf"{_EXTENSION}{_RIGHT}",
            _groups,
        ),
        Rule(
            rf"(?<![\w(])(?:1[ -]?)?\([0-9]{{2,5}}\)[ -]?[0-9]{{3,4}}[ .-](?:[0-9]{{3,4}}{_RIGHT}"
            r"|[A-Z]{4}(?![\w-]))",
            _groups,
        ),
    ),
    *where(
        "[0-9]{3}[ ./-][0-9A-Z]",
        Rule(
            rf"(?<![\w+-])(?<![0-9] )(?:1[ .-])?[0-9]{{3}}[ .-][0-9]{{3}}(?:[ .-]|- )[0-9]{{4}}"
            rf"(?! [0-9]){_EXTENSION}{_RIGHT}",
            _groups,
        ),
        # 1-800-FLOWERS · 1-800-GO-2-HOME · 212-555-TAXI
        Rule(
            rf"{_LEFT}(?:1[ .-]|(?=8(?:00|88|77|66|55|44|33))|(?=[0-9]{{3}}-[0-9]{{3}}-))[0-9]{{3}}"
            r"(?:-(?:[A-Z]{1,9}|[0-9]{1,4})){0,3}-[A-Z]{2,9}(?![\w-])",
            _groups,
        ),
        Rule(
            rf"{_LEFT}0(?:[0-9]{{2,4}} [0-9]{{3,4}} [0-9]{{3,4}}|[0-9]{{4}} [0-9]{{6}}"
            rf"|[0-9]{{2,4}}[/-][0-9]{{5,8}}){_RIGHT}",
            _groups,
        ),
        Rule(
            rf"(?<![\w+-])[0-9]{{3}}-[0-9]{{4}}{_RIGHT}(?! ?(?:[kMG]?Hz|[km]?m|[km]g|ft)\b)",
            _groups,
        ),
        Rule(
            rf"\b(?i:number|phone|tel|telephone|call|fax|mobile)(?:,| is|:|\.)? "
            rf"(?P<{PIECE}>[0-9]{{2,5}}(?: [0-9]{{3,4}}){{1,3}}){_RIGHT}(?! [0-9])",
            _groups,
        ),
    ),
    Rule(
        rf"\b(?:call|dial|ring|text)(?:ed|ing|s)? (?P<{PIECE}>[0-9]{{3}}){_RIGHT}",
        lambda match: spelled(match[PIECE]),
        re.IGNORECASE,
        needs="[lLgGtTsSdD] [0-9]{3}(?![0-9])",
    ),
)
