"""Which rows of a manifest a run speaks, why, and what room they need.

The manifest is read twice: once to check every row, see what is left to do and how long the longest
row is, once to speak. What the first reading found is kept in a byte a row, so that the second one
passes over all rows that nothing is to be done about.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from tts_cli.config import RunConfig
from tts_cli.errors import RowError, UsageError
from tts_cli.manifest.ids import is_in_shard
from tts_cli.manifest.reader import Manifest
from tts_cli.manifest.request import Requests, first_request
from tts_cli.manifest.row import BadRow, Row
from tts_cli.manifest.words import is_wordless
from tts_cli.output.hashes import joint_hash, request_hash
from tts_cli.output.journal import Journal
from tts_cli.output.record import SCHEMA
from tts_cli.output.writer import AudioWriter
from tts_cli.run.model_source import prompt_counter
from tts_cli.run.needs import Needs, most_positions, room_problem
from tts_cli.run.row_checks import CheckedRows
from tts_cli.run.split_rule import SplitRule
from tts_cli.run.survey import ManifestSummary, Tally
from tts_cli.run.wordless import NO_WORDS, silent_row
from tts_cli.voices.resolve import Cloning, Need
from tts_cli.voices.speech_row import PlannedPart, SpeechRow

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest
    from tts_cli.run.records import Recorder
    from tts_cli.text.care import TextCare


log = logging.getLogger(__name__)

MAX_NAMED = 4  # files a message names


class State(Enum):
    """What the folder holds of a row."""

    NEW = "new"  # no line in the journal
    FAILED = "failed"  # the last line says so
    CHANGED = "changed"  # recorded ok, for another request or delivery
    DAMAGED = "damaged"  # recorded ok, but its file is gone, or not what was written
    DONE = "done"


@dataclass
class Survey:
    """What is left to do."""

    summary: ManifestSummary
    needs: Needs = field(default_factory=Needs)  # of the rows to speak
    silent: int = 0  # rows without words, which need no model
    bad: int = 0  # selected rows to record as failed: bad ones, and those certain to fail
    skipped: int = 0  # done by an earlier run, or left out by --retry-failed
    due: Counter[State] = field(default_factory=Counter)  # pending rows, by what there is
    foreign: list[str] = field(default_factory=list)  # files in the way of rows never recorded
    damaged: list[str] = field(default_factory=list)  # some ids of State.DAMAGED

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
        """Rows to speak, or to keep as silence."""
        return sum(self.due.values())


class RowPlan:
    """The rows of a run. Once surveyed, iterating gives those that something is to be done about.
    One thread at a time.

    Args:
        journal: of the output folder; None: it has none, so every row is new.
        writer: None: there is no folder, and what rows clone is looked at no further than its
            header.
    """

    def __init__(
        self,
        source: Manifest,
        config: RunConfig,
        info: ModelInfo,
        journal: Journal | None = None,
        writer: AudioWriter | None = None,
    ) -> None:
        self.source = source
        self.config = config
        self.info = info
        self.journal = journal
        self.writer = writer
        self.cloning = Cloning(config, info)
        self.rows = CheckedRows(source, config, info)
        self.split_rule = SplitRule.of(config, info)
        self._requests = Requests(config, info)
        self._wanted = bytearray()  # a row: 1 to speak it or to record it as failed, 0 to pass it

    @property
    def care(self) -> TextCare:
        """How texts are read."""
        return self._requests.care

    def survey(self) -> Survey:
        """Read the whole manifest: check, count, and bound the sizes.

        Raises:
            ManifestError: it cannot be used at all, or has no rows.
            StoppedEarly: it was changed meanwhile.
        """
        tally = Tally(self.source.name, self.config, self.info, self.split_rule, self.care)
        found = Survey(tally.summary)
        shard, limit, taken = self.config.shard, self.config.limit, 0
        self._wanted.clear()
        for row in self.rows.read():
            is_mine = is_in_shard(row.record_id, shard) and (limit is None or taken < limit)
            taken += is_mine
            if isinstance(row, BadRow):
                tally.add_bad(row)
                found.bad += is_mine
                self._wanted.append(is_mine)
                continue
            if not is_mine:
                tally.add_good(row)
                self._wanted.append(False)
                continue
            request = self._requests.build(row)
            is_silent = is_wordless(request.text, self.info.pace)
            tally.add_good(row, request, is_silent)
            self._wanted.append(self._is_wanted(row, request, is_silent, found, tally))
        tally.close()
        self.source.require_same()
        return found

    def __iter__(self) -> Iterator[SpeechRow | BadRow]:
        """Each row to speak or to keep silent, and each bad row to record.

        Raises:
            StoppedEarly: the manifest is not what was surveyed.
        """
        for row in self.rows.read(self._wanted):
            if isinstance(row, BadRow):
                yield row
                continue
            request = self._requests.build(row)
            is_silent = is_wordless(request.text, self.info.pace)
            try:
                need = self._resolve(request, is_silent)
                parts = () if is_silent else self._parts(request, need)
            except RowError as error:
                message = str(error)
                yield BadRow(
                    row.line, row.number, row.id, message, row.text, is_late=True, file=row.file
                )
                continue
            planned = self._planned(row.id, request, need, is_silent)
            planned.character, planned.extra = row.character, row.extra
            if request.text != row.text:
                planned.reading = self.care.read(row.text, request.language)
            if parts:
                planned.parts, planned.most_frames = parts, self.split_rule.most_frames(request)
            yield planned

    def due(self, recorder: Recorder, is_stopped: Callable[[], bool]) -> Iterator[SpeechRow]:
        """The rows to speak; bad ones and silent ones go to the recorder. Ends early once
        `is_stopped`.
        """
        for row in self:
            if is_stopped():
                return
            if isinstance(row, BadRow):
                recorder.fail(row)
            elif row.is_silent:
                recorder.take(row)
            else:
                yield row

    def _is_wanted(
        self, row: Row, request: SpeechRequest, is_silent: bool, found: Survey, tally: Tally
    ) -> bool:
        """Judge a good row and count it."""
        try:
            need = self._resolve(request, is_silent)
            state = self._state(row.id, request, need, is_silent)
            if not self._is_due(state):
                found.skipped += 1
                return False
            parts = () if is_silent else self._parts(request, need)
        except RowError as error:
            if not is_silent:  # of the others the tally says what becomes of them
                tally.add_hopeless(row, error)
            found.bad += 1
            return True
        tally.add_due(row, request, parts, is_silent)
        found.due[state] += 1
        if is_silent:
            found.silent += 1
        elif parts:
            found.needs.add_parts([part.request for part in parts], self.info, need)
        else:
            found.needs.add(request, self.info, need)
        if state is State.DAMAGED and len(found.damaged) < MAX_NAMED:
            found.damaged.append(row.id)
        if state is State.NEW and len(found.foreign) < MAX_NAMED and self._is_foreign(row.id):
            assert self.writer is not None
            found.foreign.append(self.writer.path_of(row.id).name)
        return True

    def _resolve(self, request: SpeechRequest, is_silent: bool) -> Need | None:
        """The voice to be cloned. Raises RowError for a row that is certain to fail: it must not
        size the others' slots. Of a row in parts `_parts` tells.
        """
        if is_silent:
            if self.config.wordless == "fail":
                raise RowError(NO_WORDS)
            return None  # nothing is cloned: the path of a recording stands for it
        need = self._need(request) if self.info.can_clone else None
        if not self.split_rule.is_split(request):
            self._check_room(request, need)
        return need

    def _parts(self, request: SpeechRequest, need: Need | None) -> tuple[PlannedPart, ...]:
        """What a row is spoken in, if in parts. Raises RowError: one of them is certain to fail."""
        parts = self.split_rule.parts(request)
        for number, part in enumerate(parts, 1):
            try:
                self._check_room(part.request, need)
            except RowError as error:
                raise RowError(f"part {number} of {len(parts)}: {error}") from None
        return parts

    def _check_room(self, request: SpeechRequest, need: Need | None) -> None:
        """Raise RowError for what is certain not to fit into the checkpoint's positions."""
        if most_positions(request, self.info, need) > self.info.max_positions:
            least = self.cloning.least(request)
            count = partial(prompt_counter, self.config)
            if problem := room_problem(request, self.info, least, count):
                raise RowError(problem)

    def _need(self, request: SpeechRequest) -> Need | None:
        if self.writer is not None:
            return self.cloning.need(request)
        if request.ref_audio is not None:
            self.cloning.files.header(request.ref_audio)
        return self.cloning.least(request)

    def _planned(
        self, row_id: str, request: SpeechRequest, need: Need | None, is_silent: bool
    ) -> SpeechRow:
        split = None
        if not is_silent and self.split_rule.is_split(request):
            split = self.split_rule.settings()
        digest = request_hash(request, self.info.identity, need.digest if need else None, split)
        if is_silent:
            return silent_row(row_id, request, digest, self.info)
        return SpeechRow(row_id, request, digest, need)

    def _is_due(self, state: State) -> bool:
        if self.config.retry_failed:
            return state is State.FAILED
        return state is not State.DONE or self.config.overwrite

    def _state(
        self, row_id: str, request: SpeechRequest, need: Need | None, is_silent: bool
    ) -> State:
        """What the folder holds of a row; for --retry-failed no more than its journal says."""
        status = None if self.journal is None else self.journal.status(row_id)
        if status is None:
            return State.NEW
        if status == "failed":
            return State.FAILED
        if self.config.retry_failed:
            return State.DONE
        if not self._is_recorded(self._planned(row_id, request, need, is_silent)):
            return State.CHANGED
        return State.DONE if self._is_whole(row_id) else State.DAMAGED

    def _is_whole(self, row_id: str) -> bool:
        """Whether the files of a row that is recorded ok are what was written."""
        assert self.journal is not None
        assert self.writer is not None
        size, frames = self.journal.file_size(row_id)
        if frames is not None:
            size = self.writer.recorded_bytes(frames * self.info.samples_per_frame)
        return self.writer.is_whole(row_id, size, self.journal.file_sum(row_id))

    def _is_foreign(self, row_id: str) -> bool:
        if self.config.overwrite or self.writer is None:
            return False
        return self.writer.path_of(row_id).is_file()

    def _is_recorded(self, row: SpeechRow) -> bool:
        """Whether the row's last line is ok and of this request, by the rules of that line."""
        journal, writer = self.journal, self.writer
        assert journal is not None
        assert writer is not None
        schema = journal.schema(row.id)
        if schema is None or schema == SCHEMA:
            return journal.done(row.id, row.request_hash, writer.delivery_hash)
        if not row.is_silent and self.split_rule.is_split(row.request):
            return False  # nothing was split by those rules
        request = first_request(row.request, row.id, self.config)
        identity, ref_digest = self.info.identity, row.need.digest if row.need else None
        if schema == 0:
            joint = joint_hash(request, writer.delivery, identity, ref_digest)
            return journal.done(row.id, joint, None)
        digest = request_hash(request, identity, ref_digest)
        return journal.done(row.id, digest, writer.delivery_hash)


def check_manifest(source: Manifest, config: RunConfig, info: ModelInfo) -> ManifestSummary:
    """Judge every row of a manifest and sum up, whatever a folder holds.

    Raises:
        ManifestError: the file cannot be used at all, or has no rows.
        UsageError: a flag does not fit the checkpoint.
    """
    return RowPlan(source, config, info).survey().summary
