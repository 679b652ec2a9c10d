"""Languages by their ISO codes: `en`, `en-US`, `zh-CN`, `pt_BR` and `deu` stand for the names that
checkpoints have. A name is never changed, so what was spoken under it stays the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

# Codes of two letters and of three (ISO 639-1, 639-2 and 639-3), and those of lists of trainings,
# by the names that checkpoints use.
CODES = {
    "chinese": ("zh", "zho", "chi", "cmn", "cn"),
    "english": ("en", "eng"),
    "french": ("fr", "fra", "fre"),
    "german": ("de", "deu", "ger"),
    "italian": ("it", "ita"),
    "japanese": ("ja", "jpn", "jp"),
    "korean": ("ko", "kor"),
    "portuguese": ("pt", "por"),
    "russian": ("ru", "rus"),
    "spanish": ("es", "spa"),
}
_NAMES = {code: name for name, codes in CODES.items() for code in codes}
_TAG = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]{1,8})*", re.IGNORECASE)


def named_language(value: str, known: Iterable[str]) -> str:
    """A language as one of those known is called, where the value is a code of it.

    Args:
        value: a name or a code, as a user wrote it.
        known: names, in small letters.
    Returns:
        The value itself where it is no code, or one of a language that is not known.
    """
    return _named(value, known if isinstance(known, tuple) else tuple(known))


@lru_cache(maxsize=256)
def _named(value: str, known: tuple[str, ...]) -> str:
    folded = value.casefold()
    if folded in (name.casefold() for name in known):
        return value
    match = _TAG.fullmatch(folded)
    name = _NAMES.get(match[1]) if match else None
    return name if name in known else value


def is_code(value: str) -> bool:
    """Whether a text is the code of a language that a checkpoint may have."""
    match = _TAG.fullmatch(value)
    return match is not None and match[1].casefold() in _NAMES


def code_of(language: str) -> str | None:
    """The code of two or three letters of a language by its name or code; None where none is told,
    `auto` included.
    """
    folded = language.casefold().strip()
    if folded.endswith("_dialect"):  # of Chinese: how Qwen3-TTS names them
        return "zh"
    if folded in CODES:
        return CODES[folded][0]
    match = _TAG.fullmatch(folded)
    if match is None:
        return None
    name = _NAMES.get(match[1])
    return CODES[name][0] if name else match[1]
