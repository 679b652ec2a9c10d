"""Books: covers, chapters that are selected, the list of chapters, the language of m4b."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from make_epub import XHTML, document, package, write_epub
from workbench import Workbench

pytestmark = pytest.mark.slow

STORY = "# One\n\nHello there.\n\n# Two\n\nGood morning.\n\nAnd you.\n\n# Three\n\nThe end.\n"


def png(width: int = 16, red: int = 255) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        crc = zlib.crc32(name + data)
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", crc)

    rows = b"".join(b"\0" + bytes([red, 0, 0]) * width for _ in range(width))
    head = struct.pack(">IIBBBBB", width, width, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


@pytest.fixture
def checkpoint(longer: Path) -> Path:
    return longer


@pytest.fixture
def story(bench: Workbench) -> Path:
    path = bench.folder / "story.md"
    path.write_text(STORY, encoding="utf-8")
    return path


def book(bench: Workbench, source: Path, *flags: object) -> Any:
    given = ("--model", bench.model, "--out", bench.folder / "novel")
    return bench.run("book", source, *given, "--max-seconds", 1, *flags)


def epub(path: Path, cover: bytes, version: str) -> Path:
    properties = 'properties="cover-image"' if version == "3.0" else ""
    items = {
        "c": document("c.xhtml"),
        "pic": f'href="cover.png" media-type="image/png" {properties}',
    }
    text = package(items, ["c"], version)
    if version == "2.0":
        text = text.replace("</metadata>", '<meta name="cover" content="pic"/></metadata>')
    members = {
        "OEBPS/book.opf": text,
        "OEBPS/c.xhtml": XHTML.format("<h1>One</h1><p>Hello there.</p>"),
        "OEBPS/cover.png": cover,
    }
    return write_epub(path, members)


@pytest.mark.parametrize("version", ["2.0", "3.0"])
def test_the_cover_of_an_epub_is_in_the_m4b(bench: Workbench, version: str) -> None:
    av = pytest.importorskip("av")
    source = epub(bench.folder / "novel.epub", png(), version)
    book(bench, source, "--join", "m4b", "--language", "auto").expect(0)
    novel = bench.folder / "novel"
    assert (novel / "cover.png").read_bytes() == png()
    assert png() in (novel / "book.m4b").read_bytes()
    with av.open(str(novel / "book.m4b")) as container:
        (picture,) = container.streams.video
        assert picture.disposition == av.stream.Disposition.attached_pic
        frame = next(container.decode(picture))
        assert (frame.width, frame.height) == (16, 16)
        assert container.streams.audio[0].metadata["language"] == "eng"
        assert [mark["metadata"]["title"] for mark in container.chapters()] == ["One"]
        assert container.metadata["title"] == "The Mill"
    assert (novel / "book.m4b").read_bytes()[4:12] == b"ftypM4B "


def test_another_cover_makes_another_m4b(bench: Workbench, story: Path) -> None:
    pytest.importorskip("av")
    (bench.folder / "a.png").write_bytes(png())
    (bench.folder / "b.png").write_bytes(png(red=9))
    novel = bench.folder / "novel"
    book(bench, story, "--join", "m4b", "--cover", bench.folder / "a.png").expect(0)
    first = (novel / "book.m4b").stat().st_mtime_ns
    book(bench, story).expect(0)
    assert (novel / "book.m4b").stat().st_mtime_ns == first
    book(bench, story, "--cover", bench.folder / "b.png").expect(0)
    assert (novel / "cover.png").read_bytes() == png(red=9)
    assert png(red=9) in (novel / "book.m4b").read_bytes()


def test_a_picture_of_the_user_stays(bench: Workbench) -> None:
    novel = bench.folder / "novel"
    novel.mkdir()
    (novel / "cover.png").write_bytes(b"mine")
    book(bench, epub(bench.folder / "a.epub", png(), "3.0")).expect(0)
    assert (novel / "cover.png").read_bytes() == b"mine"


@pytest.mark.parametrize("data", [b"GIF89a", b"", b"\xff\xd8\xff and nothing more"])
def test_what_is_no_cover(bench: Workbench, story: Path, data: bytes) -> None:
    pytest.importorskip("av")
    (bench.folder / "a.png").write_bytes(data)
    found = book(bench, story, "--join", "m4b", "--cover", bench.folder / "a.png")
    if data.startswith(b"\xff"):
        assert found.code == 0
        assert "the cover cannot be read" in found.err
        assert (bench.folder / "novel" / "book.m4b").is_file()
    else:
        assert found.code == 2
        assert "is not a JPEG or PNG" in found.err


def test_chapters_are_made_one_after_the_other(bench: Workbench, story: Path) -> None:
    novel = bench.folder / "novel"
    book(bench, story, "--chapters", "2").expect(0)
    assert sorted(path.name for path in novel.glob("*.wav")) == ["02-two.wav"]
    assert len(list(novel.glob("sentences/*.wav"))) == 3
    second = (novel / "02-two.wav").stat().st_mtime_ns
    book(bench, story, "--chapters", "1,3-3").expect(0)
    names = ["01-one.wav", "02-two.wav", "03-three.wav"]
    assert sorted(path.name for path in novel.glob("*.wav")) == names
    assert (novel / "02-two.wav").stat().st_mtime_ns == second
    assert "nothing to do" in book(bench, story).out


def test_the_voice_of_one_chapter_became_that_of_the_book(bench: Workbench, story: Path) -> None:
    """Sentences that were added later to other chapters got it."""
    book(bench, story).expect(0)
    book(bench, story, "--chapters", 2, "--voice", "emil", "--redo").expect(0)
    told = bench.run("again", bench.folder / "novel", "--print").expect(0).out
    assert "--voice" not in told
    assert "nothing to do" in book(bench, story).out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--chapters", "7-9"), "the book has 3"),
        (("--chapters", "two"), "numbers and ranges"),
        (("--chapters", "1", "--only", "sentences/x"), "selects rows too"),
    ],
)
def test_chapters_that_cannot_be(
    bench: Workbench, story: Path, flags: tuple[object, ...], words: str
) -> None:
    book(bench, story, *flags).expect(2, words)
    assert not (bench.folder / "novel").exists()


def test_the_list_needs_no_folder_and_writes_nothing(bench: Workbench, story: Path) -> None:
    before = sorted(bench.folder.rglob("*"))
    listed = bench.run("book", story, "--list", "--json").expect(0)
    chapters = listed.json["chapters"]
    assert [one["title"] for one in chapters] == ["One", "Two", "Three"]
    assert chapters[1]["characters"] == len("Two") + len("Good morning.") + len("And you.")
    assert chapters[1]["seconds"] > chapters[2]["seconds"] > 1.2, "with the pause of the heading"
    shown = bench.run("book", story, "--list")
    assert "3 chapters, about" in shown.out
    assert sorted(bench.folder.rglob("*")) == before
    bench.run("book", story).expect(2, "'--out'")
