"""Find out whether a text has anything to synthesize (`is_blank`, `is_wordless`), how long its
speech usually is, and which markup a model would read aloud.

Letters and digits are those of all scripts, numbers such as ½ and ①, and signs made of letters such
as ㎏ and №. A text of signs alone (%, &, +) has no words.

Markup of other tools is reported; `--strip-markup` removes tags of style and emphasis, but keeps
placeholders and stage directions. The patterns are strict, so that plain text (`a < b`, `5 * 3 *
2`, `AT&T`, `snake_case`, `#1`, `100 %s`) does not match. They cover Ren'Py, Godot's BBCode, Yarn,
Unity's and Unreal's rich text, SubStation, printf and Python's format.
"""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tts_cli.text.tables import load_table, script

if TYPE_CHECKING:
    from collections.abc import Iterable

    from models.base import ModelInfo
    from models.pace import Pace


# Emoji and pictographs, for a class of characters in a pattern: what has no words that all readers
# would say for it. Symbols and dingbats but for numbers in circles, sharps and flats; what else has
# a picture. None are letters and digits in squares, which are read.
PICTURES = script("pictures")
SECONDS_PER_BYTE = 0.075  # of UTF-8: typical speech, in English and Chinese alike


def usual_s(text: str) -> float:
    """Seconds that speech of a text usually takes."""
    return SECONDS_PER_BYTE * len(text.encode())


# Default frame limit of a text: longer speech is a runaway.
CAP_S = 5.12
CAP_S_PER_BYTE = 0.24


def text_cap(text: str, info: ModelInfo) -> int:
    """Return the default frame limit of a text."""
    cap_s = CAP_S + CAP_S_PER_BYTE * len(text.encode())
    return min(info.max_frames, round(cap_s / info.frame_s))


SILENCE_S = 0.5  # of a row without words

# Hangul fillers, of width and without, are letters by their category.
_FILLERS = "\u115f\u1160\u3164\uffa0"
_LETTER = re.compile(rf"[^\W_{_FILLERS}]")  # or digit: what `str.isalnum` takes
_EMPTY_BRAILLE = "\u2800"  # a symbol by its category
# White space and control characters, format characters (directions, tags, joiners, a soft hyphen)
# and marks, which show on a letter only: variation selectors are among them.
_UNSEEN_KINDS = frozenset(("Cc", "Cf", "Zs", "Zl", "Zp", "Mn", "Mc", "Me"))


# Letters of other scripts than Latin, and languages that are written in that alone.
_NOT_LATIN = re.compile(rf"[^\W\d_{script('latin')}]")
_LATIN_LANGUAGES = frozenset(("english", "french", "german", "italian", "portuguese", "spanish"))


def are_latin(languages: Iterable[str]) -> bool:
    """Whether a checkpoint names its languages, and all of them are written in Latin letters."""
    named = set(languages) - {"auto"}
    return bool(named) and named <= _LATIN_LANGUAGES


def is_foreign(text: str) -> bool:
    """Whether most letters of a text are not Latin ones."""
    if text.isascii() or _NOT_LATIN.search(text) is None:
        return False
    return 2 * len(_NOT_LATIN.findall(text)) > sum(map(str.isalpha, text))


def is_blank(text: str) -> bool:
    """Whether nothing in a text can be seen."""
    return all(map(_is_unseen, text))  # ends at the first character of most texts


def is_wordless(text: str, pace: Pace | None = None) -> bool:
    """Whether a text has no letter and no digit but in what the checkpoint reads as markup."""
    spoken = text if pace is None else pace.without_markup(text)
    return not (_LETTER.search(spoken) or _LETTER.search(unicodedata.normalize("NFKC", spoken)))


def _is_unseen(char: str) -> bool:
    if char.isalnum():
        return char in _FILLERS
    return char == _EMPTY_BRAILLE or unicodedata.category(char) in _UNSEEN_KINDS


MAX_SHOWN_CHARS = 40

_MARKUP = {name: "|".join(words.split()) for name, words in load_table("markup").items()}
_SSML, _HTML, _BBCODE, _RENPY = (_MARKUP[name] for name in ("ssml", "html", "bbcode", "renpy"))
_ACTS, _ASIDES, _EDITED = _MARKUP["acts"], _MARKUP["asides"], _MARKUP["edited"]
_CUES, _ENTITIES = f"{_MARKUP['cues']}|{_ACTS}", _MARKUP["entities"]


@dataclass(frozen=True)
class _Kind:
    """A kind of markup with its pattern. Each match ends at the next sign of its kind, so the time
    is linear.
    """

    sign: str  # that all of the kind have and most texts have not
    name: str
    pattern: re.Pattern[str]
    kept: str | None = None  # what stays where styles are taken out, for `sub`; None: all of it


def _kind(sign: str, name: str, pattern: str, kept: str | None = None, flags: int = 0) -> _Kind:
    return _Kind(sign, name, re.compile(pattern, flags), kept)


def _emphasis(mark: str, edge: str, never: str = "") -> str:
    """Words between two marks, with none of `edge` outside of these, and that never begin so."""
    start = mark[0]
    return (
        rf"(?<![{edge}{start}]){re.escape(mark)}{never}(?=[^\s{start}])"
        rf"([^{start}\n]*[^\s{start}]){re.escape(mark)}(?![{edge}{start}])"
    )


_TAG, _DIRECTION, _PLACEHOLDER = "a tag", "a stage direction", "a placeholder"
_I = re.IGNORECASE
# Where several match at one place the first one counts.
_KINDS: tuple[_Kind, ...] = (
    _kind("<", _TAG, r"</?(?:br|p|div|hr|li|tr|td|h[1-6]|break)(?:\s[^<>]{0,80}|/)?>", " ", _I),
    # Attributes have an equals sign, which "x<s and y>2" has not.
    _kind("<", _TAG, rf"</?(?:{_SSML}|{_HTML})(?:\s*/?|\s+[\w:-]{{1,40}}\s*=[^<>]*)>", "", _I),
    _kind("<", _TAG, r"<(?:[A-Za-z][\w.-]+|#[0-9a-fA-F]{3,8}|[a-z]+=[^<>]{1,80})>(?=[^<]*</)", ""),
    _kind("<", _TAG, r"</[\w:.-]{0,40}>|<#[0-9a-fA-F]{3,8}>|<[A-Za-z][\w.-]+=[^<>]{1,80}>", ""),
    _kind("<", _TAG, r"<[A-Za-z][\w:.-]+\s+[\w:-]{1,40}\s*=[^<>]*>", ""),
    _kind("<", _TAG, r"<v(?:\.[\w.]{1,40})? [A-Z][^<>]{0,60}>"),
    _kind("<", _TAG, r"<\|[^<>|]{1,80}\|>|<!--|<!\[CDATA\[|<\?xml\b"),
    _kind("<<", "a command", r"<<(?:wait|set|jump|if|else|elseif|endif|declare|stop)\b[^<>]*>>"),
    _kind("{", _TAG, rf"\{{(?:/?(?:{_RENPY})|/[A-Za-z]\w*|/?[A-Za-z]\w*=[^{{}}]{{1,80}})\}}", ""),
    _kind("{\\", _TAG, r"\{\\[^{}]*\}", ""),
    _kind("[", _DIRECTION, rf"\[\s*/?(?:{_CUES})\b[^\[\]]*\]", flags=_I),
    _kind(
        "[",
        "an editor's note",
        r"\[\s*(?:illustration|footnote|sidenote|transcriber|blank page|greek)\b[^\[\]]*\]",
        flags=_I,
    ),
    _kind("[", _TAG, rf"(?<!\w)\[(?:{_BBCODE})\](?!\()|\[[A-Za-z]\w*=[^\[\]]{{1,80}}\]", ""),
    _kind("[", _TAG, r"\[[a-z]\w*\s+\w{1,40}=[^\[\]]*\]|\[/\w{0,40}\]", ""),
    _kind("](", "a Markdown link", r"\[[^\[\]\n]+\]\([^()\s]+\)"),
    _kind(
        "[",
        _PLACEHOLDER,
        rf"(?<!\w)\[(?!(?:{_EDITED})\])(?:[a-z][a-zA-Z0-9]{{1,40}}|[A-Za-z]\w{{0,40}}_\w{{1,40}}"
        r"|[a-z]\w{0,40}\.[\w.]{0,40}\w)(?:![a-z]+)?\](?![\w(])",
    ),
    _kind(
        "{",
        _PLACEHOLDER,
        r"\{ ?[$#]?[\w.]{1,60} ?(?:[:!][^{}]{0,60}|, ?(?:plural|select|number|date)\b[^{}]{0,60})?"
        r"\}"
        r"|\{\w{1,40}, ?(?:plural|select)(?:ordinal)?,|\{\{\s*[\w.]{1,60}\s*\}\}",
    ),
    _kind(
        "%",
        _PLACEHOLDER,
        r"(?<![\w%])(?<!\d[ \u00a0\u202f])%(?:\d\$)?(?:0?\d?(?:\.\d)?(?:l?l?[du]|[sif])\b|@"
        r"|\(\w+\)[sdif]|L?[1-9]\d?\b(?!\s?%)|n\b|[A-Z][A-Z_]{1,40}%)",
    ),
    _kind("$", _PLACEHOLDER, r"(?<![\w$])\$(?:[a-z_]\w{2,40}|t\()"),  # Twine, Yarn, i18next
    _kind("<", _PLACEHOLDER, r"<[A-Za-z][\w.-]+\s?/>|<(?:[@#!]|a?:\w+:)[\w|&^-]{1,60}>"),  # Slack
    # RPG Maker: names and values; colours, pictures, sizes and waits.
    _kind("\\", _PLACEHOLDER, r"\\[nNvVpP]\[\w{1,8}\]|\\G(?!\w)"),
    _kind(
        "\\", _TAG, r"\\(?![nNvVpP]\[)[A-Za-z]{1,3}\[\d{1,3}\]|(?<![:\\])\\[.|!<>^{}$](?!\w)", ""
    ),
    _kind("://", "a web address", r"\b(?:https?|ftp)://\S"),
    _kind("www.", "a web address", r"\bwww\.[\w-]+\.\w"),
    _kind("@", "an e-mail address", r"[\w.+-]{1,64}@[\w-]{1,64}\.[^\W\d]"),
    _kind("*", _DIRECTION, rf"(?<![\w*])\*(?:{_ACTS})\b[^*\n]*\*(?![\w*])", flags=_I),
    _kind("(", _DIRECTION, rf"\(\s*(?:{_ACTS})(?: [^\W\d_]+){{0,2}}\s*\)", flags=_I),
    _kind(
        "(",
        _DIRECTION,
        rf"^(?:[^\W\d_][\w .'-]{{0,30}}:\s)?\((?!(?:{_ASIDES})\b)[^\W\d_A-Z][^\W\d_]+"
        r"(?:[ '-][^\W\d_]+){0,3}\)(?=\s+\S)",
        flags=re.MULTILINE,
    ),
    # Neighbours that are ASCII letters make a password or a formula; Chinese has no spaces.
    _kind("**", "Markdown", _emphasis("**", "A-Za-z0-9"), r"\1"),
    _kind("__", "Markdown", _emphasis("__", r"\w"), r"\1"),
    _kind("*", "Markdown", _emphasis("*", r"\w", rf"(?!(?i:{_ACTS})\b)"), r"\1"),
    _kind("_", "Markdown", _emphasis("_", r"\w"), r"\1"),
    _kind("`", "Markdown", r"```|(?<![`\w])`(?=[^`\s])([^`\n]*[^`\s])`(?![`\w])", r"\1"),
    _kind("# ", "a Markdown heading", r"^ {0,3}#{1,6} +(?=[^\W\d])", "", re.MULTILINE),
    _kind(":", "an emoji", r"(?<![\w:]):(?:[a-z][a-z0-9_+-]{2,40}|[+-]1):(?![\w:])"),
    _kind("&", "an HTML entity", rf"&(?:{_ENTITIES});", r"\g<0>"),
    _kind("-->", "a cue time", r"\d\d[:.]\d\d[.,]\d{3}\s{0,3}-->"),
    _kind(
        "\\",
        "a written line end",
        r"(?<![\w:\\])\\[nNr](?!\[)|(?<=[a-z])\\[nN](?=[A-Z\s\\]|$)",
        "\n",
    ),
    _kind("\\", "an escaped quote", r"\\([\"'])", r"\1"),
)
_EMOJI_KIND = _kind("", "an emoji", f"[{PICTURES}]")
_SIGNS = re.compile(rf"[<>{{\[*_`&@%$\\(#:{PICTURES}]")  # one look at what most texts have none of
_SPACES = re.compile(r"(?<=\S)[ \t]{2,}(?=\S)")
# SSML: breaks, which become pauses, and substitutions.
_BREAK = re.compile(
    r"<break\b[^<>]{0,80}?\btime\s*=\s*[\"']?([0-9]{1,5}(?:\.[0-9]{1,3})?)(ms|s)\b[^<>]{0,80}>",
    re.I,
)
_SUBSTITUTE = re.compile(
    r"<sub\b[^<>]{0,80}?\balias\s*=\s*[\"']([^<>\"']{1,200})[\"'][^<>]{0,80}>[^<>]{0,200}</sub>",
    re.I,
)
_ENTITY = re.compile(rf"&(?:{_ENTITIES});")
# Text in brackets that is not a stage direction.
_NOTE = re.compile(
    r"\[\s*(?:[0-9]{1,4}(?:\s*[,;\u2013-]\s*[0-9]{1,4})*|sic|\.\.\.|\u2026"
    rf"|(?:{_MARKUP['notes']})\b[^\[\]]*)\s*\]",
    re.I,
)
_NOTE_ADVICE = "is taken for a style tag and not read aloud; put it into parentheses, or remove it"


@dataclass(frozen=True)
class Markup:
    """One kind of markup in a text."""

    kind: str
    place: str  # the first occurrence, for messages
    is_style: bool  # so that `strip_markup` takes it out
    advice: str = ""  # instead of the usual

    def __str__(self) -> str:
        if self.advice:
            return f"{self.kind} ({self.place}) {self.advice}"
        remedy = "remove it, or add --strip-markup" if self.is_style else "remove it"
        return f"{self.kind} ({self.place}) would be read aloud; {remedy}"


def markup_in(text: str, pace: Pace | None = None) -> list[Markup]:
    """The kinds of markup in a text that the checkpoint does not read as such."""
    if _has_none(text):
        return []
    spoken = text if pace is None else pace.without_markup(text)
    found: dict[str, Markup] = {}
    if spoken is not text and (note := _NOTE.search(text)) and note[0] not in spoken:
        found["a note"] = Markup("a note in brackets", repr(note[0]), False, _NOTE_ADVICE)
    taken: set[int] = set()
    for kind in (*_KINDS, *(() if spoken.isascii() else (_EMOJI_KIND,))):
        if kind.name in found or kind.sign not in spoken:
            continue
        match = kind.pattern.search(spoken)
        if match is not None and match.start() not in taken:
            taken.add(match.start())
            shown = _shown(spoken, match.start())
            found[kind.name] = Markup(kind.name, shown, kind.kept is not None)
    return list(found.values())


def strip_markup(text: str) -> str:
    """A text without the tags of style and emphasis, and without the spaces that they leave."""
    if _has_none(text):
        return text
    stripped = _SUBSTITUTE.sub(r"\1", _BREAK.sub(r" [pause \1\2] ", text)) if "<" in text else text
    for kind in _KINDS:
        if kind.kept is not None and kind.sign in stripped:
            stripped = kind.pattern.sub(kind.kept, stripped)
    if "&" in stripped:
        stripped = _ENTITY.sub(lambda match: html.unescape(match[0]), stripped)
    return text if stripped == text else _SPACES.sub(" ", stripped).strip()


def _has_none(text: str) -> bool:
    """Return whether a text has no visible character."""
    return _SIGNS.search(text) is None and "://" not in text and "www." not in text


def _shown(text: str, start: int) -> str:
    """The place, in one line."""
    place = text[start : start + MAX_SHOWN_CHARS + 1].split("\n")[0]
    return repr(place) if len(place) <= MAX_SHOWN_CHARS else f"{place[:MAX_SHOWN_CHARS]!r}..."
