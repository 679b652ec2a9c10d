"""`book.json` as the next run reads it, and the names of files."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from cases import cases

from tts_cli.book.book_file import MadeBook, MadeFile, read_made, write_book_file
from tts_cli.book.chapter_audio import JoinedChapter, SpeechSpan
from tts_cli.book.produce import stem_of
from tts_cli.book.utterances import BookPauses, segment_book
from tts_cli.sources.chapters import Book, Chapter, Paragraph
from tts_cli.sources.ids import id_problem

CASES = cases(__file__)["book_file"]

BOOK = Book(
    (
        Chapter("One", (Paragraph("It rained for nine days.", "a.md:1"),)),
        Chapter("Two", (Paragraph("Then it stopped again.", "a.md:3", voice="ann"),)),
    ),
    title="Rain",
)
MADE = MadeBook(
    {
        1: (
            MadeFile("02-two.wav", "k", 48_044),
            JoinedChapter(24_000, 24_000, (SpeechSpan(0.25, 0.75, 0.1),)),
        )
    },
    [MadeFile("02-two.srt", "k", 7)],
)


def write(out: Path) -> dict[str, Any]:
    write_book_file(out, BOOK, segment_book(BOOK, BookPauses()), MADE, set())
    found: dict[str, Any] = json.loads((out / "book.json").read_text(encoding="utf-8"))
    return found


def test_what_is_written_is_read(tmp_path: Path) -> None:
    values = write(tmp_path)
    assert read_made(tmp_path) == MADE
    assert values["chapters"][0]["path"] is None
    assert values["chapters"][1]["seconds"] == 1.0
    assert values["chapters"][1]["sentences"] == [
        {
            "id": values["chapters"][1]["sentences"][0]["id"],
            "text": "Then it stopped again.",
            "voice": "ann",
            "paragraph": 0,
            "span": [0, 22],
            "place": "a.md:3",
            "is_spoken": True,
            "start_s": 0.25,
            "end_s": 0.75,
            "file_start_s": 0.1,
            "parts": [],
        }
    ]


def test_a_book_of_before_there_were_parts_is_read(tmp_path: Path) -> None:
    values = write(tmp_path)
    for row in values["chapters"][1]["sentences"]:
        del row["file_start_s"], row["parts"]
    (tmp_path / "book.json").write_text(json.dumps(values))
    assert read_made(tmp_path).chapters[1][1].spans[0].end_s == 0.75


def test_no_file_is_no_book(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert read_made(tmp_path) == MadeBook()
    assert not caplog.records


@pytest.mark.parametrize("name", [*CASES["only_names_are_believed"], None])
def test_only_names_are_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str | int | None
) -> None:
    values = write(tmp_path)
    values["files"][0]["path"] = name
    (tmp_path / "book.json").write_text(json.dumps(values))
    with caplog.at_level(logging.WARNING):
        assert read_made(tmp_path) == MadeBook()
    assert "is not valid" in caplog.text


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"files": {}}', "[" * 100_000])
def test_anything_may_stand_there(tmp_path: Path, text: str) -> None:
    (tmp_path / "book.json").write_text(text)
    assert read_made(tmp_path) == MadeBook()


@pytest.mark.parametrize(
    ("title", "stem"),
    [*CASES["names_of_files"], ("x" * 500, "07-" + "x" * 80), ("é" * 79, "07-" + "é" * 40)],
)
def test_names_of_files(title: str, stem: str) -> None:
    assert stem_of(7, 12, title) == stem
    assert id_problem(stem) is None


def test_numbers_have_as_many_digits_as_the_last() -> None:
    assert [stem_of(1, count, "A") for count in (1, 99, 100, 1000)] == [
        "01-a",
        "01-a",
        "001-a",
        "0001-a",
    ]
