"""Plain text, wrapped and not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tts_cli.book.chapter import Book
from tts_cli.book.reader import MAX_TEXT_BYTES, read_book
from tts_cli.errors import ManifestError

WRAPPED = """THE LIGHT

CHAPTER I.
The Keeper

The keeper climbed the stairs every evening at six, and he counted them,
though he knew their number; there were two hundred and twelve of well-
known steps, and a thirteenth that he had never told anyone about.

    * * *

In the morning he came down again, and he was always a little surprised
to find the world where he had left it.
   He was an old man by then, and careful, and nobody asked him what he
saw at night.

CHAPTER II

Nothing happened for a year.
"""


def read(tmp_path: Path, text: str | bytes) -> Book:
    path = tmp_path / "light.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_book(path)


def texts(book: Book) -> list[list[str]]:
    return [[one.text for one in chapter.paragraphs] for chapter in book.chapters]


def test_wrapped_text(tmp_path: Path) -> None:
    book = read(tmp_path, WRAPPED)
    assert [one.title for one in book.chapters] == ["light", "CHAPTER I. The Keeper", "CHAPTER II"]
    first = book.chapters[1].paragraphs
    assert [len(one.text.split()) for one in first] == [4, 37, 23, 18]
    assert "of well-known steps" in first[1].text
    assert [one.is_scene_end for one in first] == [False, True, False, False]
    assert first[3].text.startswith("He was an old man")
    assert first[3].place == "light.txt:14"


def test_lines_that_are_not_wrapped_are_paragraphs(tmp_path: Path) -> None:
    long = "This is a paragraph that somebody wrote without pressing return, " * 4
    book = read(tmp_path, f"{long}\nShort.\n{long}\n\nNext.\n")
    assert texts(book) == [[long.strip(), "Short.", long.strip(), "Next."]]


@pytest.mark.parametrize(
    ("line", "is_heading"),
    [
        ("CHAPTER I", True),
        ("Chapter 12. The Storm", True),
        ("Chapter Twenty-One", True),
        ("PART TWO", True),
        ("Kapitel 3: Der Sturm", True),
        ("第十二章 风暴", True),
        ("Epilogue", True),
        ("IV", True),
        ("12.", True),
        ("Chapter one was hard to write, and nobody liked it.", False),
        ("Part of the deal", False),
        ("Chapters", False),
        ("I", True),
        ("In 1987.", False),
        ("1987", False),
        ("Act two was better than the first one, everybody said so, and they came again.", False),
    ],
)
def test_headings(tmp_path: Path, line: str, is_heading: bool) -> None:
    book = read(tmp_path, f"Before it.\n\n{line}\n\nBehind it.\n")
    found = [one for chapter in book.chapters for one in chapter.paragraphs if one.text == line]
    assert [one.is_heading for one in found] == [is_heading]
    assert len(book.chapters) == (2 if is_heading else 1)


def test_underlined_headings(tmp_path: Path) -> None:
    book = read(tmp_path, "The Book\n========\n\nOne\n---\nText of it.\n\nTwo\n---\n\nMore.\n")
    assert book.title == "The Book"
    assert texts(book) == [["The Book", "One", "Text of it."], ["Two", "More."]]


def test_parts_stand_above_chapters(tmp_path: Path) -> None:
    book = read(tmp_path, "PART I\n\nCHAPTER 1\n\na.\n\nCHAPTER 2\n\nb.\n")
    assert [one.title for one in book.chapters] == ["CHAPTER 1", "CHAPTER 2"]
    assert texts(book)[0] == ["PART I", "CHAPTER 1", "a."]


def test_encodings(tmp_path: Path) -> None:
    assert texts(read(tmp_path, "\ufeffÀ la mer.\r\n\r\nOui.")) == [["À la mer.", "Oui."]]
    assert texts(read(tmp_path, "À la mer.".encode("utf-16"))) == [["À la mer."]]
    with pytest.raises(ManifestError, match="byte 1 is not UTF-8"):
        read(tmp_path, "À la mer.".encode("latin-1"))
    with pytest.raises(ManifestError, match=r"light.txt:2: holds the control character U\+0007"):
        read(tmp_path, "One.\nTwo\a.")


def test_bounds(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="larger than 16 MiB"):
        read(tmp_path, b"a" * (MAX_TEXT_BYTES + 1))
    with pytest.raises(ManifestError, match=r"suffix '\.pdf'"):
        read_book(tmp_path / "a.pdf")
    with pytest.raises(ManifestError, match="No such file"):
        read_book(tmp_path / "none.txt")


def test_a_folder_is_read_in_the_order_of_its_numbers(tmp_path: Path) -> None:
    for name in ("10.md", "9 nine.txt", "1.md", ".hidden.md", "cover.jpg"):
        (tmp_path / name).write_text(f"From {name}.")
    book = read_book(tmp_path)
    assert [one.title for one in book.chapters] == ["1", "9 nine", "10"]
    assert book.title == tmp_path.name
    (tmp_path / "empty").mkdir()
    with pytest.raises(ManifestError, match=r"no \.md or \.txt"):
        read_book(tmp_path / "empty")
