"""`book.json`: what became of a book, with every row's place in the text and in the audio."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path
from typing import Any

from tts_cli.book.chapter import Book
from tts_cli.book.chapter_audio import JoinedChapter
from tts_cli.book.script import Sentence
from tts_cli.output.atomic import write_atomic

NAME = "book.json"
MANIFEST = "book.jsonl"
SCHEMA = 1
MAX_STEM_BYTES = 80

_NO_LETTER = re.compile(r"[^\w]+|_+")


def stem_of(number: int, num_chapters: int, title: str) -> str:
    """The name of chapter `number` (from 1) of so many, without a suffix: `01-the-mill`."""
    digits = max(2, len(str(num_chapters)))
    plain = unicodedata.normalize("NFKC", title).casefold()
    words = _NO_LETTER.sub("-", plain).strip("-")
    words = words.encode()[:MAX_STEM_BYTES].decode(errors="ignore").strip("-")
    return f"{number:0{digits}d}-{words}" if words else f"{number:0{digits}d}"


def write_book_file(
    out: Path,
    book: Book,
    script: list[Sentence],
    paths: list[str],
    joined: dict[int, JoinedChapter],
    missing: set[str],
) -> None:
    """Write `book.json`. Times are seconds in the chapter's file.

    Args:
        paths: of every chapter's audio, relative to `out`.
        joined: chapters that were written, by number from 0.
        missing: ids of rows that have no audio of this book.
    """
    chapters = [
        {
            "title": chapter.title,
            "path": paths[number] if number in joined else None,
            "seconds": round(joined[number].seconds, 6) if number in joined else None,
            "sentences": _sentences(number, script, joined.get(number), missing),
        }
        for number, chapter in enumerate(book.chapters)
    ]
    values = {
        "schema": SCHEMA,
        "title": book.title,
        "author": book.author,
        "language": book.language,
        "chapters": chapters,
    }
    text = json.dumps(values, ensure_ascii=False, indent=1, allow_nan=False)
    write_atomic(out / NAME, f"{text}\n".encode())


def _sentences(
    number: int, script: list[Sentence], joined: JoinedChapter | None, missing: set[str]
) -> list[dict[str, Any]]:
    rows = [sentence for sentence in script if sentence.chapter == number]
    spans = joined.spans if joined else (None,) * len(rows)
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
        }
        for row, span in zip(rows, spans, strict=True)
    ]
