"""Which rows of a manifest a run speaks, why, and what room they need.

The manifest is read twice: once to check every row, see what is left to do and how long the longest
row is, once to speak. What the first reading found is kept in a byte a row, so that the second one
passes over all rows that nothing is to be done about.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tts_cli.config import SUBTYPES, RunConfig
from tts_cli.errors import RowError, StoppedEarly, UsageError
from tts_cli.manifest.ids import is_in_shard
from tts_cli.manifest.reader import Manifest
from tts_cli.manifest.request import Requests, first_request
from tts_cli.manifest.row import BadRow, Row
from tts_cli.manifest.seeds import take_seed
from tts_cli.manifest.words import is_wordless
from tts_cli.output.hashes import Delivery, content_hash, joint_hash, request_hash
from tts_cli.output.journal import Journal
from tts_cli.output.record import SCHEMA, RowRecord
from tts_cli.output.record_table import RowFile
from tts_cli.output.takes import Place, suffix_of
from tts_cli.output.writer import AudioWriter
from tts_cli.run.anchor import choose_anchor, keep_anchor, require_free_voices, too_long
from tts_cli.run.choice import Line, extra_places, fits, place_of
from tts_cli.run.kept import REPLACING, find_kept
from tts_cli.run.model_source import prompt_counter
from tts_cli.run.needs import Needs, most_positions, room_problem
from tts_cli.run.only import Only
from tts_cli.run.recode import Order
from tts_cli.run.row_checks import CheckedRows
from tts_cli.run.split_rule import SplitRule
from tts_cli.run.survey import ManifestSummary, Tally
from tts_cli.run.wordless import NO_WORDS, silent_row
from tts_cli.text.pauses import without_pauses
from tts_cli.voices.anchor import Anchor, read_anchor, unspoken_anchor
from tts_cli.voices.resolve import Cloning, Need
from tts_cli.voices.speech_row import PlannedPart, SpeechRow

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest
    from tts_cli.run.records import Recorder
    from tts_cli.text.care import TextCare


log = logging.getLogger(__name__)

MAX_NAMED = 4  # files a message names
OWN, EXTRAS, REMAKE = 1, 2, 4  # what is to be done about a row, in a byte a row
_TO_SPEAK = bytes(flags & (OWN | EXTRAS) for flags in range(256))
_TO_REMAKE = bytes(flags & REMAKE for flags in range(256))
WAIT_S = 0.2  # between two looks at whether the run was stopped


class State(Enum):
    """What the folder holds of a row."""

    NEW = "new"  # no line in the journal
    FAILED = "failed"  # the last line says so
    CHANGED = "changed"  # recorded ok, for another request or delivery
    KEPT = "kept"  # recorded ok for another delivery only; its file can be made without speaking
    DAMAGED = "damaged"  # recorded ok, but its file is gone, or not what was written
    DONE = "done"


class Standing(NamedTuple):
    """A row, and what the folder holds of it."""

    state: State
    choice: Line | None = None  # of a take that somebody chose, and that fits
    has_fallen: bool = False  # one that was chosen does not fit any more
    is_in_place: bool = False  # to be spoken as it was, or over nothing
    is_expected: bool = False  # its file is what these very settings give
    order: Order | None = None  # of State.KEPT
    not_kept: str = ""  # why its file cannot be made, though only its delivery is another one


@dataclass
class Survey:
    """What is left to do."""

    summary: ManifestSummary
    needs: Needs = field(default_factory=Needs)  # of the rows to speak
    silent: int = 0  # rows without words, which need no model
    bad: int = 0  # selected rows to record as failed: bad ones, and those certain to fail
    skipped: int = 0  # done by an earlier run, or left out by --retry-failed
    due: Counter[State] = field(default_factory=Counter)  # pending rows, by what there is
    takes: int = 0  # more of rows, to be spoken beside their own
    with_takes: int = 0  # rows that these are of
    one_take: int = 0  # rows that draw nothing, so that every take would be the same
    held: int = 0  # rows whose chosen takes hold
    fallen: Counter[str] = field(default_factory=Counter)  # by id, rows whose chosen do not
    foreign: list[str] = field(default_factory=list)  # files in the way of rows never recorded
    damaged: list[str] = field(default_factory=list)  # some ids of State.DAMAGED
    # Rows whose delivery alone is another one: to be made anew, by what of, and to be spoken again.
    kept: Counter[str] = field(default_factory=Counter)
    remade: int = 0  # once that was done
    unmade: list[RowRecord] = field(default_factory=list)
    again: int = 0
    first_again: str = ""  # its id and why

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
        writer: None: there is no folder.
        is_spoken: without a folder too; else what rows clone is looked at no further than its
            header there.
    """

    def __init__(
        self,
        source: Manifest,
        config: RunConfig,
        info: ModelInfo,
        journal: Journal | None = None,
        writer: AudioWriter | None = None,
        *,
        is_spoken: bool = False,
    ) -> None:
        self.source = source
        self.config = config
        self.info = info
        self.journal = journal
        self.writer = writer
        self.is_spoken = is_spoken or writer is not None
        self.cloning = Cloning(config, info)
        self.rows = CheckedRows(source, config, info)
        self.only = Only(config.only, config.out)
        self.split_rule = SplitRule.of(config, info)
        self._requests = Requests(config, info)
        self._is_anchor_new = False  # spoken by this run
        self._anchor_row: Row | None = None  # the others that nothing gives a voice follow it
        if config.anchor is not None:
            require_free_voices(config, info)
        # A row: what to speak or to record of it, whether to remake its file, 0 to pass it.
        self._wanted = bytearray()

    @property
    def care(self) -> TextCare:
        """How texts are read."""
        return self._requests.care

    @property
    def anchor(self) -> Anchor | None:
        """The row whose voice others have, once surveyed."""
        return self.cloning.anchor

    def survey(self) -> Survey:
        """Read the whole manifest: check, count, and bound the sizes.

        An anchor that is still to be spoken leaves open whether rows that follow it are done: they
        count as to be spoken until it is.

        Raises:
            ManifestError: it cannot be used at all, or has no rows.
            UsageError: `--only` names a row that it has not, or the anchor cannot be one.
            StoppedEarly: it was changed meanwhile.
        """
        if self.config.anchor is not None:
            self._find_anchor()
        tally = Tally(self.source.name, self.config, self.info, self.split_rule, self.care)
        found = Survey(tally.summary)
        shard, limit, taken = self.config.shard, self.config.limit, 0
        self._wanted.clear()
        for row in self.rows.read():
            is_mine = self.only.names(row.record_id) and is_in_shard(row.record_id, shard)
            is_mine = is_mine and (limit is None or taken < limit)
            taken += is_mine
            is_named, is_mine = is_mine, is_mine or self._is_anchor(row)
            if isinstance(row, BadRow):
                tally.add_bad(row)
                found.bad += is_mine
                self._wanted.append(is_mine)
                continue
            if not is_mine:
                tally.add_good(row)
                self._wanted.append(False)
                continue
            request, is_silent = self._request(row)
            tally.add_good(row, request, is_silent)
            extras = self.config.takes if is_named and not is_silent else 0
            self._wanted.append(self._is_wanted(row, request, is_silent, extras, found, tally))
        self.only.require_rows(self.source.name, (row.record_id for row in self.rows.read()))
        tally.close()
        found.summary.strangers = list(self.rows.casting.strangers)
        if self.anchor is not None:
            found.summary.anchor = self.anchor.id
            found.summary.is_anchor_spoken = self.anchor.is_spoken
        self.source.require_same()
        return found

    def __iter__(self) -> Iterator[SpeechRow | BadRow]:
        """Each row to speak or to keep silent, and each bad row to record.

        Raises:
            StoppedEarly: the manifest is not what was surveyed.
        """
        to_speak = self._wanted.translate(_TO_SPEAK)
        for row in self.rows.read(to_speak):
            wanted = to_speak[row.number - 1]
            if isinstance(row, BadRow):
                yield row
                continue
            yield from self._plan(row, wanted)

    def _plan(self, row: Row, wanted: int = OWN) -> Iterator[SpeechRow | BadRow]:
        """What is spoken of a good row, its own first; or that it was found to be a bad one."""
        request, is_silent = self._request(row)
        try:
            need = self._resolve(request, is_silent)
            parts = () if is_silent else self._parts(request, need)
        except RowError as error:
            message = str(error)
            yield BadRow(
                row.line, row.number, row.id, message, row.text, is_late=True, file=row.file
            )
            return
        own = None
        if wanted & OWN:
            standing = self._standing(row.id, request, need, is_silent)
            own, mine = self._place(row.id, standing), request
            if standing.choice is not None and standing.is_in_place:  # as it was chosen
                seed = standing.choice.get("seed")
                mine = request if seed is None else replace(request, seed=seed)
                parts = () if is_silent else self._parts(mine, need)
            yield self._complete(row, mine, need, is_silent, parts, own)
        num_extras = self.config.takes if wanted & EXTRAS else 0
        for place in extra_places(self.journal, row.id, own, num_extras):
            other = replace(request, seed=take_seed(request.seed, place.take))
            yield self._complete(row, other, need, False, self._parts(other, need), place)

    def orders(self) -> Iterator[Order]:
        """The files to be made of what the folder keeps. Raises StoppedEarly as iterating does."""
        for row in self.rows.read(self._wanted.translate(_TO_REMAKE)):
            if isinstance(row, Row):
                request, is_silent = self._request(row)
                need = self._resolve(request, is_silent)
                if order := self._standing(row.id, request, need, is_silent).order:
                    yield order

    def due(self, recorder: Recorder, is_stopped: Callable[[], bool]) -> Iterator[SpeechRow]:
        """The rows to speak; bad ones and silent ones go to the recorder. Ends early once
        `is_stopped`. An anchor comes first and alone: the others wait for its end.

        Raises:
            StoppedEarly: the anchor failed, or is no reference.
        """
        if self.anchor is not None and not self.anchor.is_spoken:
            yield from self._anchor_first(recorder, is_stopped)
        if self.anchor is not None and self.writer is not None and not is_stopped():
            keep_anchor(self.writer.out, self.anchor.id, self.anchor.need.digest)
        for row in self:
            if is_stopped():
                return
            if isinstance(row, BadRow):
                recorder.fail(row)
            elif row.is_silent:
                recorder.take(row)
            else:
                yield row

    def _complete(
        self,
        row: Row,
        request: SpeechRequest,
        need: Need | None,
        is_silent: bool,
        parts: tuple[PlannedPart, ...],
        place: Place,
    ) -> SpeechRow:
        """A row on its way."""
        planned = self._planned(row.id, request, need, is_silent)
        planned.place = place
        planned.character, planned.extra = row.character, row.extra
        planned.content_hash = self._content(request, need, is_silent)
        if request.text != row.text:
            planned.reading = self.care.read(row.text, request.language)
        if parts:
            planned.parts, planned.most_frames = parts, self.split_rule.most_frames(request)
        if self.anchor is not None and self._follows_anchor(request):
            planned.anchor = self.anchor.id
        return planned

    def _anchor_first(
        self, recorder: Recorder, is_stopped: Callable[[], bool]
    ) -> Iterator[SpeechRow]:
        """The anchor; behind it the survey is made again, of rows whose voice is known now."""
        assert self._anchor_row is not None
        assert self.writer is not None
        row = next(self._plan(self._anchor_row))
        if isinstance(row, BadRow):
            raise StoppedEarly(f"the anchor cannot be spoken: {row.message}")
        self.writer.kept_codes = row.id
        ended = recorder.end_of(row.id)
        yield row
        while not ended.wait(WAIT_S):
            if is_stopped():
                return
        if is_stopped():
            return
        if recorder.journal.status(row.id) != "ok":
            raise StoppedEarly(
                f"the anchor, row '{row.id}', failed, so that there is no voice for the others",
                remedy="see above what is wrong with it, or name another row by --anchor",
            )
        self._is_anchor_new = True
        found = self.survey()
        # Itself was spoken now, and what was remade is counted as that.
        recorder.count_skipped(found.skipped - 1 - recorder.totals.remade)

    def _find_anchor(self) -> None:
        """Choose the anchor, and find out whether its speech is there."""
        if self._anchor_row is None:
            self._anchor_row = choose_anchor(self.config, self.rows.read, self._is_free)
        row = self._anchor_row
        if row is None:
            log.warning("--anchor first: every row has a voice of its own, or no words")
            return
        self.cloning.anchor = None
        request, _ = self._request(row)
        planned = self._planned(row.id, request, None, False)
        path, text = Path(row.id), without_pauses(request.text)
        if self.writer is not None:
            path = self.writer.path_of(row.id)
        if not self._has_anchor(planned):
            if problem := too_long(row, text, self.split_rule.is_long(request)):
                raise problem
            self.cloning.anchor = unspoken_anchor(row.id, path, text, request.max_frames, self.info)
            return
        assert self.writer is not None
        codes_path = self.writer.codes_path_of(row.id)
        try:
            self.cloning.anchor = read_anchor(
                row.id, path, codes_path, text, self.info, self.cloning.silence_s
            )
        except RowError as error:
            kind = StoppedEarly if self._is_anchor_new else UsageError
            raise kind(
                f"the anchor, row '{row.id}': {error}", remedy="name another row by --anchor"
            ) from None

    def _has_anchor(self, row: SpeechRow) -> bool:
        """Whether the anchor's speech is in the folder and is to stay."""
        if self.journal is None or self.writer is None or self.journal.status(row.id) != "ok":
            return False
        if self.config.overwrite and not self._is_anchor_new:
            return False
        standing = self._standing(row.id, row.request, row.need, False, is_close=True)
        return standing.state is State.DONE

    def _is_anchor(self, row: Row | BadRow) -> bool:
        return self.anchor is not None and row.id == self.anchor.id

    def _is_free(self, row: Row) -> bool:
        """Whether nothing fixes the voice that a row is spoken in."""
        request, is_silent = self._request(row)
        return not is_silent and request.voice is None and request.ref_audio is None

    def _follows_anchor(self, request: SpeechRequest) -> bool:
        return self.anchor is not None and self.anchor.is_voice_of(request)

    def _request(self, row: Row) -> tuple[SpeechRequest, bool]:
        """What a row asks of the model, and whether it has no words to be spoken."""
        request = self._requests.build(row)
        is_silent = is_wordless(without_pauses(request.text), self.info.pace)
        is_free = request.voice is None and request.ref_audio is None
        if is_free and not is_silent and self.anchor is not None and row.id != self.anchor.id:
            request = self.anchor.given_to(request)
        return self.split_rule.without_lost_pauses(request), is_silent

    def _is_wanted(
        self,
        row: Row,
        request: SpeechRequest,
        is_silent: bool,
        extras: int,
        found: Survey,
        tally: Tally,
    ) -> int:
        """Judge a good row and count it; what is to be done about it."""
        if extras and request.sampling.draws_nothing:
            found.one_take += 1
            extras = 0
        order = None
        try:
            need = self._resolve(request, is_silent)
            standing = self._standing(row.id, request, need, is_silent)
            is_due = self._is_due(standing.state)
            if self.anchor is not None and row.id == self.anchor.id:
                is_due = not self.anchor.is_spoken
            elif not self.config.overwrite and not self._is_anchor_new:
                order = standing.order
            if order is not None:
                found.kept[order.kept.kind] += 1
                tally.add_remade(request)
                is_due = False
            elif is_due and standing.not_kept and not self.config.overwrite:
                found.again += 1
                found.first_again = found.first_again or f"{row.id}: {standing.not_kept}"
            found.held += standing.choice is not None
            if standing.has_fallen:
                found.fallen[row.id if len(found.fallen) < MAX_NAMED else ""] += 1
            found.skipped += not is_due and order is None
            if not is_due and not extras:
                return 0 if order is None else REMAKE
                return 0
            parts = () if is_silent else self._parts(request, need)
        except RowError as error:
            if self.anchor is not None and row.id == self.anchor.id:
                raise UsageError(
                    f"the anchor, row '{row.id}', would fail: {error}", "name another by --anchor"
                ) from None
            if not is_silent:  # of the others the tally says what becomes of them
                tally.add_hopeless(row, error)
            found.bad += 1
            return OWN
        for _ in range(is_due + extras):
            if is_silent:
                found.silent += 1
            elif parts:
                found.needs.add_parts([part.request for part in parts], self.info, need)
            else:
                found.needs.add(request, self.info, need)
        if extras:
            tally.add_takes(request, parts, extras)
            found.takes += extras
            found.with_takes += 1
        if not is_due:
            return EXTRAS if order is None else EXTRAS | REMAKE
        state = standing.state
        tally.add_due(row, request, parts, is_silent)
        found.summary.anchored += self._follows_anchor(request)
        found.due[state] += 1
        if state is State.DAMAGED and len(found.damaged) < MAX_NAMED:
            found.damaged.append(row.id)
        if state is State.NEW and len(found.foreign) < MAX_NAMED:
            found.foreign += self._foreign(row.id)
        return OWN | EXTRAS if extras else OWN

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
        if self.anchor is not None and self._follows_anchor(request):
            return self.anchor.need
        if self.is_spoken:
            return self.cloning.need(request)
        if request.ref_audio is not None:
            self.cloning.files.header(request.ref_audio)
        return self.cloning.least(request)

    def _planned(
        self, row_id: str, request: SpeechRequest, need: Need | None, is_silent: bool
    ) -> SpeechRow:
        split = self.split_rule.settings(request, is_silent)
        digest = request_hash(request, self.info.identity, need.digest if need else None, split)
        if is_silent:
            return silent_row(row_id, request, digest, self.info)
        return SpeechRow(row_id, request, digest, need)

    def _content(self, request: SpeechRequest, need: Need | None, is_silent: bool) -> str:
        split = self.split_rule.settings(request, is_silent)
        return content_hash(request, self.info.identity, need.digest if need else None, split)

    def _is_due(self, state: State) -> bool:
        if self.config.retry_failed:
            return state is State.FAILED
        return state is not State.DONE or self.config.overwrite

    def _standing(
        self,
        row_id: str,
        request: SpeechRequest,
        need: Need | None,
        is_silent: bool,
        *,
        is_close: bool = False,
    ) -> Standing:
        """What the folder holds of a row; for --retry-failed no more than its journal says, unless
        it `is_close`.
        """
        file = None if self.journal is None else self.journal.file(row_id)
        if file is None:
            return Standing(State.NEW)
        if self.config.retry_failed and not is_close:
            return Standing(State.FAILED if file.has_failed else State.DONE)
        if need is not None and not need.digest:  # an anchor that is still to be spoken
            return Standing(State.FAILED if file.has_failed else State.CHANGED)
        assert self.journal is not None
        assert self.writer is not None
        planned = self._planned(row_id, request, need, is_silent)
        if file.has_failed:
            line = self._line_being_replaced(row_id, file)
            failed = Standing(State.FAILED)
            return failed if line is None else self._or_kept(failed, planned, file, line)
        if self._is_recorded(planned, file.take) and not file.is_held:
            state = State.DONE if self._is_whole(row_id, file) else State.DAMAGED
            return Standing(state, is_in_place=state is State.DAMAGED, is_expected=True)
        line = self.journal.line(row_id, file.take) or {}
        is_expected = line.get("request_hash") == planned.request_hash
        if not file.is_held:
            is_in_place = is_expected or self._is_gone(row_id, line)
            changed = Standing(State.CHANGED, is_in_place=is_in_place)
            return self._or_kept(changed, planned, file, line)
        if not fits(line, request, self._content(request, need, is_silent), need):
            is_gone = self._is_gone(row_id, line)
            return Standing(State.CHANGED, has_fallen=True, is_in_place=is_gone)
        if line.get("delivery_hash") != self.writer.delivery_hash:
            changed = Standing(State.CHANGED, line, is_in_place=True)
            return self._or_kept(changed, planned, file, line)
        state = State.DONE if self._is_whole(row_id, file) else State.DAMAGED
        return Standing(state, line, False, state is State.DAMAGED, is_expected)

    def _line_being_replaced(self, row_id: str, file: RowFile) -> Line | None:
        """The line of a row whose last run died while its file was replaced by another format or
        level of the same speech.
        """
        assert self.journal is not None
        line = self.journal.line(row_id, file.take) or {}
        is_replaced = line.get("status") == "failed" and line.get("error") == REPLACING
        return line if is_replaced else None

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
            content = self._content(row.request, row.need, row.is_silent)
            known = record if fits(line, row.request, content, row.need) else None
        elif journal.schema(row.id, file.take) == SCHEMA:
            known = record if record.request_hash == row.request_hash else None
        else:
            known = self._of_first_schemas(row, record)
        if known is None:
            return None
        kept = find_kept(writer.out, known, self.info.sample_rate_hz)
        if writer.has_codes and not writer.codes_path_of(row.id).is_file():
            raise RowError("its codes are to be kept, and were not")
        return Order(known, kept)

    def _of_first_schemas(self, row: SpeechRow, record: RowRecord) -> RowRecord | None:
        """A line of an earlier version in the form of schema 1, if it is of this very request."""
        if self.split_rule.is_split(row.request):
            return None
        assert self.writer is not None
        request = first_request(row.request, row.id, self.config)
        identity, ref_digest = self.info.identity, row.need.digest if row.need else None
        digest = request_hash(request, identity, ref_digest)
        if record.delivery_hash:
            return replace(record, schema=1) if record.request_hash == digest else None
        # One hash stands for both: it tells the request only with the delivery of that file.
        for delivery in self._first_deliveries(record):
            if record.request_hash == joint_hash(request, delivery, identity, ref_digest):
                return replace(record, schema=1, request_hash=digest)
        return None

    def _first_deliveries(self, record: RowRecord) -> Iterator[Delivery]:
        rate_hz = self.info.sample_rate_hz  # of another one nothing could be made
        suffix = (record.path or "").rpartition(".")[2]
        for subtype in SUBTYPES.get(suffix, ()):
            yield Delivery(suffix, subtype, rate_hz)

    def _place(self, row_id: str, standing: Standing) -> Place:
        """Which take a row's own speech is to be. One that --overwrite makes by other settings than
        those of its file is a choice.
        """
        is_held = standing.choice is not None
        if self.config.overwrite and standing.state in (State.CHANGED, State.KEPT, State.DONE):
            is_held = is_held or not standing.is_expected
        return place_of(
            self.journal,
            row_id,
            is_in_place=standing.is_in_place,
            is_held=is_held,
            has_extras=self.config.takes > 0,
        )

    def _is_gone(self, row_id: str, line: Line) -> bool:
        """Whether there is no file that could be replaced."""
        assert self.writer is not None
        return not (self.writer.out / f"{row_id}{suffix_of(line)}").is_file()

    def _is_whole(self, row_id: str, file: RowFile) -> bool:
        """Whether the files of a row that is recorded ok are what was written."""
        assert self.journal is not None
        assert self.writer is not None
        size, frames = self.journal.file_size(row_id, file.take)
        if frames is not None:
            size = self.writer.recorded_bytes(frames * self.info.samples_per_frame)
        return self.writer.is_whole(row_id, size, self.journal.file_sum(row_id, file.take))

    def _foreign(self, row_id: str) -> list[str]:
        """Names of files that stand where those of a new row are to go."""
        if self.config.overwrite or self.writer is None:
            return []
        names = (self.writer.format, *self.config.subtitle_formats)
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
        if self.split_rule.settings(row.request, row.is_silent) is not None:
            return False  # nothing was split by those rules
        request = first_request(row.request, row.id, self.config)
        identity, ref_digest = self.info.identity, row.need.digest if row.need else None
        if schema == 0:
            joint = joint_hash(request, writer.delivery, identity, ref_digest)
            return journal.done(row.id, joint, None, take)
        digest = request_hash(request, identity, ref_digest)
        return journal.done(row.id, digest, writer.delivery_hash, take)


def check_manifest(source: Manifest, config: RunConfig, info: ModelInfo) -> ManifestSummary:
    """Judge every row of a manifest and sum up, whatever a folder holds.

    Raises:
        ManifestError: the file cannot be used at all, or has no rows.
        UsageError: a flag does not fit the checkpoint.
    """
    return RowPlan(source, config, info).survey().summary
