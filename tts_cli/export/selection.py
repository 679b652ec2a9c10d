"""The rows of a folder that are exported, and the reasons why others are not.

Nothing is locked: a folder can be exported while a run still fills it. A folder may be untrusted:
the path of a row's file follows from its id, and the file must be the one that was recorded.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tts_cli.checks.reviews import Reviews
from tts_cli.checks.verdicts import read_verdicts
from tts_cli.config import RunConfig
from tts_cli.core import Finish, Row, Status
from tts_cli.errors import TtsCliError, UsageError
from tts_cli.export.row import ExportRow
from tts_cli.sources.ids import IdTable, id_hash, id_problem, natural_order, voice_label
from tts_cli.sources.open import open_manifests, read_rows
from tts_cli.sqlite import memory_database
from tts_cli.store.entry import REPLACED, JournalEntry
from tts_cli.store.files import CHECKS_NAME, audio_suffix, take_name
from tts_cli.store.run_file import RunLog, read_report
from tts_cli.store.store import Store
from tts_cli.text.languages import code_of

DAMAGED = "its file is missing or has changed"
UNFINISHED = "its file was being replaced when the command was killed; run that command again"
LOST = {DAMAGED, UNFINISHED}  # reasons why rows are missing that should be there
_AUTO = "auto"
_MAX_EXTRAS = 1000  # number of extra columns
_MAX_MANIFEST_BYTES = 1 << 30
_READING = (  # settings that decide the ids of a manifest
    *("manifest_format", "map", "columns", "sheet", "encoding", "ids", "speaker_prefix"),
    "strip_markup",
)


@dataclass(frozen=True)
class ExportOptions:
    """The options of `export`, under their names in `export.json`."""

    to: str
    splits: str
    sample_rate: int | None  # of all audio; None: unchanged
    shard_mb: int
    link: bool
    copy: bool  # without effect, of an earlier version
    of_voice: tuple[str, ...] = ()  # of this and the following options, empty or None means any
    of_language: tuple[str, ...] = ()  # names or codes
    min_s: float | None = None
    max_s: float | None = None
    max_error: float | None = None
    no_suspects: bool = False
    all_takes: bool = False
    name_by: str | None = None  # pattern of the names of files
    approved: bool = False  # in a review

    def excludes(self, values: Mapping[str, Any], is_suspect: bool) -> str | None:
        """Return why a row with these values is not wanted, or None."""
        if is_suspect and self.no_suspects:
            return "suspect"
        if self.of_voice and values["voice"] not in map(voice_label, self.of_voice):
            return "another voice"
        if self.of_language and not self._has_language(values["language"] or _AUTO):
            return "another language"
        if self.min_s is not None and values["duration"] < self.min_s:
            return f"shorter than {self.min_s:g} s"
        if self.max_s is not None and values["duration"] > self.max_s:
            return f"longer than {self.max_s:g} s"
        if self.max_error is not None and values["error"] is None:
            return "not transcribed by check --asr"
        if self.max_error is not None and values["error"] > self.max_error:
            return f"error above {self.max_error:g}"
        return None

    def _has_language(self, language: str) -> bool:
        codes = {code_of(name) for name in self.of_language} - {None}
        is_named = language.casefold() in (name.casefold() for name in self.of_language)
        return is_named or code_of(language) in codes


@dataclass
class Overview:
    rows: int = 0
    voices: set[str] = field(default_factory=set)
    rates_hz: set[int | None] = field(default_factory=set)
    extras: set[str] = field(default_factory=set)  # names of extra columns
    left_out: Counter[str] = field(default_factory=Counter)  # reason -> rows


class Selection:
    """The rows of a folder that are wanted.

    Raises:
        UsageError: `--max-error` needs transcripts, and there are none.
        SetupError: the journal or checks cannot be read.
    """

    def __init__(self, out: Path, options: ExportOptions) -> None:
        self.out = out
        self._options = options
        self._journal = Store.read_only(out).journal
        self._checks = _Checks(out)
        self._reviews = Reviews(out) if options.approved else None
        if options.max_error is not None and not self._checks.has_errors:
            raise UsageError(
                f"--max-error: {out / CHECKS_NAME} has no transcripts",
                remedy=f"first run: tts-cli check {out} --asr MODEL",
            )
        takes = self._journal.takes(has_extras=options.all_takes)
        self._order = manifest_order(out, ((take.id, take.take) for take in takes))

    def overview(self) -> Overview:
        """Read the journal once, and no audio."""
        found = Overview()
        for row in self.rows(found.left_out):
            found.rows += 1
            found.rates_hz.add(row.values["sample_rate"])
            if len(found.extras) < _MAX_EXTRAS:
                found.extras.update(row.extra)
            if row.values["voice"] is not None:
                found.voices.add(row.values["voice"])
        return found

    def rows(self, left_out: Counter[str]) -> Iterator[ExportRow]:
        """Yield the wanted rows in the order of the manifest, rows that it lacks after them, and
        count the others by reason. Files are not read.
        """
        for key in self._order:
            if (take := self._journal.take(*key)) is not None:
                found = self._row(take)
                if isinstance(found, str):
                    left_out[found] += 1
                else:
                    yield found

    def _row(self, take: JournalEntry) -> ExportRow | str:
        current = self._journal.file(take.id)
        is_current = current is not None and current.take == take.take
        has_failed = is_current and self._journal.row(take.id).status is not Status.OK
        if has_failed or not take.is_ok:
            return UNFINISHED if take.error == REPLACED else "failed"
        if id_problem(take.id):
            return "its id is not a valid file name"
        if take.finish_reason is Finish.WORDLESS:
            return "its text has no words"
        if take.text is None:
            return "its journal entry has no text"
        if self._reviews is not None and not self._reviews.is_approved(take):
            return "not approved"
        error, mos, is_suspect = self._checks.of(take)
        values = {
            "id": take.id,
            "take": take.take,
            "text": take.text,
            "spoken_text": take.spoken_text or take.text,
            "voice": voice_label(take.voice),
            "character": take.character,
            "language": None if take.language == _AUTO else take.language,
            "duration": round(take.audio_s, 6),
            "sample_rate": take.sample_rate_hz,
            "seed": take.seed,
            "error": error,
            "mos": mos,
        }
        values = {key: _text(one) if isinstance(one, str) else one for key, one in values.items()}
        if reason := self._options.excludes(values, is_suspect or bool(take.remarks)):
            return reason
        # The path in the journal is only compared: that of a row's file follows from its id.
        suffix = audio_suffix(take.path)
        name = take_name(take.id, take.take, suffix)
        if is_current and take.path != name:
            name = f"{take.id}{suffix}"
        extra = {_text(name): _text(value) for name, value in take.extra.items()}
        file = (self.out / name, take.bytes or None, take.sha256)
        return ExportRow(self.out, *file, is_current, values, extra)


class _Checks:
    """Error rate, opinion score and suspicion by take, as `check` found them, in a table."""

    def __init__(self, out: Path) -> None:
        self._table = memory_database(
            "CREATE TABLE checks (take BLOB PRIMARY KEY, error, mos, is_suspect) WITHOUT ROWID"
        )
        for one in read_verdicts(out):
            error = None if one.asr is None else one.asr.wer
            mos = None if one.mos is None else one.mos.mos
            values = (_key(one.id, one.take, one.sha256), error, mos, one.is_suspect)
            self._table.execute("INSERT OR REPLACE INTO checks VALUES (?, ?, ?, ?)", values)
        self.has_errors = (
            self._table.execute("SELECT max(error) FROM checks").fetchone()[0] is not None
        )

    def of(self, take: JournalEntry) -> tuple[float | None, float | None, bool]:
        """Return the values of a take; None: not measured."""
        query = "SELECT error, mos, is_suspect FROM checks WHERE take = ?"
        key = _key(take.id, take.take, take.sha256)
        error, mos, is_suspect = self._table.execute(query, (key,)).fetchone() or (None, None, 0)
        return error, mos, bool(is_suspect)


def _key(row_id: str, take: int, sha256: str | None) -> bytes:
    return hashlib.blake2b(f"{row_id}\n{take}\n{sha256}".encode(), digest_size=8).digest()


def manifest_order(out: Path, takes: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Sort takes (id, number) in the order of the manifests that a folder's runs read. Rows that
    these lack come last.
    """
    places, last = IdTable(), 1 << 62
    for place, row_id in enumerate(manifest_ids(out)):
        places.put(id_hash(row_id), place)

    def order(key: tuple[str, int]) -> tuple[Any, ...]:
        place = places.get(id_hash(key[0]))
        return (last, natural_order(key[0]), key[1]) if place is None else (place, (), key[1])

    return sorted(takes, key=order)


def manifest_ids(out: Path) -> Iterator[str]:
    """Yield the ids in the manifests that a folder's runs read, in the order of the runs. A
    manifest from a pipe, or one that cannot be read any more, has none.
    """
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    with suppress(TtsCliError, OSError):
        for run in (*RunLog(out).lines(), read_report(out)):
            names, settings = run.get("manifests"), run.get("settings")
            if names is not None and settings is not None:
                key = (*names, f"\n{settings.get('sheet')}")
                found[key] = settings
    for (*names, _), settings in found.items():
        yield from _ids_of(names, settings)


def _ids_of(names: Sequence[str], settings: Mapping[str, Any]) -> Iterator[str]:
    with _silent_reading(), suppress(TtsCliError, OSError, TypeError, ValueError, AttributeError):
        found = [os.stat(name) for name in names]
        if all(
            stat.S_ISREG(one.st_mode) and 0 < one.st_size < _MAX_MANIFEST_BYTES for one in found
        ):
            reading = {name: settings[name] for name in _READING if settings.get(name) is not None}
            config = RunConfig.from_options({**reading, "extra": "drop"})
            with open_manifests(names, config) as manifest:
                yield from (row.id for row in read_rows(manifest) if isinstance(row, Row))


@contextmanager
def _silent_reading() -> Iterator[None]:
    """Suppress messages about reading a manifest: the run that read it has logged them."""
    logger = logging.getLogger(open_manifests.__module__.rpartition(".")[0])
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _text(value: Any) -> str:
    """Return a value as text that UTF-8 can encode, as JSON unless it is text already. Halves of
    surrogate pairs become `?`.
    """
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:  # of an untrusted journal
        return ""
    return text.encode("utf-8", "replace").decode()
