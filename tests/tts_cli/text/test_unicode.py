"""Signs that nobody sees."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tts_cli.text.unicode import clean_unicode

TAKEN_OUT = {
    "mor\u00adning": "morning",
    "mor\u200bning": "morning",
    "\ufeffThe end": "The end",
    "\u202aThe end\u202c \u2066so\u2069": "The end so",
    "3/5/\u200b2024\u200e": "3/5/2024",
    "Auf\u200clage, a\u200db": "Auflage, ab",
    "word\u2060joiner\u2063": "wordjoiner",
    "hid\U000e0067\U000e0062den": "hidden",
    "don\ufe0f't": "don't",
    "日本\u200b語": "日本語",
    "Cafe\u0301, e\u200b\u0301": "Café, é",
    "\u1100\u1161": "가",
    "ﬁnd oﬀ ﬂat oﬃce baﬄe ﬅ ﬆ": "find off flat office baffle st st",
    "🎉\u200d end": "🎉 end",
    "\ufeff": "",
}
STAYS = {
    "Persian": "می\u200cخواهم",
    "Persian behind Latin": "PDF\u200cها",
    "Hindi": "क्\u200dष और क्\u200cष",
    "Thai": "สวัส\u200bดี",
    "Khmer": "ភាសា\u200bខ្មែរ",
    "Burmese": "မြန်မာ\u200bစာ",
    "Lao": "ພາສາ\u200bລາວ",
    "Mongolian": "ᠮᠣᠩᠭᠣᠯ\u180eᠠ",
    "a family": "👨\u200d👩\u200d👧",
    "a heart on fire": "❤️\u200d🔥",
    "skin": "👩🏽\u200d⚕️",
    "a flag": "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "keys": "1️⃣ ©️",
    "spaces": "12\u00a0500\u202f€\u2009x\u3000y\tz\r\n",
    "controls": "a\x07b",
    "typed": "plain",
}


@pytest.mark.parametrize("text", TAKEN_OUT)
def test_what_nobody_sees_is_taken_out(text: str) -> None:
    assert clean_unicode(text) == TAKEN_OUT[text]


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS)
def test_what_carries_meaning_stays(text: str) -> None:
    assert clean_unicode(text) == text


SIGNS = st.sampled_from(
    "a e\u0301\u200b\u200c\u200d\u00adกم👩🏽⚕\ufe0f\U0001f3f4\U000e0067ﬁ\u034f\u180eא\u05b81\u20e3"
)


@settings(max_examples=400, deadline=None)
@given(st.lists(SIGNS, max_size=9).map("".join) | st.text(max_size=20))
@pytest.mark.slow
def test_a_text_that_was_read_once_is_read_as_it_is(text: str) -> None:
    seen = clean_unicode(text)
    assert clean_unicode(seen) == seen
