"""Where words end, and how well a text can be cut there.

Spaces, except where what stands beside them belongs together: a number and what is counted,
an abbreviation and its name, French punctuation and the word before it. Chinese and Japanese have
no spaces: Japanese is cut best where kana are followed by an ideograph or by katakana, otherwise
between any two characters, but not before closing punctuation, behind opening punctuation or in a
word of katakana. Where there is nothing better, between any two letters.
"""

from __future__ import annotations

import unicodedata

from tts_cli.text.boundaries.characters import (
    CURRENCY,
    is_cjk,
    is_hiragana,
    is_katakana,
    is_space,
)

GOOD, POOR, BAD, NEVER = 0, 1, 2, 3
_LEANS_BACK = (
    "。．，、；：！？!?,.;:…‥・ー～%％)」』）】》〉]}”’»›"
    "ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮ々ゝゞ"
)
_LEANS_FORWARD = "([{「『（【《〈“‘„«‹¿¡" + CURRENCY
_JOINERS = "\u200d\u2060\ufeff"


def quality(text: str, place: int) -> int:
    """How well a text can be cut before `place` (0 < place < len(text)): GOOD to NEVER."""
    before, after = text[place - 1], text[place]
    if is_space(after):
        return NEVER if before.isspace() else _at_space(text, place)
    if before.isspace():
        return NEVER  # the cut stands before the spaces
    if unicodedata.combining(after) or before in _JOINERS or after in _JOINERS:
        return NEVER
    if "\ufe00" <= after <= "\ufe0f" or "\U0001f3fb" <= after <= "\U0001f3ff":
        return NEVER  # says how the character before it looks
    if not (is_cjk(before) and is_cjk(after)) or after in _LEANS_BACK or before in _LEANS_FORWARD:
        return BAD
    if is_katakana(before) and is_katakana(after):
        return BAD
    if is_hiragana(before) and not is_hiragana(after):
        return GOOD
    return POOR


def _at_space(text: str, place: int) -> int:
    """Before the spaces at `place`."""
    before = text[place - 1]
    after = text[place : place + 8].lstrip()[:1]
    if not after or after in _LEANS_BACK or before in _LEANS_FORWARD:
        return BAD
    if before == "." or before.isdigit() or after.isdigit():
        return POOR
    return GOOD
