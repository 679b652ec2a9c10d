"""Plan a run: which rows are synthesized and why, and the capacity that they need.

The manifest is read once. Each row is checked, resolved and compared with the folder in turn, and
its tasks wait in a spool, so the run synthesizes exactly what was checked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING

from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Keep, Piece, Role, Row, TakeRef, Task, are_joined
from tts_cli.errors import ManifestError, RowError, UsageError
from tts_cli.events import Event, Events
from tts_cli.named import counted, first_few
from tts_cli.plan.changes import Changes
from tts_cli.plan.checks import CheckedRows, RowFilter
from tts_cli.plan.diff import NEW, Action, Do, FolderDiff, ServedTakes
from tts_cli.plan.estimate import estimate_audio_s, estimate_plan
from tts_cli.plan.free_voices import VoiceDesigner
from tts_cli.plan.notes import Note
from tts_cli.plan.remembered import PastRuns
from tts_cli.plan.resolve import ResolvedRow, Resolver, silence_of
from tts_cli.plan.room import Needs
from tts_cli.plan.spool import Spool
from tts_cli.seeds import take_seed
from tts_cli.sources.ids import is_in_shard
from tts_cli.sources.item import Manifest, SpeakerNames
from tts_cli.store.reencode import ReencodeJob
from tts_cli.store.results import committer_threads
from tts_cli.store.store import Store
from tts_cli.text.pauses import sum_of_pauses
from tts_cli.voices.generated import PREFIX
from tts_cli.voices.voice_store import VoiceStore

if TYPE_CHECKING:
    from models.base import ModelInfo

MAX_INVALID = 20  # rows that are remembered
_BATCH = 64  # rows that are looked up together


class Plan:
    """The plan of a run. Call `read`, then iterate over the tasks and invalid rows. Not
    thread-safe.

    Attributes:
        events: counts of the rows, see `tts_cli.events`.
        needs: sizes of the rows to synthesize.
        back: ids of removed rows that can be restored.
        invalid: the first invalid rows.
        voiceless: the first characters that have no voice.
        audio_s, disk_bytes: estimates of the audio to synthesize and the bytes to write.
    Args:
        config, info: settings and checkpoint of the rows, see `who_speaks`.
        maker: the checkpoint that generates voices; None: the same one.
        folder: the output folder; None: every row is new.
        edits: rows in place of those of the manifest, by id.
        decodes_audio: decode recordings to clone, to find those without a voice.
        keeps: spool the tasks; False: only count them.
    """

    def __init__(
        self,
        source: Manifest,
        config: RunConfig,
        info: ModelInfo,
        folder: Store | None = None,
        *,
        maker: VoiceDesigner | None = None,
        voices: VoiceStore | None = None,
        edits: Mapping[str, Row] | None = None,
        decodes_audio: bool = False,
        keeps: bool = True,
    ) -> None:
        self.source = source
        self.config = config
        self.info = info
        self._decodes_audio = decodes_audio
        self.planner = Resolver(config, info, maker, voices)
        self.voices = self.planner.voices
        self.rows = CheckedRows(source, self.planner.validator, edits)
        self.only = RowFilter(config.only, config.out)
        self.folder = Store(None, config) if folder is None else folder
        runs = partial(PastRuns, self.folder.out, source.paths)
        self.changes = Changes(self.planner, runs)
        self._diff = FolderDiff(self.planner, self.folder, self.changes)
        self._served: ServedTakes | None = None
        self._keeps = keeps
        names = (config.format, *config.subtitle_formats)
        can_replace = self.folder.is_anywhere and self.folder.out.is_dir() and not config.overwrite
        # Of files that a new row would replace.
        self._suffixes = [f".{name}" for name in names] if can_replace else []
        self.audio_s, self.disk_bytes = 0.0, 0
        self._renew()

    def _renew(self) -> None:
        self.events, self.needs = Events(), Needs()
        self.back: list[str] = []  # ids of rows to restore
        self.invalid: list[BadRow] = []  # the first ones
        self.voiceless = self.planner.validator.voiceless
        out = self.config.out
        self._due: Spool[Task | BadRow] = Spool("speeches", out)
        self._orders: Spool[ReencodeJob] = Spool("files", out)
        self._texts: Spool[Row] = Spool("texts", out)

    def read(self) -> None:
        """Read the whole manifest: check, count and plan its rows.

        Rows whose voice must be generated first count as pending, because their request hash is not
        known yet. Once the voices exist, call `read` again.

        Raises:
            ManifestError: the manifest cannot be read, or has no rows.
            UsageError: `--only` names a missing row, or see `FreeVoices.settle`.
            StoppedEarly: the manifest changed while it was read.
            DiskFull: there is no space for the spooled tasks.
        """
        if self.config.takes and not self.folder.is_new:
            self._served = ServedTakes(self.config, self.folder.journal)
        self._read()
        rule = self.planner.split_rule
        if self.voices.settle(lambda one: rule.settings(replace(one, voice=PREFIX)) is not None):
            self._read()  # the one row whose voice is not generated after all
        self.only.require_rows(self.source.name, (row.record_id for row in self.rows.read()))
        if not self.events.num(Event.VALID) + self.events.num(Event.INVALID):
            raise ManifestError(
                f"{self.source.name}: contains no rows", remedy="write one row per line"
            )
        self.audio_s, self.disk_bytes = estimate_plan(self.events, self.config, self.info)
        self.source.require_same()
        for spool in (self._due, self._orders, self._texts):
            spool.end()

    def _read(self) -> None:
        self.voices.begin()
        self._renew()
        events, names = self.events, SpeakerNames()
        shard, limit, taken = self.config.shard, self.config.limit, 0
        for row in self._looked_up():
            is_mine = not self.only.is_given or self.only.selects(row.record_id)
            is_mine = is_mine and (shard is None or is_in_shard(row.record_id, shard))
            is_mine = is_mine and (limit is None or taken < limit)
            taken += is_mine
            if isinstance(row, BadRow):
                self._note(row, Note(Event.INVALID, row.message))
                if len(self.invalid) < MAX_INVALID:
                    self.invalid.append(row)
                if is_mine:
                    events.add(Event.FAILING)
                    self._spool(row)
                continue
            events.add(Event.VALID)
            if self.config.subtitles and self._keeps:
                self._texts.add(row)
            if not is_mine:
                if self.voices.is_asked:
                    request, _, _ = self.planner.count_voice(row)
                    self.voices.count_lost(request, row.id, self._diff.take_of)
                continue
            resolved = self.planner.resolve(row)
            if self.voices.is_asked:
                self.voices.count_lost(resolved.request, row.id, self._diff.take_of)
            events.add(Event.SELECTED, row.id, chars=len(row.text))
            if resolved.is_silent:
                events.add(Event.WORDLESS_SELECTED)
            else:
                names.add(row.text)
            self._plan(resolved)
        if (warning := names.warning()) is not None:
            events.add(Event.SPEAKER_NAMES, facts={"id": "", "what": warning})

    def _looked_up(self) -> Iterator[Row | BadRow]:
        rows = self.rows.read()
        while batch := list(islice(rows, _BATCH)):
            self.folder.journal.look_up(row.record_id for row in batch)
            yield from batch

    def _spool(self, row: BadRow) -> None:
        if self._keeps:
            self._due.add(row)

    def _note(self, row: Row | BadRow, note: Note) -> None:
        facts = {"file": row.file, "line": row.line, "id": row.id}
        facts |= {"text": note.text, "what": note.what}
        name = f"line {row.line}" if row.id is None else f"'{row.id}'"
        self.events.add(note.about, name, group=note.kind or note.text, facts=facts)

    @property
    def num_pending(self) -> int:
        """Number of rows to synthesize, or to write as silence."""
        return self.events.num(Event.PENDING)

    @property
    def num_takes(self) -> int:
        return int(self.events.total(Event.EXTRA_TAKES, "takes"))

    @property
    def needs_model(self) -> bool:
        return self.needs.rows > 0

    @property
    def num_again(self) -> int:
        """Number of done rows that are synthesized again because the user changed something."""
        known = (Event.EARLY, Event.REREAD, Event.UNFIXED)
        changed = self.events.num(Event.PENDING, Do.CHANGED.value)
        return changed - sum(map(self.events.num, known))

    @property
    def reasons(self) -> dict[str, int]:
        values = (do.value for do in Do if do not in (Do.REENCODE, Do.RESTORE))
        return {value: self.events.num(Event.PENDING, value) for value in values}

    def require_valid(self) -> None:
        if num_invalid := self.events.num(Event.INVALID):
            raise ManifestError(
                f"{self.source.name}: {counted(num_invalid, 'invalid row')} of "
                f"{self.events.num(Event.VALID) + num_invalid:,}",
                remedy="fix the rows above, or add --skip-invalid to synthesize the others",
            )

    def require_own_files(self) -> None:
        """Raise UsageError if new rows would replace files that the journal does not have."""
        if foreign := self.events.of(Event.FOREIGN_FILE).first:
            raise UsageError(
                f"{first_few(foreign)}: in the folder, but not in timings.jsonl, so not "
                "from an earlier run",
                remedy="move them, choose another --out, or add --redo all to replace them",
            )

    def __iter__(self) -> Iterator[Task | BadRow]:
        """Yield the tasks of all pending rows and takes, and invalid rows, any number of times."""
        return iter(self._due)

    def orders(self) -> Iterator[ReencodeJob]:
        return iter(self._orders)

    def texts(self) -> Iterator[Row]:
        """Yield all valid rows, if subtitles are wanted."""
        return iter(self._texts)

    def due(self, keep: Keep, fail: Callable[[BadRow], None]) -> Iterator[Task | None]:
        """Yield the tasks to synthesize. Other threads commit silent and invalid rows, for which
        None is yielded.
        """
        with committer_threads() as write:
            for found in self:
                if isinstance(found, BadRow):
                    write(partial(fail, found))
                elif found.is_silent:
                    write(partial(keep, [(found, silence_of(found, self.info))]))
                else:
                    yield found
                    continue
                yield None

    def has(self, row_id: str) -> bool:
        """Return whether the manifest has a row of this id that `--only` and `--shard` select."""
        is_named = self.rows.has_id(row_id) and self.only.selects(row_id)
        return is_named and is_in_shard(row_id, self.config.shard)

    def again(self, ids: Iterable[str], takes: int) -> Plan:
        """Return a plan like that of `--only suspects --takes N`: further takes of these rows;
        failed ones are synthesized again.
        """
        config = replace(self.config, takes=takes, limit=None, subtitles=None)
        config = replace(config, overwrite=False, retry_failed=False, verify=None)
        config = replace(config, redo=None, keep_done=True)
        maker, made = self.planner.maker, self.voices.made
        plan = Plan(self.source, config, self.info, self.folder, maker=maker, voices=made)
        plan.only = RowFilter.these(ids)
        return plan

    def _plan(self, resolved: ResolvedRow) -> None:
        row, request, is_silent = resolved.row, resolved.request, resolved.is_silent
        events, notes = self.events, self.planner.notes
        for note in notes.of_text(row, request, is_silent):
            self._note(row, note)
        extras = 0 if is_silent else self.config.takes
        if extras and request.sampling.draws_nothing:
            events.add(Event.ONE_TAKE, row.id)
            extras = 0
        if extras and self._served is not None and (served := self._served.count(row.id)):
            events.add(Event.SERVED, row.id, takes=served)
            extras -= served
        try:
            if resolved.problem:
                raise RowError(resolved.problem)
            if row.ref_audio is not None and not is_silent:
                for note in notes.of_recording(row, self.planner.cloning, self._decodes_audio):
                    self._note(row, note)
            is_known = self.folder.journal.row(row.id).takes
            action = self._diff.action(resolved, events) if is_known else NEW
            job = None if self.config.overwrite else action.job
            is_due = action.do not in (Do.KEEP, Do.RESTORE) or self.config.overwrite
            is_due = action.do is Do.RETRY if self.config.retry_failed else is_due and job is None
            is_asked = (is_due or extras) and (self._keeps or resolved.split is not None)
            pieces = self.planner.pieces(resolved) if is_asked else ()
        except RowError as error:
            if not is_silent:  # `Event.WORDLESS` reports these
                self._note(row, Note(Event.HOPELESS, f"{error}; the row will fail"))
            events.add(Event.FAILING, row.id, is_valid=1)
            bad = BadRow(row.line, row.number, row.id, str(error), row.text, is_late=True)
            self._spool(replace(bad, file=row.file, row=row, request=request))
            return
        self._count(resolved, action, job, is_due=is_due)
        if job is not None and self._keeps:
            self._orders.add(job)
        if not is_due and not extras:
            return
        if self.voices.is_one:
            self.voices.count(request)
        audio_s = 0.0
        for piece in pieces or (None,):
            one, known_s = (request, 0.0) if piece is None else (piece.request, piece.usual_s)
            audio_s += known_s or estimate_audio_s(one, self.info, is_silent)
            for _ in range(is_due + extras):
                if is_silent:
                    events.add(Event.SILENT, row.id)
                else:
                    self.needs.add(one, self.info, resolved.need)
        if self._keeps:
            self._spool_tasks(resolved, pieces, action if is_due else None, extras)
        if extras:
            events.add(Event.EXTRA_TAKES, row.id, takes=extras, audio_s=extras * audio_s)
        if not is_due:
            return
        is_joined = are_joined(pieces)
        if is_joined:
            events.add(Event.SPLIT, row.id, pieces=len(pieces))
            audio_s += sum_of_pauses(request.text)
        events.add(Event.PENDING, row.id, group=action.do.value, audio_s=audio_s)
        for note in notes.of_due(row, request, is_silent=is_silent, is_joined=is_joined):
            self._note(row, note)
        if action.do is Do.CHANGED:
            if action.is_early:
                events.add(Event.EARLY, row.id)
            elif self._diff.is_reread(resolved):
                events.add(Event.REREAD, row.id)
            if self._diff.was_unfixed(resolved):
                events.add(Event.UNFIXED, row.id)
        elif action.do is Do.NEW:
            for suffix in self._suffixes:
                if os.path.isfile(os.path.join(self.folder.out, f"{row.id}{suffix}")):
                    events.add(Event.FOREIGN_FILE, f"{row.id}{suffix}".rpartition("/")[2])

    def _count(
        self, resolved: ResolvedRow, action: Action, job: ReencodeJob | None, *, is_due: bool
    ) -> None:
        events, row_id = self.events, resolved.row.id
        if action.pinned is not None:
            events.add(Event.PINNED, row_id)
        if action.is_unpinned:
            events.add(Event.UNPINNED, row_id)
        if action.do is Do.RESTORE:
            self.back.append(row_id)
        if job is not None:
            audio_s = estimate_audio_s(resolved.request, self.info)
            events.add(Event.REENCODE, row_id, group=job.source.kind, audio_s=audio_s)
        elif not is_due:
            events.add(Event.DONE, row_id)
        elif action.not_convertible and not self.config.overwrite:
            facts = {"id": row_id, "text": action.not_convertible}
            events.add(Event.NOT_CONVERTIBLE, row_id, facts=facts)

    def _spool_tasks(
        self, resolved: ResolvedRow, pieces: tuple[Piece, ...], action: Action | None, extras: int
    ) -> None:
        """Spool the tasks of a row, the one for its own file first.

        Args:
            action: None: the row's file stays.
            extras: number of further takes.
        """
        own = None
        if action is not None:
            is_again = action.pinned is not None and action.do is not Do.KEEP
            seed = action.pinned.seed if action.pinned is not None and is_again else None
            task = self.planner.task(resolved, pieces, TakeRef(is_new=True), seed)
            if action is not NEW:
                task = self._diff.own_task(task, action)
            own = task.place
            self._due.add(task)
        if not extras:
            return
        known = {1 if own is None else own.take, *self.folder.journal.row(resolved.row.id).numbers}
        free = islice((take for take in count(2) if take not in known), extras)
        for take in free:
            seed, place = take_seed(resolved.request.seed, take), TakeRef(take, Role.EXTRA)
            self._due.add(self.planner.task(resolved, pieces, place, seed))
