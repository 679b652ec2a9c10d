"""The plan itself: which rows a run speaks, why, and what room they need.

The manifest is read once. Each row is judged, planned and held against the folder as it comes, and
what is to be done about it waits in a spool: so what is spoken is what was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Need, Piece, Row, Spoken, Task, are_joined
from tts_cli.errors import RowError
from tts_cli.plan.changes import Cause, Changes
from tts_cli.plan.checks import CheckedRows, Only
from tts_cli.plan.free_voices import Maker
from tts_cli.plan.notes import Note, NoteKind
from tts_cli.plan.planner import Planner, RowAsk, silence_of
from tts_cli.plan.remembered import PastRuns
from tts_cli.plan.spool import Spool
from tts_cli.plan.standing import OutputFolder, ServedTakes, Standing, State, extra_places
from tts_cli.plan.tally import MAX_NAMED, Survey, Tally
from tts_cli.seeds import take_seed
from tts_cli.sources.ids import is_in_shard
from tts_cli.sources.item import Manifest
from tts_cli.store.records import writer_threads
from tts_cli.store.reencode import ReencodeJob
from tts_cli.store.store import Store
from tts_cli.voices.made import PREFIX, MadeVoices, is_made

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest


class Plan:
    """The rows of a run. Once surveyed, iterating gives those that something is to be done about.
    One thread at a time.

    Args:
        config, info: that rows are spoken with, see `who_speaks`.
        maker: who makes up voices; None: the same.
        folder: None: there is none, so every row is new.
        is_heard: recordings to clone are decoded, so that those without a voice are found too.
        keeps: what is to be done; False: it is counted only.
    """

    def __init__(
        self,
        source: Manifest,
        config: RunConfig,
        info: ModelInfo,
        folder: Store | None = None,
        *,
        maker: Maker | None = None,
        made: MadeVoices | None = None,
        is_heard: bool = False,
        keeps: bool = True,
    ) -> None:
        self.source = source
        self.config = config
        self.info = info
        self.is_heard = is_heard
        self.planner = Planner(config, info, maker, made)
        self.voices = self.planner.voices
        self.rows = CheckedRows(source, self.planner.judge)
        self.only = Only(config.only, config.out)
        self.folder = Store(None, config) if folder is None else folder
        self._folder = OutputFolder(self.planner, self.folder)
        self.voices.take_of = self._folder.take_of
        runs = partial(PastRuns, self.folder.out, source.paths)
        self.changes = Changes(self.planner, runs)
        self._served: ServedTakes | None = None
        self._keeps = keeps
        self._renew()

    def _renew(self) -> None:
        out = self.config.out
        self._due: Spool[Task | BadRow] = Spool("speeches", out)
        self._orders: Spool[ReencodeJob] = Spool("files", out)
        self._texts: Spool[Row] = Spool("texts", out)

    def survey(self) -> Survey:
        """Read the whole manifest: check, count, plan, and bound the sizes.

        A voice that is still to be made leaves open whether its rows are done: they count as to be
        spoken until it is. Once it is there, they are planned again.

        Raises:
            ManifestError: it cannot be used at all, or has no rows.
            UsageError: `--only` names a row that it has not, or see `FreeVoices.settle`.
            StoppedEarly: it was changed meanwhile.
            DiskFull: there is no room for the plan.
        """
        if self.config.takes and not self.folder.is_new:
            self._served = ServedTakes(self.config, self.folder.journal)
        found, tally = self._read()
        rule = self.planner.split_rule
        if self.voices.settle(lambda one: rule.settings(replace(one, voice=PREFIX)) is not None):
            found, tally = self._read()  # the one row whose voice is not made after all
        self.only.require_rows(self.source.name, (row.record_id for row in self.rows.read()))
        tally.close()
        found.explicit = self.changes.explicit if found.refused else {}
        found.summary.strangers = list(self.planner.judge.strangers)
        found.summary.made_voices = self.voices.facts()
        self.source.require_same()
        for spool in (self._due, self._orders, self._texts):
            spool.end()
        return found

    def _read(self) -> tuple[Survey, Tally]:
        """Read all rows."""
        tally = Tally(self.source.name, self.config, self.info)
        found = Survey(tally.summary)
        self.voices.begin()
        self._renew()
        shard, limit, taken = self.config.shard, self.config.limit, 0
        for row in self.rows.read():
            is_mine = self.only.names(row.record_id) and is_in_shard(row.record_id, shard)
            is_mine = is_mine and (limit is None or taken < limit)
            taken += is_mine
            if isinstance(row, BadRow):
                tally.add_bad(row)
                found.bad += is_mine
                if is_mine:
                    self._keep(row)
                continue
            if self.config.subtitles and self._keeps:
                self._texts.add(row)
            if not is_mine:
                tally.add_good(row)
                if self.voices.is_asked:
                    self.planner.asked(row)
                continue
            asked = self.planner.asked(row)
            tally.add_good(row, asked.request, asked.is_silent)
            self._judge(row, asked, found, tally)
        return found, tally

    def __iter__(self) -> Iterator[Task | BadRow]:
        """Each row to speak or to keep silent, and each bad row to record; as often as needed."""
        return iter(self._due)

    def orders(self) -> Iterator[ReencodeJob]:
        """The files to be made of what the folder keeps."""
        return iter(self._orders)

    def texts(self) -> Iterator[Row]:
        """All good rows, where they are to have subtitles."""
        return iter(self._texts)

    def due(
        self, keep: Callable[[Task, Spoken], None], fail: Callable[[BadRow], None]
    ) -> Iterator[Task | None]:
        """The rows to speak. Silent ones are kept by other threads, and bad ones fail there: None
        stands for them.
        """
        with writer_threads() as write:
            for found in self:
                if isinstance(found, BadRow):
                    write(partial(fail, found))
                elif found.is_silent:
                    write(partial(keep, found, silence_of(found, self.info)))
                else:
                    yield found
                    continue
                yield None

    def has(self, row_id: str) -> bool:
        """Whether a row of the manifest is this run's, as far as its id tells."""
        is_named = self.rows.has_id(row_id) and self.only.names(row_id)
        return is_named and is_in_shard(row_id, self.config.shard)

    def again(self, ids: Iterable[str], takes: int) -> Plan:
        """Some of its rows once more, as `--only suspects --takes N` plans them: further takes of
        each, and those that failed anew.
        """
        config = replace(self.config, takes=takes, limit=None, subtitles=None)
        config = replace(config, overwrite=False, retry_failed=False, verify=None)
        config = replace(config, redo=None, keep_done=True)
        maker, made = self.planner.maker, self.voices.made
        plan = Plan(self.source, config, self.info, self.folder, maker=maker, made=made)
        plan.only = Only.these(ids)
        return plan

    def _keep(self, found: Task | BadRow) -> None:
        if self._keeps:
            self._due.add(found)

    def _judge(self, row: Row, asked: RowAsk, found: Survey, tally: Tally) -> None:
        """Judge a good row, count it, and keep what is to be done about it."""
        request, is_silent, notes = asked.request, asked.is_silent, self.planner.notes
        for note in notes.of_text(row, request, is_silent):
            tally.told.add(row, note)
        extras = 0 if is_silent else self.config.takes
        if extras and request.sampling.draws_nothing:
            found.one_take += 1
            extras = 0
        if extras and self._served is not None:
            served = self._served.count(row.id)
            found.served += served
            extras -= served
        order = None
        try:
            need = self.planner.need(asked)
            if row.ref_audio is not None and not is_silent:
                for note in notes.of_recording(row, self.planner.cloning, is_heard=self.is_heard):
                    tally.told.add(row, note)
            standing = self._folder.standing(row.id, asked, need)
            if standing.state is State.CHANGED:
                standing = self._unless_kept(row, asked, need, standing, found)
            is_due = self._folder.is_due(standing.state)
            if not self.config.overwrite:
                order = standing.order
            if order is not None:
                found.kept[order.source.kind] += 1
                tally.add_remade(request)
                is_due = False
            elif is_due and standing.not_kept and not self.config.overwrite:
                found.again += 1
                found.first_again = found.first_again or f"{row.id}: {standing.not_kept}"
            if standing.state is State.BACK:
                found.back.append(row.id)
            found.held += standing.choice is not None
            if standing.has_fallen:
                found.fallen[row.id if len(found.fallen) < MAX_NAMED else ""] += 1
            found.skipped += not is_due and order is None
            is_asked = (is_due or extras) and (self._keeps or asked.is_split)
            pieces = self.planner.pieces(asked, need) if is_asked else ()
        except RowError as error:
            if not is_silent:  # of the others the tally says what becomes of them
                tally.told.add(row, Note(NoteKind.HOPELESS, f"{error}; the row will fail"))
            found.bad += 1
            found.hopeless += 1
            bad = BadRow(row.line, row.number, row.id, str(error), row.text, is_late=True)
            self._keep(replace(bad, file=row.file, row=row, request=request))
            return
        if order is not None and self._keeps:
            self._orders.add(order)
        if not is_due and not extras:
            return
        self.voices.count(request)
        for _ in range(is_due + extras):
            found.silent += is_silent
            for one in [] if is_silent else [piece.request for piece in pieces] or [request]:
                found.needs.add(one, self.info, need)
        if self._keeps:
            self._plan(row, asked, need, pieces, standing if is_due else None, extras)
        if extras:
            tally.add_takes(request, pieces, extras)
            found.takes += extras
            found.with_takes += 1
        if not is_due:
            return
        state = standing.state
        tally.add_due(request, pieces, is_silent)
        is_joined = are_joined(pieces)
        for note in notes.of_due(row, request, is_silent=is_silent, is_joined=is_joined):
            tally.told.add(row, note)
        found.due[state] += 1
        if state is State.CHANGED:
            found.early += standing.is_early
            is_known = not standing.is_early
            found.reread += is_known and self._folder.is_reread(row, request)
            found.unfixed += self._was_free(row, request)
        if state is State.DAMAGED and len(found.damaged) < MAX_NAMED:
            found.damaged.append(row.id)
        if state is State.NEW and len(found.foreign) < MAX_NAMED:
            found.foreign += self._folder.foreign(row.id)

    def _unless_kept(
        self, row: Row, asked: RowAsk, need: Need | None, standing: Standing, found: Survey
    ) -> Standing:
        """Return the standing of a row that would be made differently now: as it was, or done, if
        neither the manifest nor the user asks for that.
        """
        take = self._folder.take_of(row.id)
        if self.config.redoes_changed or standing.is_early or standing.not_kept or take is None:
            return standing
        if take.request_hash == self.planner.request_hash(asked, need):  # its delivery changed
            return standing
        is_pinned = standing.has_fallen or standing.choice is not None
        cause = self.changes.cause(row, asked, need, take, is_pinned=is_pinned)
        if cause is Cause.ROW:
            return standing
        kept = self._folder.as_recorded(row.id, take, is_silent=asked.is_silent)
        if cause is Cause.SETTINGS and not self.config.keep_done:
            found.refused += 1
        else:
            found.older += kept.state is not State.CHANGED
        return kept

    def _plan(
        self,
        row: Row,
        asked: RowAsk,
        need: Need | None,
        pieces: tuple[Piece, ...],
        standing: Standing | None,
        extras: int,
    ) -> None:
        """Keep what is spoken of a row, its own first.

        Args:
            standing: None: its own is not spoken.
            extras: further takes.
        """
        own = None
        if standing is not None:
            task = self.planner.drawn(row, asked, need, pieces, _seed_of(standing))
            own = self._folder.place(task, standing)
            task = replace(task, place=own)
            if standing.state is State.FAILED:
                task = self._folder.behind_failed(task)
            self._keep(task)
        for place in extra_places(self.folder.journal, row.id, own, extras):
            seed = take_seed(asked.request.seed, place.take)
            task = self.planner.drawn(row, asked, need, pieces, seed)
            self._keep(replace(task, place=place))

    def _was_free(self, row: Row, request: SpeechRequest) -> bool:
        """Whether a row of a made voice was spoken when nothing fixed its voice."""
        if not is_made(request.voice):
            return False
        take = self._folder.take_of(row.id)
        if take is None or take.voice:
            return False
        by_another = take.anchor or take.clone_model  # of earlier versions
        return by_another is not None or take.ref_sha256 is None


def _seed_of(standing: Standing) -> int | None:
    """Of the take that was chosen of a row, where that is made again; else None."""
    if standing.choice is None or standing.state is State.DONE:
        return None
    return standing.choice.seed
