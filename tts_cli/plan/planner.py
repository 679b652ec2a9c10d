"""Turn rows into tasks, read from a manifest or given alone, one by one and perhaps without end:
with all checks but those that need the other rows, such as ids that are taken.

Every setting of it is resolved, none left to chance: the row wins, then its character's table in
the cast, then the flag, then the checkpoint's generation_config.json, then what is built in.

Rows without any letter or digit: no model is asked to speak them, which would make something up.

They become silence, or fail, as `--wordless` says. Such a row needs no prompt, no slot and no
reference; it has no frames, so that codes kept of it are none, (0, K).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from models.base import SpeechRequest
from models.sampling import Sampling
from tts_cli.config import RunConfig
from tts_cli.core import (
    BadRow,
    Finish,
    Need,
    Piece,
    Place,
    Role,
    Row,
    Spoken,
    Task,
    are_joined,
)
from tts_cli.errors import RowError
from tts_cli.named import shown
from tts_cli.plan.checkpoint import prompt_counter
from tts_cli.plan.checks import Judge, require_speakable
from tts_cli.plan.free_voices import FreeVoices, Maker
from tts_cli.plan.hashes import content_hash, request_hash
from tts_cli.plan.notes import Notes
from tts_cli.plan.room import most_positions, room_problem
from tts_cli.plan.split_rule import SplitRule
from tts_cli.seeds import row_seed, take_seed
from tts_cli.sources.item import ManifestFile, ReadOptions, RowBuilder
from tts_cli.sources.mapping import ColumnMapping, parse_map
from tts_cli.sources.row import expand_greedy
from tts_cli.text.care import TextCare
from tts_cli.text.languages import named_language
from tts_cli.text.pauses import sum_of_pauses, without_pauses
from tts_cli.text.reading import Reading
from tts_cli.text.words import SILENCE_S, is_wordless, text_cap
from tts_cli.voices.made import MadeVoices
from tts_cli.voices.needs import Cloning

if TYPE_CHECKING:
    from models.base import ModelInfo


_SOURCE = "<rows>"


class RowAsk(NamedTuple):
    """What a row asks of the model."""

    request: SpeechRequest
    is_silent: bool  # it has no words
    split: dict[str, float] | None  # how it is taken apart and joined; None: it is spoken in one
    reading: Reading | None  # of its text; None: that is spoken as it is written

    @property
    def is_split(self) -> bool:
        """Whether it is spoken in parts."""
        return self.split is not None and not self.is_silent


class Requests:
    """Makes the requests of a run's rows; what they share is resolved once.

    Raises:
        UsageError: the settings say of texts what cannot be done, see `TextCare.of`.
    """

    def __init__(self, config: RunConfig, info: ModelInfo) -> None:
        self.config = config
        self.info = info
        self.care = TextCare.of(config, info)
        self._language = named_language(config.language, info.languages)
        self._flags = expand_greedy(config.sampling)
        self._sampling = replace(info.sampling, **self._flags)
        self._voice = info.voices[0] if info.voices else None

    def read(self, row: Row) -> tuple[SpeechRequest, Reading | None]:
        """Resolve one row. Raises SetupError: a library for its language is missing.

        Returns:
            Its request, and how its text was read; None: it is spoken as it is written.
        """
        config = self.config
        language = self._language
        if row.language:
            language = named_language(row.language, self.info.languages)
        spaced = reading = None
        if not self.care.leaves(row.text):
            reading = self.care.read(row.text, language)
            spoken = reading.spoken
            if reading.spaced != spoken:
                spaced = reading.spaced
            if spoken == row.text:
                reading = None
            else:
                row = replace(row, text=spoken)
        voice = row.voice
        if voice is None and row.ref_audio is None:
            voice = config.voice
        request = SpeechRequest(
            text=row.text,
            voice=self._voice if voice is None else voice,
            language=language,
            instruct=row.instruct,
            layout=config.layout,
            sampling=self._sampling_of(row),
            seed=row.seed if row.seed is not None else row_seed(config.seed, row.id),
            max_frames=frame_cap(row, config, self.info),
            ref_audio=row.ref_audio,
            ref_text=row.ref_text,
            clone_mode=row.clone_mode,
            shapes=config.shapes,
            spaced=spaced,
        )
        return request, reading

    def _sampling_of(self, row: Row) -> Sampling:
        if not row.sampling:
            return self._sampling
        return replace(self.info.sampling, **{**self._flags, **expand_greedy(row.sampling)})


def build_request(row: Row, config: RunConfig, info: ModelInfo) -> SpeechRequest:
    """Resolve a row that is the only one."""
    return Requests(config, info).read(row)[0]


def frame_cap(row: Row, config: RunConfig, info: ModelInfo) -> int:
    """Frames the row may keep."""
    if row.max_frames is not None:
        return row.max_frames
    seconds = row.max_seconds if row.max_seconds is not None else config.max_seconds
    if seconds is not None:
        return max(1, int(seconds / info.frame_s + 1e-6))
    return text_cap(row.text, info)


class Planner:
    """What is to be spoken of a row, by the settings of a run. One thread at a time.

    Args:
        config, info: that rows are spoken with, see `who_speaks`.
        maker: who makes up voices; None: the same.
        made: where made voices are; None: as the settings say.
    Raises:
        UsageError: a setting does not fit the checkpoint, or a file that it names is wrong.
        SetupError: the checkpoint can speak no row at all.
    """

    def __init__(
        self,
        config: RunConfig,
        info: ModelInfo,
        maker: Maker | None = None,
        made: MadeVoices | None = None,
    ) -> None:
        require_speakable(info)
        self.config = config
        self.info = info
        self.maker = maker or Maker(config, info)
        if made is None and config.out is None:
            made = MadeVoices(config.made_voices)
        made = made or MadeVoices(config.out, config.made_voices)
        self.voices = FreeVoices(config, info, self.maker, made)
        self.judge = Judge(config, info, makes_voices=self.voices.is_possible)
        self.cloning = Cloning(config, info, made)
        self.split_rule = SplitRule.of(config, info)
        self._requests = Requests(config, info)
        self.notes = Notes(config, info, self.care, self.split_rule, self.voices)

    @property
    def care(self) -> TextCare:
        """How texts are read."""
        return self._requests.care

    def forget_files(self) -> Cloning:
        """Let recordings be read again. Returns what finds them from now on."""
        self.cloning = Cloning(self.config, self.info, self.voices.made)
        return self.cloning

    @cached_property
    def _columns(self) -> ColumnMapping:
        return ColumnMapping(parse_map(self.config.map or ""), self.config.extra)

    def row(self, given: str | Mapping[str, Any] | Row, number: int) -> Row | BadRow:
        """A row as a manifest's line of that number would be; a text is a row that has no more."""
        rules = ReadOptions(strips_markup=self.config.strip_markup)
        source = ManifestFile(_SOURCE, "jsonl", "", rules=rules, columns=self._columns)
        builder = RowBuilder(source, number=number)
        values: object = given
        if isinstance(given, str):
            values = {"text": given}
        elif isinstance(given, Row):
            values = values_of(given)
        if not isinstance(values, Mapping):
            return builder.bad(number, f"must be a text, a mapping or a Row, not {shown(given)}")
        if strange := [name for name in values if not isinstance(name, str)]:
            return builder.bad(number, f"must have strings as keys, not {shown(strange[0])}")
        if isinstance(path := values.get("ref_audio"), os.PathLike):
            values = {**values, "ref_audio": os.fspath(path)}
        return builder.row(values, number)

    def make(self, given: str | Mapping[str, Any] | Row, number: int) -> Task | BadRow:
        """What is spoken of a row that is given alone, or kept as silence, with all that is to be
        known of it; or why it cannot be.
        """
        row = self.row(given, number)
        if isinstance(row, Row):
            row = self.judge.judged(row)
        if isinstance(row, BadRow):
            return row
        try:
            asked = self.asked(row)
            request, is_silent = asked.request, asked.is_silent
            task = self.task(row, asked)
            notes = [
                *self.notes.of_text(row, request, is_silent),
                *(() if is_silent else self.notes.of_recording(row, self.cloning)),
                *self.notes.of_due(row, request, is_silent=is_silent, is_joined=task.is_joined),
            ]
        except RowError as error:
            return BadRow(row.line, number, row.id, str(error), row.text, row=row)
        return replace(task, notes=tuple(note.text for note in notes if note.text))

    def asked(self, row: Row) -> RowAsk:
        """What a row asks of the model, every setting resolved. Raises UsageError, SetupError."""
        request, reading = self._requests.read(row)
        is_silent = is_wordless(without_pauses(request.text), self.info.pace)
        if not is_silent:
            request = self.voices.given(row, request)
        request = self.split_rule.without_lost_pauses(request)
        if reading is None and request.text != row.text:
            reading = Reading(row.text)
        return RowAsk(request, is_silent, self.split_rule.settings(request, is_silent), reading)

    def task(self, row: Row, asked: RowAsk) -> Task:
        """What is to be spoken of a row. Raises RowError: it is certain to fail."""
        ask = self.voices.asks.get(asked.request.voice or "")
        if ask is not None and ask.problem:
            raise RowError(ask.problem)
        need = self.need(asked)
        return self.made(row, asked, need, self.pieces(asked, need))

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
                raise RowError(f"piece {number} of {len(pieces)}: {error}") from None
        return pieces

    def made(self, row: Row, asked: RowAsk, need: Need | None, pieces: tuple[Piece, ...]) -> Task:
        """A task of all that is known of it."""
        return Task(
            row,
            asked.request,
            pieces,
            self.split_rule.most_frames(asked.request) if are_joined(pieces) else None,
            need,
            request_hash=self.request_hash(asked, need),
            content_hash=self.content_hash(asked, need),
        )

    def drawn(
        self,
        row: Row,
        asked: RowAsk,
        need: Need | None,
        pieces: tuple[Piece, ...],
        seed: int | None,
    ) -> Task:
        """What is spoken of a row by another seed; None: by its own. Raises RowError."""
        if seed is not None:
            asked = asked._replace(request=replace(asked.request, seed=seed))
            pieces = self.pieces(asked, need)
        return self.made(row, asked, need, pieces)

    def again(self, task: Task, takes: int) -> Iterator[Task]:
        """Further takes of a row that is given alone, each by a seed of its own."""
        asked = self.asked(task.row)
        for number in range(2, takes + 2):
            seed = take_seed(task.request.seed, number)
            found = self.drawn(task.row, asked, task.need, task.pieces, seed)
            yield replace(found, notes=task.notes, place=Place(number, Role.EXTRA))

    def request_hash(self, asked: RowAsk, need: Need | None) -> str:
        """What its speech is recorded under."""
        digest = need.digest if need else None
        return request_hash(asked.request, self.info.identity, digest, asked.split)

    def content_hash(self, asked: RowAsk, need: Need | None) -> str:
        """The same, however it is drawn."""
        digest = need.digest if need else None
        return content_hash(asked.request, self.info.identity, digest, asked.split)

    def _check_room(self, request: SpeechRequest, need: Need | None) -> None:
        """Raise RowError for what is certain not to fit into the checkpoint's positions."""
        if most_positions(request, self.info, need) > self.info.max_positions:
            least = self.cloning.least(request)
            count = partial(prompt_counter, self.config)
            if problem := room_problem(request, self.info, least, count):
                raise RowError(problem)


def values_of(row: Row) -> dict[str, Any]:
    """A row as the values it is made of, so that one that anybody made is checked as any other."""
    values = {name: value for name, value in vars(row).items() if value is not None}
    for name in ("line", "number", "file"):
        del values[name]
    return {**values.pop("sampling"), **values.pop("extra", {}), **values}


NO_WORDS = "its text has no letter or digit; add words, or let --wordless silence make it silent"


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
