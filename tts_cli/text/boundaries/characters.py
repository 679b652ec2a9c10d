"""Characters by what they do at a boundary."""

from __future__ import annotations

OPENERS = "\"'“‘„‚«»‹›([{「『（【《〈¿¡*_—–-"  # may stand before the first letter of a sentence
CLOSERS = "\"'”’“‘«»‹›)]}」』）】》〉*_"  # may stand behind its last mark
NO_BREAK = "\u00a0\u202f\u2007\u2060\ufeff"  # spaces and joiners that hold together
CURRENCY = "$€£¥₽₩₹#№§"

_CJK = (
    (0x2E80, 0x303F),  # radicals, punctuation
    (0x3040, 0x30FF),  # kana
    (0x3400, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFE30, 0xFE4F),
    (0xFF00, 0xFF9D),  # full and half width forms
    (0x20000, 0x3FFFF),
)


def is_cjk(char: str) -> bool:
    """Whether it is of Chinese or Japanese writing, which puts no space between words."""
    return char >= "\u2e80" and any(first <= ord(char) <= last for first, last in _CJK)


def is_hiragana(char: str) -> bool:
    """Whether it is of the kana that end Japanese words."""
    return "\u3041" <= char <= "\u309f"


def is_katakana(char: str) -> bool:
    """Whether it is of the kana that foreign words are written in, its long mark included."""
    return "\u30a0" <= char <= "\u30ff" or "\uff66" <= char <= "\uff9d"


def is_space(char: str) -> bool:
    """Whether a text may be cut at it: white space that does not hold together."""
    return char.isspace() and char not in NO_BREAK
