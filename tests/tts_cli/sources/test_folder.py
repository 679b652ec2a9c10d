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


def test_files_go_by_what_a_book_begins_and_ends_with(tmp_path: Path) -> None:
    # The appendices came first, as their names are before those of chapters.
    names = ("apA", "ch1", "ch10", "ch2", "foreword", "preface", "colophon", "Appendix-01", "index")
    for name in (*names, "introducing-it"):
        (tmp_path / f"{name}.md").write_text(f"It is {name}.")
    assert titles(read_book(tmp_path)) == [
        *("index", "foreword", "preface", "ch1", "ch2", "ch10", "introducing-it"),
        *("apA", "Appendix-01", "colophon"),
    ]


def test_a_file_without_text_does_not_end_the_book(tmp_path: Path) -> None:
    written(tmp_path, a_md="---\ntitle: Begin\n---\n", b_md="B.", c_txt="")
    book = read_book(tmp_path)
    assert titles(book) == ["b"]
    assert {"a.md: contains no text", "c.txt: contains no text"} <= {*book.warnings}
    (tmp_path / "b.md").unlink()
    with pytest.raises(ManifestError, match="contains no text; check that this is the right fold"):
        read_book(tmp_path)


@pytest.mark.parametrize(
    ("order", "text"),
    [
        (
            "_quarto.yml",
            "book:\n  title: A b.md of c\n  chapters:\n    - index.qmd\n    - part: two.qmd\n"
            "      chapters:\n        - one.qmd\n  appendices: [three.qmd]\n",
        ),
        ("_bookdown.yml", 'rmd_files: ["index.qmd", "two.qmd", one.qmd, "three.qmd"]\n'),
        ("_bookdown.yml", 'rmd_files:\n  - index.qmd\n  - "two.qmd"\n  - one.qmd\n  - three.qmd\n'),
    ],
)
def test_books_of_quarto_and_r_markdown(tmp_path: Path, order: str, text: str) -> None:
    (tmp_path / order).write_text(text)
    for name in ("index", "one", "three", "two", "other"):
        (tmp_path / f"{name}.qmd").write_text(f"# On {name} {{#sec-{name}}}\n\nIt is {name}.\n")
    assert titles(read_book(tmp_path)) == ["On index", "On two", "On one", "On three"]


@pytest.mark.parametrize(
    ("order", "text"),
    [
        (
            "_toc.yml",
            "format: jb-book\nroot: index\nparts:\n- caption: Two\n  chapters:\n  - file: two\n"
            "    sections:\n    - file: one.md\n    - url: https://example.org/three.md\n",
        ),
        (
            "myst.yml",
            "version: 1\nproject:\n  toc:\n    - file: index.md\n    - title: P\n"
            "      children:\n        - file: two.md\n        - file: 'one.md'\n",
        ),
    ],
)
def test_books_of_jupyter_book(tmp_path: Path, order: str, text: str) -> None:
    """Chapters came in the order of their names."""
    (tmp_path / order).write_text(text)
    for name in ("index", "one", "three", "two"):
        (tmp_path / f"{name}.md").write_text(f"# On {name}\n\nIt is {name}.\n")
    assert titles(read_book(tmp_path)) == ["On index", "On two", "On one"]


def test_a_path_that_does_not_exist_is_no_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="No such file or directory; check the path"):
        read_book(tmp_path / "docs")


def test_texts_of_leanpub_are_markdown(tmp_path: Path) -> None:
    # Their signs and the names of their parts were read aloud.
    files = {"intro_txt": "# Begin\n*Here* it is[^1].\n\n[^1]: No.", "front_txt": "{frontmatter}"}
    written(tmp_path / "manuscript", Book_txt="front.txt\nintro.txt\n", **files)
    (chapter,) = read_book(tmp_path).chapters
    assert [one.text for one in chapter.paragraphs] == ["Begin", "Here it is."]


def test_a_text_with_headings_of_markdown_is_read_as_markdown(tmp_path: Path) -> None:
    written(tmp_path, a_txt="# One\n\nIt *rained*.\n\n## Two\n\nOn.", b_txt="# 1 is *it*.\n#2 not.")
    book = read_book(tmp_path)
    texts = [[one.text for one in chapter.paragraphs] for chapter in book.chapters]
    assert texts == [["One", "It rained.", "Two", "On."], ["# 1 is *it*.", "#2 not."]]
    assert "a.txt: read as Markdown, because headings begin with #" in book.warnings


def test_a_text_of_another_format_has_the_remedy_for_it(tmp_path: Path) -> None:
    (tmp_path / "a.tex").touch()
    with pytest.raises(ManifestError, match=r"convert it to .md \(pandoc can\)"):
        read_book(tmp_path / "a.tex")


def test_files_go_by_the_weights_in_their_front_matter(tmp_path: Path) -> None:
    matter = "---\ntitle: {}\n{}: {}\n---\nIt rained.\n"
    for name, key, weight in (("b", "weight", 10), ("a", "sidebar_position", 20), ("c", "x", 1)):
        (tmp_path / f"{name}.md").write_text(matter.format(name.upper(), key, weight))
    (tmp_path / "_index.md").write_text(matter.format("Start", "weight", 90))
    assert titles(read_book(tmp_path)) == ["Start", "B", "A", "C"]
    (tmp_path / "a.md").write_text("It rained.")
    (tmp_path / "d.md").write_text("It rained.")
    assert titles(read_book(tmp_path)) == ["Start", "a", "B", "C", "d"]
