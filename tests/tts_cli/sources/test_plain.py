"""Plain text, wrapped and not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cases import cases

from tts_cli.errors import ManifestError
from tts_cli.sources import plain as plain
from tts_cli.sources.chapters import Book
from tts_cli.sources.folder import MAX_TEXT_BYTES, read_book

CASES = cases(__file__)["plain"]

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


@pytest.mark.parametrize(("line", "is_heading"), CASES["headings"])
def test_headings(tmp_path: Path, line: str, is_heading: bool) -> None:
    book = read(tmp_path, f"Before it.\n\n{line}\n\nBehind it.\n")
    found = [one for chapter in book.chapters for one in chapter.paragraphs if one.text == line]
    assert [one.is_heading for one in found] == [is_heading]
    assert len(book.chapters) == (2 if is_heading else 1)


CHAPTERS = CASES["chapters"]


@pytest.mark.parametrize(("text", "titles"), CHAPTERS.values(), ids=CHAPTERS)
def test_chapters(tmp_path: Path, text: str, titles: list[str]) -> None:
    text = text.replace("{long}", "a " * 2000).replace("{extracts}", "Extracts. " * 60)
    assert [chapter.title for chapter in read(tmp_path, text).chapters] == titles


FRAMES = {
    "both": "Terms.\n\n*** START OF THIS PROJECT GUTENBERG EBOOK LIGHT ***\n\n{}\n\n"
    "*** END OF THE PROJECT GUTENBERG EBOOK LIGHT ***\n\nSection 1. Terms\n",
    "over two lines": "Terms.\n\n***START OF THE PROJECT GUTENBERG EBOOK\nLIGHT***\n\n{}\n",
    "the end alone": "{}\n\nEnd of Project Gutenberg's Light, by Nobody\n\nSection 1. Terms\n",
    "of before": "Terms\n*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*\n\n{}\n",
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_what_gutenberg_puts_around_a_book(tmp_path: Path, frame: str) -> None:
    book = read(tmp_path, frame.format("It was _very_ late, file_3.\n\n[Illustration: A cat]"))
    assert texts(book) == [["It was very late, file_3."]]
    (warning,) = book.warnings
    assert "the frame of Project Gutenberg around the book is left out" in warning


def test_encodings(tmp_path: Path) -> None:
    assert texts(read(tmp_path, "\ufeffÀ la mer.\r\n\r\nOui.")) == [["À la mer.", "Oui."]]
    assert texts(read(tmp_path, "À la mer.".encode("utf-16"))) == [["À la mer."]]
    assert texts(read(tmp_path, "À la mer, très belle.".encode("cp1252"))) == [
        ["À la mer, très belle."]
    ]
    (tmp_path / "old.txt").write_bytes("Жил-был кот.".encode("koi8-r"))
    assert texts(read_book(tmp_path / "old.txt", "koi8-r")) == [["Жил-был кот."]]
    with pytest.raises(ManifestError, match=r"byte 1 is not UTF-8; .*--encoding"):
        read_book(tmp_path / "old.txt", "utf-8")
    with pytest.raises(ManifestError, match=r"light.txt:2: contains the control character U\+0007"):
        read(tmp_path, "One.\nTwo\a.")


def test_bounds(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="larger than 16 MiB"):
        read(tmp_path, b"a" * (MAX_TEXT_BYTES + 1))
    (tmp_path / "a.rtf").touch()
    with pytest.raises(ManifestError, match=r"suffix '\.rtf'"):
        read_book(tmp_path / "a.rtf")
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


@pytest.mark.slow
def test_many_headings_are_read_in_the_time_that_they_take() -> None:
    """It took minutes: what stands behind each of them was copied."""
    assert sum(1 for _ in plain.blocks("Chapter 1\n\n" * 15_000, str)) == 15_000


PARTED = """The harbour was full at noon, and nobody on the pier looked up from the ham-
mering of the boats, though the whole of the town had waited for the har-
bour to open since the beginning of the week. She told her mother-in-
law about it, and her mother-in-law knew the hammering; the well-
known lamp was lit, and it was the last that they would ever see of him.
"""


def test_words_that_lines_part(tmp_path: Path) -> None:
    (paragraph,) = read(tmp_path, PARTED).chapters[0].paragraphs
    assert "the hammering of the boats" in paragraph.text
    assert "for the harbour to open" in paragraph.text
    assert "told her mother-in-law about" in paragraph.text
    assert "the well-known lamp" in paragraph.text


def test_numbers_and_heads_of_pages(tmp_path: Path) -> None:
    page = PARTED.replace("ham-\nmering", "hammering").replace("har-\nbour", "harbour")
    pages = [f"THE MILL {n}\n\n{page}The page {n} ends with\n\n   {n}\n" for n in range(12, 18)]
    book = read(tmp_path, "\f".join(pages))
    whole = " ".join(one.text for chapter in book.chapters for one in chapter.paragraphs)
    assert "THE MILL" not in whole
    assert re.findall(r"[0-9]+", whole) == [str(n) for n in range(12, 18)]
    assert book.warnings == ("light.txt: left out: numbers or running heads of pages",)


def test_a_sentence_above_a_rule_is_no_heading(tmp_path: Path) -> None:
    text = "The ferry came in.\nThe nets were dry.\n-----\nThe evening was another.\nIt rained.\n"
    (chapter,) = read(tmp_path, text).chapters
    assert [one.text for one in chapter.paragraphs if one.is_heading] == []
    assert read(tmp_path, "What Now?\n-----\n\nIt rained.\n").chapters[0].title == "What Now?"


AOZORA = f"""灯台の朝
無名氏

{"-" * 40}
【テキスト中に現れる記号について】

《》：ルビ
（例）灯台《とうだい》
{"-" * 40}

［＃５字下げ］一［＃「一」は中見出し］

　霧《きり》の朝、風｜見鶏《みどり》が鳴る。※［＃「火＋欣」、第3水準］

［＃５字下げ］二［＃「二」は中見出し］

　子どもたちは石段を駆《か》け下りた。

底本：「灯台の朝」港書房
入力：名無し
"""


def test_aozora_bunko(tmp_path: Path) -> None:
    book = read(tmp_path, AOZORA)
    assert [chapter.title for chapter in book.chapters][-2:] == ["一", "二"]
    texts = [one.text for chapter in book.chapters for one in chapter.paragraphs]
    assert "".join(texts).startswith("灯台の朝 無名氏一")
    assert "霧の朝、風見鶏が鳴る。" in texts
    assert texts[-1] == "子どもたちは石段を駆け下りた。"
    assert "Aozora" in book.warnings[0]
    assert (
        "《おやゆび》" in read(tmp_path, "彼は《おやゆび》を見た。").chapters[0].paragraphs[0].text
    )


@pytest.mark.parametrize(
    ("text", "rest", "what"),
    [
        (
            "CONTENTS\n\nThe Lamp ...... 3\nThe Pier . . . . . 15\nEnd.....xii\n\nIt was... 3.\n",
            "It was... 3.",
            "a printed table of contents",
        ),
        ("It [Pg 1]was.\n\n[Pg 2]\n\nLate[Pg. xi].\n", "It was.\n\nLate.", "numbers of pages"),
        (
            "It was.\n\nPage 1 of 3\n\nLate.\nPage 2 of 3\nPage 3\n",
            "It was.\n\nLate.",
            "numbers of pages",
        ),
        ("Page 1\n\nIt was .... late.\n", "Page 1\n\nIt was .... late.", ""),
    ],
)
def test_contents_and_numbers_of_pages(text: str, rest: str, what: str) -> None:
    printed = plain.without_print(text)
    assert re.sub(r"\n{3,}", "\n\n", printed.text).strip() == rest
    assert printed.left_out == ((what,) if what else ())
    assert printed.text.count("\n") == text.count("\n")


def test_marks_of_notes_are_left_out(tmp_path: Path) -> None:
    book = read(tmp_path, "It came.[1] It rained[2] late.\n\nThen[A] it stopped [3] there.\n")
    assert texts(book) == [["It came. It rained late.", "Then it stopped [3] there."]]
    assert "left out: marks of notes" in " ".join(book.warnings)


def test_prose_between_verses_is_not_cut_at_line_ends(tmp_path: Path) -> None:
    # A play in verse: most lines are short, and its directions were read in pieces.
    verses = "\n\n".join(
        "Tom\n\n  The lamp is lit,\n  the tide comes in,\n  And so" for _ in range(9)
    )
    act = "SCENE {}. _The keeper stands at the window and looks over the bay, and\nwaits for Tom_."
    long = "[_He takes the lamp from its hook and goes down to the boats, as the\nothers did._"
    text = f"{act.format('I')}\n\n{verses}\n\n{long}\n\n{act.format('II')}\n\n{verses}\n"
    (one, two) = read(tmp_path, text.encode()).chapters
    place = " The keeper stands at the window and looks over the bay, and waits for Tom."
    assert [one.title, two.title] == [f"SCENE I.{place}", f"SCENE II.{place}"]
    said = [paragraph.text for paragraph in one.paragraphs]
    assert said[1:5] == ["Tom", "The lamp is lit,", "the tide comes in,", "And so"]
    assert said[-1].endswith("goes down to the boats, as the others did.")
