"""Rows that nothing gives a voice, and the voices to be made for them before the first row.

Fish Speech makes up another person in every row without a reference, and a VoiceDesign checkpoint
for every row of a description. `--free-voice one` gives them voices that are made once
(`voices.made`): one for each character, for each description, or for all rows together. Then they
are rows with a voice file like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tts_cli.config import RunConfig
from tts_cli.core import Row
from tts_cli.errors import RowError, SetupError, UsageError
from tts_cli.named import counted
from tts_cli.plan.checkpoint import model_label, never_ends, read_info
from tts_cli.sources.ids import VOICES
from tts_cli.text.pauses import without_pauses
from tts_cli.text.split import sentences
from tts_cli.text.words import usual_s
from tts_cli.voices.made import MadeVoices, Recipe, damaged, whose

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest
    from tts_cli.store.entry import JournalEntry

ONE, EACH = "one", "each"
GOOD_S = (5.0, 10.0)  # usual seconds of what a voice is to say
BUILT_IN = (
    "The morning was quiet, and a thin mist lay over the fields, when the first train of the day "
    "came slowly around the hill."
)
MANY_VOICES, FEW_ROWS = 20, 3
_REMEDY = "give a Base checkpoint, such as --clone-model Qwen/Qwen3-TTS-12Hz-1.7B-Base"


class Maker(NamedTuple):
    """The checkpoint that makes up voices: the run's own, or the one before `--clone-model`."""

    config: RunConfig  # as it was given
    info: ModelInfo


def who_speaks(config: RunConfig, info: ModelInfo) -> tuple[RunConfig, ModelInfo, Maker]:
    """The settings and the checkpoint that rows are spoken with, and who makes up voices for them.

    Args:
        config, info: of `--model`.
    Raises:
        UsageError: the checkpoint of `--clone-model` cannot clone, or has nothing to.
        SetupError: it cannot be read.
    """
    maker = Maker(config, info)
    if config.clone_model is None:
        return config, info, maker
    flag = f"--clone-model {config.clone_model}"
    if info.can_clone or info.voices or info.needs_reference:
        raise UsageError(
            f"{flag}: the {model_label(config.model)} ({info.type}) generates no voices that "
            "another checkpoint could clone",
            remedy="leave it out; it is for VoiceDesign checkpoints",
        )
    if config.free_voice == EACH:
        raise UsageError(
            f"{flag}: clones generated voices, but --free-voice {EACH} generates none",
            remedy="leave one of them out",
        )
    second = replace(config, model=config.clone_model, revision=None, clone_model=None)
    try:
        found = read_info(second)
    except SetupError as error:
        raise SetupError(f"{flag}: {error.message}", remedy=_REMEDY) from None
    if not found.can_clone or "icl" not in found.clone_modes:
        reason = found.needs or f"a {found.type} checkpoint cannot clone"
        raise UsageError(f"{flag}: {reason}", remedy=_REMEDY)
    return second, found, maker


def makes_voices(info: ModelInfo, maker: Maker) -> bool:
    """Whether voices can be made for rows that have none."""
    if maker.info is not info:
        return True
    is_free = not info.voices and not info.needs_reference
    return is_free and info.can_clone and "icl" in info.clone_modes


@dataclass
class Ask:
    """A voice that rows ask for."""

    voice: str  # what rows call it
    character: str | None  # whose it is
    description: str | None  # what the checkpoint is told: the first one of a character
    language: str  # of what it is to say, as the checkpoint names it
    rows: int = 0  # it serves
    due: int = 0  # of them, to be spoken
    lost: int = 0  # of them, spoken with it while it was there
    is_there: bool = False  # for the checkpoint that speaks
    is_gone: bool = False  # nothing is there of it
    problem: str = ""  # why it cannot be made; empty: nobody tried, or it can
    text: str = ""  # what it is to say; empty: no row's text is of the right length
    joined: str = ""  # of shorter ones, or a piece of a longer one

    def hear(self, text: str, language: str) -> None:
        """A further text of its rows, without markup."""
        text = " ".join(text.split())
        if self.text or language != self.language:
            return
        if GOOD_S[0] <= usual_s(text) <= GOOD_S[1]:
            self.text = text
        if usual_s(self.joined) >= GOOD_S[0]:
            return
        for one in sentences(text):
            longer = f"{self.joined} {text[one.start : one.end]}".strip()
            if usual_s(longer) <= GOOD_S[1]:
                self.joined = longer

    def sentence(self, given: str | None) -> tuple[str, str]:
        """What it says as a reference, and in which language."""
        joined = self.joined if usual_s(self.joined) >= GOOD_S[0] else ""
        text = given or self.text or joined
        return (text, self.language) if text else (BUILT_IN, "auto")

    @property
    def shown(self) -> str:
        """Whose voice it is, in words."""
        return whose(self.character, self.description)


@dataclass
class FreeVoices:
    """The made voices of a run. Where none can be made, it does nothing.

    Args:
        config, info: that rows are spoken with.
    """

    config: RunConfig
    info: ModelInfo
    maker: Maker
    made: MadeVoices
    asks: dict[str, Ask] = field(default_factory=dict)
    _is_settled: bool = False  # all rows were read
    _first: SpeechRequest | None = None
    _names: dict[tuple[str | None, str | None], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.is_possible = makes_voices(self.info, self.maker)
        can_end = self.is_two or self.config.free_voice == ONE or not never_ends(self.config.model)
        self.is_one = self.is_possible and self.config.free_voice != EACH and can_end

    @property
    def is_two(self) -> bool:
        """Whether one checkpoint makes the voices, and another one speaks."""
        return self.maker.info is not self.info

    def follow(self, others: FreeVoices) -> None:
        """Give each row the voice that it has there, and count none: for requests that are compared
        only.
        """
        self._is_settled = True
        if self.config.free_voice == others.config.free_voice:
            self.is_one = others.is_one

    def begin(self) -> None:
        """A manifest is going to be read, or read again."""
        for ask in self.asks.values():
            ask.due = 0

    def settle(self, is_split: Callable[[SpeechRequest], bool]) -> bool:
        """It was read to its end. True: no voice is worth making, so that its rows are other ones.

        Args:
            is_split: whether a request would be spoken in parts, if it had a voice.
        Raises:
            UsageError: so many voices are asked for that it must be a mistake.
        """
        if self._is_settled:
            return False
        self._is_settled = True
        is_any = bool(self.asks)
        is_worth = sum(ask.rows for ask in self.asks.values()) > 1
        is_worth = is_worth or not all(ask.is_gone for ask in self.asks.values())
        is_worth = is_worth or (self._first is not None and is_split(self._first))
        if not (is_worth or self.is_two or self.config.free_voice == ONE):
            self.is_one = False  # a single short text has the voice that it gets
            self.asks.clear()
        self._require_few()
        return is_any and not self.is_one

    def _require_few(self) -> None:
        described = [ask for ask in self.asks.values() if not ask.character and ask.description]
        few = sum(ask.rows < FEW_ROWS for ask in described)
        if self.config.many_voices or len(described) <= MANY_VOICES or 2 * few <= len(described):
            return
        raise UsageError(
            f"{len(described)} descriptions would become {len(described)} voices, {few} of "
            f"them for fewer than {FEW_ROWS} rows",
            remedy="give the rows of one person the same character, or add --many-voices",
        )

    def _ask(self, row: Row, request: SpeechRequest) -> Ask:
        """The voice that a row asks for; until all have, the row is counted and heard."""
        voice = self._voice(row)
        if voice not in self.asks:
            self.asks[voice] = self._new(row, voice, request.language)
        ask = self.asks[voice]
        if self._is_settled:
            return ask
        self._first = self._first or request
        ask.rows += 1
        if ask.is_gone and not ask.text:
            text, pace = without_pauses(request.text), self.info.pace
            ask.hear(text if pace is None else pace.without_markup(text), request.language)
        return ask

    def _new(self, row: Row, voice: str, language: str) -> Ask:
        """A voice that no row has asked for yet. Raises UsageError: it is damaged."""
        ask = Ask(voice, row.character, self._description(row), language)
        try:
            made = self.made.made(voice)
            ask.is_there = self.made.find(voice, self.info) is not None
            if not ask.is_there and made is not None and not self.is_two:
                made.codes()  # it is cloned by these
        except RowError as error:
            raise damaged(voice, error) from None
        ask.is_gone = made is None and not ask.is_there
        if made is not None:
            ask.description = made.description
        return ask

    def _voice(self, row: Row) -> str:
        """What the voice of a row is called."""
        key = (row.character, None if row.character else self._description(row))
        if key not in self._names:
            recipe = Recipe(*key, self.maker.info.identity, self.config.seed)
            self._names[key] = recipe.voice
        return self._names[key]

    def _description(self, row: Row) -> str | None:
        return row.instruct if self.maker.info.needs_instruct else None

    def given(self, row: Row, request: SpeechRequest) -> SpeechRequest:
        """A row's request in the voice that is made for it. Raises UsageError: that is damaged."""
        if not self.is_one or not is_free(request):
            return request
        instruct = None if self.is_two else request.instruct
        return replace(request, voice=self._ask(row, request).voice, instruct=instruct)

    @property
    def is_asked(self) -> bool:
        """Whether rows that nobody selected count as well: voices are those of all rows."""
        return self.is_one and not self._is_settled

    def count_lost(
        self, request: SpeechRequest, row_id: str, take_of: Callable[[str], JournalEntry | None]
    ) -> None:
        """Count a row whose recorded take was synthesized with a voice that does not exist any
        more.

        Args:
            take_of: looks a row's take up; called only if the voice of the row is gone.
        """
        ask = self.asks.get(request.voice or "") if self.is_asked else None
        if ask is not None and ask.is_gone and (take := take_of(row_id)) is not None:
            ask.lost += take.voice == ask.voice

    def count(self, request: SpeechRequest) -> None:
        """A row is to be spoken."""
        if (ask := self.asks.get(request.voice or "")) is not None:
            ask.due += 1

    def is_unheard(self, row: Row, request: SpeechRequest) -> bool:
        """Whether a row is described otherwise than its character's voice is, or is to be, made."""
        ask = self.asks.get(request.voice or "")
        return ask is not None and self._description(row) not in (None, ask.description)

    def require_there(self) -> None:
        """Raise UsageError where voices are gone that rows were spoken with, where a run looks for
        voices in a folder that has none, and where a shard would make one: each would have another
        narrator.
        """
        lost = {voice: ask.lost for voice, ask in self.asks.items() if ask.lost}
        if lost and not self.config.overwrite:
            raise UsageError(
                f"{', '.join(lost)}: missing; "
                f"{counted(sum(lost.values()), 'done row uses', 'done rows use')} this voice",
                remedy="copy the file back, or add --redo all to generate a new voice and "
                "synthesize these rows again",
            )
        missing = [ask for ask in self.to_make() if ask.is_gone]
        given = self.config.made_voices
        if given is not None and missing and not (given / VOICES).is_dir():
            raise UsageError(
                f"--made-voices {given}: contains no {VOICES}, so no generated voice",
                remedy="give the output folder of the run that generated them",
            )
        if self.config.shard is not None and missing and not self.config.voices_only:
            raise UsageError(
                f"--shard: the voice of {missing[0].shown} does not exist yet, and every "
                "shard would generate a different one",
                remedy="generate it once: run the same command with --voices-only and another "
                "--out DIR instead of --shard, then give all shards --made-voices DIR",
            )

    def hint(self) -> str | None:
        """How to keep a voice, where nothing does."""
        if self.is_two or not self.info.needs_instruct:
            return None
        return (
            "every row has a different voice, even rows with the same description; "
            "--clone-model with a Base checkpoint gives each description one voice"
        )

    def to_make(self) -> list[Ask]:
        """The voices that rows to be spoken need, or all of them for --voices-only, and that are
        not there.
        """
        wanted = (ask for ask in self.asks.values() if ask.due or self.config.voices_only)
        return [ask for ask in wanted if not ask.is_there]

    def facts(self) -> list[dict[str, Any]]:
        """The voices of the rows, as JSON can hold them."""
        return [
            {
                "voice": ask.voice,  # [text] name of the voice, `.voices/NAME`
                "of": ask.shown,  # [text] character or description that the voice is for
                "rows": ask.rows,  # [rows] rows of the manifest that use the voice
                "is_made": not ask.is_gone,  # [true, false] whether the voice exists
                # [text] text for generating the voice; null: the voice exists
                "says": ask.sentence(self.config.voice_text)[0] if ask.is_gone else None,
            }
            for ask in self.asks.values()
        ]


def is_free(request: SpeechRequest) -> bool:
    """Whether nothing fixes a request's voice, so that the model would make one up."""
    return request.voice is None and request.ref_audio is None
