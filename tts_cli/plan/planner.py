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
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tts_cli.config import RunConfig
from tts_cli.core import Finish, Need, SpeechRow
from tts_cli.errors import RowError
from tts_cli.manifest.columns import Columns, RowProblem, parse_map
from tts_cli.manifest.row import BadRow, Row
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
from tts_cli.plan.free_voices import FreeVoices, Maker, is_free
from tts_cli.plan.request import Requests
from tts_cli.plan.room import Needs, most_positions, room_problem
from tts_cli.plan.split_rule import SplitRule
from tts_cli.text.pauses import has_pauses, sum_of_pauses, without_pauses
from tts_cli.text.words import SILENCE_S, is_wordless, markup_in
from tts_cli.voices.made import MadeVoices
from tts_cli.voices.needs import Cloning
from tts_cli.voices.voice_folder import VoiceFolder

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest


_SOURCE = "<rows>"


class RowMaker:
    """Makes rows by the settings of a run.

    Raises:
        UsageError: a setting does not fit the checkpoint, or a file that it names is wrong.
        SetupError: the checkpoint can speak no row at all.
    """

    def __init__(self, config: RunConfig, info: ModelInfo) -> None:
        require_speakable(info)
        voices = VoiceFolder(config.voices)
        check_settings(config, info, voices)
        self.config = config
        self.info = info
        self.split_rule = SplitRule.of(config, info)
        made = MadeVoices(config.made_voices)
        self.voices = FreeVoices(config, info, Maker(config, info), made)
        self._requests = Requests(config, info)
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

    def make(
        self, given: str | Mapping[str, Any] | Row, number: int, cloning: Cloning
    ) -> SpeechRow | BadRow:
        """What is spoken of a row, or kept as silence, or why it cannot be.

        Args:
            cloning: of this run; remembers files.
        """
        row = self.row(given, number)
        if isinstance(row, BadRow):
            return row
        try:
            row = self._casting.played(row)
            if problem := row_problem(row, self.config, self.info, cloning.folder):
                raise RowProblem(problem)
            return self._spoken(row, cloning)
        except (RowProblem, RowError) as error:
            return BadRow(row.line, number, row.id, str(error), row.text)

    def _spoken(self, row: Row, cloning: Cloning) -> SpeechRow:
        """Raises RowError: it is certain to fail."""
        rule, info = self.split_rule, self.info
        request = self._requests.build(row)
        is_silent = is_wordless(without_pauses(request.text), info.pace)
        if self.voices.is_one and not is_silent and is_free(request):
            ask = self.voices.ask(row, request)
            if ask.problem:
                raise RowError(ask.problem)
            request = self.voices.given(row, request)
        request = rule.without_lost_pauses(request)
        if is_silent and self.config.wordless == "fail":
            raise RowError(NO_WORDS)
        if is_silent:
            spoken = silent_row(row.id, request, "", info)
        else:
            need = cloning.need(request)
            spoken = SpeechRow(row.id, request, need=need)
            spoken.parts = rule.parts(request)
            for part in [part.request for part in spoken.parts] or [request]:
                self._check_room(part, need, cloning)
            if spoken.parts:
                spoken.most_frames = rule.most_frames(request)
        spoken.character, spoken.extra = row.character, row.extra
        if request.text != row.text:
            spoken.reading = self._requests.care.read(row.text, request.language)
        return spoken

    def warnings(self, row: SpeechRow, cloning: Cloning) -> list[str]:
        """What is to be known of a row that is spoken nevertheless; a survey counts the same.

        Args:
            cloning: that it was made with.
        """
        request, info, pace = row.request, self.info, self.info.pace
        written = request.text if row.reading is None else row.reading.written
        found = []
        if row.is_silent:
            found.append("has no letter or digit, so it is silence")
        else:
            found += map(str, markup_in(without_pauses(request.text), pace))
        if request.ref_audio is not None and not row.is_silent and row.error is None:
            with contextlib.suppress(RowError):  # gone since
                problem = cloning.transcript_problem(request.ref_audio, request.ref_text)
                found += [] if problem is None else [problem]
        if figure := self._requests.care.left_as_written(
            without_pauses(request.text), request.language
        ):
            found.append(
                f"{figure!r} is not understood, and left as written; a --lexicon can say it"
            )
        if has_pauses(written) and not has_pauses(request.text):
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

    def _check_room(self, request: SpeechRequest, need: Need | None, cloning: Cloning) -> None:
        """Raise RowError for what is certain not to fit into the checkpoint's positions."""
        if most_positions(request, self.info, need) > self.info.max_positions:
            least = cloning.least(request)
            count = partial(prompt_counter, self.config)
            if problem := room_problem(request, self.info, least, count):
                raise RowError(problem)

    def needs(self, row: SpeechRow) -> Needs:
        """The room that one row takes."""
        needs = Needs()
        for request in [part.request for part in row.parts] or [row.request]:
            needs.add(request, self.info, row.need)
        return needs


def values_of(row: Row) -> dict[str, Any]:
    """A row as the values it is made of, so that one that anybody made is checked as any other."""
    values = {name: value for name, value in vars(row).items() if value is not None}
    for name in ("line", "number", "file"):
        del values[name]
    return {**values.pop("sampling"), **values.pop("extra", {}), **values}


NO_WORDS = "its text has no letter or digit; add words, or let --wordless silence keep it silent"


def silent_row(
    row_id: str, request: SpeechRequest, request_hash: str, info: ModelInfo
) -> SpeechRow:
    """A row at its end, with its silence: the pauses its text marks, else some, never longer than
    its cap.
    """
    seconds = sum_of_pauses(request.text) or min(SILENCE_S, request.max_frames * info.frame_s)
    row = SpeechRow(row_id, request, request_hash)
    row.finish_reason = Finish.WORDLESS
    row.samples = np.zeros(round(seconds * info.sample_rate_hz), np.float32)
    row.codes = np.zeros((0, info.num_codebooks), np.int64)
    # Random weights expect nothing of any row.
    row.expected_s = seconds if info.pace is not None else 0.0
    return row
