"""Which rows of a manifest a run speaks, why, and what room they need.

The manifest is read twice: once to check every row, see what is left to do and how long the longest
row is, once to speak. What the first reading found is kept in a byte a row, so that the second one
passes over all rows that nothing is to be done about.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tts_cli.config import RunConfig
from tts_cli.core import Need, PlannedPart, SpeechRow
from tts_cli.errors import RowError
from tts_cli.folder.folder import Folder
from tts_cli.folder.recode import Order
from tts_cli.manifest.ids import is_in_shard
from tts_cli.manifest.row import BadRow, Row
from tts_cli.manifest.seeds import take_seed
from tts_cli.manifest.source import Manifest
from tts_cli.plan.checkpoint import prompt_counter
from tts_cli.plan.checks import CheckedRows, Only
from tts_cli.plan.free_voices import FreeVoices, Maker, who_speaks
from tts_cli.plan.identity import RowIdentity
from tts_cli.plan.planner import NO_WORDS
from tts_cli.plan.request import Requests
from tts_cli.plan.room import most_positions, room_problem
from tts_cli.plan.split_rule import SplitRule
from tts_cli.plan.standing import OutputFolder, ServedTakes, Standing, State, extra_places
from tts_cli.plan.tally import MAX_NAMED, ManifestSummary, Survey, Tally
from tts_cli.text.pauses import without_pauses
from tts_cli.text.words import is_wordless
from tts_cli.voices.made import PREFIX, MadeVoices, is_made
from tts_cli.voices.needs import Cloning

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest
    from tts_cli.text.care import TextCare


log = logging.getLogger(__name__)

OWN, EXTRAS, REMAKE = 1, 2, 4  # what is to be done about a row, in a byte a row
_TO_SPEAK = bytes(flags & (OWN | EXTRAS) for flags in range(256))
_TO_REMAKE = bytes(flags & REMAKE for flags in range(256))


class RowPlan:
    """The rows of a run. Once surveyed, iterating gives those that something is to be done about.
    One thread at a time.

    Args:
        config, info: that rows are spoken with, see `who_speaks`.
        maker: who makes up voices; None: the same.
        folder: None: there is none, so every row is new.
        is_heard: recordings to clone are decoded, so that those without a voice are found too.
    """

    def __init__(
        self,
        source: Manifest,
        config: RunConfig,
        info: ModelInfo,
        folder: Folder | None = None,
        *,
        maker: Maker | None = None,
        made: MadeVoices | None = None,
        is_heard: bool = False,
    ) -> None:
        self.source = source
        self.config = config
        self.info = info
        self.is_heard = is_heard
        self.maker = maker or Maker(config, info)
        made = made or MadeVoices(config.out, config.made_voices)
        self.voices = FreeVoices(config, info, self.maker, made)
        self.cloning = Cloning(config, info, made)
        self.rows = CheckedRows(source, config, info, makes_voices=self.voices.is_possible)
        self.only = Only(config.only, config.out)
        self.split_rule = SplitRule.of(config, info)
        self._requests = Requests(config, info)
        self._identity = RowIdentity(info, self.split_rule)
        self.folder = Folder(None, config) if folder is None else folder
        self._folder = OutputFolder(config, info, self._identity, self.folder)
        self._served: ServedTakes | None = None
        # A row: what to speak or to record of it, whether to remake its file, 0 to pass it.
        self._wanted = bytearray()

    @property
    def care(self) -> TextCare:
        """How texts are read."""
        return self._requests.care

    def survey(self) -> Survey:
        """Read the whole manifest: check, count, and bound the sizes.

        A voice that is still to be made leaves open whether its rows are done: they count as to be
        spoken until it is.

        Raises:
            ManifestError: it cannot be used at all, or has no rows.
            UsageError: `--only` names a row that it has not, or see `FreeVoices.find`.
            StoppedEarly: it was changed meanwhile.
        """
        self.voices.find(self.rows.read, self._words, self._would_split, self._folder.take_of)
        tally = Tally(
            self.source.name,
            self.config,
            self.info,
            self.split_rule,
            self.care,
            is_described=self.maker.info.needs_instruct,
        )
        found = Survey(tally.summary)
        if self.config.takes and not self.folder.is_new:
            self._served = ServedTakes(self.config, self.folder.journal)
        shard, limit, taken = self.config.shard, self.config.limit, 0
        self._wanted.clear()
        for row in self.rows.read():
            is_mine = self.only.names(row.record_id) and is_in_shard(row.record_id, shard)
            is_mine = is_mine and (limit is None or taken < limit)
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
            request, is_silent = self._request(row)
            tally.add_good(row, request, is_silent)
            extras = 0 if is_silent else self.config.takes
            self._wanted.append(self._is_wanted(row, request, is_silent, extras, found, tally))
        self.only.require_rows(self.source.name, (row.record_id for row in self.rows.read()))
        tally.close()
        found.summary.strangers = list(self.rows.casting.strangers)
        found.summary.made_voices = self.voices.facts()
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
            standing = self._folder.standing(row.id, request, need, is_silent)
            if (mine := _as_chosen(request, standing)) is not request:
                parts = () if is_silent else self._parts(mine, need)
            planned = self._complete(row, mine, need, is_silent, parts)
            planned.place = own = self._folder.place(planned, standing)
            if standing.state is State.FAILED:
                self._folder.go_on(planned)
            yield planned
        num_extras = self.config.takes if wanted & EXTRAS else 0
        if num_extras and self._served is not None:
            num_extras -= self._served.count(row.id)
        for place in extra_places(self.folder.journal, row.id, own, num_extras):
            other = replace(request, seed=take_seed(request.seed, place.take))
            planned = self._complete(row, other, need, False, self._parts(other, need))
            planned.place = place
            yield planned

    def orders(self) -> Iterator[Order]:
        """The files to be made of what the folder keeps. Raises StoppedEarly as iterating does."""
        for row in self.rows.read(self._wanted.translate(_TO_REMAKE)):
            if isinstance(row, Row):
                request, is_silent = self._request(row)
                need = self._resolve(request, is_silent)
                if order := self._folder.standing(row.id, request, need, is_silent).order:
                    yield order

    def due(
        self,
        keep: Callable[[SpeechRow], None],
        fail: Callable[[BadRow], None],
        is_stopped: Callable[[], bool],
    ) -> Iterator[SpeechRow]:
        """The rows to speak; silent ones are kept at once, and bad ones fail. Ends early once
        `is_stopped`.
        """
        for row in self:
            if is_stopped():
                return
            if isinstance(row, BadRow):
                fail(row)
            elif row.is_silent:
                keep(row)
            else:
                yield row

    def _complete(
        self,
        row: Row,
        request: SpeechRequest,
        need: Need | None,
        is_silent: bool,
        parts: tuple[PlannedPart, ...],
    ) -> SpeechRow:
        """A row on its way."""
        planned = self._identity.planned(row.id, request, need, is_silent)
        planned.character, planned.extra = row.character, row.extra
        planned.content_hash = self._identity.content(request, need, is_silent)
        if request.text != row.text:
            planned.reading = self.care.read(row.text, request.language)
        if parts:
            planned.parts, planned.most_frames = parts, self.split_rule.most_frames(request)
        return planned

    def _request(self, row: Row) -> tuple[SpeechRequest, bool]:
        """What a row asks of the model, and whether it has no words to be spoken."""
        request = self._requests.build(row)
        is_silent = is_wordless(without_pauses(request.text), self.info.pace)
        if not is_silent:
            request = self.voices.given(row, request)
        return self.split_rule.without_lost_pauses(request), is_silent

    def _words(self, row: Row) -> SpeechRequest | None:
        """What a row asks of the model but for a made voice; None: it has no words."""
        request = self._requests.build(row)
        is_silent = is_wordless(without_pauses(request.text), self.info.pace)
        return None if is_silent else request

    def _would_split(self, request: SpeechRequest) -> bool:
        return self.split_rule.is_split(replace(request, voice=PREFIX))

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
        if extras and self._served is not None:
            served = self._served.count(row.id)
            found.served += served
            extras -= served
        order = None
        try:
            need = self._resolve(request, is_silent)
            if row.ref_audio is not None and not is_silent:
                self._judge_recording(row, row.ref_audio, tally)
            standing = self._folder.standing(row.id, request, need, is_silent)
            is_due = self._folder.is_due(standing.state)
            if not self.config.overwrite:
                order = standing.order
            if order is not None:
                found.kept[order.kept.kind] += 1
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
            if not is_due and not extras:
                return 0 if order is None else REMAKE
            parts = () if is_silent else self._parts(request, need)
        except RowError as error:
            if not is_silent:  # of the others the tally says what becomes of them
                tally.add_hopeless(row, error)
            found.bad += 1
            found.hopeless += 1
            return OWN
        self.voices.count(request)
        for _ in range(is_due + extras):
            if is_silent:
                found.silent += 1
            else:
                for one in [part.request for part in parts] or [request]:
                    found.needs.add(one, self.info, need)
        if extras:
            tally.add_takes(request, parts, extras)
            found.takes += extras
            found.with_takes += 1
        if not is_due:
            return EXTRAS if order is None else EXTRAS | REMAKE
        state = standing.state
        tally.add_due(row, request, parts, is_silent)
        if self.voices.is_unheard(row, request):
            tally.add_unheard(row)
        found.due[state] += 1
        if state is State.CHANGED:
            found.early += standing.is_early
            is_known = not standing.is_early
            found.reread += is_known and self._folder.is_reread(row, request, self.care)
            found.unfixed += self._was_free(row, request)
        if state is State.DAMAGED and len(found.damaged) < MAX_NAMED:
            found.damaged.append(row.id)
        if state is State.NEW and len(found.foreign) < MAX_NAMED:
            found.foreign += self._folder.foreign(row.id)
        return OWN | EXTRAS if extras else OWN

    def _was_free(self, row: Row, request: SpeechRequest) -> bool:
        """Whether a row of a made voice was spoken when nothing fixed its voice."""
        if not is_made(request.voice):
            return False
        take = self._folder.take_of(row.id)
        if take is None or take.voice:
            return False
        by_another = take.anchor or take.clone_model  # of earlier versions
        return by_another is not None or take.ref_sha256 is None

    def _judge_recording(self, row: Row, recording: str, tally: Tally) -> None:
        """Tell what is odd about a row's recording. Raises RowError: it cannot be used."""
        if problem := self.cloning.transcript_problem(recording, row.ref_text):
            tally.add_odd_recording(row, problem)
        if self.is_heard:
            for oddity in self.cloning.files.heard(recording):
                tally.add_odd_recording(row, oddity)

    def _resolve(self, request: SpeechRequest, is_silent: bool) -> Need | None:
        """The voice to be cloned. Raises RowError for a row that is certain to fail: it must not
        size the others' slots. Of a row in parts `_parts` tells.
        """
        if is_silent:
            if self.config.wordless == "fail":
                raise RowError(NO_WORDS)
            return None  # nothing is cloned: the path of a recording stands for it
        need = self.cloning.need(request)
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


def _as_chosen(request: SpeechRequest, standing: Standing) -> SpeechRequest:
    """The request of a row, or of the take that was chosen of it, where that is made again."""
    if standing.choice is None or standing.state is State.DONE:
        return request
    seed = standing.choice.seed
    return request if seed is None else replace(request, seed=seed)


def check_manifest(source: Manifest, config: RunConfig, info: ModelInfo) -> ManifestSummary:
    """Judge every row of a manifest and sum up, whatever a folder holds.

    Raises:
        ManifestError: the file cannot be used at all, or has no rows.
        UsageError: a flag does not fit the checkpoint.
    """
    config, info, maker = who_speaks(config, info)
    return RowPlan(source, config, info, maker=maker).survey().summary
