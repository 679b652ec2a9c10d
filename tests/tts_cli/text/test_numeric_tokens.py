"""Joined figures are read as a whole or left as written, and told."""

from __future__ import annotations

import re

import pytest
from cases import cases, lines_of
from hypothesis import given, settings
from hypothesis import strategies as st

from tts_cli.text.english.numeric_tokens import left_as_written, token_spans
from tts_cli.text.english.rules import RULES
from tts_cli.text.frontend import TextFrontend, normalize
from tts_cli.text.normalized_text import MASK, NormalizedText

CASES = cases(__file__)["numeric_tokens"]


def say(text: str) -> str:
    return NormalizedText.of(text, normalize(text, "english")).spoken


def test_table() -> None:
    for _, written, spoken in lines_of(__file__, "figures.tsv"):
        assert say(written) == spoken


JOINTS = st.sampled_from([".", ",", ":", "'", "\u2019", "/", "-", "\u2013", "e", "e-", "T"])
DIGITS = st.one_of(
    st.integers(0, 99).map(str), st.integers(0, 2100).map(str), st.sampled_from(["00", "000"])
)
FIGURES = st.builds(
    lambda first, rest: first + "".join(joint + digits for joint, digits in rest),
    DIGITS,
    st.lists(st.tuples(JOINTS, DIGITS), min_size=1, max_size=4),
)
FRAMES = (
    *("We saw {} there.", "{}", "It is ${}.", "({}) kg", "{} kg", "{}%", "{}km", "in {}", "-{}"),
    *("on {} May", "May {}", "{} p.m.", "No. {}", "Figure {}", "a {}-inch", "{} \u20ac", "{}/h"),
    *("call {}", "...{}", "--{}", "_{}_", "John {}", "CA {}", "PIN {}", "Page {} and 7"),
)


@settings(max_examples=100, deadline=None)
@given(FIGURES, st.sampled_from(FRAMES))
@pytest.mark.slow
def test_no_figure_is_read_in_pieces(figure: str, frame: str) -> None:
    """1,5 was said "one,five", and 00:01:02,500 "zero zero:zero one:two thousand five hundred"."""
    spoken = say(frame.format(figure))
    assert figure in spoken or not re.search("[0-9]", spoken.replace(" and 7", "")), spoken


SIGNS = [*"0123456789.,:;/-\u2013=+$\u20ac%x()_ ", " ", "May", "oct", "USD", "km/h", "1e5", "0x1F"]
SIGNS += [*"@#&\u2019'\u00bd\u00b2\u207b\u2082^\u00a9<\u017fs", MASK]
SIGNS += ["th", "ft", "kg", "AD", "a.m.", "GMT"]
WORDS = ["Chapter IV", "King Henry V", "401(k)", "John 3:16", "Figure 2-1", "PIN 1234", "CA 90210"]
WORDS += ["v. ", "No. ", "call ", "w/", "www.", "A320", "1,00,000", "2.5bn", "20s", "in 1999"]
WORDS += ["555-0142"]
TEXTS = st.lists(st.sampled_from(SIGNS + WORDS), max_size=12).map("".join)


@pytest.mark.slow
@settings(max_examples=75, deadline=None)
@given(TEXTS)
def test_a_rule_that_is_passed_over_would_have_found_nothing(text: str) -> None:
    for one in RULES:
        if not one.may_find(text):
            assert not any(one.finds(text)), (one.pattern, text)


@pytest.mark.parametrize(("text", "parts"), CASES["what_is_one_figure"])
def test_what_is_one_figure(text: str, parts: list[str]) -> None:
    assert len(token_spans(text).inner) == sum(len(part) - 1 for part in parts)


@pytest.mark.parametrize(
    ("spoken", "figure"),
    [*CASES["a_figure_that_is_left_is_found"], ("It is one here.", None), ("It's bad.", None)],
)
def test_a_figure_that_is_left_is_found(spoken: str, figure: str | None) -> None:
    assert left_as_written(spoken) == figure
    care = TextFrontend(is_normalized=True, language="english", markup=r"\[[^]]*\]")
    assert care.left_as_written(f"[1,5 s] {spoken}") == figure
    assert care.left_as_written(spoken, "german") is None
    assert TextFrontend(language="english").left_as_written(spoken) is None
