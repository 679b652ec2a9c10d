"""A long text in parts: nothing lost, none too long, nothing cut that belongs together."""

from __future__ import annotations

import re
import time
from itertools import pairwise

import pytest
from cases import cases
from hypothesis import example, given, settings
from hypothesis import strategies as st

from models.fish_speech.family import PACE
from models.pace import Pace
from tts_cli.text.boundaries import Boundary
from tts_cli.text.split import Part, split

SENTENCE = "The quick brown fox jumps over the lazy dog near the old river bank. "


def texts(text: str, limit: int, **more: str | None) -> list[str]:
    return [text[part.start : part.end] for part in split(text, limit, **more)]


def boundaries(parts: list[Part]) -> list[Boundary | None]:
    return [part.boundary for part in parts]


def test_paragraphs_are_parts_of_their_own() -> None:
    """Of 150 parts of a story one had lost a sentence: the one behind an empty line."""
    text = f"{SENTENCE * 3}\n\n{SENTENCE}\n\n{SENTENCE * 2}"
    parts = split(text, 300)
    assert [text[part.start : part.end].count("fox") for part in parts] == [3, 1, 2]
    assert boundaries(parts) == [Boundary.PARAGRAPH, Boundary.PARAGRAPH, None]


def test_one_sentence_of_1061_characters_without_a_comma_splits_between_words() -> None:
    text = ("and then the river went on through the long and quiet land " * 20)[:1061].strip()
    parts = split(text, 300)
    lengths = [part.end - part.start for part in parts]
    assert len(parts) == 4
    assert max(lengths) <= 300
    assert min(lengths) > 200
    assert boundaries(parts) == [Boundary.WORD] * 3 + [None]
    assert " ".join(texts(text, 300)) == text


def test_clauses_are_cut_before_words() -> None:
    half = "the river went on through the long and quiet land and on"
    text = f"{half}, {half} {half}; {half}, {half} {half}."
    parts = texts(text, 200)
    assert [part[-1] for part in parts] == [";", "."]


def test_a_part_may_be_as_long_as_the_limit() -> None:
    text = (SENTENCE * 4).strip()
    assert texts(text, len(text)) == [text]
    assert len(texts(f"{text} {text}", len(text))) == 2


def test_a_quotation_without_marks_before_it_may_begin_a_part() -> None:
    text = "the keeper of the old light said to all of them “it is over now and you may go home”"
    assert [part[:1] for part in texts(text, 60)] == ["t", "“"]


def test_a_last_word_is_not_left_alone() -> None:
    # 299 and 5 characters once: a part of one word comes out as noise.
    sentence = ("word " * 60).strip() + "."  # 300 characters
    text = f"{sentence} Yes."
    parts = split(text, 300)
    assert min(part.end - part.start for part in parts) > 100


def test_what_belongs_together_is_not_cut() -> None:
    filler = "along the old river, past the mill; so it went on and on and on "
    for kept in cases(__file__)["unbroken"]:
        for before in range(40, 110, 7):
            text = (filler * 3)[:before].strip() + " " + kept + " " + filler * 3
            parts = texts(text, 110, markup=PACE.markup, unbroken=PACE.unbroken)
            assert len(parts) > 2
            assert sum(kept in part for part in parts) == 1, (kept, before)


def test_chinese_without_punctuation_is_cut_between_characters() -> None:
    text = "今天天气很好我们一起去公园散步吧" * 12
    parts = texts(text, 300)
    assert "".join(parts) == text
    assert max(len(part.encode()) for part in parts) <= 300


def test_japanese_without_punctuation_is_cut_where_words_begin() -> None:
    text = "私たちは昨日の夜に駅前のレストランで食事をしました" * 8
    parts = texts(text, 300)
    assert "".join(parts) == text
    for first, second in pairwise(parts):
        assert re.match(r"[\u3041-\u309f]", first[-1])
        assert not re.match(r"[\u3041-\u309f]", second[0])


def test_a_quotation_too_long_for_a_part_is_cut_at_its_sentences() -> None:
    text = f"“{(SENTENCE * 10).strip()}”"
    parts = split(text, 300)
    assert boundaries(parts)[:-1] == [Boundary.SENTENCE] * (len(parts) - 1)


def test_a_tag_stays_with_the_words_behind_it() -> None:
    text = ("[sad] " + "word " * 12) * 10
    for part in texts(text, 100, markup=PACE.markup):
        assert not part.endswith("]")


def test_markup_counts_as_the_check_of_long_rows_counts_it() -> None:
    text = ("[in a low voice] Yes. " * 30).strip()
    pace = Pace(longest_chars=100, markup=PACE.markup)
    parts = texts(text, 100, markup=PACE.markup)
    assert pace.is_long(text)
    assert not any(map(pace.is_long, parts))
    assert any(len(part) > 200 for part in parts)


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="limit"):
        split("a", 0)


LETTERS = st.sampled_from(
    [
        *"aB3.,;:!?\"'()[]«»“”„ \n-–—…éя你。」「かター한😀\u0301\u200d\u00a0",
        *("Dr. ", "[sad] ", "<|speaker:0|>", "3.5 ", "http://a.b ", "\n\n"),
    ]
)
TEXT = st.lists(LETTERS, max_size=150).map("".join)
MARKUP = PACE.markup or ""
JOINED = re.compile(r"[\u0301\u200d]")  # belong to the character before them


def is_cuttable(part: str) -> bool:
    """Whether a part could have been cut: more than a tag and one character with its marks."""
    return len(JOINED.sub("", re.sub(MARKUP, "", part))) > 2 and "http" not in part


@pytest.mark.slow
@given(TEXT, st.integers(4, 120))
@example("word " * 30, 20)
@example("a\xa0\xa0a", 4)  # once looked for a word's end behind the text
@settings(max_examples=50, deadline=None, database=None)
def test_all_is_kept_and_nothing_is_too_long(text: str, limit: int) -> None:
    parts = split(text, limit, markup=MARKUP)
    places = [place for part in parts for place in (part.start, part.end)]
    assert places == sorted(places)
    kept = "".join(text[part.start : part.end] for part in parts)
    assert "".join(kept.split()) == "".join(text.split())
    pace = Pace(longest_chars=limit, markup=MARKUP)
    for part in parts:
        piece = text[part.start : part.end]
        assert piece == piece.strip()
        assert piece
        assert (part.boundary is None) == (part is parts[-1])
        if pace.is_long(piece):
            assert len(JOINED.findall(piece)) or not is_cuttable(piece)


@pytest.mark.slow
@given(TEXT, st.integers(30, 120))
@settings(max_examples=100, deadline=None, database=None)
def test_no_tag_is_cut(text: str, limit: int) -> None:
    parts = texts(text, limit, markup=MARKUP)
    assert sum(len(re.findall(MARKUP, part)) for part in parts) == len(re.findall(MARKUP, text))


NASTY = (
    *(". ", ", ", "a", "，", "。", '"', "(", "“", "[", "\n", "a. ", "、", "-- ", "1.", " \n", "<|"),
    *("„", "z. B. ", "'", "http://", "a@", "ー", "\u0301", "あ", "。」", "‘’", "[a]", "? "),
    *("x\n\n", "[a. b] ", "\u00a0", "1. ", "» ", ") ", "— "),
)


@pytest.mark.slow
@pytest.mark.parametrize("unit", NASTY, ids=repr)
def test_time_grows_with_the_length_alone(unit: str) -> None:
    """Backtracking or a comparison of all with all would take 400 times as long."""
    text = (unit * 20_000)[:20_000]
    took_s = []
    for size in (1_000, 20_000):
        started_s = time.process_time()
        parts = split(text[:size], 300, markup=MARKUP, unbroken=PACE.unbroken)
        took_s.append(time.process_time() - started_s)
        assert parts or not text.strip()
    assert took_s[1] < 1 + 60 * took_s[0]
