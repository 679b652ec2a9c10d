"""A lexicon's file and what it does to a text."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cases import cases
from hypothesis import given
from hypothesis import strategies as st

from tts_cli.errors import UsageError
from tts_cli.text.frontend import normalize
from tts_cli.text.lexicon import Lexicon, fold, read_lexicon
from tts_cli.text.normalized_text import NormalizedText

CASES = cases(__file__)["lexicon"]

Write = Callable[[str | bytes], Lexicon]


@pytest.fixture
def lexicon(tmp_path: Path) -> Write:
    def write(content: str | bytes) -> Lexicon:
        path = tmp_path / "words.tsv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_lexicon(path)

    return write


def say(lexicon: Lexicon, text: str, language: str | None = None) -> str:
    return NormalizedText.of(text, lexicon.edits(text, language)).spoken


@pytest.mark.parametrize(("text", "spoken"), CASES["whole_words_the_longest_first"])
def test_whole_words_the_longest_first(lexicon: Write, text: str, spoken: str) -> None:
    words = lexicon(
        "# names\n\ncat\tKAT\nNew York\tnoo york\nNew York City\tbig apple\n"
        "Siobhán\tshi vawn\t\texact\nC++\tsee plus plus\n"
    )
    assert say(words, text) == spoken


FORMS = "don't\tstraight\ndon’t\tcurly\nIt's\texact\t\texact\nZoe\u0308\tzo ee\no\ufb03ce\toffiss\n"


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Don't, DON’T, donʼt", "straight, curly, straight"),
        ("It’s it’s It's", "exact it’s exact"),
        ("Zoë, zoë in an office", "zo ee, zo ee in an offiss"),
    ],
)
def test_an_entry_is_found_whatever_the_form_of_letters_and_apostrophe(
    lexicon: Write, text: str, spoken: str
) -> None:
    assert say(lexicon(FORMS), text) == spoken


def test_entries_that_are_one_merge_and_the_form_that_is_read_wins(lexicon: Write) -> None:
    words = lexicon("Zoe\u0308\tno\nZoë\tyes\ncat\tA\nc\u00adat\tB\nl’eau\tlo\nl'eau\tlo\n\u200b\n")
    assert [(entry.written, entry.spoken) for entry in words.entries] == [
        *(("Zoë", "yes"), ("cat", "A"), ("l’eau", "lo"))
    ]
    assert say(words, "Zoë, l'eau") == "yes, lo"


def test_scripts_without_spaces_have_no_boundaries(lexicon: Write) -> None:
    words = lexicon("東京\tとうきょう\n東京都\tとうきょうと\nAI\tエーアイ\n서울\t서 울\n")
    assert (
        say(words, "東京都と東京駅、AIは서울은AIM")
        == "とうきょうとととうきょう駅、エーアイは서 울은AIM"
    )


def test_the_row_s_language_and_the_exact_case_count_first(lexicon: Write) -> None:
    words = lexicon(
        "chat\ttalk\nchat\tsha\tfrench\nchat\ttchatte\tGerman\tany\n"
        "Polish\tpoe lish\tany\texact\npolish\tpah lish\n"
    )
    said = [say(words, "chat", language) for language in (None, "french", "german", "english")]
    assert said == ["talk", "sha", "tchatte", "talk"]
    assert say(words, "Polish polish POLISH") == "poe lish pah lish pah lish"


def test_an_entry_holds_a_word_against_the_normaliser(lexicon: Write) -> None:
    words = lexicon("1984\tnineteen eighty-four, the book\nDr.\tDr.\n")
    text = "Dr. Hill read 1984 in 1984."
    changes = words.edits(text, "english")
    protected = [(change.start, change.end) for change in changes]
    reading = NormalizedText.of(text, [*changes, *normalize(text, "english", protected)])
    book = "nineteen eighty-four, the book"
    assert reading.spoken == f"Dr. Hill read {book} in {book}."


def test_markup_is_left_alone(lexicon: Write) -> None:
    words = lexicon("whisper\tquiet\n")
    text = "[whisper] a whisper"
    assert NormalizedText.of(text, words.edits(text, None, [(0, 9)])).spoken == "[whisper] a quiet"


def test_every_bad_line_is_named_with_its_number(lexicon: Write, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        lexicon(
            "cat\tKAT\nonly\n\tto\na\tb\tenglsh\nc\td\t\tupper\nCat\tkitten\nx\ty\tany\tany\ttext\tz\n"
            f"e\tf\x07\n{'g' * 201}\th\n"
        )
    path = tmp_path / "words.tsv"
    lines = str(caught.value).splitlines()
    assert lines[1:] == [
        f"{path}:2: has no 'to'; cells are separated by tabs",
        f"{path}:3: has no 'from'; cells are separated by tabs",
        f"{path}:4: language 'englsh' is unknown; known are chinese, english, french, german, "
        "italian, japanese, korean, portuguese, russian, spanish",
        f"{path}:5: case 'upper' must be any or exact",
        f"{path}:6: 'Cat' is already in line 1",
        f"{path}:7: has 6 cells, but the columns are from, to, language, case, alphabet",
        f"{path}:8: 'to' has a control character or more than 200 characters",
        f"{path}:9: 'from' has a control character or more than 200 characters",
    ]


def test_equal_lines_in_another_form_of_letters_are_one(lexicon: Write) -> None:
    line = "cafe\u0301\tka fay\n"
    assert say(lexicon(2 * line), "A caf\u00e9.") == "A ka fay."
    with pytest.raises(UsageError, match="is already in line 1"):
        lexicon(line + line.replace("ka fay", "cuppa"))


def test_what_is_no_text_file_is_refused(lexicon: Write, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"words\.tsv:3: is not UTF-8; save"):
        lexicon(b"\na\tb\n\xff\xfe\n")
    with pytest.raises(UsageError, match="cannot read the lexicon"):
        read_lexicon(tmp_path / "none.tsv")
    with pytest.raises(UsageError, match="cannot read the lexicon"):
        read_lexicon(tmp_path)
    with pytest.raises(UsageError, match="more than 8 MiB"):
        lexicon(b"#" * (8 * 2**20 + 1))


@given(st.text(max_size=40))
def test_folding_keeps_every_place(text: str) -> None:
    """İ in lower case is two characters, which once would have moved all that follows."""
    assert len(fold(text)) == len(text)


@pytest.mark.slow
def test_long_texts_and_many_entries_take_a_moment(lexicon: Write) -> None:
    words = lexicon("".join(f"{'a' * length}\tb\n" for length in range(1, 201)))
    start_s = time.process_time()
    assert words.edits("a" * 20_000) == []
    assert len(words.edits("a " * 10_000)) == 10_000
    assert time.process_time() - start_s < 4
