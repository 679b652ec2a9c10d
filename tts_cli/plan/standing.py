"""Compare a row with the output folder: whether it is done, whether its file can be made without
speaking, and which take its speech is to be.

Whether the take that somebody chose still fits its row, which take a speech is to be, and how
many of them an earlier run has spoken already.
"""

from __future__ import annotations

import json
from dataclasses import replace
from enum import Enum
from itertools import count, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from tts_cli.config import RunConfig
from tts_cli.core import Need, Place, Role, Status, Task
from tts_cli.errors import RowError
from tts_cli.store.files import CODES_SUFFIX, AudioWriter
from tts_cli.store.index import RowTakes
from tts_cli.store.journal import Journal
from tts_cli.store.reencode import ReencodeJob
from tts_cli.store.run_file import RunLog
from tts_cli.store.sources import find_source
from tts_cli.store.store import Store
from tts_cli.store.take import Take
from tts_cli.text.unseen import as_seen

if TYPE_CHECKING:
    from models.base import SpeechRequest
    from tts_cli.core import Row
    from tts_cli.plan.resolve import ResolvedRow, Resolver


_MOST_ATTEMPTS = 1 << 20  # that a line is believed


def attempts_before(record: Take, num_pieces: int) -> tuple[int, ...]:
    """How many draws a failed row's line tells of, at each of its pieces. Another run goes on
    behind them: the same ones would end the same way. None at pieces that came out well, which
    nobody has kept; if all have, they were too long together, and all are drawn anew.
    """
    parts, none = record.parts, (0,) * num_pieces
    if not record.is_runaway:
        return none
    if num_pieces == 1:
        return (_count(record.attempts),)
    if len(parts) != num_pieces:
        return none
    have_failed = [part.get("error") is not None for part in parts]
    is_any = any(have_failed)
    return tuple(
        _count(part.get("attempts")) if has_failed or not is_any else 0
        for part, has_failed in zip(parts, have_failed, strict=True)
    )


def _count(value: Any) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value < _MOST_ATTEMPTS else 0


class State(Enum):
    """What the folder holds of a row."""

    NEW = "new"  # no line in the journal
    FAILED = "failed"  # the last line says so
    CHANGED = "changed"  # recorded ok, for another request or delivery
    KEPT = "kept"  # recorded ok for another delivery only; its file can be made without speaking
    DAMAGED = "damaged"  # recorded ok, but its file is gone, or not what was written
    DONE = "done"
    BACK = "back"  # removed, and a take of this very request is there


class Standing(NamedTuple):
    """A row, and what the folder holds of it."""

    state: State
    choice: Take | None = None  # of a take that somebody chose, and that fits
    has_fallen: bool = False  # one that was chosen does not fit any more
    is_early: bool = False  # it was spoken by a version that was never published
    is_expected: bool = False  # its file is what these very settings give
    order: ReencodeJob | None = None  # of State.KEPT
    not_kept: str = ""  # why its file cannot be made, though only its delivery is another one


class OutputFolder:
    """What a folder holds of the rows of a run.

    Args:
        folder: that is looked at; it may come to be written to.
    """

    def __init__(self, planner: Resolver, folder: Store) -> None:
        self._planner = planner
        self._config = planner.config
        self.folder = folder

    @property
    def journal(self) -> Journal:
        """The folder's, which is another one once it is written to."""
        return self.folder.journal

    @property
    def writer(self) -> AudioWriter:
        """The folder's, as well."""
        return self.folder.writer

    def is_due(self, state: State) -> bool:
        """Whether a row is to be spoken."""
        if self._config.retry_failed:
            return state is State.FAILED
        return state not in (State.DONE, State.BACK) or self._config.overwrite

    def standing(self, row_id: str, asked: ResolvedRow, need: Need | None) -> Standing:
        """What the folder holds of a row; for --retry-failed no more than its journal says."""
        file = self.journal.file(row_id)
        if file is None:
            is_back = self._is_back(row_id, asked, need)
            return Standing(State.BACK if is_back else State.NEW)
        if self._config.retry_failed:
            return Standing(State.FAILED if file.has_failed else State.DONE)
        if need is not None and not need.digest:  # its voice is still to be made
            return Standing(State.FAILED if file.has_failed else State.CHANGED)
        if file.has_failed:
            return Standing(State.FAILED)
        mine, is_silent = self._planner.request_hash(asked, need), asked.is_silent
        if file.current is None or file.current.is_early:
            return Standing(State.CHANGED, has_fallen=file.is_held, is_early=True)
        is_done = file.current.is_of(mine, self.writer.delivery_hash)
        if is_done and not file.is_held:
            state = State.DONE if self._is_whole(row_id, file) else State.DAMAGED
            return Standing(state, is_expected=True)
        take = self.journal.take(row_id, file.take)
        if take is None:
            return Standing(State.CHANGED, has_fallen=file.is_held)
        if not file.is_held:
            is_same = take.request_hash == mine and not is_silent
            return self._or_kept(Standing(State.CHANGED), row_id, take, is_same)
        if not fits(take, asked.request, self._planner.content_hash(asked, need), need):
            return Standing(State.CHANGED, has_fallen=True)
        if take.delivery_hash != self.writer.delivery_hash:  # what was chosen stays, by any seed
            return self._or_kept(Standing(State.CHANGED, take), row_id, take, not is_silent)
        state = State.DONE if self._is_whole(row_id, file) else State.DAMAGED
        return Standing(state, take, is_expected=take.request_hash == mine)

    def as_recorded(self, row_id: str, take: Take, *, is_silent: bool) -> Standing:
        """Return the standing of a row whose recorded speech stays, whatever it asks for now; its
        delivery may change.
        """
        if (file := self.journal.file(row_id)) is None:
            return Standing(State.NEW)
        choice = take if file.is_held else None
        if take.delivery_hash != self.writer.delivery_hash:
            return self._or_kept(Standing(State.CHANGED, choice), row_id, take, not is_silent)
        state = State.DONE if self._is_whole(row_id, file) else State.DAMAGED
        return Standing(state, choice)

    def _is_back(self, row_id: str, asked: ResolvedRow, need: Need | None) -> bool:
        """Whether a row was removed and can come back: its take is what it asks for now. The format
        and level of the file do not matter.
        """
        file = self.journal.row(row_id)
        is_unknown = need is not None and not need.digest
        if not file.is_removed or self._config.retry_failed or is_unknown:
            return False
        take = self.journal.take(row_id, file.take)
        if take is None:
            return False
        if file.is_held:
            is_same = fits(take, asked.request, self._planner.content_hash(asked, need), need)
        else:
            is_same = take.request_hash == self._planner.request_hash(asked, need)
        return is_same and self.folder.can_come_back(take)

    def _or_kept(self, standing: Standing, row_id: str, take: Take, is_same: bool) -> Standing:
        """The same, or that the row's file can be made without speaking; or why it cannot, though
        only its delivery is another one.

        Args:
            is_same: its speech is that of the take.
        """
        if not is_same:
            return standing
        writer = self.writer
        try:
            source = find_source(writer.out, take, self._planner.info.sample_rate_hz)
            if writer.has_codes and not (writer.out / f"{row_id}{CODES_SUFFIX}").is_file():
                raise RowError("its codes were not saved, and --save-codes wants them")
        except RowError as error:
            return standing._replace(not_kept=str(error))
        return standing._replace(state=State.KEPT, order=ReencodeJob(take, source))

    def is_reread(self, row: Row, request: SpeechRequest) -> bool:
        """Whether a changed row was spoken of the same text by a version that left signs in it
        which nobody sees, or that the checkpoint never learnt.
        """
        take = self.take_of(row.id)
        written = (take and take.text) or ""
        spoken = (take and take.spoken_text) or written
        if spoken == request.text or as_seen(written) != row.text:
            return False
        return written != row.text or self._planner.care.finished(spoken) == request.text

    def take_of(self, row_id: str) -> Take | None:
        """What a row's file is, or was to be; None: no line tells."""
        if (file := self.journal.file(row_id)) is None:
            return None
        return self.journal.take(row_id, file.take)

    def place(self, task: Task, standing: Standing) -> Place:
        """Which take a row's own speech is to be. One that --overwrite makes by other settings than
        those of its file is a choice, which stays whatever seed later runs have.
        """
        row_id, state = task.id, standing.state
        is_held = standing.choice is not None
        if self._config.overwrite and state in (State.CHANGED, State.KEPT, State.DONE):
            is_held = is_held or not (standing.is_expected or standing.is_early)
        role = Role.HELD if is_held else Role.OWN
        file = self.journal.file(row_id)
        if file is not None and self._is_again(task, file, state):
            return Place(file.take, role)
        return Place(self.journal.row(row_id).take_to_write(), role)

    def _is_again(self, task: Task, file: RowTakes, state: State) -> bool:
        """Whether a row's result is the take that it has: this very request failed, or its file is
        missing or damaged.
        """
        journal, writer, take = self.journal, self.writer, file.take
        if state in (State.DAMAGED, State.FAILED):
            # One that is fine stays where only what was to replace it failed.
            current, request_hash = file.current, task.request_hash
            if current is None or current.status is not file.status:
                return False
            return current.is_of(request_hash, writer.delivery_hash)
        if state is not State.CHANGED:
            return False
        recorded = journal.take(task.id, take)
        is_same = recorded is not None and recorded.request_hash == task.request_hash
        return is_same and not (writer.out / str(recorded and recorded.path)).exists()

    def behind_failed(self, task: Task) -> Task:
        """A task that failed, to go on behind the attempts that were made at it, so that no draw is
        made twice.
        """
        record = self.journal.take(task.id, task.place.take)
        if record is None or record.status is not Status.FAILED or record.is_early:
            return task
        if record.request_hash != task.request_hash or task.request.sampling.draws_nothing:
            return task
        made = attempts_before(record, len(task.pieces))
        pieces = zip(task.pieces, made, strict=True)
        return replace(task, pieces=tuple(replace(one, attempts_before=n) for one, n in pieces))

    def _is_whole(self, row_id: str, file: RowTakes) -> bool:
        """Whether the files of a row that is recorded ok are what was written."""
        found = file.current
        return found is not None and self.writer.is_whole(row_id, found.size or None, found.sha256)

    def foreign(self, row_id: str) -> list[str]:
        """Names of files that stand where those of a new row are to go."""
        if self._config.overwrite or not self.folder.is_anywhere:
            return []
        names = (self.writer.format, *self._config.subtitle_formats)
        paths = (self.folder.out / f"{row_id}.{name}" for name in names)
        return [path.name for path in paths if path.is_file()]


_WHICH_ROWS = ("only", "shard", "limit")  # settings


def fits(take: Take, request: SpeechRequest, content: str, need: Need | None) -> bool:
    """Whether a recorded take is speech of what a row asks for now, drawn as it may be.

    Args:
        take: what is older than `content_hash` is compared by the fields it has.
        content: the row's `content_hash`.
    """
    if take.content_hash:
        return take.content_hash == content
    return (
        take.said == request.text
        and take.voice == request.voice
        and take.language == request.language
        and take.instruct == request.instruct
        and take.clone_mode == request.clone_mode
        and take.ref_sha256 == (None if need is None else need.ref_sha256)
    )


def extra_places(journal: Journal, row_id: str, own: Place | None, extras: int) -> list[Place]:
    """Which takes the further speeches of a row are to be: the first numbers that no line has, be
    they those of a run that was killed.

    Args:
        own: where its own goes; None: it is not spoken.
    """
    taken = 1 if own is None else own.take
    known = {taken, *journal.row(row_id).numbers}
    numbers = (take for take in count(2) if take not in known)
    return [Place(take, Role.EXTRA) for take in islice(numbers, extras)]


class ServedTakes:
    """Takes that a run for `--takes` has spoken that did not come to its end: the same command goes
    on with them. Behind one that did, it asks for as many more.
    """

    def __init__(self, config: RunConfig, journal: Journal) -> None:
        self._journal = journal
        self._most = config.takes
        self._ended: set[str] = set()
        self._since = ""  # when the last run began that was of these rows, or more, and has ended
        mine = json.loads(json.dumps(config.as_dict()))
        for run in RunLog(journal.path.parent).lines():
            settings = run.get("settings")
            if run.get("exit_code") not in (0, 1) or not isinstance(settings, dict):
                continue
            self._ended.add(str(run.get("run_id")))
            is_of_mine = all(settings.get(name) in (None, [], mine[name]) for name in _WHICH_ROWS)
            if (settings.get("takes") or settings.get("verify")) and is_of_mine:
                self._since = max(self._since, str(run.get("started")))

    def count(self, row_id: str) -> int:
        """How many of a row's, as many as are asked for at most."""
        numbers = self._journal.row(row_id).numbers
        takes = (self._journal.take(row_id, number) for number in numbers if number != 1)
        num_served = sum(take is not None and self._is_served(take) for take in takes)
        return min(num_served, self._most)

    def _is_served(self, take: Take) -> bool:
        if take.role is Role.OWN or take.run_id is None or take.run_id in self._ended:
            return False
        return (take.started or "") > self._since
