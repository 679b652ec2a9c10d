"""Rows one by one, as they come and perhaps without end, to what is spoken of each: all that is
checked of a manifest's row but what needs the other rows, such as ids that are taken.

Rows without any letter or digit: no model is asked to speak them, which would make something up.

They become silence, or fail, as `--wordless` says. Such a row needs no prompt, no slot and no
reference; it has no frames, so that codes kept of it are none, (0, K).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Finish, Need, Piece, Row, Spoken, Task, are_joined
from tts_cli.errors import RowError
from tts_cli.folder.hashes import content_hash, request_hash
from tts_cli.manifest.columns import Columns, RowProblem, parse_map
from tts_cli.manifest.source import RowBuilder, Rules, Source
from tts_cli.named import shown
from tts_cli.plan.checkpoint import prompt_counter
from tts_cli.plan.checks import (
    Casting,
    check_settings,
    require_speakable,
    row_problem,
    setting_problem,
)
from tts_cli.plan.free_voices import FreeVoices, Maker
from tts_cli.plan.request import Requests
from tts_cli.plan.room import most_positions, room_problem
from tts_cli.plan.split_rule import SplitRule
from tts_cli.text.pauses import has_pauses, sum_of_pauses, without_pauses
from tts_cli.text.reading import Reading
from tts_cli.text.words import SILENCE_S, is_wordless, markup_in
from tts_cli.voices.made import MadeVoices
from tts_cli.voices.needs import Cloning
from tts_cli.voices.voice_folder import VoiceFolder

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest
    from tts_cli.text.care import TextCare


_SOURCE = "<rows>"


class RowAsk(NamedTuple):
    """What a row asks of the model."""

    request: SpeechRequest
    is_silent: bool  # it has no words
    is_split: bool  # it is spoken in parts
    reading: Reading | None  # of its text; None: that is spoken as it is written


class Planner:
    """What is to be spoken of a row, by the settings of a run. One thread at a time.

    Args:
        config, info: that rows are spoken with, see `who_speaks`.
        maker: who makes up voices; None: the same.
        made: where made voices are; None: as the settings say.
    Raises:
        UsageError: the settings say of texts what cannot be done.
    """

    def __init__(
        self,
        config: RunConfig,
        info: ModelInfo,
        maker: Maker | None = None,
        made: MadeVoices | None = None,
    ) -> None:
        self.config = config
        self.info = info
        self.maker = maker or Maker(config, info)
        made = made or MadeVoices(config.out, config.made_voices)
        self.voices = FreeVoices(config, info, self.maker, made)
        self.cloning = Cloning(config, info, made)
        self.split_rule = SplitRule.of(config, info)
        self.identity = RowIdentity(info, self.split_rule)
        self._requests = Requests(config, info)

    @property
    def care(self) -> TextCare:
        """How texts are read."""
        return self._requests.care

    def forget_files(self) -> Cloning:
        """Let recordings be read again. Returns what finds them from now on."""
        self.cloning = Cloning(self.config, self.info, self.voices.made)
        return self.cloning

    def task(self, row: Row) -> Task:
        """What is to be spoken of a row, or kept as silence.

        Raises:
            RowError: it is certain to fail.
        """
        asked = self.asked(row)
        ask = self.voices.asks.get(asked.request.voice or "")
        if ask is not None and ask.problem:
            raise RowError(ask.problem)
        need = self.need(asked)
        return self.made(row, asked, need, self.pieces(asked, need))

    def asked(self, row: Row) -> RowAsk:
        """What a row asks of the model, every setting resolved. Raises UsageError, SetupError."""
        request, reading = self._requests.read(row)
        is_silent = is_wordless(without_pauses(request.text), self.info.pace)
        if not is_silent:
            request = self.voices.given(row, request)
        request = self.split_rule.without_lost_pauses(request)
        if reading is None and request.text != row.text:
            reading = Reading(row.text)
        return RowAsk(request, is_silent, self.split_rule.is_split(request), reading)

    def need(self, asked: RowAsk) -> Need | None:
        """The voice to be cloned. Raises RowError for a row that is certain to fail: it must not
        size the others' slots. Of a row in parts `pieces` tells.
        """
        if asked.is_silent:
            if self.config.wordless == "fail":
                raise RowError(NO_WORDS)
            return None  # nothing is cloned: the path of a recording stands for it
        need = self.cloning.need(asked.request)
        if not asked.is_split:
            self._check_room(asked.request, need)
        return need

    def pieces(self, asked: RowAsk, need: Need | None) -> tuple[Piece, ...]:
        """What a row is spoken in. Raises RowError: one of several is certain to fail."""
        if asked.is_silent:
            return ()
        if not asked.is_split:
            return (self.split_rule.whole(asked.request, asked.reading),)
        pieces = self.split_rule.pieces(asked.request, asked.reading)
        for number, piece in enumerate(pieces, 1):
            try:
                self._check_room(piece.request, need)
            except RowError as error:
                raise RowError(f"part {number} of {len(pieces)}: {error}") from None
        return pieces

    def made(self, row: Row, asked: RowAsk, need: Need | None, pieces: tuple[Piece, ...]) -> Task:
        """A task of all that is known of it."""
        request, is_silent = asked.request, asked.is_silent
        return Task(
            row,
            request,
            pieces,
            self.split_rule.most_frames(request) if are_joined(pieces) else None,
            need,
            request_hash=self.identity.request(request, need, is_silent),
            content_hash=self.identity.content(request, need, is_silent),
        )

    def _check_room(self, request: SpeechRequest, need: Need | None) -> None:
        """Raise RowError for what is certain not to fit into the checkpoint's positions."""
        if most_positions(request, self.info, need) > self.info.max_positions:
            least = self.cloning.least(request)
            count = partial(prompt_counter, self.config)
            if problem := room_problem(request, self.info, least, count):
                raise RowError(problem)


class RowMaker(Planner):
    """A planner of rows that are given one by one, and judged as a manifest's are.

    Raises:
        UsageError: a setting does not fit the checkpoint, or a file that it names is wrong.
        SetupError: the checkpoint can speak no row at all.
    """

    def __init__(self, config: RunConfig, info: ModelInfo) -> None:
        require_speakable(info)
        voices = VoiceFolder(config.voices)
        check_settings(config, info, voices)
        super().__init__(config, info, made=MadeVoices(config.made_voices))
        self._columns = Columns(parse_map(config.map or ""), config.extra)
        self._casting = Casting(
            config,
            info,
            voices,
            lambda row: setting_problem(row, config, info, voices),
            self.voices.is_possible,
        )

    def row(self, given: str | Mapping[str, Any] | Row, number: int) -> Row | BadRow:
        """A row as a manifest's line of that number would be; a text is a row that has no more."""
        rules = Rules(strips_markup=self.config.strip_markup)
        source = Source(_SOURCE, "jsonl", "", rules=rules, columns=self._columns)
        builder = RowBuilder(source, number=number)
        values: object = given
        if isinstance(given, str):
            values = {"text": given}
        elif isinstance(given, Row):
            values = values_of(given)
        if not isinstance(values, Mapping):
            return builder.bad(number, f"must be a text, a mapping or a Row, not {shown(given)}")
        if strange := [name for name in values if not isinstance(name, str)]:
            return builder.bad(number, f"must have names for keys, not {shown(strange[0])}")
        if isinstance(path := values.get("ref_audio"), os.PathLike):
            values = {**values, "ref_audio": os.fspath(path)}
        return builder.row(values, number)

    def make(self, given: str | Mapping[str, Any] | Row, number: int) -> Task | BadRow:
        """What is spoken of a row, or kept as silence, or why it cannot be."""
        row = self.row(given, number)
        if isinstance(row, BadRow):
            return row
        try:
            row = self._casting.played(row)
            if problem := row_problem(row, self.config, self.info, self.cloning.folder):
                raise RowProblem(problem)
            task = self.task(row)
            return replace(task, notes=tuple(self._notes(task)))
        except (RowProblem, RowError) as error:
            return BadRow(row.line, number, row.id, str(error), row.text)

    def _notes(self, task: Task) -> list[str]:
        """What is to be known of a row that is spoken nevertheless; a survey counts the same."""
        request, info, pace = task.request, self.info, self.info.pace
        found = []
        if task.is_silent:
            found.append("has no letter or digit, so it is silence")
        else:
            found += map(str, markup_in(without_pauses(request.text), pace))
        if request.ref_audio is not None and not task.is_silent:
            with contextlib.suppress(RowError):  # gone since
                problem = self.cloning.transcript_problem(request.ref_audio, request.ref_text)
                found += [] if problem is None else [problem]
        if figure := self.care.left_as_written(without_pauses(request.text), request.language):
            found.append(
                f"{figure!r} is not understood, and left as written; a --lexicon can say it"
            )
        if has_pauses(task.row.text) and not has_pauses(request.text):
            found.append("its pauses are left out: nothing keeps its voice behind them")
        if request.instruct is not None and not info.takes_instruct:
            found.append("gives instruct, which this checkpoint ignores")
        if request.instruct is None and info.needs_instruct:
            found.append("gives no instruct, so nothing describes its voice to this checkpoint")
        if pace is not None and (why := self.split_rule.why_whole(request)):
            found.append(
                f"is longer than the about {pace.longest_chars} characters that this checkpoint "
                f"speaks well, and spoken in one: {why}; words may be lost"
            )
        return found


class RowIdentity:
    """Tells the hashes of rows that a checkpoint speaks."""

    def __init__(self, info: ModelInfo, split_rule: SplitRule) -> None:
        self._info = info
        self._split_rule = split_rule

    def request(self, request: SpeechRequest, need: Need | None, is_silent: bool) -> str:
        """The `request_hash`."""
        return request_hash(request, *self._asked(request, need, is_silent))

    def content(self, request: SpeechRequest, need: Need | None, is_silent: bool) -> str:
        """The `content_hash`."""
        return content_hash(request, *self._asked(request, need, is_silent))

    def _asked(
        self, request: SpeechRequest, need: Need | None, is_silent: bool
    ) -> tuple[str, str | None, dict[str, float] | None]:
        """Of whom, in which voice, and in which parts: what the hashes take besides."""
        split = self._split_rule.settings(request, is_silent)
        return self._info.identity, need.digest if need else None, split


def values_of(row: Row) -> dict[str, Any]:
    """A row as the values it is made of, so that one that anybody made is checked as any other."""
    values = {name: value for name, value in vars(row).items() if value is not None}
    for name in ("line", "number", "file"):
        del values[name]
    return {**values.pop("sampling"), **values.pop("extra", {}), **values}


NO_WORDS = "its text has no letter or digit; add words, or let --wordless silence keep it silent"


def silence_of(task: Task, info: ModelInfo) -> Spoken:
    """What comes of a task without words: the pauses its text marks, else some silence, never
    longer than its cap.
    """
    request = task.request
    seconds = sum_of_pauses(request.text) or min(SILENCE_S, request.max_frames * info.frame_s)
    return Spoken(
        Finish.WORDLESS,
        samples=np.zeros(round(seconds * info.sample_rate_hz), np.float32),
        codes=np.zeros((0, info.num_codebooks), np.int64),
        seed=request.seed,
        # Random weights expect nothing of any row.
        usual_s=seconds if info.pace is not None else 0.0,
    )
