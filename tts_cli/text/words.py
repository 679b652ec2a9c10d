"""Find out whether a text has anything to synthesize (`is_blank`, `is_wordless`), how long its
speech usually is, and which markup a model would read aloud.

Letters and digits are those of all scripts, numbers such as ½ and ①, and signs made of letters such
as ㎏ and №. A text of signs alone (%, &, +) has no words.

`--strip-markup` removes tags of style and emphasis, but keeps placeholders and stage directions.
The patterns are strict, so that plain text (`a < b`, `5 * 3 * 2`, `AT&T`, `snake_case`, `#1`, `100
%s`) does not match. They cover Ren'Py, Godot's BBCode, Yarn, Unity's and Unreal's rich text,
SubStation, printf and Python's format.
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


# Emoji and pictographs, for a pattern's class: characters that people do not read alike. Symbols,
# dingbats and pictures, except sharps, flats, numbers in circles, letters and digits in squares.
PICTURES = script("pictures")
SECONDS_PER_BYTE = 0.075  # of UTF-8: typical speech, in English and Chinese alike


def usual_s(text: str) -> float:
    """Return the usual duration of a text's speech, in seconds."""
    return SECONDS_PER_BYTE * len(text.encode())


# Default frame limit of a text: longer speech is a runaway.
CAP_S = 5.12
CAP_S_PER_BYTE = 0.24


def text_cap(text: str, info: ModelInfo) -> int:
    cap_s = CAP_S + CAP_S_PER_BYTE * len(text.encode())
    return min(info.max_frames, round(cap_s / info.frame_s))


SILENCE_S = 0.5  # of a row without words

# Hangul fillers, with and without width, are letters by their category.
_FILLERS = "\u115f\u1160\u3164\uffa0"
_LETTER = re.compile(rf"[^\W_{_FILLERS}]")  # or digit, as in `str.isalnum`
_EMPTY_BRAILLE = "\u2800"  # a symbol by its category
# White space and control characters, format characters (directions, tags, joiners, a soft hyphen)
# and marks, which show on a letter only: variation selectors are among them.
_UNSEEN_KINDS = frozenset(("Cc", "Cf", "Zs", "Zl", "Zp", "Mn", "Mc", "Me"))


# Letters of scripts other than Latin, and languages that only use Latin ones.
_NOT_LATIN = re.compile(rf"[^\W\d_{script('latin')}]")
_LATIN_LANGUAGES = frozenset(("english", "french", "german", "italian", "portuguese", "spanish"))


def are_latin(languages: Iterable[str]) -> bool:
    """Return whether a checkpoint names its languages, and all use Latin letters."""
    named = set(languages) - {"auto"}
    return bool(named) and named <= _LATIN_LANGUAGES


def is_foreign(text: str) -> bool:
    """Return whether most letters of a text are not Latin."""
    if text.isascii() or _NOT_LATIN.search(text) is None:
        return False
    return 2 * len(_NOT_LATIN.findall(text)) > sum(map(str.isalpha, text))


def is_blank(text: str) -> bool:
    return not _LETTER.search(text) and all(map(_is_unseen, text))


def is_wordless(text: str, pace: Pace | None = None) -> bool:
    """Return whether a text has no letters or digits outside of the checkpoint's markup."""
    spoken = text if pace is None else pace.without_markup(text)
    return not (_LETTER.search(spoken) or _LETTER.search(unicodedata.normalize("NFKC", spoken)))


def _is_unseen(char: str) -> bool:
    if char.isalnum():
        return char in _FILLERS
    return char == _EMPTY_BRAILLE or unicodedata.category(char) in _UNSEEN_KINDS


MAX_SHOWN_CHARS = 40

_MARKUP = {name: "|".join(words.split()) for name, words in load_table("markup")["words"].items()}


@dataclass(frozen=True)
class _Kind:
    """A kind of markup. A match ends at the next sign of its kind, so that the time is linear."""

    sign: str  # in every match, and in few texts
    name: str
    pattern: re.Pattern[str]
    kept: str | None = None  # replacement when style is removed, for `sub`; None: it stays


def _words_put(pattern: str) -> str:
    """Replace each «name» in a pattern by the list of words with that name."""
    return re.sub("«(.*?)»", lambda found: _MARKUP[found[1]], pattern)


_KINDS = tuple(
    _Kind(one["sign"], one["name"], re.compile(_words_put(one["pattern"])), one.get("kept"))
    for one in load_table("markup")["kind"]
)
_EMOJI_KIND = _Kind("", "an emoji", re.compile(f"[{PICTURES}]"))
# A quick search for signs that most texts lack.
_SIGNS = re.compile(rf"[<>{{\[*_`&@%$\\(#{PICTURES}]|:[a-z+-]")
_SPACES = re.compile(r"(?<=\S)[ \t]{2,}(?=\S)")
_PATTERNS = {
    name: re.compile(_words_put(one)) for name, one in load_table("markup")["patterns"].items()
}
_NOTE_ADVICE = "is taken for a style tag and not read aloud; put it into parentheses, or remove it"


@dataclass(frozen=True)
class Markup:
    kind: str
    place: str  # the first occurrence, for messages
    is_style: bool  # whether `strip_markup` removes it
    advice: str = ""  # replaces the usual one

    def __str__(self) -> str:
        if self.advice:
            return f"{self.kind} ({self.place}) {self.advice}"
        remedy = "remove it, or add --strip-markup" if self.is_style else "remove it"
        return f"{self.kind} ({self.place}) would be read aloud; {remedy}"


def markup_in(text: str, pace: Pace | None = None) -> list[Markup]:
    """Return the kinds of markup in a text that the checkpoint does not understand."""
    if _has_none(text):
        return []
    spoken = text if pace is None else pace.without_markup(text)
    found: dict[str, Markup] = {}
    if spoken is not text and (note := _PATTERNS["note"].search(text)) and note[0] not in spoken:
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
    """Return a text without tags of style and emphasis, and without the spaces that they leave."""
    if _has_none(text):
        return text
    stripped = (
        _PATTERNS["substitute"].sub(r"\1", _PATTERNS["break"].sub(r" [pause \1\2] ", text))
        if "<" in text
        else text
    )
    for kind in _KINDS:
        if kind.kept is not None and kind.sign in stripped:
            stripped = kind.pattern.sub(kind.kept, stripped)
    if "&" in stripped:
        stripped = _PATTERNS["entity"].sub(lambda match: html.unescape(match[0]), stripped)
    return text if stripped == text else _SPACES.sub(" ", stripped).strip()


def _has_none(text: str) -> bool:
    """Return whether a text certainly has no markup."""
    return _SIGNS.search(text) is None and "://" not in text and "www." not in text


def _shown(text: str, start: int) -> str:
    place = text[start : start + MAX_SHOWN_CHARS + 1].split("\n")[0]
    return repr(place) if len(place) <= MAX_SHOWN_CHARS else f"{place[:MAX_SHOWN_CHARS]!r}..."
