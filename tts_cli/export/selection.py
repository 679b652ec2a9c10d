"""The rows of a folder that become a data set, and why others do not.

Nothing is locked: a folder can be exported while a run still fills it. A folder may come from
anybody; which file is a row's follows from its id, and it counts only if it is what was recorded.
"""

from __future__ import annotations

import json
import logging
import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tts_cli.config import RunConfig
from tts_cli.core import Finish, Row, Status
from tts_cli.errors import TtsCliError, UsageError
from tts_cli.export.row import AUTO, ExportRow, Names
from tts_cli.listen.verdicts import read_checks
from tts_cli.manifest.ids import (
    IdTable,
    id_hash,
    id_problem,
    natural_order,
    voice_label,
)
from tts_cli.manifest.manifest import open_manifests, read_rows
from tts_cli.store.files import CHECKS_NAME, audio_suffix, take_name
from tts_cli.store.run_file import RunLog, read_report
from tts_cli.store.store import Store
from tts_cli.store.take import REPLACED, Take
from tts_cli.text.languages import code_of

# Why a row is left out.
FAILED = "failed"
ODD = "its id is not a valid file name"
TEXTLESS = "its journal entry has no text"
WORDLESS = "its text has no words"
DAMAGED = "its file is missing or has changed"
UNFINISHED = "its file was being replaced when the command was killed; run that command again"
LOST = {DAMAGED, UNFINISHED}  # rows that should be there
_PARTS = 1_000_000  # of one, in which errors are kept
_MOST_EXTRAS = 1000  # kept columns that are looked for
_MOST_BYTES = 1 << 30  # of a manifest that is read for the order of its rows
_READING = (
    "manifest_format",
    "map",
    "columns",
    "sheet",
    "encoding",
    "ids",
    "speaker_prefix",
    "strip_markup",
)


@dataclass(frozen=True)
class Filters:
    """Which rows are wanted; None or empty: all."""

    voices: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()  # names or codes
    min_s: float | None = None
    max_s: float | None = None
    max_error: float | None = None  # rows that nobody has listened to are left out then
    is_suspect_wanted: bool = True
    has_extra_takes: bool = False  # also takes that are not the row's file

    def reason(self, row: ExportRow, is_suspect: bool) -> str | None:
        """Why a row is not wanted; None: it is."""
        if is_suspect and not self.is_suspect_wanted:
            return "suspect"
        if self.voices and row.voice not in map(voice_label, self.voices):
            return "another voice"
        if self.languages and not self._has_language(row):
            return "another language"
        if self.min_s is not None and row.duration_s < self.min_s:
            return f"shorter than {self.min_s:g} s"
        if self.max_s is not None and row.duration_s > self.max_s:
            return f"longer than {self.max_s:g} s"
        if self.max_error is not None and row.error is None:
            return "not transcribed by check --asr"
        if self.max_error is not None and (row.error or 0.0) > self.max_error:
            return f"error above {self.max_error:g}"
        return None

    def _has_language(self, row: ExportRow) -> bool:
        wanted = {name.casefold() for name in self.languages}
        codes = {code_of(name) for name in self.languages} - {None}
        return (row.language or AUTO).casefold() in wanted or row.language_code in codes


class Checks:
    """What `check` found of every take, in 24 to 72 bytes each."""

    def __init__(self, out: Path) -> None:
        self._errors = IdTable()  # take and sum -> 0: not heard; else the error, and one
        self._opinions = IdTable()  # the same of predicted opinions, where there are any
        self._suspects = IdTable()
        for check in read_checks(out):
            key = _key(check.id, check.take, check.sha256)
            error = 0 if check.asr is None else 1 + round(check.asr.error * _PARTS)
            self._errors.put(key, error)
            if check.opinion is not None:
                self._opinions.put(key, round(check.opinion.mos * _PARTS))
            self._suspects.put(key, int(check.is_suspect))
        self.has_errors = any(self._errors.values())

    def error(self, record: Take) -> float | None:
        """Share of words or characters that were heard otherwise; None: nobody has listened."""
        found = self._errors.get(_key(record.id, record.take, str(record.sha256)))
        return None if not found else (found - 1) / _PARTS

    def mos(self, record: Take) -> float | None:
        """A predicted opinion, 1 to 5; None: nobody has asked for it."""
        found = self._opinions.get(_key(record.id, record.take, str(record.sha256)))
        return None if found is None else found / _PARTS

    def is_suspect(self, record: Take) -> bool:
        """Whether it found the take to be suspect."""
        return bool(self._suspects.get(_key(record.id, record.take, str(record.sha256))))


def _key(row_id: str, take: int, sha256: str) -> int:
    return id_hash(f"{row_id}\n{take}\n{sha256}")


@dataclass
class Ahead:
    """What must be known of all rows before the first is written."""

    rows: int = 0
    voices: set[str] = field(default_factory=set)
    rates_hz: set[int | None] = field(default_factory=set)
    extras: set[str] = field(default_factory=set)  # columns of `--extra keep`


class Selection:
    """The rows of a folder that are wanted.

    Raises:
        UsageError: by error, and no recogniser has listened.
        SetupError: the journal or checks cannot be read.
    """

    def __init__(self, out: Path, filters: Filters) -> None:
        self.out = out
        self.filters = filters
        self._journal = Store.look(out).journal
        self._checks = Checks(out)
        self._order: list[tuple[str, int]] | None = None  # see `_ordered`
        if filters.max_error is not None and not self._checks.has_errors:
            raise UsageError(
                f"--max-error: {out / CHECKS_NAME} has no transcripts",
                remedy=f"first run: tts-cli check {out} --asr MODEL",
            )

    def look_ahead(self, names: Names) -> Ahead:
        """Read the journal once, and no audio; `names` learn all rows."""
        found = Ahead()
        for row in self.rows(Counter()):
            names.learn(row)
            found.rows += 1
            found.rates_hz.add(row.rate_hz)
            if len(found.extras) < _MOST_EXTRAS:
                found.extras.update(row.extra)
            if row.voice is not None:
                found.voices.add(row.voice)
        return found

    def rows(self, left_out: Counter[str]) -> Iterator[ExportRow]:
        """The wanted rows in the order of the manifest, others behind them; those that are not
        wanted are counted by reason. Whether their files are whole is not asked.
        """
        if self._order is None:
            self._order = self._ordered()
        for record in filter(None, (self._journal.take(*key) for key in self._order)):
            file = self._journal.file(record.id)
            is_file = file is not None and file.take == record.take
            found = self._row(record, is_file)
            if isinstance(found, str):
                left_out[found] += 1
            else:
                yield found

    def _ordered(self) -> list[tuple[str, int]]:
        """Return id and number of each take, in the order of `rows`."""
        places, last = IdTable(), 1 << 62
        for place, row_id in enumerate(manifest_ids(self.out)):
            places.put(id_hash(row_id), place)
        takes = self._journal.takes(has_extras=self.filters.has_extra_takes)
        keys = [(take.id, take.take) for take in takes]

        def order(key: tuple[str, int]) -> tuple[Any, ...]:
            place = places.get(id_hash(key[0]))
            return (last, natural_order(key[0]), key[1]) if place is None else (place, (), key[1])

        return sorted(keys, key=order)

    def _row(self, record: Take, is_file: bool) -> ExportRow | str:
        """A row, or why it is none that is wanted."""
        has_failed = is_file and self._journal.row(record.id).status is not Status.OK
        if has_failed or not record.is_ok:
            return UNFINISHED if record.error == REPLACED else FAILED
        if id_problem(record.id):
            return ODD
        if record.finish_reason is Finish.WORDLESS:
            return WORDLESS
        if record.text is None:
            return TEXTLESS
        language = record.language
        row = ExportRow(
            id=record.id,
            take=record.take,
            is_file=is_file,
            path=self._path(record, is_file),
            bytes=record.bytes or None,
            sha256=record.sha256,
            text=_encodable(record.text),
            spoken_text=_encodable(record.spoken_text or record.text),
            voice=None if record.voice is None else _encodable(str(voice_label(record.voice))),
            language=None if language in (None, AUTO) else _encodable(str(language)),
            duration_s=record.audio_s,
            rate_hz=record.sample_rate_hz,
            seed=record.seed,
            error=self._checks.error(record),
            mos=self._checks.mos(record),
            character=None if record.character is None else _encodable(record.character),
            extra={_encodable(name): _as_text(value) for name, value in record.extra.items()},
            folder=self.out if is_file else None,
        )
        is_suspect = bool(record.remarks) or self._checks.is_suspect(record)
        return self.filters.reason(row, is_suspect) or row

    def _path(self, record: Take, is_file: bool) -> Path:
        """The path that its audio must have; the one in its entry is only compared."""
        suffix = audio_suffix(record.path)
        home = take_name(record.id, record.take, suffix)
        is_own = is_file and record.path != home
        return self.out / (f"{record.id}{suffix}" if is_own else home)


def manifest_ids(out: Path) -> Iterator[str]:
    """Yield the ids of the manifests that a folder's runs read, in the order of the runs: none of
    one that came through a pipe, is gone, or cannot be read any more.
    """
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    with suppress(TtsCliError, OSError):
        for run in (*RunLog(out).lines(), read_report(out)):
            names, settings = run.get("manifests"), run.get("settings")
            if isinstance(names, list) and isinstance(settings, dict):
                key = (*map(str, names), f"\n{settings.get('sheet')}")
                found[key] = settings
    for (*names, _), settings in found.items():
        yield from _ids_of(names, settings)


def _ids_of(names: Sequence[str], settings: Mapping[str, Any]) -> Iterator[str]:
    with _silent_reading(), suppress(TtsCliError, OSError, TypeError, ValueError, AttributeError):
        found = [os.stat(name) for name in names]
        if not all(stat.S_ISREG(one.st_mode) and 0 < one.st_size < _MOST_BYTES for one in found):
            return
        reading = {name: settings[name] for name in _READING if settings.get(name) is not None}
        config = RunConfig.from_options({**reading, "extra": "drop"})
        with open_manifests(names, config) as manifest:
            yield from (row.id for row in read_rows(manifest) if isinstance(row, Row))


@contextmanager
def _silent_reading() -> Iterator[None]:
    """Log nothing about how a manifest is read: the run that read it has logged it."""
    logger = logging.getLogger(open_manifests.__module__.rpartition(".")[0])
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _as_text(value: Any) -> str:
    """Return a kept value as one column can hold it: JSON where it is not a text."""
    if isinstance(value, str):
        return _encodable(value)
    try:
        return _encodable(json.dumps(value, ensure_ascii=False))
    except RecursionError:  # of a journal that a stranger wrote
        return ""


def _encodable(text: str) -> str:
    """A text as UTF-8 can hold it: half a pair of surrogates becomes a question mark."""
    return text.encode("utf-8", "replace").decode()
