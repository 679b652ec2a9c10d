"""Plain text, wrapped and not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tts_cli.errors import ManifestError
from tts_cli.sources import plain as plain
from tts_cli.sources.chapters import Book
from tts_cli.sources.folder import MAX_TEXT_BYTES, read_book

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
        ("IV", False),  # alone; three in a row are headings
        ("12.", False),
        ("Chapter one was hard to write, and nobody liked it.", False),
        ("Part of the deal", False),
        ("Chapters", False),
        ("I", False),
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


CHAPTERS = {
    "right above their text": (
        "Chapter 1\nIt was a dark morning at the mill, and the wheel had turned for an hour.\n"
        "He heard the rain.\nChapter 2\nThe ford was high.\nChapter 3\nSpring came.\n",
        ["Chapter 1", "Chapter 2", "Chapter 3"],
    ),
    "with titles": (
        "Chapter 1: The Mill\nThe wheel turned.\n\nChapter 2\nTHE FORD\nNobody came.\n\n"
        "Chapter 3\nThe End\n\nIt was over.\n",
        ["Chapter 1: The Mill", "Chapter 2. THE FORD", "Chapter 3. The End"],
    ),
    "in wrapped text": (
        "CHAPTER I\nThe wheel turned all day long and nobody was there to see how it was done by\n"
        "the miller's boy, who had gone down to the ford with the others, to wait for the\n"
        "carter.\n\nCHAPTER II\nHe had told Chapter 2 of his life to the carter so often that\n"
        "Part one of the story bored her, and Chapter 3 of it had never been told at all,\n"
        "she said.\n",
        ["CHAPTER I", "CHAPTER II"],
    ),
    "of the web": (
        "chapter.001\n\nLate.\n\nchapter #2\n\nEarly.\n\nChapter No. 3\n\nOver.\n",
        ["chapter.001", "chapter #2", "Chapter No. 3"],
    ),
    "Chinese": (
        "第一章 风\n很久以前。\n第二章 雨\n下雨了。\n第三章 雪\n下雪了。\n",
        ["第一章 风", "第二章 雨", "第三章 雪"],
    ),
    "decorated": (
        "~ Chapter One ~\n\na.\n\n*** Chapter Two ***\n\nb.\n\n[Chapter Three]\n\nc.\n",
        ["Chapter One", "Chapter Two", "Chapter Three"],
    ),
    "with ordinals": (
        "Erstes Kapitel\n\na.\n\nChapitre premier\n\nb.\n\nГлава вторая\n\nc.\n\n"
        "Capítulo tercero: Fin\n\nd.\n\nThe Last Chapter\n\ne.\n",
        [
            *("Erstes Kapitel", "Chapitre premier", "Глава вторая", "Capítulo tercero: Fin"),
            "The Last Chapter",
        ],
    ),
    "with other words": (
        "STAVE ONE: GHOST\n\nI\n\na.\n\nII\n\nb.\n\nIII\n\nc.\n\nSTAVE TWO\n\nd.\n",
        ["STAVE ONE: GHOST", "STAVE TWO"],
    ),
    "numbers and titles": (
        "I. The Ferry\n\na.\n\nII. The Bell\n\nb.\n\nIII. The Lamp\n\nc.\n",
        ["I. The Ferry", "II. The Bell", "III. The Lamp"],
    ),
    "numbers": ("1\n\na.\n\n2\n\nb.\n\n3\n\nc.\n", ["1", "2", "3"]),
    "numbers by part": (
        "Book the First--Life\n\nI. One\n\na.\n\nII. Two\n\nb.\n\n"
        "Book the Second--Death\n\nI. Three\n\nc.\n\nII. Four\n\nd.\n",
        ["I. One", "II. Two", "I. Three", "II. Four"],
    ),
    "numbers behind words": (
        "ADVENTURE I. A\n\nI.\n\na.\n\nII.\n\nb.\n\nADVENTURE II. B\n\nc.\n\n"
        "III. THE CASE\n\nd.\n\nIV. THE BEND\n\ne.\n\nV. THE END\n\nf.\n",
        ["ADVENTURE I. A", "ADVENTURE II. B", "III. THE CASE", "IV. THE BEND", "V. THE END"],
    ),
    "behind their list": (
        "CONTENTS\n\nCHAPTER I. The Mill ... 3\nCHAPTER II. The Ford ... 9\n"
        "CHAPTER III. The End ... 12\n\nFor my mother.\n\nCHAPTER I. The Mill\n\na.\n\n"
        "CHAPTER II. The Ford\n\nb.\n\nCHAPTER III. The End\n\nc.\n",
        ["light", "CHAPTER I. The Mill", "CHAPTER II. The Ford", "CHAPTER III. The End"],
    ),
    "behind a list with titles below": (
        "CHAPTER I\n\nThe Mill 3\n\nCHAPTER II\n\nThe Ford 9\n\nCHAPTER III\n\nThe End 12\n\n"
        f"CHAPTER I\n\n{'a ' * 200}.\n\nCHAPTER II\n\nb.\n\nCHAPTER III\n\nc.\n",
        ["light", "CHAPTER I", "CHAPTER II", "CHAPTER III"],
    ),
    "behind a list of parts": (
        "BOOK ONE.--The Mill\n\nI. Rain\nII. Flood\n\nBOOK TWO.--The Ford\n\nI. Frost\n\nFinis\n\n"
        f"BOOK ONE\n\nTHE MILL\n\nI.\n\nRAIN.\n\n{'a ' * 300}.\n\nII.\n\nFLOOD.\n\nb.\n\n"
        "III.\n\nTHAW.\n\nc.\n\nBOOK TWO\n\nTHE FORD\n\nI.\n\nFROST.\n\nd.\n\nII.\n\nEND.\n\ne.\n",
        ["light", "I. RAIN.", "II. FLOOD.", "III. THAW.", "I. FROST.", "II. END."],
    ),
    "behind a list with a foreword": (
        "Chapter 1. Rain\nChapter 2. Flood\nChapter 3. Thaw\nEpilogue\n\n"
        f"{'Extracts. ' * 60}\n\nChapter 1. Rain\n\n{'a ' * 2000}.\n\nChapter 2. Flood\n\nb.\n\n"
        "Chapter 3. Thaw\n\nc.\n\nEpilogue\n\nd.\n",
        ["light", "Chapter 1. Rain", "Chapter 2. Flood", "Chapter 3. Thaw", "Epilogue"],
    ),
    "in another form than their list": (
        "CHAPTER I. RAIN\nCHAPTER II. FLOOD\nCHAPTER III. THAW\nCHAPTER IV. END\n\nFor her.\n\n"
        "I. RAIN\n\na.\n\nII. FLOOD\n\nb.\n\nIII. THAW\n\nc.\n\nIV. END\n\nd.\n",
        ["light", "I. RAIN", "II. FLOOD", "III. THAW", "IV. END"],
    ),
    "in front of their list": (
        "I\n\na.\n\nII\n\nb.\n\nIII\n\nc.\n\nContents\n\nChapter I 1\n\nII 2\n\nIII 3\n",
        ["I", "II", "III", "Chapter I 1"],
    ),
    "with titles below a blank line": (
        "Chapter 1\n\nThe Mill\n\na.\n\nChapter 2\n\nCOME AWAY!\n\nb.\n\nChapter 3\n\nThe End\n\n"
        "c.\n\nChapter 4\n\nIt was over.\n",
        ["Chapter 1. The Mill", "Chapter 2. COME AWAY!", "Chapter 3. The End", "Chapter 4"],
    ),
    "with titles that go on": (
        "Chapter 7. Of the second journey of our good friend, the miller of the\nold ford\n\n"
        "The wheel turned all day long, and nobody was there to see how it was\ndone.\n\n"
        "Chapter 8. Of this it has been told before that nobody but the miller\n"
        + "saw how it was done by the boy, who had gone down to the ford with the\n"
        * 4,
        ["Chapter 7. Of the second journey of our good friend, the miller of the old ford"],
    ),
    "of shorter words": (
        "CHAP. I.\n\na.\n\nCh. 2: Rain\n\nb.\n\nHoofdstuk 3\n\nc.\n\nChapter4\n\nd.\n\n5화\n\ne.\n",
        ["CHAP. I.", "Ch. 2: Rain", "Hoofdstuk 3", "Chapter4", "5화"],
    ),
    "below another": (
        "Inferno: Canto I\n\na.\n\nVolume 1, Chapter 2\n\nb.\n\nSee Volume 1, Chapter 9\n\n"
        "第一卷 第三章 风\n\nc.\n",
        ["Inferno: Canto I", "Volume 1, Chapter 2", "第一卷 第三章 风"],
    ),
    "none of pages": ("He\n\n1\n\nwent and\n\n2\n\ncame\n\n3\n\nback.\n", ["light"]),
    "numbers with a list inside": (
        "1\n\na.\n\n2\n\nb.\n\n1\n\nA list of one.\n\n3\n\nc.\n\n4\n\nd.\n",
        ["1", "2", "3", "4"],
    ),
    "numbers with a misprint": (
        "I\n\na.\n\nII\n\nb.\n\nVI\n\nc.\n\nIV\n\nd.\n",
        ["I", "II", "VI", "IV"],
    ),
    "none of a sum": (
        "My bill:\n\n  For the poor . . . . . . . . . . . . . .  600\n"
        "                                          ----\n  In all  900\n",
        ["light"],
    ),
    "none in lists": ("To buy:\n\n1. Eggs\n2. Milk\n3. Bread\n\nWe went home.\n", ["light"]),
    "none of two numbers": ("1\n\na.\n\n2\n\nb.\n", ["light"]),
    "none of a gap": ("1\n\na.\n\n3\n\nb.\n\n4\n\nc.\n", ["light"]),
}


@pytest.mark.parametrize(("text", "titles"), CHAPTERS.values(), ids=CHAPTERS)
def test_chapters(tmp_path: Path, text: str, titles: list[str]) -> None:
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
    assert sum(1 for _ in plain.blocks("Chapter 1\n\n" * 60_000, "light.txt")) == 60_000


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
