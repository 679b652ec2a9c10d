"""`book.json`: what became of a book, with every row's place in the text and in the audio.

It is also what the next run knows of the files that this one made: chapters made of the same rows
are not made again, and files that are none of the book's any more are removed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tts_cli.audio.subtitles import SpokenText
from tts_cli.book.chapter import Book
from tts_cli.book.chapter_audio import HeardSpan, JoinedChapter
from tts_cli.book.script import Sentence
from tts_cli.config import SUBTITLES, SUBTYPES
from tts_cli.folder.atomic import write_atomic
from tts_cli.folder.mend import BOOK_NAME, read_book

log = logging.getLogger(__name__)

SCHEMA = 1
_SUFFIXES = tuple(f".{form}" for form in (*SUBTYPES, *SUBTITLES, "m4b"))  # of what books make


@dataclass(frozen=True)
class MadeFile:
    """A file that was made of rows or chapters."""

    path: str  # a name in the output folder
    key: str  # stands for all it was made of
    bytes: int
    sha256: str | None = None  # None: written down by nobody


@dataclass
class MadeBook:
    """The files of a book."""

    chapters: dict[int, tuple[MadeFile, JoinedChapter]] = field(default_factory=dict)  # from 0
    others: list[MadeFile] = field(default_factory=list)  # one file of all, subtitles

    @property
    def files(self) -> list[MadeFile]:
        """All of them."""
        return [file for file, _ in self.chapters.values()] + self.others


def write_book_file(
    out: Path,
    book: Book,
    script: list[Sentence],
    made: MadeBook,
    missing: set[str],
    parts: Mapping[str, list[SpokenText]] | None = None,
) -> None:
    """Write `book.json`. Times are seconds in the chapter's file.

    Args:
        missing: ids of rows that have no audio of this book.
        parts: of the rows that were spoken in parts, by id, on their chapters' clocks.
    """
    rows: list[list[Sentence]] = [[] for _ in book.chapters]
    for sentence in script:
        rows[sentence.chapter].append(sentence)
    values = {
        "schema": SCHEMA,
        "title": book.title,
        "author": book.author,
        "language": book.language,
        "chapters": [
            {
                "title": chapter.title,
                **_audio_fields(made.chapters.get(number)),
                "paragraphs": [paragraph.text for paragraph in chapter.paragraphs],
                "sentences": _sentences(
                    rows[number], made.chapters.get(number), missing, parts or {}
                ),
            }
            for number, chapter in enumerate(book.chapters)
        ],
        "files": [vars(file) for file in made.others],
    }
    text = json.dumps(values, ensure_ascii=False, indent=1, allow_nan=False)
    write_atomic(out / BOOK_NAME, f"{text}\n".encode())


def read_made(out: Path) -> MadeBook:
    """The files that an earlier run made, as its `book.json` tells; none where it makes no sense.

    Only plain names are believed, so that nothing outside of the folder is ever touched.
    """
    try:
        values = read_book(out)
        made = MadeBook(others=[_made_file(entry) for entry in values["files"]])
        for number, chapter in enumerate(values["chapters"]):
            if chapter["path"] is not None:
                made.chapters[number] = _made_file(chapter), _joined(chapter)
    except FileNotFoundError:
        return MadeBook()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        log.warning("%s makes no sense: %s", out / BOOK_NAME, error)
        return MadeBook()
    return made


def _audio_fields(made: tuple[MadeFile, JoinedChapter] | None) -> dict[str, Any]:
    if made is None:
        return {"path": None}
    file, joined = made
    return vars(file) | {
        "seconds": round(joined.seconds, 6),
        "sample_rate_hz": joined.rate_hz,
        "samples": joined.num_samples,
        "applied": joined.applied,
    }


def _sentences(
    rows: list[Sentence],
    made: tuple[MadeFile, JoinedChapter] | None,
    missing: set[str],
    parts: Mapping[str, list[SpokenText]],
) -> list[dict[str, Any]]:
    spans = made[1].spans if made else (None,) * len(rows)
    return [
        {
            "id": row.id,
            "text": row.text,
            "voice": row.voice,
            "paragraph": row.paragraph,
            "span": [row.start, row.end],  # characters of the paragraph's text
            "place": row.place,
            "is_spoken": row.id not in missing,
            "start_s": round(span.start_s, 6) if span else None,
            "end_s": round(span.end_s, 6) if span else None,
            "file_start_s": round(span.file_start_s, 6) if span else None,
            "parts": [
                {
                    "text": part.text,
                    "start_s": round(part.start_s, 6),
                    "end_s": round(part.end_s, 6),
                }
                for part in (parts.get(row.id, []) if span else [])
            ],
        }
        for row, span in zip(rows, spans, strict=True)
    ]


def _made_file(entry: dict[str, Any]) -> MadeFile:
    path, key, size, digest = entry["path"], entry["key"], entry["bytes"], entry.get("sha256")
    is_of_kind = isinstance(path, str) and isinstance(key, str) and isinstance(size, int)
    if not is_of_kind or not isinstance(digest, (str, type(None))):
        raise TypeError(f"{str(path)[:60]!r} is no file")
    is_name = Path(path).name == path and not path.startswith(".") and not {*"\\\0"} & {*path}
    if not is_name or not path.endswith(_SUFFIXES):
        raise ValueError(f"{path[:60]!r} is no name of a file here")
    return MadeFile(path, key, size, digest)


def _joined(chapter: dict[str, Any]) -> JoinedChapter:
    spans = tuple(
        HeardSpan(
            float(entry["start_s"]),
            float(entry["end_s"]),
            float(entry.get("file_start_s", entry["start_s"])),  # books before there were parts
        )
        for entry in chapter["sentences"]
    )
    applied = chapter.get("applied")
    if not isinstance(applied, (dict, type(None))):
        raise TypeError("a chapter's `applied` is no object")
    return JoinedChapter(int(chapter["sample_rate_hz"]), int(chapter["samples"]), spans, applied)
