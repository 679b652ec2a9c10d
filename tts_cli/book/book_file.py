"""`book.json`: the files of a book, and the position of every row in the text and in the audio.

The next run reads it. A file with the same key, which would be made of the same rows, is not made
again, even if a user edited it. Files that no longer belong to the book are removed. A file that a
user edited is renamed before it is replaced or removed: `01-the-mill.edited.wav`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tts_cli.atomic import link_atomic, write_atomic
from tts_cli.audio.file import is_whole_audio
from tts_cli.audio.labels import CUE
from tts_cli.audio.labels import SUFFIXES as LABEL_SUFFIXES
from tts_cli.audio.subtitles import TimedText
from tts_cli.book.chapter_audio import JoinedChapter, SpeechSpan
from tts_cli.book.utterances import Utterance
from tts_cli.checks.word_times import FORMS
from tts_cli.config import SUBTITLES, SUBTYPES
from tts_cli.sources.chapters import Book, Chapter
from tts_cli.store.files import size_and_sha256
from tts_cli.store.orphans import BOOK_NAME, read_book

log = logging.getLogger(__name__)

SCHEMA = 1
_SUFFIXES = (
    *(f".{form}" for form in (*SUBTYPES, *SUBTITLES, "m4b")),
    *(*FORMS, *(f".{suffix}" for suffix in LABEL_SUFFIXES.values()), f".{CUE}", ".jpg", ".png"),
)  # of the files of books


@dataclass(frozen=True)
class MadeFile:
    path: str  # name of the file in the output folder; null: there is none
    key: str  # [hex] hash of everything that the file was made from
    bytes: int  # size of the file
    sha256: str | None = None  # SHA-256 of the file; null: not recorded (since 0.4)


@dataclass
class MadeBook:
    chapters: dict[int, tuple[MadeFile, JoinedChapter]] = field(default_factory=dict)  # from 0
    others: list[MadeFile] = field(default_factory=list)  # one file of all, subtitles
    unwritten: list[str] = field(default_factory=list, compare=False)  # titles without a file

    @property
    def files(self) -> list[MadeFile]:
        return [file for file, _ in self.chapters.values()] + self.others


def write_book_file(
    out: Path,
    book: Book,
    script: list[Utterance],
    made: MadeBook,
    missing: set[str],
    parts: Mapping[str, list[TimedText]] | None = None,
) -> None:
    """Write `book.json`. Times are seconds in the chapter's file.

    Args:
        missing: ids of rows without audio for this book.
        parts: of rows that were split, by id, with times in the file of the chapter.
    """
    rows: list[list[Utterance]] = [[] for _ in book.chapters]
    for sentence in script:
        rows[sentence.chapter].append(sentence)
    values = {
        "schema": SCHEMA,  # [1] version of the file's format
        "title": book.title,  # [text] title of the book; null: not known
        "author": book.author,  # [text] author of the book; null: not known
        "language": book.language,  # [text] language of the book; null: not known
        # [list of objects] the chapters in order, see below
        "chapters": [
            _chapter(chapter, rows[number], made.chapters.get(number), missing, parts or {})
            for number, chapter in enumerate(book.chapters)
        ],
        # [list of objects] other files, such as one file of all chapters: `path`, `key`, `bytes`,
        # `sha256`
        "files": [vars(file) for file in made.others],
    }
    text = json.dumps(values, ensure_ascii=False, indent=1, allow_nan=False)
    write_atomic(out / BOOK_NAME, f"{text}\n".encode())


def read_made(out: Path) -> MadeBook:
    """Return the files of an earlier run from its `book.json`; none if it is invalid or a path is
    not a plain file name, so that no file outside the folder is ever changed.
    """
    try:
        values = read_book(out)
        made = MadeBook(others=[_made_file(entry) for entry in values["files"]])
        for number, chapter in enumerate(values["chapters"]):
            if chapter["path"] is not None:
                made.chapters[number] = _made_file(chapter), _joined(chapter)
            elif chapter["sentences"]:
                made.unwritten.append(str(chapter["title"]))
    except FileNotFoundError:
        return MadeBook()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        log.warning("%s is not valid: %s", out / BOOK_NAME, error)
        return MadeBook()
    return made


def _chapter(
    chapter: Chapter,
    rows: list[Utterance],
    made: tuple[MadeFile, JoinedChapter] | None,
    missing: set[str],
    parts: Mapping[str, list[TimedText]],
) -> dict[str, Any]:
    return {
        "title": chapter.title,  # [text] title of the chapter
        **_audio_fields(made),
        # [list of text] the paragraphs of the chapter
        "paragraphs": [paragraph.text for paragraph in chapter.paragraphs],
        # [list of objects] the rows of the chapter, see below
        "sentences": _sentences(rows, made, missing, parts),
    }


def _audio_fields(made: tuple[MadeFile, JoinedChapter] | None) -> dict[str, Any]:
    if made is None:
        return {"path": None}
    file, joined = made
    return vars(file) | {
        "seconds": round(joined.seconds, 6),  # [s] length of the audio
        "sample_rate_hz": joined.rate_hz,  # sample rate of the audio
        "samples": joined.num_samples,  # [number] number of samples of the audio
        # [object] as in `timings.jsonl`, with `gains_db` by voice, and `misses` if a loudness was
        # requested
        "applied": joined.applied,
    }


def _sentences(
    rows: list[Utterance],
    made: tuple[MadeFile, JoinedChapter] | None,
    missing: set[str],
    parts: Mapping[str, list[TimedText]],
) -> list[dict[str, Any]]:
    spans = made[1].spans if made else (None,) * len(rows)
    return [
        {
            "id": row.id,  # [text] id of the row, as in `book.jsonl`
            "text": row.text,  # [text] text of the row
            "voice": row.voice,  # [text] voice of the row; null: the default voice
            "paragraph": row.paragraph,  # [number] index in `paragraphs`, from 0
            # [characters] position in that paragraph: of the first character, and after the last
            # one
            "span": [row.start, row.end],
            "place": row.place,  # [text] position in the source file
            # [true, false] whether the row has audio for this book
            "is_spoken": row.id not in missing,
            # start of the row in the chapter's file; null: there is no such file
            "start_s": round(span.start_s, 6) if span else None,
            "end_s": round(span.end_s, 6) if span else None,  # end of the row in the chapter's file
            # position of the first sample of the row's own file, even if it was trimmed
            "file_start_s": round(span.file_start_s, 6) if span else None,
            # [list of objects] pieces of a long row that was split: `text`, `start_s` and `end_s`
            # of each
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
        raise TypeError(f"{str(path)[:60]!r} is not a file")
    is_name = Path(path).name == path and not path.startswith(".") and not {*"\\\0"} & {*path}
    if not is_name or not path.endswith(_SUFFIXES):
        raise ValueError(f"{path[:60]!r} is not a valid file name")
    return MadeFile(path, key, size, digest)


def _joined(chapter: dict[str, Any]) -> JoinedChapter:
    spans = tuple(
        SpeechSpan(
            float(entry["start_s"]),
            float(entry["end_s"]),
            float(
                entry.get("file_start_s", entry["start_s"])
            ),  # missing in books of early versions
        )
        for entry in chapter["sentences"]
    )
    applied = chapter.get("applied")
    if not isinstance(applied, (dict, type(None))):
        raise TypeError("the field `applied` of a chapter is not an object")
    return JoinedChapter(int(chapter["sample_rate_hz"]), int(chapter["samples"]), spans, applied)


class OwnFiles:
    """The files of a book in a locked folder. In `before`, files of a killed run have no key."""

    def __init__(self, out: Path, before: Collection[MadeFile]) -> None:
        self._out = out
        self._before = before

    def made(self, name: str, key: str) -> MadeFile:
        facts = size_and_sha256(self._out / name)
        assert facts is not None, name
        return MadeFile(name, key, *facts)

    def kept(self, name: str, key: str) -> MadeFile | None:
        """Return an earlier run's file if it has this key and is complete, else None."""
        made = next((one for one in self._before if (one.path, one.key) == (name, key)), None)
        path = self._out / name
        try:
            if made is None or not path.is_file():
                return None
            if path.stat().st_size == made.bytes:
                return made
            if path.suffix.removeprefix(".") in SUBTYPES and not is_whole_audio(path):
                return None
        except OSError:
            return None
        log.info(
            "%s was edited since it was written, and stays as it is; delete it to have it written "
            "again",
            name,
        )
        return made

    @contextmanager
    def replacing(self, name: str) -> Iterator[None]:
        """Replace a file inside this block. If the block raises, nothing has changed."""
        second = self._spare(name)
        try:
            yield
        finally:
            if second is not None and size_and_sha256(second) == size_and_sha256(self._out / name):
                second.unlink()  # the block raised, or an earlier run was killed
            elif second is not None:
                self._tell(name, second)

    def remove(self, names: Collection[str]) -> None:
        for name in {file.path for file in self._before} - set(names):
            try:
                second = self._spare(name)
                (self._out / name).unlink(missing_ok=True)
            except OSError as error:
                log.warning("%s cannot be removed: %s", self._out / name, error.strerror)
            else:
                if second is not None:
                    self._tell(name, second)

    def _spare(self, name: str) -> Path | None:
        """Link a file that a user edited to a second name, and return that name."""
        path = self._out / name
        ours = [file for file in self._before if file.path == name and file.key]
        found = size_and_sha256(path)
        if not ours or found is None or any(_is_of(file, found) for file in ours):
            return None
        for number in count(1):
            mark = ".edited" if number == 1 else f".edited-{number}"
            second = path.with_name(f"{path.stem}{mark}{path.suffix}")
            facts = size_and_sha256(second)
            if facts == found:
                return second
            if facts is None and not second.exists():
                link_atomic(path, second)
                return second
        return None

    def _tell(self, name: str, second: Path) -> None:
        log.warning("%s was edited since it was written; your version is now %s", name, second)


def _is_of(file: MadeFile, found: tuple[int, str]) -> bool:
    return file.bytes == found[0] and file.sha256 in (None, found[1])
