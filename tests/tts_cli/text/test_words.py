"""Which texts hold nothing, and which hold nothing to speak."""

from __future__ import annotations

import pytest

from models.fish_speech.family import PACE as FISH
from tts_cli.text.words import is_blank, is_wordless

INVISIBLE = {
    "nothing": "",
    "white space": " \t\n\u00a0\u3000\u2028",
    "zero width": "\u200b\u200c\u200d\u2060\ufeff",
    "a soft hyphen": "\u00ad",
    "directions": "\u202a\u202e\u2066\u2069\u200e\u061c",
    "tags": "\U000e0001\U000e0041\U000e007f",
    "Hangul fillers": "\u115f\u1160\u3164\uffa0",
    "variation selectors": "\ufe00\ufe0f\U000e0100\u180b",
    "marks without a letter": "\u0301\u034f\u0e31\u093f\u20dd",
    "vowels that are not written": "\u17b4\u17b5",
    "empty braille": "\u2800",
}
WORDLESS = {
    "dashes": "---",
    "dots": "... …",
    "quotes": "“ ” «»",
    "a question": "?!",
    "an emoji": "🙂",
    "emoji of several characters": "👍🏽 👨‍👩‍👧 🇩🇪 ❤️",
    "a percent sign": "%",
    "signs that have names": "& + $ = @ ° §",
    "a note": "♪",
    "arrows": "→",
    "a fraction slash": "\u2044",
    "Chinese stops": "。、…",
    "what nobody sees between": "-\u200b-\u3164",
}
SPOKEN = {
    "a letter": "a",
    "a digit": "7",
    "behind signs": "--- x",
    "Chinese": "早",
    "kana": "ー",
    "Hangul": "안녕",
    "Hangul in its parts": "\u110b\u1161",
    "Arabic": "سلام",
    "Hebrew with points": "שָׁלוֹם",
    "Thai": "สวัสดี",
    "Hindi": "नमस्ते",
    "a half": "½",
    "a circled digit": "①",
    "a Roman number": "Ⅷ",
    "a circled letter": "Ⓐ",
    "degrees with their letter": "℃",
    "a number sign of letters": "№",
    "kilograms in one sign": "㎏",
    "mathematical letters": "\U0001d4bd",
    "a key": "1\ufe0f\u20e3",
    "Arabic digits": "٣",
}


@pytest.mark.parametrize("text", INVISIBLE.values(), ids=INVISIBLE)
def test_nothing_can_be_seen(text: str) -> None:
    assert is_blank(text)
    assert is_wordless(text)


@pytest.mark.parametrize("text", WORDLESS.values(), ids=WORDLESS)
def test_nothing_to_speak(text: str) -> None:
    assert not is_blank(text)
    assert is_wordless(text)


@pytest.mark.parametrize("text", SPOKEN.values(), ids=SPOKEN)
def test_something_to_speak(text: str) -> None:
    assert not is_blank(text)
    assert not is_wordless(text)


@pytest.mark.parametrize(
    ("text", "is_without"),
    [("[laugh]", True), ("<|speaker:0|> ...", True), ("[laugh] Ha.", False), ("[laugh", False)],
)
def test_what_a_checkpoint_reads_as_markup_is_no_word(text: str, is_without: bool) -> None:
    assert is_wordless(text, FISH) == is_without
    assert not is_wordless(text)
