"""Signs that nobody sees."""

from __future__ import annotations

import pytest
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st

from tts_cli.text.unicode import clean_unicode

CASES = cases(__file__)


def test_what_nobody_sees_is_taken_out() -> None:
    for text, cleaned in CASES["clean"].items():
        assert clean_unicode(text) == cleaned


def test_what_carries_meaning_stays() -> None:
    for kind, text in CASES["meaningful"].items():
        assert clean_unicode(text) == text, kind


SIGNS = st.sampled_from(
    "a e\u0301\u200b\u200c\u200d\u00adกم👩🏽⚕\ufe0f\U0001f3f4\U000e0067ﬁ\u034f\u180eא\u05b81\u20e3"
)


@settings(max_examples=100, deadline=None)
@given(st.lists(SIGNS, max_size=9).map("".join) | st.text(max_size=20))
@pytest.mark.slow
def test_a_text_that_was_read_once_is_read_as_it_is(text: str) -> None:
    seen = clean_unicode(text)
    assert clean_unicode(seen) == seen
