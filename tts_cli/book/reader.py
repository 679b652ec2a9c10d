"""A book from a file, or from a folder with a file a chapter or more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tts_cli.book import plain
from tts_cli.book.block import Block, assemble
from tts_cli.book.chapter import Book
from tts_cli.book.epub import read_epub
from tts_cli.book.markdown import MarkdownReader
from tts_cli.errors import ManifestError
from tts_cli.text.unseen import as_seen

MAX_TEXT_BYTES = 16 << 20  # of one file; the Bible has 4 MB
MAX_FILES = 2_000
MARKDOWN = (".md", ".markdown")
PLAIN = (".txt", ".text")

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_DIGITS = re.compile(r"([0-9]+)")


def read_book(path: Path) -> Book:
    """The book at a path; its suffix tells the format.

    Raises:
        ManifestError: it cannot be read, is damaged, or there is nothing to read.
        SetupError: what reads the format is not installed.
    """
    if path.is_dir():
        return _read_folder(path)
    if path.suffix.lower() == ".epub":
        return read_epub(path)
    if path.suffix.lower() not in MARKDOWN + PLAIN:
        raise ManifestError(
            f"{path}: the suffix {path.suffix!r} is of no book that is read here",
            remedy="give a .md, .epub or .txt file, or a folder of .md and .txt files",
        )
    return _read_text(path)


def _read_folder(folder: Path) -> Book:
    """Files by their names, numbers in them by value; a file's chapters are its headings."""
    files = [one for one in folder.iterdir() if one.suffix.lower() in MARKDOWN + PLAIN]
    files = sorted((one for one in files if not one.name.startswith(".")), key=_natural)
    if not files:
        raise ManifestError(f"{folder}: has no .md or .txt file", remedy="give an EPUB by its name")
    if len(files) > MAX_FILES:
        raise ManifestError(f"{folder}: has {len(files)} texts, at most {MAX_FILES}")
    books = [_read_text(one) for one in files]
    languages = {book.language for book in books} - {None}
    return replace(
        books[0],
        chapters=tuple(chapter for book in books for chapter in book.chapters),
        title=folder.resolve().name,
        language=languages.pop() if len(languages) == 1 else None,
        warnings=tuple(warning for book in books for warning in book.warnings),
    )


def _natural(path: Path) -> list[tuple[int, str]]:
    parts = _DIGITS.split(path.stem.casefold())
    return [(int(part[:18]), "") if part.isdecimal() else (-1, part) for part in parts]


def _read_text(path: Path) -> Book:
    text = _decoded(path)
    warnings: list[str] = []
    front: dict[str, str] = {}
    if path.suffix.lower() in MARKDOWN:
        reader = MarkdownReader(text, path.name)
        blocks: Iterator[Block] = reader.blocks()
        made = assemble(blocks, path.stem)
        warnings += reader.warnings()
        front = reader.front
    else:
        made = assemble(plain.blocks(text, path.name), path.stem)
    return Book(
        made.chapters,
        title=made.title or front.get("title"),
        author=front.get("author"),
        language=front.get("lang") or front.get("language"),
        warnings=(*warnings, *made.warnings),
    )


def _decoded(path: Path) -> str:
    """A text file's characters as they are seen, line ends as newlines."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_TEXT_BYTES + 1)
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror or error}", "check the path") from error
    if len(data) > MAX_TEXT_BYTES:
        raise ManifestError(f"{path}: is larger than {MAX_TEXT_BYTES >> 20} MiB", "split it")
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path}: byte {error.start + 1} is not UTF-8", "save it so") from error
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if found := _CONTROL.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise ManifestError(
            f"{path}:{line}: holds the control character U+{ord(found.group()):04X}",
            remedy="remove it; is it a text?",
        )
    return as_seen(text)
