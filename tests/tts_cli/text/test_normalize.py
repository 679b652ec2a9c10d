"""What the reader of English says for what people write, and what it leaves alone."""

from __future__ import annotations

import re
import time
from itertools import pairwise
from pathlib import Path

import pytest
from cases import cases, lines_of
from hypothesis import given, settings
from hypothesis import strategies as st
from num2words import num2words

from tts_cli.text.english import abbreviations, dates, roman
from tts_cli.text.english.roman import value
from tts_cli.text.english.rules import RULES, is_plain
from tts_cli.text.english.words import cardinal, ordinal, year
from tts_cli.text.frontend import normalize
from tts_cli.text.normalized_text import NormalizedText
from tts_cli.text.rule import apply_rules

TABLES = cases(__file__)["normalize"]

FIGURES = Path(__file__).parents[3] / "samples" / "voice" / "recipe"
MONTHS = ("Jan.", "February", "Mar", "Sept.", "December")


def say(text: str, language: str = "english") -> str:
    return NormalizedText.of(text, normalize(text, language)).spoken


def pairs(name: str) -> list[tuple[str, str]]:
    return [(cells[0], cells[1]) for cells in lines_of(__file__, name)]


@pytest.mark.parametrize("name", ["english.tsv", "english_kinds.tsv", "english_held_out.tsv"])
def test_table(name: str) -> None:
    """The held out sentences were written before the rules."""
    for written, spoken in pairs(name):
        assert say(written) == spoken


def test_the_recipe_s_sentences_with_figures_are_read_as_they_stand_in_words() -> None:
    written = (FIGURES / "sentences_figures.txt").read_text().splitlines()
    spoken = (FIGURES / "sentences_figures_spoken.txt").read_text().splitlines()
    assert [say(line) for line in written] == spoken


@pytest.mark.parametrize(
    "text",
    [
        *TABLES["what_is_not_understood_stays_as_it_is_written"],
        "1" * 41,
        "https://example.com/" + "a" * 120,
    ],
)
def test_what_is_not_understood_stays_as_it_is_written(text: str) -> None:
    assert say(text) == text


@pytest.mark.parametrize("language", ["auto", "chinese", "klingon"])
def test_a_language_without_rules_is_left_alone(language: str) -> None:
    assert say("It costs $5 on 3 May.", language) == "It costs $5 on 3 May."


def test_taken_places_are_left_alone_and_end_what_stands_beside_them() -> None:
    text = "[5 s pause] It is 5 <|speaker:1|>km."
    protected = [match.span() for match in re.finditer(r"\[[^\]]*\]|<\|[^|]*\|>", text)]
    reading = NormalizedText.of(text, normalize(text, "english", protected))
    assert reading.spoken == "[5 s pause] It is five <|speaker:1|>km."


def test_a_sentence_begins_with_a_capital_and_an_abbreviation_ends_none() -> None:
    assert say("Run! 5 men came. No. 6 did not.") == "Run! Five men came. Number six did not."


@given(st.integers(0, 10**18 - 1) | st.integers(0, 12_000))
def test_numbers_are_those_of_num2words(number: int) -> None:
    def plain(words: str) -> list[str]:
        return re.sub(r"[-,]| and\b", " ", words).split()

    assert plain(cardinal(number)) == plain(num2words(number))
    assert plain(ordinal(number)) == plain(num2words(number, to="ordinal"))


def test_years_are_those_of_num2words() -> None:
    for number in range(1100, 2100):
        expected = num2words(number, to="year").replace("-", " ").replace(" and ", " ")
        assert year(number) == expected


def test_roman_numerals_are_those_romans_wrote() -> None:
    numbers = [1, 4, 9, 14, 19, 40, 49, 90, 400, 444, 900, 1999, 3999]
    written = "I IV IX XIV XIX XL XLIX XC CD CDXLIV CM MCMXCIX MMMCMXCIX"
    assert [value(numeral) for numeral in written.split()] == numbers
    assert [value(numeral) for numeral in ("", "IIX", "IIII", "VX", "IC", "ABC")] == [None] * 6


SIGNS = "0123456789.,:;/-\u2013\u2212+=&@#%°$£€¢½²\u00d7'\"()<>[]~*\u00a0 \n"
PARTS = (
    "st th s km kg p.m. St. Dr. No. Jan. May Chapter IV Henry King I www. example.com https:// "
    "million BC a e.g. in on call \u00e9 \u4e2d \0 \U0001d7dd \uff15 \u0130 \u00df"
)
PIECES = st.sampled_from([*SIGNS, " ", " ", *PARTS.split(" ")])


@settings(max_examples=50, deadline=None)
@given(st.lists(PIECES, max_size=25).map("".join) | st.text(max_size=60))
def test_any_text_is_read_and_its_spans_part_both_texts(text: str) -> None:
    reading = NormalizedText.of(text, normalize(text, "english"))
    spans = reading.spans
    assert "".join(text[span.start : span.end] for span in spans) == text
    whole = "".join(reading.spoken[span.spoken_start : span.spoken_end] for span in spans)
    assert whole == reading.spoken
    for before, after in pairwise(spans):
        assert before.end == after.start
        assert before.spoken_end == after.spoken_start
    for span in spans:
        assert span.end > span.start
        piece = text[span.start : span.end]
        is_same = reading.spaced[span.spoken_start : span.spoken_end] == piece
        assert is_same is not span.is_edited


TABLES = (
    *(abbreviations.TITLES, abbreviations.STREETS, abbreviations.BEFORE_NUMBERS),
    *(abbreviations.BEFORE_WORDS, abbreviations.ANYWHERE, dates.WEEKDAYS, dates.MONTHS),
)
WORDS = st.sampled_from(
    [
        *{word for table in TABLES for word in table},
        *(*roman.COUNTED, *roman.TITLES, *roman.RULERS, *roman.NUMERALS[1:50]),
        *("the", "October", "Main", "Boston", "I", "v", "a", "X", "\u00e9"),
    ]
)
MARKS = st.sampled_from(["", "", "", "", ".", ",", "-", "\u2013", "'", "?", ")", '"'])


def cased(words: list[tuple[str, str, str, str]]) -> str:
    return " ".join(before + getattr(word, case)() + mark for before, word, case, mark in words)


CASES = st.sampled_from(["lower", "capitalize", "upper", "__str__"])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(MARKS, WORDS, CASES, MARKS), max_size=8).map(cased)
    | st.lists(PIECES, max_size=8).map("".join)
    | st.text(max_size=60)
)
@pytest.mark.slow
def test_a_text_that_is_taken_for_plain_is_one_that_no_rule_changes(text: str) -> None:
    if is_plain(text):
        assert apply_rules(RULES, text) == []


def test_most_texts_are_known_to_be_plain() -> None:
    """NormalizedText them by all rules takes a hundred times as long."""
    for name in ("sentences.txt", "sentences_fresh.txt", "sentences_later.txt"):
        lines = (FIGURES / name).read_text().splitlines()
        assert sum(map(is_plain, lines)) >= 0.9 * len(lines), name
    for written, spoken in pairs("english.tsv") + pairs("english_held_out.tsv"):
        assert written == spoken or not is_plain(written)


COVERED = st.one_of(
    st.integers(0, 10**12).map(str),
    st.integers(1000, 10**9).map("{:,}".format),
    st.decimals(0, 9999, places=2).map(str),
    st.decimals(0, 99999, places=2).map("${:,}".format),
    st.integers(1, 500).map("£{}m".format),
    st.integers(1, 999).map("{}th".format),
    st.integers(100, 209).map("{}0s".format),
    st.builds("{}:{:02}".format, st.integers(1, 23), st.integers(0, 59)),
    st.builds("{}:{:02} p.m.".format, st.integers(1, 12), st.integers(0, 59)),
    st.builds("{} {}".format, st.sampled_from(MONTHS), st.integers(1, 28)),
    st.builds("{} {} {}".format, st.integers(1, 28), st.sampled_from(MONTHS), st.integers(1, 2099)),
    st.dates().map(str),
    st.builds("{}/{}".format, st.integers(1, 9), st.sampled_from([10, 11, 12, 16, 32, 64, 100])),
    st.builds("{}-{}".format, st.integers(1, 99), st.integers(1, 99)),
    st.builds("{}-{}".format, st.integers(100, 999), st.integers(1000, 2000)),
    st.builds(
        "{} {}".format, st.integers(1, 9999), st.sampled_from(["km", "mph", "°C", "%", "GB"])
    ),
    st.builds("No. {}".format, st.integers(1, 99)),
    st.builds("{}{}".format, st.sampled_from(["A", "MP", "Q"]), st.integers(1, 9999)),
    st.builds("555-{:04}".format, st.integers(0, 9999)),
)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(COVERED, st.sampled_from(["We saw {} there.", "{}", "The “{}” was it.", "So ({}), then."]))
def test_no_digit_is_left_of_what_is_covered_and_what_is_said_is_not_read_again(
    figure: str, frame: str
) -> None:
    spoken = say(frame.format(figure))
    assert not re.search("[0-9$£%°]", spoken), spoken
    assert say(spoken) == spoken


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        *("1", ",", "1,", "1-", "1 ", "$1", "1,234,", "12:30-", "5 km ", "a@", "a.b", "www."),
        *("Chapter ", "King A", "(123) ", "Jan. ", "St. ", "1 Main ", "1=", "a ", "US$1-"),
    ],
)
def test_twenty_thousand_characters_take_a_moment(piece: str) -> None:
    """0.06 to 0.2 s, where a search back over the text would take many."""
    start_s = time.process_time()
    normalize((piece * 20_000)[:20_000], "english")
    assert time.process_time() - start_s < 2
