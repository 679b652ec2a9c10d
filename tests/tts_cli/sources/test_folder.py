"""Folders: the order that a SUMMARY.md gives, and what is told where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import cases

from tts_cli.errors import ManifestError
from tts_cli.sources.chapters import Book
from tts_cli.sources.folder import read_book

CASES = cases(__file__)["folder"]


def written(folder: Path, **files: str) -> Path:
    """A folder of texts; "__" in a name stands for a slash, "_" for the point."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def titles(book: Book) -> list[str]:
    return [one.title for one in book.chapters]


SUMMARY = """# Summary

[Foreword](./foreword.md)

# Part I

- [The Bell](ch01.md#top)
  - [Again](ch01.md)
  - [Rope](part%201/rope.md)
- [Not written]()
- [Gone](gone.md)
- [Picture](a.png), [web](https://example.org/a.md)

[Words](words.txt)
"""


def mdbook(folder: Path) -> Path:
    written(
        folder,
        SUMMARY_md=SUMMARY,
        foreword_md="It was late.",
        ch01_md="# The Bell\n\n## One\n\nIt rang.\n\n## Two\n\nTwice.\n",
        words_txt="A lamp.",
        other_md="# Nobody names it\n\nNot read.",
    )
    return written(folder, **{"part 1__rope_md": "# The Rope\n\n{voice=a}x\n\nLong. {voice: b}"})


@pytest.mark.parametrize("below", ["", "src"])
def test_a_summary_gives_order_and_files(tmp_path: Path, below: str) -> None:
    # It was spoken itself, as a chapter of links, and the appendix came first.
    mdbook(tmp_path / below)
    book = read_book(tmp_path)
    assert titles(book) == ["foreword", "The Bell", "The Rope", "words"]
    bell = book.chapters[1].paragraphs
    assert [one.text for one in bell] == ["The Bell", "One", "It rang.", "Two", "Twice."]
    lost, voice = book.warnings
    assert lost.endswith(
        "SUMMARY.md: ignored 3 links to files that are not .md or .txt or do not exist: "
        "gone.md (line 11), a.png (line 12), https://example.org/a.md (line 12)"
    )
    assert voice.startswith(f"{below and 'src/'}part 1/rope.md:5: ")


def test_a_chapter_without_text_is_told(tmp_path: Path) -> None:
    written(tmp_path, SUMMARY_md="[a](a.md) [b](b.md)", a_md="![x](x.png)", b_md="B.")
    book = read_book(tmp_path)
    assert titles(book) == ["b"]
    assert "a.md: contains no text" in book.warnings
    written(tmp_path, b_md="")
    with pytest.raises(ManifestError, match="contains no text"):
        read_book(tmp_path)


@pytest.mark.parametrize("link", CASES["links_that_lead_out_are_refused"])
def test_links_that_lead_out_are_refused(tmp_path: Path, link: str) -> None:
    written(tmp_path, out_md="Secret.")
    book = written(tmp_path / "book", SUMMARY_md=f"- [a](a.md)\n- [b]({link})\n", a_md="A.")
    (book / "far.md").symlink_to(tmp_path / "out.md")
    (book / "far").symlink_to(tmp_path)
    with pytest.raises(ManifestError, match=r"SUMMARY\.md:2: the link .* leads out of the folder"):
        read_book(book)


def test_a_summary_that_leads_out_is_refused(tmp_path: Path) -> None:
    book = written(tmp_path / "book", a_md="A.")
    written(tmp_path, SUMMARY_md="[a](a.md)")
    (book / "SUMMARY.md").symlink_to(tmp_path / "SUMMARY.md")
    with pytest.raises(ManifestError, match="the file leads out"):
        read_book(book)


def test_a_summary_without_any_file_of_its_links(tmp_path: Path) -> None:
    written(tmp_path, SUMMARY_md="[a](a.md)", b_md="B.")
    with pytest.raises(ManifestError, match=r"a\.md \(line 1\).*; fix its links"):
        read_book(tmp_path)


def test_a_summary_that_is_a_text(tmp_path: Path) -> None:
    written(tmp_path, SUMMARY_md="All [of it](https://example.org/) in short.", b_md="B.")
    assert titles(read_book(tmp_path)) == ["b", "SUMMARY"]


def test_what_is_not_read_is_told_once(tmp_path: Path) -> None:
    written(tmp_path, CONTRIBUTING_md="Send patches.", book_asc="= A", a_PDF="%PDF", b_rst="B")
    written(tmp_path, part1__1_md="1.", part1__deep__2_txt="2.", part2__3_html="3", img__a_png="")
    written(tmp_path, **{".git__x_md": "x", "x_epub": "x"})
    (told,) = read_book(tmp_path).warnings
    assert told == (
        f"{tmp_path}: left out: 4 texts of other formats (a.PDF, b.rst, book.asc, ...) and "
        "3 texts in subfolders (part1/, part2/); give one of them, convert them to .md, or "
        "list the files in a SUMMARY.md"
    )
    (tmp_path / "CONTRIBUTING.md").unlink()
    with pytest.raises(
        ManifestError, match=r"no \.md or \.txt file, but 4 texts.*in a SUMMARY\.md"
    ):
        read_book(tmp_path)


MKDOCS = """site_name: A
docs_dir: 'text'  # else docs
nav:
    - Home: index.md
    - 'Part':
        - "b.md"   # the second
        - a.md
    - Web: https://example.org/x.md
theme:
    - logo: c.md
"""
LEANPUB = "{frontmatter}\npreface.md\n{mainmatter}\n\nb.txt\na.md\n"
SOFTCOVER = "cover\nfrontmatter:\nmaketitle\n# left.md\nmainmatter:\nb.md\na.md\n"


@pytest.mark.parametrize(
    ("order", "content", "texts", "chapters"),
    [
        ("mkdocs_yml", MKDOCS, ("text__index_md", "text__a_md", "text__b_md"), "index b a"),
        ("manuscript__Book_txt", LEANPUB, ("a_md", "b_txt", "preface_md"), "preface b a"),
        ("Book_txt", SOFTCOVER, ("chapters__a_md", "chapters__b_md"), "b a"),
        ("Book_txt", "It rained.\n\nThen a.md came.", ("a_md",), "a Book"),
        ("Book_txt", "gone.md\n", ("a_md",), "a Book"),
    ],
)
def test_order_files_of_other_makers(
    tmp_path: Path, order: str, content: str, texts: tuple[str, ...], chapters: str
) -> None:
    """They were read aloud themselves, and the chapters came by their names."""
    below = "manuscript__" if order.startswith("manuscript") else ""
    written(tmp_path, **{order: content}, **{f"{below}{one}": "Text." for one in texts})
    assert titles(read_book(tmp_path)) == chapters.split()
