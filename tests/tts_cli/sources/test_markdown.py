"""Markdown as a reader aloud reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import cases

from tts_cli.errors import ManifestError
from tts_cli.sources.chapters import Book
from tts_cli.sources.folder import read_book
from tts_cli.sources.markdown import MAX_NESTING

CASES = cases(__file__)["markdown"]

MILL = """---
title: front matter is not read
---
# The Mill

## Chapter One: *Rain*

It rained on the [mill](http://example.org/mill "a link"), as it had for **nine** days[^1].
The wheel stood still.

{voice=clara}
"Will it hold?" she asked.

---

Nobody answered ![a picture](mill.png).

> What the river takes, it keeps.

* * *

1. Sand.
2. Sacks.

[^1]: A note that goes
  on in a second line.

    And in a second paragraph.

## Chapter Two

```python
print("not read")
```

| what  | how many |
|-------|----------|
| sacks | 40       |

The `gate` gave<br>way at noon. \\* It was over &amp; done.
<!-- a comment -->
"""


def read(tmp_path: Path, text: str) -> Book:
    path = tmp_path / "mill.md"
    path.write_text(text, encoding="utf-8")
    return read_book(path)


def texts(book: Book) -> list[list[str]]:
    return [[one.text for one in chapter.paragraphs] for chapter in book.chapters]


def test_a_whole_text(tmp_path: Path) -> None:
    book = read(tmp_path, MILL)
    assert book.title == "The Mill"
    assert [chapter.title for chapter in book.chapters] == ["Chapter One: Rain", "Chapter Two"]
    assert texts(book) == [
        [
            "The Mill",
            "Chapter One: Rain",
            "It rained on the mill, as it had for nine days. The wheel stood still.",
            '"Will it hold?" she asked.',
            "Nobody answered .",
            "What the river takes, it keeps.",
            "1. Sand.",
            "2. Sacks.",
        ],
        [
            "Chapter Two",
            "what, how many",
            "sacks, 40",
            "The gate gave way at noon. * It was over & done.",
        ],
    ]
    first = book.chapters[0].paragraphs
    assert [one.text for one in first if one.is_scene_end] == [first[3].text, first[5].text]
    assert [one.text for one in first if one.is_heading] == ["The Mill", "Chapter One: Rain"]
    assert [one.voice for one in first] == [None] * 3 + ["clara"] + [None] * 4


def test_places_and_warnings_name_lines_of_the_file(tmp_path: Path) -> None:
    book = read(tmp_path, MILL)
    places = [one.place for one in book.chapters[0].paragraphs]
    assert places[:4] == ["mill.md:4", "mill.md:6", "mill.md:8", "mill.md:11"]
    assert book.warnings == (
        "mill.md:8: a footnote is left out",
        "mill.md:16: an image is left out",
        "mill.md:32: a code block is left out",
    )


def test_a_footnote_ends_where_text_begins_again(tmp_path: Path) -> None:
    book = read(
        tmp_path, "One[^a].\n\n[^a]: Not read.\nNor this.\n\nTwo.\n\n[^b]: No.\nNo.\n# Three\nFour."
    )
    assert texts(book) == [["One.", "Two."], ["Three", "Four."]]


@pytest.mark.parametrize(("text", "titles"), CASES["which_headings_are_chapters"])
def test_which_headings_are_chapters(tmp_path: Path, text: str, titles: list[str]) -> None:
    assert [chapter.title for chapter in read(tmp_path, text).chapters] == titles


@pytest.mark.parametrize("mark", [">", "- "])
def test_nesting_is_bounded(tmp_path: Path, mark: str) -> None:
    # markdown-it-py drops what lies deeper than its bound without a word.
    assert texts(read(tmp_path, mark * 10 + " deep")) == [["deep"]]
    with pytest.raises(ManifestError, match="nested too deep"):
        read(tmp_path, mark * (MAX_NESTING + 5) + " deep")
    with pytest.raises(ManifestError, match="nested too deep"):
        read(tmp_path, mark * 5000 + " deep")


def test_a_misspelt_voice_is_told(tmp_path: Path) -> None:
    book = read(tmp_path, "{voice: clara} Yes.\n\nNo {voice=a} no.\n\nAt the end. {voice=b}")
    assert [one.voice for one in book.chapters[0].paragraphs] == [None, None, "b"]
    assert [warning.split(" will be read")[0] for warning in book.warnings] == [
        "mill.md:1: '{voice: clara}'",
        "mill.md:3: '{voice=a}'",
    ]


@pytest.mark.parametrize(("text", "lines"), CASES["lines_that_the_author_broke"])
def test_lines_that_the_author_broke(tmp_path: Path, text: str, lines: list[str]) -> None:
    assert texts(read(tmp_path, text)) == [lines]


def test_nothing_to_read(tmp_path: Path) -> None:
    for text in ("", "![only](a.png)", "```\ncode\n```", "* * *"):
        with pytest.raises(ManifestError, match="contains no text"):
            read(tmp_path, text)


def test_front_matter_names_the_book(tmp_path: Path) -> None:
    front = "---\ntitle: 'The Mill'\nAuthor: A. Writer \nlang: en-GB\ntags: [a, b]\nnote: |\n"
    book = read(tmp_path, front + "  lang: fr\n---\n\nIt rained.\n")
    assert (book.title, book.author, book.language) == ("The Mill", "A. Writer", "en-GB")
    assert texts(book) == [["It rained."]]
    assert read(tmp_path, "---\nlanguage: de\n---\n# A\n\nB.\n").language == "de"
    assert read(tmp_path, "lang: fr\n\nIt rained.\n").language is None


def test_a_folder_has_the_language_that_its_files_agree_on(tmp_path: Path) -> None:
    for name, tag in (("1", "en"), ("2", None), ("3", "en")):
        front = f"---\nlang: {tag}\n---\n" if tag else ""
        (tmp_path / f"{name}.md").write_text(f"{front}# {name}\n\nIt rained.\n")
    assert read_book(tmp_path).language == "en"
    (tmp_path / "4.md").write_text("---\nlang: de\n---\n# 4\n\nEs regnete.\n")
    assert read_book(tmp_path).language is None


@pytest.mark.parametrize(("text", "lines", "told"), CASES["signs_of_other_dialects"])
def test_signs_of_other_dialects(tmp_path: Path, text: str, lines: list[str], told: str) -> None:
    book = read(tmp_path, text)
    assert texts(book) == [lines]
    assert told in " ".join(book.warnings)
    assert bool(book.warnings) == bool(told)


def test_front_matter_of_hugo_and_pandoc(tmp_path: Path) -> None:
    book = read(tmp_path, '+++\ntitle = "The Mill"\ndraft = false\n+++\n\nIt rained.\n')
    assert (book.title, texts(book)) == ("The Mill", [["It rained."]])
    book = read(tmp_path, "% The Mill\n% A. Writer\n\nIt rained.\n")
    assert (book.title, book.author, texts(book)) == ("The Mill", "A. Writer", [["It rained."]])
    assert texts(read(tmp_path, "---\n\nIt rained.\n\n---\n\nLate.\n")) == [["It rained.", "Late."]]
    book = read(tmp_path, '{\n  "title": "The Mill",\n  "tags": ["a"]\n}\n\nIt rained.\n')
    assert (book.title, texts(book)) == ("The Mill", [["It rained."]])
