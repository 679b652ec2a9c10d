"""Synthesize a book: text becomes rows, and the audio of the rows becomes chapters."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tts_cli.atomic import write_standalone
from tts_cli.audio.encode import Encoder
from tts_cli.audio.file import FORMATS
from tts_cli.audio.tags import comment_of
from tts_cli.book.m4b import load_av
from tts_cli.book.produce import BookOrder, Produced, produce, require_own_files, target_names
from tts_cli.book.utterances import (
    FOLDER,
    MANIFEST_NAME,
    BookPauses,
    Utterance,
    segment_book,
    to_manifest,
)
from tts_cli.config import SETTINGS, RunConfig
from tts_cli.core import BadRow
from tts_cli.errors import ManifestError, UsageError
from tts_cli.events import Count
from tts_cli.named import counted, shown
from tts_cli.plain import read_given
from tts_cli.plan.checkpoint import read_info
from tts_cli.plan.checks import CheckedRows, RowValidator
from tts_cli.plan.free_voices import makes_voices, who_speaks
from tts_cli.plan.plan import Plan
from tts_cli.plan.split_rule import pauses_of
from tts_cli.setting import Topic
from tts_cli.sources.chapters import is_language, known_language, picture_suffix
from tts_cli.sources.decode import known_encoding
from tts_cli.sources.folder import read_book
from tts_cli.sources.ids import TAKES
from tts_cli.sources.item import ManifestFile
from tts_cli.sources.row import build_row
from tts_cli.store.orphans import recorded_ids
from tts_cli.store.store import Store
from tts_cli.text.words import usual_s

if TYPE_CHECKING:
    from models.base import ModelInfo

log = logging.getLogger(__name__)

MAX_COVER_BYTES = 20 << 20
# Settings of the output that rows keep. The others are those of the chapters.
_OF_ROWS = ("out", "speed", "fit", "save_codes", "mark_key")
MAX_NAMED = 5  # invalid rows that messages name


class BookRun:
    """A book on its way into a folder: `order` its rows, synthesize them, then `join` them.

    Raises ManifestError or SetupError if the book cannot be read or has no words.
    """

    own = f"{FOLDER}/"  # start of the ids of its rows

    def __init__(self, path: Path, config: RunConfig, out: Path, *, is_m4b: bool) -> None:
        if is_m4b:
            load_av()
        encoding = None if config.encoding is None else known_encoding(config.encoding)
        found = read_book(path, encoding)
        self.book = found.without_markup() if config.strip_markup else found
        self.script = segment_book(self.book, BookPauses(**vars(pauses_of(config))))
        self.config = config  # after `order`: settings of the rows
        self.out = out
        self._is_m4b = is_m4b

    @property
    def num_chapters(self) -> int:
        return len({row.chapter for row in self.script})

    def order(self, *, has_language: bool) -> ManifestFile:
        """Return the rows to synthesize, and write them to `book.jsonl` unless this is a dry run.

        Args:
            has_language: the user chose a language, so the book's does not count.
        Raises:
            UsageError: the folder has another book, or user files with names of the chapters.
            ManifestError: rows are invalid, or the model does not support the book's language.
            SetupError: the chapters cannot be written in this format.
        """
        config, out = self.config, self.out
        info = read_info(config)
        wanted = book_order(config, info, is_m4b=self._is_m4b)
        cover = self.book.cover if config.cover is None else read_cover(config.cover)
        self._wanted = replace(wanted, cover=cover, unselected=self._unselected())
        if not config.overwrite:
            require_own_files(out, target_names(self.book, self.script, self._wanted))
        self._require_own_folder()
        self.config = row_config(config, self._wanted)
        if config.chapters is not None:
            chosen = (row.id for row in self.script if config.has_chapter(row.chapter + 1))
            self.config = replace(self.config, only=tuple(chosen), prune=False)
        language = None if has_language else self._language(info)
        rows = [
            build_row(row.to_row(language), line=number, number=number, folder=str(out))
            for number, row in enumerate(self.script, 1)
        ]
        self._source = ManifestFile(str(out / MANIFEST_NAME), "jsonl", str(out), given=rows)
        if not config.dry_run:  # locked, so no other run can be reading it
            with Store(out, self.config) as folder:
                folder.lock()
                write_standalone(out / MANIFEST_NAME, to_manifest(self.script, language))
        self._require_good(info)
        return self._source

    def _unselected(self) -> frozenset[int]:
        """Return the chapters, from 0, that --chapters leaves out. Raises UsageError if all."""
        config, numbers = self.config, {row.chapter for row in self.script}
        found = frozenset(one for one in numbers if not config.has_chapter(one + 1))
        if config.chapters is not None and (config.only or found == numbers):
            problem = "selects rows too" if config.only else f"the book has {self.num_chapters}"
            raise UsageError(f"--chapters {config.chapters}: {problem}", "see `book BOOK --list`")
        return found

    def outline(self) -> list[tuple[str, int, float]]:
        """Return title, characters and usual seconds, with pauses, of each chapter."""
        rows: dict[int, list[Utterance]] = {number: [] for number in range(len(self.book.chapters))}
        for row in self.script:
            rows[row.chapter].append(row)
        found = []
        for number, chapter in enumerate(self.book.chapters):
            pauses_s = sum(row.pause_after_s for row in rows[number][:-1])
            texts = [row.text for row in rows[number]]
            length_s = usual_s(" ".join(texts)) + pauses_s
            found.append((chapter.title, sum(map(len, texts)), length_s))
        return found

    def join(self) -> Produced:
        config, info, maker = who_speaks(self.config, read_info(self.config))
        with Store(self.out, config, info) as folder:
            # After the run, so the plan only lists the rows that are missing.
            config = replace(config, overwrite=False, retry_failed=False, only=(), takes=0)
            config = replace(config, redo=None, keep_done=True, prune=config.chapters is None)
            plan = Plan(self._source, config, info, folder, maker=maker)
            plan.read()
            missing = {row.record_id if isinstance(row, BadRow) else row.id for row in plan}
            missing |= {order.record.id for order in plan.orders()}
            return produce(folder, self.book, self.script, missing, self._wanted)

    def _require_own_folder(self) -> None:
        """Raise UsageError if the folder has only rows of a manifest, or another book.

        A book is another one if fewer than half of the folder's rows are in it. Rows that the book
        no longer has are removed without --prune.
        """
        out = self.out
        if not Store.exists(out):
            return
        ids, recorded = {row.id for row in self.script}, recorded_ids(Store.read_only(out).journal)
        before: list[str] = []
        others = Count()
        for row_id in recorded:
            if row_id.startswith(self.own):
                before.append(row_id)
            else:
                others.add(row_id)
        if others.count and not before:
            raise UsageError(
                f"{out}: has {counted(others.count, 'row')} of a manifest: {others.and_more()}",
                remedy="choose another --out for the book",
            )
        common = sum(row_id in ids for row_id in before)
        if 2 * common < len(before) and not self.config.prune:
            raise UsageError(
                f"{out}: contains another book: only {common} of its {len(before)} rows are "
                "in this one",
                remedy="choose another --out, or add --prune to move the other rows to "
                f"{out / TAKES}/",
            )

    def _language(self, info: ModelInfo) -> str | None:
        """Return the model's name of the book's language, or None if the book or the model has
        none. Raises ManifestError if the model supports only other languages.
        """
        language, known = self.book.language, info.languages
        if language is None:
            return None
        name = known_language(language, known)
        supported = [one for one in known if one != "auto"]
        if name is None and supported and is_language(language):
            raise ManifestError(
                f"the book is in {shown(language)}, but {self.config.model or 'the sample voice'} "
                f"supports only {', '.join(supported)}",
                "choose another model with --model, or a language with --language (auto: none)",
            )
        if name is None:
            log.info("the book is in %s, a language that the model does not list", language)
        else:
            log.info("the language of the book is %s; rows are synthesized as %s", language, name)
        return name

    def _require_good(self, info: ModelInfo) -> None:
        """Raise ManifestError if rows are invalid, and log their places in the book."""
        config, info, maker = who_speaks(self.config, info)
        validator = RowValidator(config, info, makes_voices=makes_voices(info, maker))
        rows = CheckedRows(self._source, validator)
        bad = [row for row in rows.read() if isinstance(row, BadRow)]
        for row in bad[:MAX_NAMED]:
            log.error("%s: %s", self.script[row.number - 1].place, row.message)
        if bad:
            raise ManifestError(
                f"{counted(len(bad), 'row')} of {len(self.script)} of the book cannot be "
                "synthesized",
                remedy="fix these places in the book",
            )


def read_cover(path: Path) -> bytes:
    """Return the picture of --cover. Raises UsageError if it is not JPEG or PNG."""
    try:
        data = read_given(path, MAX_COVER_BYTES)
    except OSError as error:
        raise UsageError(f"--cover {path}: {error.strerror or error}", "check the path") from error
    if picture_suffix(data) is None:
        raise UsageError(f"--cover {path}: is not a JPEG or PNG", "convert the picture")
    return data


def book_order(config: RunConfig, info: ModelInfo, *, is_m4b: bool) -> BookOrder:
    """Return which files to make. Raises UsageError, SetupError if that is not possible."""
    kbps = config.bitrate if FORMATS[config.format].is_lossy or not is_m4b else None
    row_format = "flac" if config.format == "opus" else config.format
    return BookOrder(
        Encoder(replace(config, bitrate=kbps), info.sample_rate_hz),
        row_format if config.preset is None else "wav",
        config.subtitle_formats,
        labels=config.label_forms,
        has_words=config.words is not None,
        is_m4b=is_m4b,
        comment=comment_of(info),
        voice=config.voice or next(iter(info.voices), ""),
        m4b_kbps=config.bitrate,
    )


def row_config(config: RunConfig, wanted: BookOrder) -> RunConfig:
    """Return the settings of the rows, whose audio stays unprocessed, so that chapters in another
    format or loudness need no synthesis.
    """
    is_telephony, has_preset = config.subtype in ("ULAW", "ALAW"), config.preset is not None
    output = {name: one.default for name, one in SETTINGS.items() if one.topic is Topic.OUTPUT}
    changed: dict[str, Any] = {
        **{name: default for name, default in output.items() if name not in _OF_ROWS},
        "format": wanted.row_format,
        "subtype": "PCM_16" if is_telephony or has_preset else config.subtype,
        "sample_rate": None if has_preset else config.sample_rate,
        "bitrate": config.bitrate if FORMATS[wanted.row_format].is_lossy else None,
        "prune": True,
    }
    return replace(config, **changed)
