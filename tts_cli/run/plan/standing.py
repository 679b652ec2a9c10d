"""What the output folder holds of a row: whether it is done, and if not, whether its file can be
made without speaking; and which take its speech is to be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from tts_cli.config import SUBTYPES, RunConfig
from tts_cli.errors import RowError
from tts_cli.manifest.request import first_request
from tts_cli.output.hashes import Delivery, joint_hash, request_hash
from tts_cli.output.journal import Journal
from tts_cli.output.record import SCHEMA, RowRecord
from tts_cli.output.record_table import RowFile
from tts_cli.output.removed import Removed
from tts_cli.output.takes import Place
from tts_cli.output.writer import AudioWriter
from tts_cli.run.plan.choice import Line, fits, place_of
from tts_cli.run.plan.identity import RowIdentity
from tts_cli.run.remake.kept import find_kept
from tts_cli.run.remake.recode import Order
from tts_cli.run.retry import attempts_at_parts, attempts_in_vain
from tts_cli.text.unseen import as_seen
from tts_cli.voices.resolve import Need
from tts_cli.voices.speech_row import SpeechRow

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest
    from tts_cli.manifest.row import Row
    from tts_cli.run.plan.split_rule import SplitRule
    from tts_cli.text.care import TextCare


class State(Enum):
    """What the folder holds of a row."""

    NEW = "new"  # no line in the journal
    FAILED = "failed"  # the last line says so
    CHANGED = "changed"  # recorded ok, for another request or delivery
    KEPT = "kept"  # recorded ok for another delivery only; its file can be made without speaking
    DAMAGED = "damaged"  # recorded ok, but its file is gone, or not what was written
    DONE = "done"
    BACK = "back"  # gone, and its speech of this very request is in `removed/`


class Standing(NamedTuple):
    """A row, and what the folder holds of it."""

    state: State
    choice: Line | None = None  # of a take that somebody chose, and that fits
    has_fallen: bool = False  # one that was chosen does not fit any more
    is_expected: bool = False  # its file is what these very settings give
    order: Order | None = None  # of State.KEPT
    not_kept: str = ""  # why its file cannot be made, though only its delivery is another one


class OutputFolder:
    """What a folder holds of the rows of a run.

    Args:
        journal: of the folder; None: it has none, so every row is new.
        writer: None: there is no folder.
    """

    def __init__(
        self,
        config: RunConfig,
        info: ModelInfo,
        split_rule: SplitRule,
        identity: RowIdentity,
        journal: Journal | None = None,
        writer: AudioWriter | None = None,
    ) -> None:
        self._config = config
        self._info = info
        self._split_rule = split_rule
        self._identity = identity
        self.journal = journal
        self.writer = writer

    def is_due(self, state: State) -> bool:
        """Whether a row is to be spoken."""
        if self._config.retry_failed:
            return state is State.FAILED
        return state not in (State.DONE, State.BACK) or self._config.overwrite

    def standing(
        self,
        row_id: str,
        request: SpeechRequest,
        need: Need | None,
        is_silent: bool,
    ) -> Standing:
        """What the folder holds of a row; for --retry-failed no more than its journal says."""
        file = None if self.journal is None else self.journal.file(row_id)
        if file is None:
            is_back = self._is_back(row_id, request, need, is_silent)
            return Standing(State.BACK if is_back else State.NEW)
        if self._config.retry_failed:
            return Standing(State.FAILED if file.has_failed else State.DONE)
        if need is not None and not need.digest:  # its voice is still to be made
            return Standing(State.FAILED if file.has_failed else State.CHANGED)
        assert self.journal is not None
        assert self.writer is not None
        planned = self._identity.planned(row_id, request, need, is_silent)
        if file.has_failed:
            return Standing(State.FAILED)
        if self._is_recorded(planned, file.take) and not file.is_held:
            state = State.DONE if self._is_whole(row_id, file) else State.DAMAGED
            return Standing(state, is_expected=True)
        line = self.journal.line(row_id, file.take) or {}
        if not file.is_held:
            return self._or_kept(Standing(State.CHANGED), planned, file, line)
        if not fits(line, request, self._identity.content(request, need, is_silent), need):
            return Standing(State.CHANGED, has_fallen=True)
        if line.get("delivery_hash") != self.writer.delivery_hash:
            return self._or_kept(Standing(State.CHANGED, line), planned, file, line)
        state = State.DONE if self._is_whole(row_id, file) else State.DAMAGED
        is_expected = line.get("request_hash") == planned.request_hash
        return Standing(state, line, is_expected=is_expected)

    def _is_back(
        self, row_id: str, request: SpeechRequest, need: Need | None, is_silent: bool
    ) -> bool:
        """Whether a row is gone and can come back: what was spoken of it is what it asks for now,
        and lies in `removed/`. How that is delivered is not asked.
        """
        if self.journal is None or (file := self.journal.gone(row_id)) is None:
            return False
        if self._config.retry_failed or (need is not None and not need.digest):
            return False
        assert self.writer is not None
        removed = Removed(self.writer.out, self.journal)
        line = removed.line(row_id) or {}
        if file.is_held:
            content = self._identity.content(request, need, is_silent)
            is_same = fits(line, request, content, need)
        else:
            planned = self._identity.planned(row_id, request, need, is_silent)
            is_same = line.get("request_hash") == planned.request_hash
        return is_same and removed.holds(line)

    def _or_kept(self, standing: Standing, row: SpeechRow, file: RowFile, line: Line) -> Standing:
        """The same, or that the row's file can be made without speaking; or why it cannot, though
        only its delivery is another one.
        """
        if row.is_silent:
            return standing
        try:
            order = self._order(row, file, line)
        except RowError as error:
            return standing._replace(not_kept=str(error))
        if order is None:
            return standing
        choice = line if file.is_held else None
        return standing._replace(state=State.KEPT, choice=choice, order=order)

    def _order(self, row: SpeechRow, file: RowFile, line: Line) -> Order | None:
        """A row's file to be made of what is kept; None where its speech is another one.

        Raises:
            RowError: only its delivery is another one, and nothing is kept that it can be made of.
        """
        journal, writer = self.journal, self.writer
        assert journal is not None
        assert writer is not None
        record = RowRecord.from_line(line)
        if file.is_held:  # what was chosen stays, whatever seed this run has
            content = self._identity.content(row.request, row.need, row.is_silent)
            known = record if fits(line, row.request, content, row.need) else None
        elif journal.schema(row.id, file.take) == SCHEMA:
            known = record if record.request_hash == row.request_hash else None
        else:
            known = self._of_first_schemas(row, record)
        if known is None:
            return None
        kept = find_kept(writer.out, known, self._info.sample_rate_hz)
        if writer.has_codes and not writer.codes_path_of(row.id).is_file():
            raise RowError("its codes are to be kept, and were not")
        return Order(known, kept)

    def _of_first_schemas(self, row: SpeechRow, record: RowRecord) -> RowRecord | None:
        """A line of an earlier version in the form of schema 1, if it is of this very request."""
        if self._split_rule.is_split(row.request):
            return None
        assert self.writer is not None
        request = first_request(row.request, row.id, self._config)
        identity, ref_digest = self._info.identity, row.need.digest if row.need else None
        digest = request_hash(request, identity, ref_digest)
        if record.delivery_hash:
            return replace(record, schema=1) if record.request_hash == digest else None
        # One hash stands for both: it tells the request only with the delivery of that file.
        for delivery in self._first_deliveries(record):
            if record.request_hash == joint_hash(request, delivery, identity, ref_digest):
                return replace(record, schema=1, request_hash=digest)
        return None

    def _first_deliveries(self, record: RowRecord) -> Iterator[Delivery]:
        rate_hz = self._info.sample_rate_hz  # of another one nothing could be made
        suffix = (record.path or "").rpartition(".")[2]
        for subtype in SUBTYPES.get(suffix, ()):
            yield Delivery(suffix, subtype, rate_hz)

    def is_reread(self, row: Row, request: SpeechRequest, care: TextCare) -> bool:
        """Whether a changed row was spoken of the same text by a version that left signs in it
        which nobody sees, or that the checkpoint never learnt.
        """
        line = self.line_of(row.id)
        written = str(line.get("text") or "")
        spoken = str(line.get("spoken_text") or written)
        if spoken == request.text or as_seen(written) != row.text:
            return False
        return written != row.text or care.finished(spoken) == request.text

    def line_of(self, row_id: str) -> Line:
        """The line of a row's file; empty: there is none."""
        if self.journal is None or (file := self.journal.file(row_id)) is None:
            return {}
        return self.journal.line(row_id, file.take) or {}

    def place(self, row: SpeechRow, standing: Standing) -> Place:
        """Which take a row's own speech is to be. One that --overwrite makes by other settings than
        those of its file is a choice.
        """
        file = None if self.journal is None else self.journal.file(row.id)
        is_in_place = file is not None and self._is_again(row, file.take, standing.state)
        is_held = standing.choice is not None
        if self._config.overwrite and standing.state in (State.CHANGED, State.KEPT, State.DONE):
            is_held = is_held or not standing.is_expected
        return place_of(
            self.journal,
            row.id,
            is_in_place=is_in_place,
            is_held=is_held,
            has_extras=self._config.takes > 0,
        )

    def _is_again(self, row: SpeechRow, take: int, state: State) -> bool:
        """Whether a row's speech is what its file is, or was to be: this very request failed, or
        its file is gone or damaged, or is one of another format, which stays beside the new one.
        """
        journal, writer = self.journal, self.writer
        assert journal is not None
        assert writer is not None
        if state in (State.DAMAGED, State.FAILED):
            is_of = journal.is_of(row.id, row.request_hash, writer.delivery_hash, take)
            # One that is fine stays where only what was to replace it failed.
            return is_of and journal.status(row.id, take) == journal.status(row.id)
        if state is not State.CHANGED:
            return False
        line = journal.line(row.id, take) or {}
        paths = writer.path_of(row.id), writer.path_of(row.id, take=take)
        is_same = line.get("request_hash") == row.request_hash
        return is_same and not any(path.exists() for path in paths)

    def go_on(self, row: SpeechRow) -> None:
        """Let a row that failed go on behind the attempts that were made at it, so that no draw is
        made twice.
        """
        assert self.journal is not None
        record = RowRecord.from_line(self.journal.line(row.id, row.place.take) or {})
        is_same = record.status == "failed" and record.request_hash == row.request_hash
        if not is_same or row.request.sampling.draws_nothing:
            return
        if row.parts:
            row.part_attempts_before = attempts_at_parts(record, len(row.parts))
        else:
            row.attempts_before = attempts_in_vain(record)

    def _is_whole(self, row_id: str, file: RowFile) -> bool:
        """Whether the files of a row that is recorded ok are what was written."""
        assert self.journal is not None
        assert self.writer is not None
        size, frames = self.journal.file_size(row_id, file.take)
        if frames is not None:
            size = self.writer.recorded_bytes(frames * self._info.samples_per_frame)
        return self.writer.is_whole(row_id, size, self.journal.file_sum(row_id, file.take))

    def foreign(self, row_id: str) -> list[str]:
        """Names of files that stand where those of a new row are to go."""
        if self._config.overwrite or self.writer is None:
            return []
        names = (self.writer.format, *self._config.subtitle_formats)
        paths = (self.writer.sibling(row_id, name) for name in names)
        return [path.name for path in paths if path.is_file()]

    def _is_recorded(self, row: SpeechRow, take: int) -> bool:
        """Whether a take's last line is ok and of this request, by the rules of that line."""
        journal, writer = self.journal, self.writer
        assert journal is not None
        assert writer is not None
        schema = journal.schema(row.id, take)
        if schema is None or schema == SCHEMA:
            return journal.done(row.id, row.request_hash, writer.delivery_hash, take)
        if self._split_rule.settings(row.request, row.is_silent) is not None:
            return False  # nothing was split by those rules
        request = first_request(row.request, row.id, self._config)
        identity, ref_digest = self._info.identity, row.need.digest if row.need else None
        if schema == 0:
            joint = joint_hash(request, writer.delivery, identity, ref_digest)
            return journal.done(row.id, joint, None, take)
        digest = request_hash(request, identity, ref_digest)
        return journal.done(row.id, digest, writer.delivery_hash, take)
