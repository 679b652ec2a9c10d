"""Plain texts with keys, times and names before their texts, and readings between them."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from cases import cases

from tts_cli.core import Row
from tts_cli.errors import ManifestError
from tts_cli.sources.item import ManifestFile
from tts_cli.sources.lists import transcript_marks
from tts_cli.sources.open import read_rows

CASES = cases(__file__)["lists"]

MakeSource = Callable[..., ManifestFile]
TEXTS = ["The lamp is lit.", "Mind the step.", "We wait."]
IDS = ["000001", "000002", "000003"]


def rows_of(source: ManifestFile) -> list[Row]:
    rows = list(read_rows(source))
    assert all(isinstance(row, Row) for row in rows), rows
    return [row for row in rows if isinstance(row, Row)]


@pytest.mark.parametrize(("lines", "ids"), CASES["only_the_words_are_read"])
def test_only_the_words_are_read(make_source: MakeSource, lines: list[str], ids: list[str]) -> None:
    texts = iter(TEXTS)
    content = "\n".join(line.format(next(texts)) if "{}" in line else line for line in lines)
    rows = rows_of(make_source(content, "m.txt"))
    assert [row.text for row in rows] == TEXTS
    assert [row.id for row in rows] == ids


def test_names_and_times_are_kept_and_told(
    make_source: MakeSource, caplog: pytest.LogCaptureFixture
) -> None:
    content = "Tom  0:04\nThe lamp.\nIt is lit.\n\nAnna  0:08\nYes.\n\nTom  0:12\nNo.\n"
    source = make_source(content, "m.txt")
    object.__setattr__(source.columns, "extra", "keep")
    assert [row.extra for row in rows_of(source)] == [
        {"speaker": name, "time": time}
        for name, time in (("Tom", "0:04"), ("Tom", "0:04"), ("Anna", "0:08"), ("Tom", "0:12"))
    ]
    assert "add --manifest-format txt to read all of each line" in caplog.text


@pytest.mark.parametrize("lines", CASES["words_with_colons_and_figures_stay"])
def test_words_with_colons_and_figures_stay(make_source: MakeSource, lines: list[str]) -> None:
    assert [row.text for row in rows_of(make_source("\n".join(lines), "m.txt"))] == lines


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("S{0}.wav\t早 zao3 晨 chen2 雾 wu4", "早晨雾"),
        ("v{0}.wav|anna|[EN]The lamp {0} is lit.[EN]", "The lamp {0} is lit."),
        ("00000{0}\t早晨#2雾气#4。\n\tzao3 chen2 wu4 qi4", "早晨雾气。"),
    ],
)
def test_readings_are_left_out(
    make_source: MakeSource, caplog: pytest.LogCaptureFixture, line: str, text: str
) -> None:
    content = "\n".join(line.format(number) for number in range(1, 5))
    rows = rows_of(make_source(content, "m.txt"))
    assert [row.text for row in rows] == [text.format(number) for number in range(1, 5)]
    assert "left out of the texts" in caplog.text


DECK = "#separator:tab\n#html:false\nLampe\tThe lamp is lit.\tx\nStufe\tMind the step.\ty\n"


def test_an_export_of_anki(make_source: MakeSource) -> None:
    with pytest.raises(ManifestError, match=r"export of Anki.*add --columns \S*text"):
        list(read_rows(make_source(DECK, "m.txt")))
    named = DECK.replace("#html:false", "#columns:id\ttext\tinstruct")
    rows = rows_of(make_source(named, "m.txt"))
    assert [(row.id, row.text) for row in rows] == [
        ("Lampe", "The lamp is lit."),
        ("Stufe", "Mind the step."),
    ]


def test_tables_that_are_called_txt(
    make_source: MakeSource, caplog: pytest.LogCaptureFixture
) -> None:
    lines = ["Nummer\tSatz_deutsch\tBild", *(f"{n}\tThe lamp {n} is lit.\tok" for n in range(1, 6))]
    with pytest.raises(ManifestError, match=r"name columns, .*Satz_deutsch=text"):
        list(read_rows(make_source("\n".join(lines), "m.txt")))
    with caplog.at_level(logging.WARNING):
        rows_of(make_source("\n".join(lines).replace("\t", ";"), "m.txt"))
    assert "looks like a table with a header" in caplog.text


def test_a_screenplay_that_is_called_txt(
    make_source: MakeSource, caplog: pytest.LogCaptureFixture
) -> None:
    rows_of(make_source("INT. ROOM - DAY\n\nANNA\nCome in.\n", "m.txt"))
    assert "if it is a screenplay, add --manifest-format fountain" in caplog.text


@pytest.mark.parametrize(("text", "marks"), CASES["marks_of_transcripts"])
def test_marks_of_transcripts(text: str, marks: list[str]) -> None:
    assert [mark for _, mark in transcript_marks(text)] == marks


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        *CASES["readings_times_and_continued_lines"],
        (["[00:12.00] <00:12.04> The <00:12.16> lamp"] * 3, ["The lamp"] * 3),
    ],
)
def test_readings_times_and_continued_lines(
    make_source: MakeSource, lines: list[str], texts: list[str]
) -> None:
    assert [row.text for row in rows_of(make_source("\n".join(lines), "m.txt"))] == texts


def test_a_key_that_occurs_again_is_no_text(make_source: MakeSource) -> None:
    content = "a_1: One.\na_1: Two.\na_2: Three.\na_3: Four.\n"
    rows = rows_of(make_source(content, "m.txt"))
    assert [(row.id, row.text) for row in rows[:2]] == [("a_1", "One."), ("a_1", "Two.")]


def test_keys_of_skyrim_are_not_read_and_may_be_equal(make_source: MakeSource) -> None:
    lines = ["$ALL\tThe lamp is lit.", "$ Take It\t\tMind the step.", "$All\tWe wait.", "$NONE\t"]
    source = make_source("\r\n".join(lines), "Mod_ENGLISH.txt")
    object.__setattr__(source.columns, "extra", "keep")
    rows = rows_of(source)
    assert [row.text for row in rows] == TEXTS
    assert [row.id for row in rows] == IDS
    assert [row.extra for row in rows] == [{"key": key} for key in ("ALL", "Take It", "All")]
