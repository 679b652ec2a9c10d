"""Which rows of a folder can get new files, read from the folder alone: no manifest, and no model
unless codes are all that is left of a row.

A folder may come from anybody. Its report only tells which checkpoint to look at; that codes are of
that one is told by its identity, run by run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from tts_cli.audio.tags import synthetic_of
from tts_cli.errors import RowError, SetupError
from tts_cli.folder.atomic import require_plain_file
from tts_cli.folder.folder import Folder
from tts_cli.folder.journal import MAX_LINE_BYTES
from tts_cli.folder.recode import Order
from tts_cli.folder.run_file import RUNS_NAME, read_report
from tts_cli.folder.sources import find_kept, why_failed
from tts_cli.folder.take import Take
from tts_cli.manifest.ids import id_problem

MAX_RUNS = 100_000
MAX_NAMED = 5


class Run(NamedTuple):
    """What a row must know of the run that spoke it."""

    is_native: bool  # its files have the checkpoint's rate
    identity: str | None  # of the checkpoint, as the next two
    family: str | None = None
    size: str | None = None


@dataclass
class Findings:
    """What there is to do."""

    orders: Counter[str] = field(default_factory=Counter)  # files to make, by what of
    done: int = 0
    left: list[tuple[str, str]] = field(default_factory=list)  # ids and reasons


class KeptSpeech:
    """What a folder keeps that files can be made of, and which runs spoke it.

    Raises:
        UsageError: there is no journal.
        SetupError: a file of ours cannot be read.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        try:
            self.journal = Folder.look(out).journal
            self.report = read_report(out)
            self._runs = dict(_runs(out / RUNS_NAME))
        except OSError as error:
            raise SetupError(f"{out}: {error.strerror or error}") from error
        self._last = _run_of(self.report)

    @property
    def model(self) -> str | None:
        """What spoke the rows of the last run; None: the sample voice."""
        settings = _object(self.report.get("settings"))
        value = settings.get("model")
        if self.report.get("clone_model") is None:  # else of a version in which both spoke rows
            value = settings.get("clone_model") or value
        return value if isinstance(value, str) else None

    @property
    def comment(self) -> str:
        """What the files say of themselves, by what the report says of the model."""
        return synthetic_of(_object(self.report.get("model")))

    def records(self) -> Iterator[Take]:
        """The last line of every row's file. Lines without an id that a file can have are passed
        over.
        """
        for record in self.journal.takes():
            if id_problem(record.id) is None:
                yield record

    def run_of(self, record: Take) -> Run | None:
        """The run that spoke a row; None: nobody knows."""
        return self._last if record.run_id is None else self._runs.get(record.run_id)

    def native_rate_hz(self) -> int | None:
        """The rate of the checkpoint, as a file of a run shows it that asked for no other."""
        import soundfile

        for record in self.records():
            run = self.run_of(record)
            if not record.is_ok or run is None or not run.is_native:
                continue
            source = record.source or {}
            name = source.get("path") if source.get("kind") == "audio" else record.path
            rate_hz = None
            try:
                rate_hz = int(soundfile.info(self.out / str(name)).samplerate)
                find_kept(self.out, record, rate_hz, has_model=False)
            except (RowError, soundfile.LibsndfileError, OSError, ValueError):
                continue
            return rate_hz
        return None

    def find(self, target: Folder, identity: str | None, findings: Findings) -> Iterator[Order]:
        """The files to make; the others are counted.

        Args:
            target: where they go.
            identity: of the checkpoint that codes can be decoded with; None: of whichever spoke.
        """
        for record in self.records():
            if self.journal.status(record.id) != "ok":
                findings.left.append((record.id, why_failed(record)))
                continue
            if self._is_done(record, target):
                findings.done += 1
                continue
            try:
                yield self._order(record, target.writer.native_rate_hz, identity)
            except RowError as error:
                findings.left.append((record.id, str(error)))

    def _order(self, record: Take, rate_hz: int, identity: str | None) -> Order:
        run = self.run_of(record)
        is_same = run is not None and (identity is None or run.identity == identity)
        kept = find_kept(self.out, record, rate_hz, is_same)
        return Order(record, kept)

    @staticmethod
    def _is_done(record: Take, target: Folder) -> bool:
        journal, writer = target.journal, target.writer
        file, take = journal.file(record.id), record.take
        if file is None or file.take != take or file.has_failed:
            return False
        if not journal.done(record.id, record.request_hash, writer.delivery_hash, take):
            return False
        size = journal.file_size(record.id, take)
        return writer.is_whole(record.id, size, journal.file_sum(record.id, take))


def _runs(path: Path) -> Iterator[tuple[str, Run]]:
    if not require_plain_file(path):
        return
    with open(path, "rb") as file:
        for raw in islice(iter(lambda: file.readline(MAX_LINE_BYTES), b""), MAX_RUNS):
            values = _parsed(raw)
            run, run_id = _run_of(values), values.get("run_id")
            if run is not None and isinstance(run_id, str):
                yield run_id, run


def _run_of(report: dict[str, Any]) -> Run | None:
    settings, model = _object(report.get("settings")), _object(report.get("model"))
    if not settings:
        return None
    facts = [model.get(name) for name in ("identity", "family", "size")]
    is_native = settings.get("sample_rate") is None
    return Run(is_native, *(fact if isinstance(fact, str) else None for fact in facts))


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        return _object(json.loads(raw))
    except (ValueError, RecursionError):
        return {}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
