"""Whether there is anything in a text to speak.

Two questions, both asked of the text as it stands: is there anything to see in it (`is_blank`), and
is there a letter or a digit (`is_wordless`).

Letters and digits are those of every script, numbers such as a half or a circled one, and signs
that are made of letters, such as those of kg or of No. Signs that people say by name (per cent,
ampersand, plus) have no letter: alone they are no text.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from models.pace import Pace

SILENCE_S = 0.5  # of a row without words

# Hangul fillers, of width and without, are letters by their category.
_FILLERS = "\u115f\u1160\u3164\uffa0"
_LETTER = re.compile(rf"[^\W_{_FILLERS}]")  # or digit: what `str.isalnum` takes
_EMPTY_BRAILLE = "\u2800"  # a symbol by its category
# White space and control characters, format characters (directions, tags, joiners, a soft hyphen)
# and marks, which show on a letter only: variation selectors are among them.
_UNSEEN_KINDS = frozenset(("Cc", "Cf", "Zs", "Zl", "Zp", "Mn", "Mc", "Me"))


# Letters of other scripts than Latin, and languages that are written in that alone.
_NOT_LATIN = re.compile(
    r"[^\W\d_\u0000-\u02ff\u1d00-\u1eff\u2c60-\u2c7f\ua720-\uab6f\uff00-\uff5a]"
)
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
