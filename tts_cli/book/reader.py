"""A book from a file, or from a folder with a file a chapter or more."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from tts_cli.book import plain
from tts_cli.book.block import assemble
from tts_cli.book.chapter import Book
from tts_cli.book.epub import read_epub
from tts_cli.book.folder import MARKDOWN, PLAIN, texts_of
from tts_cli.book.frame import frame_warning, without_frame
from tts_cli.book.markdown import MarkdownReader
from tts_cli.errors import ManifestError
from tts_cli.manifest.encoding import Encoding, find_encoding, tell_encoding
from tts_cli.text.unseen import as_seen

MAX_TEXT_BYTES = 16 << 20  # of one file; the Bible has 4 MB

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")


def read_book(path: Path, encoding: str | None = None) -> Book:
    """The book at a path; its suffix tells the format.

    Args:
        encoding: of texts, as Python calls it; None: as their bytes show.
    Raises:
        ManifestError: it cannot be read, is damaged, or there is nothing to read.
        SetupError: what reads the format is not installed.
    """
    if path.is_dir():
        return _read_folder(path, encoding)
    if path.suffix.lower() == ".epub":
        return read_epub(path)
    if path.suffix.lower() not in MARKDOWN + PLAIN:
        raise ManifestError(
            f"{path}: the suffix {path.suffix!r} is of no book that is read here",
            remedy="give a .md, .epub or .txt file, or a folder of .md and .txt files",
        )
    return _read_text(path, path.name, encoding)


def _read_folder(folder: Path, encoding: str | None) -> Book:
    """The texts of a folder in order; a file's chapters are its headings, but where a summary names
    the files: there each is a chapter.
    """
    found = texts_of(folder)
    names = [os.path.relpath(one, folder) for one in found.files]
    books = [
        _read_text(one, name, encoding, is_chapter=found.is_summary)
        for one, name in zip(found.files, names, strict=True)
    ]
    empty = [name for name, book in zip(names, books, strict=True) if not book.chapters]
    if len(empty) == len(books):
        raise ManifestError(f"{folder}: there is nothing to read", remedy="is it the right folder?")
    languages = {book.language for book in books} - {None}
    return replace(
        books[0],
        chapters=tuple(chapter for book in books for chapter in book.chapters),
        title=folder.resolve().name,
        language=languages.pop() if len(languages) == 1 else None,
        warnings=(
            *found.warnings,
            *(f"{name}: there is nothing to read" for name in empty),
            *(warning for book in books for warning in book.warnings),
        ),
    )


def _read_text(path: Path, name: str, encoding: str | None, *, is_chapter: bool = False) -> Book:
    text, num_left_out = without_frame(_decoded(path, encoding))
    warnings = [frame_warning(name, num_left_out)] if num_left_out else []
    front: dict[str, str] = {}
    if path.suffix.lower() in MARKDOWN:
        reader = MarkdownReader(text, name)
        made = assemble(reader.blocks(), path.stem, is_chapter=is_chapter)
        warnings += reader.warnings()
        front = reader.front
    else:
        made = assemble(plain.blocks(text, name), path.stem, is_chapter=is_chapter)
    return Book(
        made.chapters,
        title=made.title or front.get("title"),
        author=front.get("author"),
        language=front.get("lang") or front.get("language"),
        warnings=(*warnings, *made.warnings),
    )


def _decoded(path: Path, encoding: str | None) -> str:
    """A text file's characters as they are seen, line ends as newlines."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_TEXT_BYTES + 1)
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror or error}", "check the path") from error
    if len(data) > MAX_TEXT_BYTES:
        raise ManifestError(f"{path}: is larger than {MAX_TEXT_BYTES >> 20} MiB", "split it")
    found = tell_encoding(Encoding(encoding) if encoding else find_encoding([data]), str(path))
    try:
        text = data.decode(found.name).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ManifestError(
            f"{path}: byte {error.start + 1} is not {found.name.upper()}",
            "save it as UTF-8, or name its encoding by --encoding",
        ) from error
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if control := _CONTROL.search(text):
        line = text.count("\n", 0, control.start()) + 1
        raise ManifestError(
            f"{path}:{line}: holds the control character U+{ord(control.group()):04X}",
            remedy="remove it; is it a text?",
        )
    return as_seen(text)
