"""Pronunciations in ARPAbet, IPA and pinyin: for models that read them, and as letters for others.

Fish Speech reads ARPAbet, as CMUdict writes it, and pinyin with a tone number, between tags; one
tag per English word and per Chinese syllable. It does not read IPA, which is converted.

Source: docs.fish.audio, "English Phoneme Control" and "Chinese Phoneme Control".
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

from tts_cli.text.tables import load_table

TEXT, ARPABET, IPA, PINYIN = "text", "arpabet", "ipa", "pinyin"
ALPHABETS = (TEXT, ARPABET, IPA, PINYIN)

_START, _END = "<|phoneme_start|>", "<|phoneme_end|>"
_SYLLABLE = re.compile(r"[a-zü]{1,6}[1-5]")
_STRESS = {"\u02c8": "1", "'": "1", "\u02cc": "2"}
_IGNORED = set(" .-/[]()\u02d0\u02d1\u0361\u035c\u0329\u02b0\u203f|")  # length, ties, breaks


@cache
def _vowels() -> set[str]:
    return set(load_table("phones")["vowels"])


@cache
def _letters() -> dict[str, str]:
    tables = load_table("phones")
    known = {**tables["vowels"], **tables["consonants"]}
    return {phone: facts["letters"] for phone, facts in known.items()}


@cache
def _signs() -> list[tuple[str, str]]:
    tables = load_table("phones")
    known = {**tables["vowels"], **tables["consonants"]}
    signs = [(sign, phone) for phone, facts in known.items() for sign in facts["ipa"]]
    return sorted(signs, key=lambda one: -len(one[0]))


def parse(spoken: str, alphabet: str) -> list[str]:
    """Return the phones of a word, or its syllables in pinyin. Raises ValueError."""
    found = _from_ipa(spoken) if alphabet == IPA else spoken.split()
    if not found:
        raise ValueError("has no sounds")
    for one in found if alphabet != IPA else ():
        plain = one.rstrip("012") if alphabet == ARPABET else one
        is_known = plain in _letters() if alphabet == ARPABET else _SYLLABLE.fullmatch(one)
        if not is_known:
            raise ValueError(f"{one!r} is not {alphabet}")
    return found


def _from_ipa(spoken: str) -> list[str]:
    found: list[str] = []
    place, stress = 0, ""
    while place < len(spoken):
        char = spoken[place]
        if char in _STRESS or char in _IGNORED:
            stress = _STRESS.get(char, stress)
            place += 1
            continue
        sign, phone = next((one for one in _signs() if spoken.startswith(one[0], place)), ("", ""))
        if not sign:
            raise ValueError(f"{char!r} is not a sign of IPA for a sound of English")
        if phone in _vowels():
            found.append(phone + (stress or "0"))
            stress = ""
        else:
            found.append(phone)
        place += len(sign)
    return found


def tagged(phones: list[str], alphabet: str) -> str:
    words = phones if alphabet == PINYIN else [" ".join(phones)]
    return "".join(f"{_START}{word}{_END}" for word in words)


def respelled(phones: list[str]) -> str:
    """Return ARPAbet in letters, with hyphens between syllables: `EH1 N JH AH0` is `en-juh`."""
    plain = [phone.rstrip("012") for phone in phones]
    places = [place for place, phone in enumerate(plain) if phone in _vowels()]
    starts = {max(place - 1, before + 1) for before, place in pairwise(places)}
    letters = [_letters()[phone] for phone in plain]
    return "".join("-" * (place in starts) + part for place, part in enumerate(letters))


def has_phones(unbroken: str | None) -> bool:
    """Return whether a model family reads phones, by the pattern of its markup."""
    return unbroken is not None and re.fullmatch(unbroken, f"{_START}AH0{_END}") is not None
