"""The language of a book, as checkpoints name it."""

from __future__ import annotations

from collections.abc import Collection

from tts_cli.text.language_code import code_of, named_language

# Cantonese (yue, zh-yue) and other Chinese languages are none that checkpoints mean by the name.
_OTHER_CHINESE = {"yue", "nan", "wuu", "hak", "gan", "hsn"}
_NO_LANGUAGE = {"und", "mul", "mis", "zxx", "art"}  # of ISO 639-2: unknown, several, none


def known_language(tag: str | None, known: Collection[str]) -> str | None:
    """The name of a language tag such as `en-GB`, if it is one of a checkpoint's names."""
    parts = _parts(tag)
    if not _OTHER_CHINESE.isdisjoint(parts[1:]):
        return None
    name = named_language(parts[0], known)
    return name if name != "auto" and name in known else None


def is_language(tag: str) -> bool:
    """Whether a tag says which language a book is in."""
    code = code_of(_parts(tag)[0])
    return code is not None and code not in _NO_LANGUAGE


def _parts(tag: str | None) -> list[str]:
    return (tag or "").strip().lower().replace("_", "-").split("-")
