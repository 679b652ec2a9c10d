"""Split a book into rows of one sentence; short sentences of a paragraph are joined.

An id depends on text, voice, and the number of earlier rows with both, but not on the position, so
only changed rows are synthesized again. For the same reason rows are not filled up to a length: a
short sentence is joined to the one before it, or to the next one if the row would be too long. A
changed word then does not move the limits of all later rows of the paragraph.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tts_cli.audio.join import Pauses
from tts_cli.errors import ManifestError
from tts_cli.sources.chapters import Book, Paragraph, require_pauses
from tts_cli.sources.ids import content_id
from tts_cli.text.pauses import segments
from tts_cli.text.split import sentences, split

MANIFEST_NAME = "book.jsonl"
FOLDER = "sentences"  # of the rows' audio, in the book's own
SHORT_CHARS = 30  # letters and digits; shorter sentences sound better together with others
JOINED_BYTES = 240  # of a row with joined sentences; every checkpoint supports it
LONGEST_BYTES = 4_000  # of a row; `synth` splits rows further, as the checkpoint needs


@dataclass(frozen=True)
class BookPauses(Pauses):
    """Seconds of silence after a row."""

    heading: float = 1.2
    scene: float = 1.5


@dataclass(frozen=True)
class Utterance:
    """One row: a sentence, several short ones, or a piece of a very long one."""

    id: str
    text: str
    voice: str | None
    chapter: int  # from 0
    paragraph: int  # from 0 in its chapter
    start: int  # index in the text of the paragraph; `end` is after the last character
    end: int
    place: str  # in the source
    pause_after_s: float

    def to_row(self, language: str | None = None) -> dict[str, Any]:
        row = {"id": self.id, "text": self.text, "voice": self.voice, "language": language}
        return {name: value for name, value in row.items() if value is not None}


class _Piece(NamedTuple):
    start: int
    end: int
    pause_after_s: float | None  # None: the paragraph ends


def segment_book(book: Book, pauses: BookPauses) -> list[Utterance]:
    """Return the rows of a book. Raises ManifestError if a pause is too long or words are
    missing.
    """
    seen: Counter[tuple[str, str | None]] = Counter()
    script: list[Utterance] = []
    for number, chapter in enumerate(book.chapters):
        rows: list[Utterance] = []
        for index, paragraph in enumerate(chapter.paragraphs):
            lead_s, pieces = _pieces(paragraph, pauses)
            if rows and lead_s is not None:
                rows[-1] = replace(rows[-1], pause_after_s=lead_s)
            for piece in pieces:
                text, voice = paragraph.text[piece.start : piece.end], paragraph.voice
                seen[text, voice] += 1
                rows.append(
                    Utterance(
                        id=f"{FOLDER}/{content_id(text, voice, seen[text, voice])}",
                        text=text,
                        voice=voice,
                        chapter=number,
                        paragraph=index,
                        start=piece.start,
                        end=piece.end,
                        place=paragraph.place,
                        pause_after_s=_pause_after(piece, paragraph, pauses),
                    )
                )
        script += rows
    if not script:
        raise ManifestError(
            "the book contains no words", remedy="check that this is the right file"
        )
    return script


def to_manifest(script: list[Utterance], language: str | None = None) -> bytes:
    lines = (json.dumps(sentence.to_row(language), ensure_ascii=False) for sentence in script)
    return "".join(f"{line}\n" for line in lines).encode()


def _pause_after(piece: _Piece, paragraph: Paragraph, pauses: BookPauses) -> float:
    if piece.pause_after_s is not None:
        return piece.pause_after_s
    usual_s = pauses.heading if paragraph.is_heading else pauses.paragraph
    return max(usual_s, pauses.scene) if paragraph.is_scene_end else usual_s


def _pieces(paragraph: Paragraph, pauses: BookPauses) -> tuple[float | None, list[_Piece]]:
    """Return the pause before a paragraph's first word, and the spans of its rows."""
    lead_s: float | None = None
    pieces: list[_Piece] = []
    require_pauses(paragraph.text, paragraph.place)
    for stretch in segments(paragraph.text):
        if any(map(str.isalnum, paragraph.text[stretch.start : stretch.end])):
            pieces += _rows_of(paragraph.text, stretch.start, stretch.end, pauses)
        if stretch.pause_after_s is None:
            continue
        if pieces:
            pieces[-1] = pieces[-1]._replace(pause_after_s=stretch.pause_after_s)
        else:
            lead_s = stretch.pause_after_s
    return lead_s, pieces


def _rows_of(text: str, start: int, end: int, pauses: BookPauses) -> Iterator[_Piece]:
    found = sentences(text[start:end])
    spans = _joined(text, [(start + part.start, start + part.end) for part in found])
    for number, (first, last) in enumerate(spans):
        is_last = number == len(spans) - 1
        behind = None if is_last else pauses.sentence
        if len(text[first:last].encode()) <= LONGEST_BYTES:
            yield _Piece(first, last, behind)
            continue
        for part in split(text[first:last], LONGEST_BYTES):
            cut = part.boundary
            pause_s = behind if cut is None else pauses.seconds(cut)
            yield _Piece(first + part.start, first + part.end, pause_s)


def _joined(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    rows: list[tuple[int, int]] = []
    for first, last in spans:
        is_short = _is_short(text[first:last])
        before = rows[-1] if rows else None
        if before is not None and (is_short or _is_short(text[slice(*before)])):
            is_silent = not any(map(str.isalnum, text[first:last]))
            if is_silent or len(text[before[0] : last].encode()) <= JOINED_BYTES:
                rows[-1] = (before[0], last)
                continue
        rows.append((first, last))
    return rows


def _is_short(text: str) -> bool:
    """Return whether a sentence has few letters; wide characters count more."""
    return sum(len(char.encode()) for char in text if char.isalnum()) < SHORT_CHARS
