"""Make the files of a book from the audio of its rows: chapters, subtitles, one M4B file.

Every file is complete. If a row is missing, its chapter has no file, not even that of an earlier
run, and no M4B file is made. Files that would be made of the same rows as before do not change, and
versions that a user edited are preserved (`book_file`). Files of kinds that only an earlier run
requested do not change either, and are reported.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import soundfile

from tts_cli import signals
from tts_cli.atomic import write_atomic
from tts_cli.audio.encode import Encoder
from tts_cli.audio.file import FORMATS
from tts_cli.audio.labels import CUE, MAX_TRACKS, cue_sheet, labels
from tts_cli.audio.labels import SUFFIXES as LABEL_SUFFIXES
from tts_cli.audio.pacing import Pause, pauses_in
from tts_cli.audio.subtitles import TimedText, split_at_parts, subtitles
from tts_cli.audio.tags import Tags
from tts_cli.book.book_file import MadeBook, MadeFile, OwnFiles, read_made, write_book_file
from tts_cli.book.chapter_audio import JoinedChapter, RowAudio, SpeechSpan, write_chapter
from tts_cli.book.m4b import M4bChapter, write_m4b
from tts_cli.book.utterances import FOLDER, MANIFEST_NAME, Utterance
from tts_cli.checks.word_times import FORMS, joined_words, read_words
from tts_cli.errors import RowError, UsageError
from tts_cli.named import counted, first_few
from tts_cli.plain import open_plain
from tts_cli.sources.chapters import Book, picture_suffix
from tts_cli.store.orphans import BOOK_NAME
from tts_cli.store.store import Store
from tts_cli.text.languages import long_code_of

log = logging.getLogger(__name__)

M4B_NAME = "book.m4b"
CUE_NAME = "book.cue"
MAX_STEM_BYTES = 80
MAX_VOICES = 5  # that a file's metadata names
_VERSION = 2  # of how files are made; a new one makes all of them again

_STARTS = {BOOK_NAME: b'{\n "schema": ', MANIFEST_NAME: f'{{"id": "{FOLDER}/'.encode()}

_NO_LETTER = re.compile(r"[^\w]+|_+")


@dataclass(frozen=True)
class BookOrder:
    encoder: Encoder  # of chapters; the files of rows are not processed
    row_format: str
    subtitles: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    has_words: bool = False  # times of words, where rows have them
    is_m4b: bool = False
    comment: str = ""  # in the metadata of all files
    voice: str = ""  # of rows without one
    m4b_kbps: int | None = None  # bit rate of the m4b; None: enough for speech
    cover: bytes | None = None  # JPEG or PNG
    unselected: frozenset[int] = frozenset()  # chapters, from 0, that may lack rows


@dataclass
class Produced:
    made: MadeBook = field(default_factory=MadeBook)
    seconds: float = 0.0  # of the chapters
    incomplete: list[str] = field(default_factory=list)  # chapters without a file, with reasons
    failing: list[str] = field(default_factory=list)  # chapters that miss a limit of the preset
    kept: list[str] = field(default_factory=list)  # files of kinds that were not requested


def stem_of(number: int, num_chapters: int, title: str) -> str:
    """Return a chapter's file name without suffix, for numbers from 1: `01-the-mill`."""
    digits = max(2, len(str(num_chapters)))
    words = _NO_LETTER.sub("-", unicodedata.normalize("NFKC", title).lower())
    words = words.encode()[:MAX_STEM_BYTES].decode(errors="ignore").strip("-")
    return f"{number:0{digits}d}-{words}".rstrip("-")


def target_names(book: Book, script: list[Utterance], wanted: BookOrder) -> list[str]:
    numbers = sorted({row.chapter for row in script})
    suffixes = _suffixes(wanted)
    names = [_name_of(book, number, suffix) for number in numbers for suffix in suffixes]
    names += [M4B_NAME] * wanted.is_m4b
    return names + [CUE_NAME] * (CUE in wanted.labels)


def _suffixes(wanted: BookOrder) -> list[str]:
    forms = [form.removeprefix(".") for form in FORMS if wanted.has_words]
    labels = [LABEL_SUFFIXES[form] for form in wanted.labels if form != CUE]
    return [wanted.encoder.format, *wanted.subtitles, *labels, *forms]


def require_own_files(out: Path, names: list[str]) -> None:
    """Raise UsageError if one of the names, `book.json` or `book.jsonl` is a user's own file."""
    own = {file.path for file in read_made(out).files}
    foreign = [name for name, start in _STARTS.items() if not _may_be_made(out / name, start)]
    foreign += [name for name in names if name not in own and (out / name).exists()]
    if foreign:
        raise UsageError(
            f"{first_few(foreign)}: in the folder, but not written by an earlier run",
            remedy="move them, choose another --out, or add --redo all to replace them",
        )


def _may_be_made(path: Path, start: bytes) -> bool:
    """Return whether a file is missing, or starts like one of an earlier run."""
    try:
        with open_plain(path) as file:
            return file.read(len(start)) == start
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _name_of(book: Book, number: int, suffix: str) -> str:
    stem = stem_of(number + 1, len(book.chapters), book.chapters[number].title)
    return f"{stem}.{suffix}"


def produce(
    folder: Store, book: Book, script: list[Utterance], missing: set[str], wanted: BookOrder
) -> Produced:
    """Make all files that can be made. Remove files of an earlier run that no longer belong to the
    book, such as chapters whose number changed.

    Args:
        folder: locked by the caller.
        missing: ids of rows without audio for this book.
    Raises:
        SetupError: PyAV is missing, or the journal cannot be read.
        DiskFull: the disk is full.
        Interrupted: a signal arrived.
    """
    return _Producer(folder, book, script, missing, wanted).run()


class _Producer:
    def __init__(
        self,
        folder: Store,
        book: Book,
        script: list[Utterance],
        missing: set[str],
        wanted: BookOrder,
    ) -> None:
        self._out, self._journal = folder.out, folder.journal
        self._book, self._script, self._wanted = book, script, wanted
        self._parts: dict[str, list[TimedText]] = {}  # of rows that were split
        self._missing = set(missing)
        self._rows: dict[int, list[Utterance]] = {}
        for row in script:
            self._rows.setdefault(row.chapter, []).append(row)
        self._before = read_made(folder.out)
        self._files = OwnFiles(folder.out, self._before.files)
        self._produced = Produced()

    def run(self) -> Produced:
        produced, made = self._produced, self._produced.made
        self._claim()
        for number in self._rows:
            signals.check()
            if (found := self._chapter(number)) is not None:
                made.chapters[number] = found
                produced.seconds += found[1].seconds
                self._time_parts(number)
                forms = [*self._wanted.subtitles, *(set(self._wanted.labels) - {CUE})]
                made.others += [self._timed_file(number, form) for form in sorted(forms)]
                if self._wanted.has_words:
                    made.others += self._words(number)
        made.others += self._cover()
        if self._wanted.is_m4b and len(made.chapters) == len(self._rows):
            made.others.append(self._m4b())
        if CUE in self._wanted.labels and len(made.chapters) == len(self._rows):
            made.others.append(self._cue())
        made.others += self._unasked()
        self._files.remove({file.path for file in made.files})
        write_book_file(self._out, self._book, self._script, made, self._missing, self._parts)
        return produced

    def _unasked(self) -> list[MadeFile]:
        kinds = {*_suffixes(self._wanted), *(["m4b"] if self._wanted.is_m4b else [])}
        kinds |= {CUE} if CUE in self._wanted.labels else set()
        kinds |= set() if self._wanted.cover is None else {"jpg", "png"}
        found = [
            file
            for file in self._before.files
            if file.path.partition(".")[2] not in kinds and (self._out / file.path).exists()
        ]
        self._produced.kept = sorted({file.path for file in found})
        return found

    def _claim(self) -> None:
        """Write the names of all future files to `book.json`, for the next run after a crash."""
        names = target_names(self._book, self._script, self._wanted)
        files = [*self._before.files, *(MadeFile(name, "", 0) for name in names)]
        claimed = MadeBook(others=files)
        write_book_file(self._out, self._book, self._script, claimed, self._missing)

    def _chapter(self, number: int) -> tuple[MadeFile, JoinedChapter] | None:
        """Make the file of a chapter; None if a row is missing."""
        wanted, encoder = self._wanted, self._wanted.encoder
        rows, name = self._rows[number], _name_of(self._book, number, encoder.format)
        lost = [row.id for row in rows if row.id in self._missing]
        if lost and number in wanted.unselected:
            return None
        if lost:
            missing = counted(len(lost), "row is", "rows are")
            self._produced.incomplete.append(f"{name}: {missing} missing: {first_few(lost)}")
            return None
        takes = [
            RowAudio(self._audio_of(row), row.pause_after_s, row.voice or wanted.voice)
            for row in rows
        ]
        try:
            treatment = encoder.treatment
            preset = treatment.preset and treatment.preset.name
            treated = [] if treatment.is_none else [str(treatment)]
            file_hz = preset and encoder.rate_hz
            marks = {"c2pa": encoder.signer, "watermark": encoder.watermark}
            more = (file_hz, encoder.kbps, preset, *(one for one in marks if marks[one]))
            treated += [str(more)] if any(more) else []
            subtype = "PCM_16" if FORMATS[encoder.format].is_lossy else encoder.subtype
            key = _key([encoder.format, subtype, *treated, *map(_facts, takes)])
            if (made := self._files.kept(name, key)) is not None:
                for old, joined in self._before.chapters.values():
                    if old == made:
                        self._note_misses(name, joined)
                        return made, joined
            log.info("joining %s", name)
            path, tags = self._out / name, self._tags(number, takes)
            with self._files.replacing(name):
                joined = write_chapter(path, takes, encoder, tags)
                self._sign(path)
        except (RowError, FileNotFoundError) as error:
            self._produced.incomplete.append(f"{name}: {error}")
            return None
        misses = (joined.applied or {}).get("misses", [])
        for miss in misses if encoder.treatment.preset is None else []:
            log.warning("%s: %s", name, miss)
        self._note_misses(name, joined)
        return self._files.made(name, key), joined

    def _sign(self, path: Path) -> None:
        if self._wanted.encoder.signer is not None:
            self._wanted.encoder.signer.sign_file(path, path.stem)

    def _note_misses(self, name: str, joined: JoinedChapter) -> None:
        if self._wanted.encoder.treatment.preset is not None:
            misses = (joined.applied or {}).get("misses", [])
            self._produced.failing += [f"{name}: {miss}" for miss in misses]

    def _audio_of(self, row: Utterance) -> Path:
        return self._out / f"{row.id}.{self._wanted.row_format}"

    def _tags(self, number: int, takes: list[RowAudio]) -> Tags:
        voices = list(dict.fromkeys(take.voice for take in takes if take.voice))
        named = first_few(voices, MAX_VOICES)
        title = self._book.chapters[number].title
        return Tags(title, named, self._book.title or "", self._wanted.comment)

    def _time_parts(self, number: int) -> None:
        _, joined = self._produced.made.chapters[number]
        for row, span in zip(self._rows[number], joined.spans, strict=True):
            take = self._journal.ok_take(row.id)
            if take is None or not take.parts:
                continue
            whole = TimedText(row.text, span.start_s, span.end_s)
            found = split_at_parts(whole, take.parts, take.text, span.file_start_s)
            if len(found) > 1:
                self._parts[row.id] = found

    def _timed_file(self, number: int, form: str) -> MadeFile:
        file, joined = self._produced.made.chapters[number]
        name = _name_of(self._book, number, LABEL_SUFFIXES.get(form, form))
        rows_format = self._wanted.row_format  # part of the key since rows are used for times
        apart = [] if rows_format == self._wanted.encoder.format else [rows_format]
        key = _key([file.key, form, *apart])

        def write(path: Path) -> None:
            texts: list[TimedText] = []
            for row, span in zip(self._rows[number], joined.spans, strict=True):
                pauses = _pauses(self._audio_of(row), span)
                whole = TimedText(row.text, span.start_s, span.end_s, pauses)
                parts = self._parts.get(row.id, [])
                texts += [replace(part, pauses=pauses) for part in parts] or [whole]
            text = labels(texts, form) if form in LABEL_SUFFIXES else subtitles(texts, form)
            write_atomic(path, text.encode())

        return self._written(name, key, write)

    def _words(self, number: int) -> list[MadeFile]:
        file, joined = self._produced.made.chapters[number]
        files = []
        for row, span in zip(self._rows[number], joined.spans, strict=True):
            take, times = self._journal.ok_take(row.id), read_words(self._out, row.id)
            said = None if take is None else (take.sha256, row.text)
            if times is not None and (times.sha256, times.text) != said:
                times = None  # of other audio
            files.append((row.text, span.file_start_s, times))
        stem = file.path.removesuffix(self._wanted.encoder.suffix)
        found = file.sha256 and joined_words(stem, file.sha256, joined.seconds, files)
        if not found:
            return []
        texts = {f"{stem}{form}": make(found) for form, make in FORMS.items()}
        return [
            self._written(name, _key([file.key, text]), partial(write_atomic, data=text.encode()))
            for name, text in texts.items()
        ]

    def _written(self, name: str, key: str, write: Callable[[Path], None]) -> MadeFile:
        """Return a file with this key. Write it unless an earlier run made it."""
        if (made := self._files.kept(name, key)) is not None:
            return made
        with self._files.replacing(name):
            write(self._out / name)
        return self._files.made(name, key)

    def _cover(self) -> list[MadeFile]:
        """Write the cover, unless a picture of the user has its name."""
        if (cover := self._wanted.cover) is None:
            return []
        name = f"cover{picture_suffix(cover)}"
        is_ours = any(file.path == name for file in self._before.files)
        if (self._out / name).exists() and not is_ours:
            return []
        write = partial(write_atomic, data=cover)
        return [self._written(name, hashlib.sha256(cover).hexdigest(), write)]

    def _cue(self) -> MadeFile:
        tracks = [
            (file.path, self._book.chapters[number].title)
            for number, (file, _) in self._produced.made.chapters.items()
        ]
        if len(tracks) > MAX_TRACKS:
            log.warning("%s has the first %d chapters: cue sheets end there", CUE_NAME, MAX_TRACKS)
        text = cue_sheet(self._book.title or "", self._book.author or "", tracks[:MAX_TRACKS])
        return self._written(CUE_NAME, _key([text]), partial(write_atomic, data=text.encode()))

    def _m4b(self) -> MadeFile:
        chapters = self._produced.made.chapters
        titles = [self._book.chapters[number].title for number in chapters]
        metadata = {
            "title": self._book.title or titles[0],
            "album": self._book.title or titles[0],
            "artist": self._book.author or "",
            "genre": "Audiobook",
            "comment": self._wanted.comment,
        }
        wanted, language = self._wanted, long_code_of(self._book.language or "")
        cover = wanted.cover and hashlib.sha256(wanted.cover).hexdigest()
        more = [one for one in (wanted.m4b_kbps, cover, language) if one is not None]
        key = _key([titles, metadata, [file.key for file, _ in chapters.values()], *more])

        def write(path: Path) -> None:
            log.info("joining %s", M4B_NAME)
            files = [self._out / file.path for file, _ in chapters.values()]
            told = {key: text for key, text in metadata.items() if text}
            parts = list(map(M4bChapter, titles, files))
            write_m4b(path, parts, told, wanted.m4b_kbps, wanted.cover, language)
            self._sign(path)

        return self._written(M4B_NAME, key, write)


def _pauses(row: Path, span: SpeechSpan) -> tuple[Pause, ...]:
    """Return the pauses inside a row's speech, in the chapter's time, but from the row's file:
    parts of a long MP3 make libsndfile's decoder print errors to stderr.
    """
    try:
        samples, rate_hz = soundfile.read(row, dtype="float32")
    except (soundfile.LibsndfileError, OSError) as error:
        log.warning(
            "%s: cannot be read; the times of its subtitles are estimated from the text: %s",
            row,
            error,
        )
        return ()
    start, end = (
        round((time - span.file_start_s) * rate_hz) for time in (span.start_s, span.end_s)
    )
    return tuple(pauses_in(samples[max(0, start) : end], rate_hz, span.start_s))


def _facts(take: RowAudio) -> list[Any]:
    """Return values that differ between takes of a row."""
    found = take.path.stat()
    return [take.path.name, found.st_size, found.st_mtime_ns, take.pause_after_s]


def _key(content: list[Any]) -> str:
    text = json.dumps([_VERSION, *content])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
