"""The language of a book, as checkpoints name it."""

from __future__ import annotations

from collections.abc import Collection

# The first part of a tag of BCP 47: two letters of ISO 639-1, or three of 639-2, where books have
# either form of two. Cantonese (yue, zh-yue) and other Chinese languages are none of these.
_NAMES = {
    "zh": "chinese", "zho": "chinese", "chi": "chinese", "cmn": "chinese",
    "en": "english", "eng": "english",
    "fr": "french", "fra": "french", "fre": "french",
    "de": "german", "deu": "german", "ger": "german",
    "it": "italian", "ita": "italian",
    "ja": "japanese", "jpn": "japanese",
    "ko": "korean", "kor": "korean",
    "pt": "portuguese", "por": "portuguese",
    "ru": "russian", "rus": "russian",
    "es": "spanish", "spa": "spanish",
}  # fmt: skip
_OTHER_CHINESE = {"yue", "nan", "wuu", "hak", "gan", "hsn"}


def known_language(tag: str | None, known: Collection[str]) -> str | None:
    """The name of a language tag such as `en-GB`, if it is one of a checkpoint's names."""
    parts = (tag or "").strip().lower().replace("_", "-").split("-")
    if not _OTHER_CHINESE.isdisjoint(parts[1:]):
        return None
    name = _NAMES.get(parts[0], parts[0])
    return name if name != "auto" and name in known else None
