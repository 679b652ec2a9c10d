"""Which rows of a manifest a run speaks, and what room they need.

The manifest is streamed twice more after its check: once to see what is left to do and how long
the longest row is, once to speak.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tts_cli.config import RunConfig
from tts_cli.errors import RowError, UsageError
from tts_cli.manifest.reader import Source
from tts_cli.manifest.request import build_request, first_request
from tts_cli.manifest.row import BadRow
from tts_cli.output.hashes import joint_hash, request_hash
from tts_cli.output.journal import Journal
from tts_cli.output.record import SCHEMA
from tts_cli.output.writer import AudioWriter
from tts_cli.run.model_source import prompt_counter
from tts_cli.run.needs import Needs, room_problem
from tts_cli.run.survey import checked_rows, select_rows
from tts_cli.voices.resolve import Cloning
from tts_cli.voices.speech_row import SpeechRow

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest


log = logging.getLogger(__name__)

MAX_NAMED = 4  # files a message names


@dataclass
class Survey:
    """What is left to do."""

    needs: Needs = field(default_factory=Needs)  # of the rows to speak
    bad: int = 0
    skipped: int = 0  # done by an earlier run, or left out by --retry-failed
    foreign: list[str] = field(default_factory=list)  # files in the way of rows never recorded

    def require_own_files(self) -> None:
        """Raise UsageError if rows would replace files that no run is known to have written."""
        if self.foreign:
            shown = ", ".join(self.foreign[:3]) + (", ..." if len(self.foreign) > 3 else "")
            raise UsageError(
                f"{shown}: in the folder without a line in timings.jsonl, so not of an earlier run",
                remedy="move them, choose another --out, or add --overwrite to replace them",
            )

    @property
    def pending(self) -> int:
        """Rows to speak."""
        return self.needs.rows


@dataclass
class RowPlan:
    """The rows of a run; iterating gives each row's verdict. One thread at a time."""

    source: Source
    config: RunConfig
    info: ModelInfo
    journal: Journal
    writer: AudioWriter

    def __post_init__(self) -> None:
        self.cloning = Cloning(self.config, self.info)
        self._damaged: list[str] = []  # some ids of recorded files that are not whole

    def __iter__(self) -> Iterator[SpeechRow | BadRow | None]:
        """A row to speak, a bad row to record, or None for a row that is done."""
        rows = select_rows(checked_rows(self.source, self.config, self.info), self.config)
        for row in rows:
            if isinstance(row, BadRow):
                yield row
                continue
            request = build_request(row, self.config, self.info)
            try:
                need = self.cloning.need(request)
                self._check_room(request)
            except RowError as error:
                yield BadRow(row.line, row.number, row.id, str(error))
                continue
            digest = request_hash(request, self.info.identity, need.digest if need else None)
            planned = SpeechRow(row.id, request, digest, need)
            yield planned if self._is_due(planned) else None

    def survey(self) -> Survey:
        """Count, and bound the sizes."""
        found = Survey()
        for row in self:
            if row is None:
                found.skipped += 1
            elif isinstance(row, BadRow):
                found.bad += 1
            else:
                found.needs.add(row.request, self.info, row.need)
                if len(found.foreign) < MAX_NAMED and self._is_foreign(row.id):
                    found.foreign.append(self.writer.path_of(row.id).name)
        if self._damaged:
            log.warning(
                "audio that is cut or not what was written is spoken again: %s%s",
                ", ".join(self._damaged),
                ", ..." if len(self._damaged) == MAX_NAMED else "",
            )
        return found

    def due(
        self, on_bad: Callable[[BadRow], None], is_stopped: Callable[[], bool]
    ) -> Iterator[SpeechRow]:
        """The rows to speak; bad ones are handed to `on_bad`. Ends early once `is_stopped`."""
        for row in self:
            if is_stopped():
                return
            if isinstance(row, BadRow):
                on_bad(row)
            elif row is not None:
                yield row

    def _check_room(self, request: SpeechRequest) -> None:
        """Raise RowError for a row that is certain to fail: it must not size the others' slots."""
        least = self.cloning.least(request)
        count = partial(prompt_counter, self.config)
        if problem := room_problem(request, self.info, least, count):
            raise RowError(problem)

    def _is_due(self, row: SpeechRow) -> bool:
        if self.config.overwrite:
            return True
        if self.config.retry_failed:
            return self.journal.status(row.id) == "failed"
        if not (self._is_recorded(row) and self.writer.exists(row.id)):
            return True
        size, frames = self.journal.file_size(row.id)
        if frames is not None:
            size = self.writer.recorded_bytes(frames * self.info.samples_per_frame)
        if self.writer.is_whole(row.id, size, self.journal.file_sum(row.id)):
            return False
        if len(self._damaged) < MAX_NAMED and row.id not in self._damaged:
            self._damaged.append(row.id)
        return True

    def _is_foreign(self, row_id: str) -> bool:
        if self.config.overwrite or self.journal.status(row_id) is not None:
            return False
        return self.writer.path_of(row_id).is_file()

    def _is_recorded(self, row: SpeechRow) -> bool:
        """Whether the row's last line is ok and of this request, by the rules of that line."""
        journal, writer = self.journal, self.writer
        schema = journal.schema(row.id)
        if schema is None or schema == SCHEMA:
            return journal.done(row.id, row.request_hash, writer.delivery_hash)
        request = first_request(row.request, row.id, self.config)
        identity, ref_digest = self.info.identity, row.need.digest if row.need else None
        if schema == 0:
            joint = joint_hash(request, writer.delivery, identity, ref_digest)
            return journal.done(row.id, joint, None)
        digest = request_hash(request, identity, ref_digest)
        return journal.done(row.id, digest, writer.delivery_hash)
