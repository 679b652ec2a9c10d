"""Printed marks, emoji and capitals, as a voice that learnt typed texts alone is given them."""

from __future__ import annotations

import re
from itertools import cycle
from pathlib import Path

import pytest
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st

from tts_cli.text.frontend import TextFrontend
from tts_cli.text.lexicon import Entry, Lexicon
from tts_cli.text.unicode import clean_unicode

CARE = TextFrontend(is_normalized=True, language="english", is_typed=True)


def said(text: str) -> str:
    return CARE.read(text).spoken


TYPED = cases(__file__)["typed"]


@pytest.mark.parametrize("kind", TYPED)
def test_what_is_printed_is_spoken_as_what_is_typed(kind: str) -> None:
    """A curly apostrophe, an emoji or capitals came out of the sample voice as wrong words."""
    for text, wanted in TYPED[kind].items():
        assert said(text) == wanted


DIALOGUE = (Path(__file__).parent / "dialogue.txt").read_text().splitlines()


def printed(text: str) -> str:
    """A line as a book has it."""
    text = re.sub(r'(?:^|(?<= ))"', "\u201c", text).replace('"', "\u201d")
    return text.replace("'", "\u2019").replace("...", "\u2026")


def hidden(text: str) -> str:
    """A line with a sign that nobody sees in each of its words."""
    signs = cycle("\u00ad\u200b\ufeff\u200e\u2060\u200d")
    return re.sub(r"(?<=\w)(?=\w)", lambda _: next(signs), f"\u202a{text}\u202c")


def test_a_line_of_dialogue_is_the_same_however_it_is_written() -> None:
    """By a recogniser 52 % of the words were wrong behind a curly apostrophe, 57 with soft hyphens,
    43 in capitals, and 3 as typed.
    """
    for line in DIALOGUE:
        assert said(line) == line
        assert not printed(line).isascii()
        assert said(printed(line)) == line
        for form in (line, printed(line)):
            assert said(clean_unicode(hidden(form))) == line
        assert said(printed(line.upper())).lower() == line.lower()


def test_what_stays() -> None:
    for text in cases(__file__)["typed_already"]:
        assert said(text) == text


def test_an_entry_of_the_lexicon_stays_and_is_typed() -> None:
    lexicon = Lexicon(
        (Entry("STORM", "STORM", None, True, 1), Entry("wolf", "w’olf", None, False, 2))
    )
    care = TextFrontend(lexicon, is_normalized=True, language="english", is_typed=True)
    assert care.read("THE STORM CAME AND THE WOLF").spoken == "The STORM came and the w'olf"


def test_a_checkpoint_that_does_not_ask_for_it_gets_the_text_as_it_is() -> None:
    text = "“DON’T GO THERE,” he said 🎉 — twice…"
    assert TextFrontend(is_normalized=True, language="english").read(text).spoken == text


PARTS = [
    *("a", "B", "STORM", "THE", "I", "A", "1", "5", "km", ".", ",", "\n", "\u00a0", " ", " "),
    *("’", "“", "”", "«", "»", "…", "—", "–", "-", "🎉", "❤️", "\u200d", "\ufe0f", "\u20e3"),
]


@pytest.mark.slow
@settings(max_examples=75, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=20).map("".join) | st.text(max_size=40))
def test_any_text_is_read_and_no_word_is_lost(text: str) -> None:
    reading = CARE.read(clean_unicode(text))
    assert reading.spoken.isascii() or not text.isascii()
    plain = TextFrontend(is_normalized=True, language="english").read(clean_unicode(text))
    assert letters(reading.spoken) == letters(plain.spoken)


def letters(text: str) -> list[str]:
    """What must not be lost; one form of the apostrophe is a letter by its category."""
    return [char for char in text.lower() if char.isalpha() and char != "\u02bc"]


@pytest.mark.slow
def test_long_rows_of_signs_take_linear_time() -> None:
    for text in (
        " " * 20_000,
        "— " * 10_000,
        "🎉 " * 10_000,
        "«" * 20_000,
        "THE " * 5_000,
        "A'" * 9_999,
    ):
        said(f"a{text}b")
