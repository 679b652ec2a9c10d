"""Resolve the request of a row: text, voice, language, sampling, seed and limits.

Precedence: row, its character's table in the cast, flag, the checkpoint's generation_config.json,
built-in value.

A row without a letter or digit is not given to a model, which would hallucinate. `--wordless`
decides whether it becomes silence or fails. It has no frames: its codes have the shape (0, K).

There are three hashes: `request_hash` of everything that reaches the model, `content_hash` of the
content alone (a pinned take fits its row while it is equal), and `Encoder.delivery_hash_of` of the
file's format and processing.
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
from tts_cli.config import BATCH_CUDA, RunConfig
from tts_cli.core import (
    AS_SYNTHESIZED,
    BadRow,
    FilePace,
    Finish,
    Piece,
    Result,
    Role,
    Row,
    TakeRef,
    Task,
    VoiceKey,
    are_joined,
)
from tts_cli.errors import RowError
from tts_cli.hashing import encode, hashed_values, sha256_of
from tts_cli.named import shown
from tts_cli.plan.checkpoint import prompt_counter
from tts_cli.plan.checks import RowValidator, require_speakable
from tts_cli.plan.free_voices import FreeVoices, VoiceDesigner
from tts_cli.plan.notes import Notes
from tts_cli.plan.room import most_positions, room_problem
from tts_cli.plan.split_rule import SplitRule
from tts_cli.seeds import row_seed, take_seed
from tts_cli.sources.item import Item, ManifestFile, ReadOptions, RowBuilder
from tts_cli.sources.mapping import ColumnMapping, parse_map
from tts_cli.sources.row import expand_greedy
from tts_cli.sources.subtitles import cue_length_s
from tts_cli.text.frontend import TextFrontend
from tts_cli.text.languages import named_language
from tts_cli.text.lexicon import parse_row_lexicon
from tts_cli.text.normalized_text import NormalizedText
from tts_cli.text.pauses import sum_of_pauses, without_pauses
from tts_cli.text.words import SILENCE_S, is_wordless, text_cap
from tts_cli.voices.needs import Cloning
from tts_cli.voices.voice_store import VoiceStore

if TYPE_CHECKING:
    from models.base import ModelInfo


_SOURCE = "<rows>"


class ResolvedRow(NamedTuple):
    """A row with its request to the model; every setting is resolved."""

    row: Row
    request: SpeechRequest
    is_silent: bool  # the text has no words
    split: dict[str, float] | None  # options of splitting and joining; None: one piece
    reading: NormalizedText | None  # normalized text; None: synthesized as written
    need: VoiceKey | None  # voice to clone; the digest of one that does not exist yet is empty
    problem: str  # reason why the row is certain to fail; empty: none is known
    model: str  # `ModelInfo.identity`
    pace: FilePace = AS_SYNTHESIZED  # of its file

    @property
    def lacks_voice(self) -> bool:
        return self.need is not None and not self.need.digest

    def request_hash(self) -> str:
        """Return the hash of all that reaches the model; rows with the same one sound the same."""
        sampling = f'"sampling":{_encode_sampling(self.request.sampling)}'
        return sha256_of(encode(self._hashed_values()).replace(_SAMPLING, sampling, 1))

    def content_hash(self) -> str:
        """Return the hash without seed, sampling, frame limit and shapes."""
        values = self._hashed_values()
        for name in ("seed", "sampling", "max_frames", "shapes"):
            values.pop(name, None)
        return sha256_of(encode(values))

    def _hashed_values(self) -> dict[str, Any]:
        values = hashed_values(self.request)
        values["sampling"] = None  # see `request_hash`
        del values["clone"]  # covered by the digest
        if self.need is not None:  # the content of what is cloned, instead of its path
            values["ref_audio"] = self.need.digest
        values["model"] = self.model
        if self.split is not None:
            values["split"] = self.split
        return values


class Requests:
    """Builds the requests of a run's rows; settings that rows share are resolved once. Raises
    UsageError, see `TextFrontend.of`.
    """

    def __init__(self, config: RunConfig, info: ModelInfo) -> None:
        self.config = config
        self.info = info
        self.care = TextFrontend.of(config, info)
        self._language = named_language(config.language, info.languages)
        self._flags = expand_greedy(config.sampling)
        self._sampling = replace(info.sampling, **self._flags)
        self._voice = info.voices[0] if info.voices else None
        # Other settings that change the bits of a row's audio; None: bits are not guaranteed.
        shapes = f"{config.max_batch or BATCH_CUDA} rows, {config.dtype}"
        self._shapes = shapes if config.reproducible else None

    def read(self, row: Row) -> tuple[SpeechRequest, NormalizedText | None]:
        """Resolve one row. Return its request and normalized text; None: synthesized as written.
        Raises SetupError: a library for its language is missing.
        """
        config = self.config
        language = self._language
        if row.language:
            language = named_language(row.language, self.info.languages)
        spaced = reading = None
        own = None if row.lexicon is None else parse_row_lexicon(row.lexicon)
        if own is not None or not self.care.leaves(row.text, language):
            reading = self.care.read(row.text, language, own)
            spoken = reading.spoken
            if reading.spaced != spoken:
                spaced = reading.spaced
            if spoken == row.text:
                reading = None
            else:
                row = replace(row, text=spoken)
        max_frames = row.max_frames
        if max_frames is None:
            seconds = row.max_seconds if row.max_seconds is not None else config.max_seconds
            if seconds is None:
                max_frames = text_cap(row.text, self.info)
            else:
                max_frames = max(1, int(seconds / self.info.frame_s + 1e-6))
        sampling = self._sampling
        if row.sampling:
            settings = {**self._flags, **expand_greedy(row.sampling)}
            sampling = replace(self.info.sampling, **settings)
        voice = row.voice
        if voice is None and row.ref_audio is None:
            voice = config.voice
        request = SpeechRequest(
            text=row.text,
            voice=self._voice if voice is None else voice,
            language=language,
            instruct=row.instruct,
            layout=config.layout,
            sampling=sampling,
            seed=row.seed if row.seed is not None else row_seed(config.seed, row.id),
            max_frames=max_frames,
            ref_audio=row.ref_audio,
            ref_text=row.ref_text,
            clone_mode=row.clone_mode,
            shapes=self._shapes,
            spaced=spaced,
        )
        return request, reading


def build_request(row: Row, config: RunConfig, info: ModelInfo) -> SpeechRequest:
    return Requests(config, info).read(row)[0]


class Resolver:
    """Resolves the rows of a run. Not thread-safe.

    Args:
        config, info: settings and checkpoint of the rows, see `who_speaks`.
        maker: the checkpoint that generates voices; None: the same one.
        voices: None: the user's, and those of the output folder and `--made-voices`.
    Raises:
        UsageError: a setting does not fit the checkpoint, or names a faulty file.
        SetupError: the checkpoint cannot synthesize any row.
    """

    def __init__(
        self,
        config: RunConfig,
        info: ModelInfo,
        maker: VoiceDesigner | None = None,
        voices: VoiceStore | None = None,
    ) -> None:
        require_speakable(info)
        self.config = config
        self.info = info
        self.maker = maker or VoiceDesigner(config, info)
        if voices is None and config.out is None:
            voices = VoiceStore(config.voice_dir, out=config.made_voices)
        voices = voices or VoiceStore(config.voice_dir, out=config.out, source=config.made_voices)
        self.voices = FreeVoices(config, info, self.maker, voices)
        self.validator = RowValidator(config, info, makes_voices=self.voices.is_possible)
        self.cloning = Cloning(config, info, voices)
        self.split_rule = SplitRule.of(config, info)
        self._requests = Requests(config, info)
        self.care = self._requests.care  # the text frontend of the run
        self.notes = Notes(config, info, self.care, self.split_rule, self.voices)

    def forget_files(self) -> Cloning:
        """Forget recordings, which may have changed. Return the new resolver of references."""
        self.voices.made.forget()
        self.cloning = Cloning(self.config, self.info, self.voices.made)
        return self.cloning

    @cached_property
    def _columns(self) -> ColumnMapping:
        return ColumnMapping(parse_map(self.config.map or ""), self.config.extra)

    def row(self, given: str | Mapping[str, Any] | Row, number: int) -> Row | BadRow:
        """Return a row as if it were this line of a manifest.

        Args:
            given: a text, the fields of a row, or a row.
            number: of the line.
        """
        rules = ReadOptions(strips_markup=self.config.strip_markup)
        source = ManifestFile(_SOURCE, "jsonl", "", rules=rules, columns=self._columns)
        builder = RowBuilder(source, number=number - 1)
        values: object = given
        if isinstance(given, str):
            values = {"text": given}
        elif isinstance(given, Row):
            values = values_of(given)
        if not isinstance(values, Mapping):
            problem = f"must be a text, a mapping or a Row, not {shown(given)}"
            return builder.row(Item(number, problem=problem))
        if strange := [name for name in values if not isinstance(name, str)]:
            problem = f"must have strings as keys, not {shown(strange[0])}"
            return builder.row(Item(number, problem=problem))
        if isinstance(path := values.get("ref_audio"), os.PathLike):
            values = {**values, "ref_audio": os.fspath(path)}
        return builder.row(Item(number, values, is_object=True))

    def make(self, given: str | Mapping[str, Any] | Row, number: int) -> Task | BadRow:
        """Return the task of a single row with all notes on it, or the reason why it is invalid."""
        row = self.row(given, number)
        if isinstance(row, Row):
            row = self.validator.validated(row)
        if isinstance(row, BadRow):
            return row
        try:
            resolved = self.resolve(row)
            ask = self.voices.asks.get(resolved.request.voice or "")
            if problem := resolved.problem or (ask.problem if ask is not None else ""):
                raise RowError(problem)
            task = self.task(resolved, self.pieces(resolved), TakeRef())
            request, is_silent = resolved.request, resolved.is_silent
            notes = [
                *self.notes.of_text(row, request, is_silent),
                *(() if is_silent else self.notes.of_recording(row, self.cloning)),
                *self.notes.of_due(row, request, is_silent=is_silent, is_joined=task.is_joined),
            ]
        except RowError as error:
            return BadRow(row.line, number, row.id, str(error), row.text, row=row)
        return replace(task, notes=tuple(note.text for note in notes if note.text))

    def resolve(self, row: Row) -> ResolvedRow:
        """Resolve every setting of a row. Raises UsageError, SetupError."""
        request, reading, is_silent = self.count_voice(row)
        split = self.split_rule.settings(request, is_silent)
        need, problem = None, ""
        try:
            if not is_silent:
                if self.info.can_clone:
                    need = self.cloning.need(request)
                if split is None:  # the pieces of others are checked in `pieces`
                    self._check_room(request, need)
            elif self.config.wordless == "fail":
                problem = NO_WORDS
        except RowError as error:
            problem = str(error)
        model = self.info.identity
        pace = pace_of(row, self.config)
        return ResolvedRow(row, request, is_silent, split, reading, need, problem, model, pace)

    def count_voice(self, row: Row) -> tuple[SpeechRequest, NormalizedText | None, bool]:
        """Return the request of a row, its normalized text, and whether it is silent. Counts the
        row for the voice that is generated for it. Raises UsageError, SetupError.
        """
        request, reading = self._requests.read(row)
        said = without_pauses(request.text) if "[" in request.text else request.text
        is_silent = is_wordless(said, self.info.pace)
        if self.voices.is_one and not is_silent:
            request = self.voices.given(row, request)
        if said != request.text:
            request = self.split_rule.without_lost_pauses(request)
        if reading is None and request.text != row.text:
            reading = NormalizedText(row.text)
        return request, reading, is_silent

    def pieces(self, resolved: ResolvedRow) -> tuple[Piece, ...]:
        """Return the pieces of a row. Raises RowError: one of several is certain to fail."""
        if resolved.is_silent:
            return ()
        if resolved.split is None:
            return (self.split_rule.whole(resolved.request, resolved.reading),)
        pieces = self.split_rule.pieces(resolved.request, resolved.reading)
        for number, piece in enumerate(pieces, 1):
            try:
                self._check_room(piece.request, resolved.need)
            except RowError as error:
                raise RowError(f"piece {number} of {len(pieces)}: {error}") from None
        return pieces

    def task(
        self,
        resolved: ResolvedRow,
        pieces: tuple[Piece, ...],
        place: TakeRef,
        seed: int | None = None,
    ) -> Task:
        """Return the task of a row, with another seed if given. Raises RowError, see `pieces`."""
        if seed is not None:
            resolved = resolved._replace(request=replace(resolved.request, seed=seed))
            pieces = self.pieces(resolved)
        return Task(
            resolved.row,
            resolved.request,
            pieces,
            self.split_rule.most_frames(resolved.request) if are_joined(pieces) else None,
            resolved.need,
            place=place,
            request_hash=resolved.request_hash(),
            content_hash=resolved.content_hash(),
            pace=resolved.pace,
            edits=() if resolved.reading is None else resolved.reading.as_tuples(),
        )

    def again(self, task: Task, takes: int) -> Iterator[Task]:
        """Yield the tasks of further takes of a single row, with different seeds."""
        resolved = self.resolve(task.row)._replace(need=task.need)
        for number in range(2, takes + 2):
            seed, place = take_seed(task.request.seed, number), TakeRef(number, Role.EXTRA)
            yield replace(self.task(resolved, task.pieces, place, seed), notes=task.notes)

    def _check_room(self, request: SpeechRequest, need: VoiceKey | None) -> None:
        if most_positions(request, self.info, need) > self.info.max_positions:
            least = self.cloning.least(request)
            count = partial(prompt_counter, self.config)
            if problem := room_problem(request, self.info, least, count):
                raise RowError(problem)


def pace_of(row: Row, config: RunConfig) -> FilePace:
    fit_s = row.duration_s
    if fit_s is None and row.speed is None and config.fit == "cues":
        fit_s = cue_length_s(row.extra or {})
    if fit_s is not None and fit_s > 0:
        return FilePace(fit_s=round(fit_s, 6), is_own=row.duration_s is not None)
    if row.speed is not None:
        return FilePace(round(row.speed, 6), is_own=True)
    return AS_SYNTHESIZED if config.speed is None else FilePace(round(config.speed, 6))


_SAMPLING = '"sampling":null'  # unique in the JSON, since quotes inside of texts are escaped
_last: tuple[Sampling, str] | None = None


def _encode_sampling(sampling: Sampling) -> str:
    """Return the JSON of sampling settings, which most rows share and which is half of a row's.

    The cache compares by identity, because 1 and 1.0 are equal but have different hashes.
    """
    global _last
    known = _last
    if known is None or known[0] is not sampling:
        known = _last = (sampling, encode(hashed_values(sampling)))
    return known[1]


def values_of(row: Row) -> dict[str, Any]:
    """Return the fields of a row made by a caller, to check them like any others."""
    values = {name: value for name, value in vars(row).items() if value is not None}
    for name in ("line", "number", "file"):
        del values[name]
    return {**values.pop("sampling"), **values.pop("extra", {}), **values}


NO_WORDS = "its text has no letter or digit; add words, or let --wordless silence make it silent"


def silence_of(task: Task, info: ModelInfo) -> Result:
    """Return the result of a task without words: the pauses in its text, else `SILENCE_S` of
    silence, at most its frame limit.
    """
    request = task.request
    seconds = sum_of_pauses(request.text) or min(SILENCE_S, request.max_frames * info.frame_s)
    return Result(
        Finish.WORDLESS,
        samples=np.zeros(round(seconds * info.sample_rate_hz), np.float32),
        codes=np.zeros((0, info.num_codebooks), np.int64),
        seed=request.seed,
        # Random weights have no usual length.
        usual_s=seconds if info.pace is not None else 0.0,
    )
