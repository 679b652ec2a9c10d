"""Which entries of a table of contents begin chapters."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import cases
from make_epub import XHTML, document, package, write_epub

from tts_cli.sources.chapters import Block, Text, TocEntry, chapters_of
from tts_cli.sources.epub import read_epub

CASES = cases(__file__)["chapters"]

NAV = document("nav.xhtml", 'properties="nav"')
WORD_S = 0.075 * 5


def blocks(*entries: tuple[str, int, int]) -> list[Block]:
    """Entries by title, depth and minutes of text behind each."""
    return [
        block
        for title, depth, minutes in entries
        for block in (TocEntry(title, depth), Text("word " * int(minutes * 60 / WORD_S), "here"))
        if isinstance(block, TocEntry) or block.text
    ]


def titles(*entries: tuple[str, int, int]) -> list[str]:
    return [one.title for one in chapters_of(blocks(*entries)) if isinstance(one, TocEntry)]


@pytest.mark.parametrize(("entries", "chosen"), CASES["entries"])
def test_entries(entries: list[tuple[str, int, int]], chosen: list[str]) -> None:
    assert titles(*entries) == chosen


def test_an_entry_for_a_whole_document_counts_at_any_depth() -> None:
    marks: list[Block] = [
        TocEntry("A", 1, is_document=True),
        TocEntry("A.1", 2),
        TocEntry("A.2", 2, is_document=True),
        TocEntry("B", 1, is_document=True),
    ]
    text = Text("text", "here")
    found = chapters_of([block for mark in marks for block in (mark, text)])
    assert [one.title for one in found if isinstance(one, TocEntry)] == ["A", "A.2", "B"]
    assert found.count(text) == 4


def nested(path: Path, nav: str, page: str) -> list[tuple[str, list[str]]]:
    """Chapters of a book of one document."""
    members = {
        "OEBPS/book.opf": package({"n": NAV, "t": document("t.xhtml")}, ["t"]),
        "OEBPS/nav.xhtml": XHTML.format(f'<nav epub:type="toc"><ol>{nav}</ol></nav>'),
        "OEBPS/t.xhtml": XHTML.format(page),
    }
    book = read_epub(write_epub(path / "b.epub", members))
    return [(one.title, [line.text for line in one.paragraphs]) for one in book.chapters]


def entry(place: str, title: str, below: str = "") -> str:
    return f'<li><a href="t.xhtml{place}">{title}</a>{below and f"<ol>{below}</ol>"}</li>'


def test_a_title_above_all_chapters(tmp_path: Path) -> None:
    page = '<h1 id="c0">The Ferry</h1>' + "".join(
        f'<h2 id="c{n}">{n}</h2><p>Text {n}.</p>' for n in (1, 2)
    )
    below = entry("#c1", "Late") + entry("#c2", "Two<br/>The Bell")
    found = [("Late", ["The Ferry", "1", "Text 1."]), ("Two, The Bell", ["2", "Text 2."])]
    assert nested(tmp_path, entry("#c0", "The Ferry", below), page) == found
    # The title and the first chapter at one place: the deeper entry names it.
    below = entry("", "Late") + entry("#c2", "The Bell")
    found = [("Late", found[0][1]), ("The Bell", found[1][1])]
    assert nested(tmp_path, entry("", "The Ferry", below), page) == found
    # Parts that are no links.
    part = f"<li><span>Part</span><ol>{entry('#c1', 'Late') + entry('#c2', 'The Bell')}</ol></li>"
    assert [title for title, _ in nested(tmp_path, part, page)] == ["Late", "The Bell"]
