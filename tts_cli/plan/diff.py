"""Compare a resolved row with the output folder: choose the action, its reason, and the number
of the take that the result becomes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from tts_cli.config import RunConfig
from tts_cli.core import Role, Status, TakeRef, Task
from tts_cli.errors import RowError
from tts_cli.events import Event, Events
from tts_cli.plan.changes import Cause, Changes
from tts_cli.store.entry import JournalEntry
from tts_cli.store.files import CODES_SUFFIX
from tts_cli.store.index import RowTakes
from tts_cli.store.journal import Journal
from tts_cli.store.reencode import ReencodeJob
from tts_cli.store.run_file import RunLog
from tts_cli.store.sources import find_source
from tts_cli.store.store import Store
from tts_cli.text.unicode import clean_unicode
from tts_cli.voices.generated import is_made

if TYPE_CHECKING:
    from tts_cli.plan.resolve import ResolvedRow, Resolver


_MAX_ATTEMPTS = 1 << 20  # a larger number in an entry is not believed


def attempts_before(record: JournalEntry, num_pieces: int) -> tuple[int, ...]:
    """Return the number of attempts that a failed row's entry records for each of its pieces.

    A further run continues with the next seeds, because the same ones would fail again. Pieces that
    were ok count as 0: they must be synthesized again, and their seed is good. If all were ok, they
    were too long together, so all get new seeds.
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
    return value if is_number and 0 <= value < _MAX_ATTEMPTS else 0


class Do(Enum):
    """The kinds of actions for a row. The values are the reasons in reports."""

    NEW = "new"  # synthesize it: the journal has no entry
    RETRY = "failed"  # synthesize it: the last entry is a failure
    CHANGED = "changed"  # synthesize it: recorded ok, for another request or delivery
    REENCODE = "kept"  # convert its file: recorded ok for another delivery only
    DAMAGED = "damaged"  # synthesize it: its file is missing or damaged
    KEEP = "done"
    RESTORE = "back"  # it was removed, and a take of the same request exists


class Action(NamedTuple):
    """The action for a row, with the facts that the plan needs."""

    do: Do
    pinned: JournalEntry | None = None  # the pinned take, if it fits
    is_unpinned: bool = False  # the pinned take does not fit any more
    is_early: bool = False  # it was synthesized by a version that was never published
    is_expected: bool = False  # its file is the one that these settings produce
    job: ReencodeJob | None = None  # for Do.REENCODE
    not_convertible: str = ""  # why a file cannot be converted although only the delivery changed


NEW = Action(Do.NEW)  # of a row that the journal does not have


class FolderDiff:
    """Compares the rows that an output folder has with the rows of a run.

    Args:
        store: the folder; it may be opened for writing later.
    """

    def __init__(self, resolver: Resolver, store: Store, changes: Changes) -> None:
        self._resolver = resolver
        self._config = config = resolver.config
        # Whether done rows that would sound different now are synthesized again.
        self._redoes_changed = config.redo is not None or config.overwrite
        self.store = store
        self.changes = changes

    def action(self, resolved: ResolvedRow, events: Events) -> Action:
        """Return the action for a row.

        A done row whose request differs now stays done, unless the manifest or the user asks for
        the change. The reason why it stays is added to `events`.
        """
        found = self.by_record(resolved)
        take = self.take_of(resolved.row.id) if found.do is Do.CHANGED else None
        if self._redoes_changed or found.is_early or found.not_convertible or take is None:
            return found
        if take.request_hash == resolved.request_hash():  # its delivery changed
            return found
        is_pinned = found.is_unpinned or found.pinned is not None
        cause = self.changes.cause(resolved, take, is_pinned=is_pinned)
        if cause is Cause.ROW:
            if other := self.changes.other_manifest(take):
                events.add(Event.FROM_OTHER, resolved.row.id, facts={"id": "", "text": other})
            return found
        kept = self._as_recorded(resolved, take)
        if cause is Cause.SETTINGS and not self._config.keep_done:
            events.add(Event.REFUSED, resolved.row.id)
        elif kept.do is not Do.CHANGED:
            events.add(Event.OLDER, resolved.row.id)
        return kept

    def by_record(self, resolved: ResolvedRow) -> Action:
        """Return the action by the folder's entries and files alone; for --retry-failed by its
        journal alone.
        """
        row_id = resolved.row.id
        file = self.store.journal.row(row_id)
        if file.current is None:
            return Action(Do.NEW)
        if file.is_removed:
            return Action(Do.RESTORE if self._can_come_back(resolved, file) else Do.NEW)
        if self._config.retry_failed:
            return Action(Do.RETRY if file.has_failed else Do.KEEP)
        if resolved.lacks_voice:
            return Action(Do.RETRY if file.has_failed else Do.CHANGED)
        if file.has_failed:
            return Action(Do.RETRY)
        if file.current.is_early:
            return Action(Do.CHANGED, is_unpinned=file.is_held, is_early=True)
        mine = resolved.request_hash()
        delivery = self.store.writer.delivery_hash_of(resolved.pace)
        if file.current.is_of(mine, delivery) and not file.is_held:
            return Action(self._keep(row_id, file), is_expected=True)
        take = self.store.journal.take(row_id, file.take)
        if take is None:
            return Action(Do.CHANGED, is_unpinned=file.is_held)
        if not file.is_held:
            is_same = take.request_hash == mine
            return self._or_reencode(Action(Do.CHANGED), take, resolved, is_same=is_same)
        if not fits(take, resolved):
            return Action(Do.CHANGED, is_unpinned=True)
        if take.delivery_hash != delivery:  # a pinned take stays, with any seed
            return self._or_reencode(Action(Do.CHANGED, take), take, resolved)
        return Action(self._keep(row_id, file), take, is_expected=take.request_hash == mine)

    def _as_recorded(self, resolved: ResolvedRow, take: JournalEntry) -> Action:
        """Return the action for a row whose speech stays although its request differs; its
        delivery may change.
        """
        if (file := self.store.journal.file(resolved.row.id)) is None:
            return Action(Do.NEW)
        pinned = take if file.is_held else None
        if take.delivery_hash != self.store.writer.delivery_hash_of(resolved.pace):
            return self._or_reencode(Action(Do.CHANGED, pinned), take, resolved)
        return Action(self._keep(resolved.row.id, file), pinned)

    def _can_come_back(self, resolved: ResolvedRow, file: RowTakes) -> bool:
        """Return whether a removed row can be restored: its take has the present request, in any
        format and at any level.
        """
        if self._config.retry_failed or resolved.lacks_voice:
            return False
        take = self.store.journal.take(resolved.row.id, file.take)
        if take is None:
            return False
        is_same = take.request_hash == resolved.request_hash()
        if file.is_held:
            is_same = fits(take, resolved)
        return is_same and self.store.can_restore(take)

    def _or_reencode(
        self, action: Action, take: JournalEntry, resolved: ResolvedRow, *, is_same: bool = True
    ) -> Action:
        """Return REENCODE if the row's file can be converted, else the action with the reason why
        it cannot.

        Args:
            is_same: the take has the speech that the row asks for.
        """
        if not is_same or resolved.is_silent:
            return action
        writer = self.store.writer
        try:
            source = find_source(writer.out, take, self._resolver.info.sample_rate_hz)
            if writer.has_codes and not (writer.out / f"{take.id}{CODES_SUFFIX}").is_file():
                raise RowError("its codes were not saved, and --save-codes wants them")
        except RowError as error:
            return action._replace(not_convertible=str(error))
        return action._replace(do=Do.REENCODE, job=ReencodeJob(take, source, resolved.pace))

    def _keep(self, row_id: str, file: RowTakes) -> Do:
        """Return KEEP if the row's files are as they were written, else DAMAGED."""
        found, writer = file.current, self.store.writer
        if found is None or not writer.is_whole(row_id, found.size or None, found.sha256):
            return Do.DAMAGED
        return Do.KEEP

    def is_reread(self, resolved: ResolvedRow) -> bool:
        """Return whether a changed row has the same text, but was synthesized by a version that
        did not remove invisible signs or signs that the checkpoint does not know.
        """
        row, text = resolved.row, resolved.request.text
        take = self.take_of(row.id)
        written = (take and take.text) or ""
        spoken = (take and take.spoken_text) or written
        if spoken == text or clean_unicode(written) != row.text:
            return False
        return written != row.text or self._resolver.care.finished(spoken) == text

    def was_unfixed(self, resolved: ResolvedRow) -> bool:
        """Return whether a row of a generated voice was synthesized before that voice existed."""
        if not is_made(resolved.request.voice):
            return False
        take = self.take_of(resolved.row.id)
        if take is None or take.voice:
            return False
        by_another = take.anchor or take.clone_model  # of earlier versions
        return by_another is not None or take.ref_sha256 is None

    def take_of(self, row_id: str) -> JournalEntry | None:
        if (file := self.store.journal.file(row_id)) is None:
            return None
        return self.store.journal.take(row_id, file.take)

    def own_task(self, task: Task, action: Action) -> Task:
        """Return the task of a row's own file with the number of its take.

        If --redo all synthesizes a row with other settings than those of its file, the take is
        pinned, so that a later run with another seed does not replace it.
        """
        row_id, do = task.id, action.do
        is_held = action.pinned is not None
        if self._config.overwrite and do in (Do.CHANGED, Do.REENCODE, Do.KEEP):
            is_held = is_held or not (action.is_expected or action.is_early)
        role = Role.HELD if is_held else Role.OWN
        row = self.store.journal.row(row_id)
        is_again = row.status is not None and self._is_again(task, row, do)
        take = row.take if is_again else row.take_to_write()
        task = replace(task, place=TakeRef(take, role))
        return self._after_failed(task) if do is Do.RETRY else task

    def _is_again(self, task: Task, file: RowTakes, do: Do) -> bool:
        """Return whether the result gets the number of the present take: the same request
        failed, or its file is missing or damaged.
        """
        writer = self.store.writer
        if do in (Do.DAMAGED, Do.RETRY):
            # If only the successor of a good take failed, that take keeps its number.
            current = file.current
            if current is None or current.status is not file.status:
                return False
            return current.is_of(task.request_hash, writer.delivery_hash_of(task.pace))
        if do is not Do.CHANGED:
            return False
        recorded = self.store.journal.take(task.id, file.take)
        is_same = recorded is not None and recorded.request_hash == task.request_hash
        return is_same and not (writer.out / str(recorded and recorded.path)).exists()

    def _after_failed(self, task: Task) -> Task:
        """Return a failed row's task with its earlier attempts, so that no seed is repeated."""
        record = self.store.journal.take(task.id, task.place.take)
        if record is None or record.status is not Status.FAILED or record.is_early:
            return task
        if record.request_hash != task.request_hash or task.request.sampling.draws_nothing:
            return task
        made = attempts_before(record, len(task.pieces))
        pieces = zip(task.pieces, made, strict=True)
        return replace(task, pieces=tuple(replace(one, attempts_before=n) for one, n in pieces))


_WHICH_ROWS = ("only", "shard", "limit")  # settings


def fits(take: JournalEntry, resolved: ResolvedRow) -> bool:
    """Return whether a take has the content of a row's request, with any seed and sampling.
    Entries without `content_hash` are compared field by field.
    """
    if take.content_hash:
        return take.content_hash == resolved.content_hash()
    request, need = resolved.request, resolved.need
    return (
        take.said == request.text
        and take.voice == request.voice
        and take.language == request.language
        and take.instruct == request.instruct
        and take.clone_mode == request.clone_mode
        and take.ref_sha256 == (None if need is None else need.ref_sha256)
    )


class ServedTakes:
    """Counts takes of an interrupted run with `--takes`, which the same command completes. After
    a completed run, the same command asks for as many takes again.
    """

    def __init__(self, config: RunConfig, journal: Journal) -> None:
        self._journal = journal
        self._most = config.takes
        self._ended: set[str] = set()
        self._since = ""  # start of the last completed run that covered these rows
        mine = json.loads(json.dumps(config.as_dict()))
        for run in RunLog(journal.path.parent).lines():
            settings = run.get("settings")
            if run.get("exit_code") not in (0, 1) or settings is None:
                continue
            self._ended.add(str(run.get("run_id")))
            is_of_mine = all(settings.get(name) in (None, [], mine[name]) for name in _WHICH_ROWS)
            if (settings.get("takes") or settings.get("verify")) and is_of_mine:
                self._since = max(self._since, str(run.get("started")))

    def count(self, row_id: str) -> int:
        numbers = self._journal.row(row_id).numbers
        takes = (self._journal.take(row_id, number) for number in numbers if number != 1)
        num_served = sum(take is not None and self._is_served(take) for take in takes)
        return min(num_served, self._most)

    def _is_served(self, take: JournalEntry) -> bool:
        if take.role is Role.OWN or take.run_id is None or take.run_id in self._ended:
            return False
        return (take.started or "") > self._since
