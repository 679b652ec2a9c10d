"""Find rows whose voice is not fixed, and the voices to generate for them before the first row.

Fish Speech invents another speaker for every row without a reference, and VoiceDesign for every row
with a description. With `--free-voice one` each character, each description, or all rows together
get a voice that is generated once (`voices.generated`) and then cloned like any voice file.
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
from tts_cli.voices.generated import Recipe, damaged, whose
from tts_cli.voices.voice_store import VoiceStore

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest
    from tts_cli.store.entry import JournalEntry

ONE, EACH = "one", "each"
GOOD_S = (5.0, 10.0)  # usual length of the text that a voice is generated with, in seconds
BUILT_IN = (
    "The morning was quiet, and a thin mist lay over the fields, when the first train of the day "
    "came slowly around the hill."
)
MANY_VOICES, FEW_ROWS = 20, 3
_REMEDY = "give a Base checkpoint, such as --clone-model Qwen/Qwen3-TTS-12Hz-1.7B-Base"


class VoiceDesigner(NamedTuple):
    """The checkpoint that generates voices: `--model`, which may differ from `--clone-model`."""

    config: RunConfig  # the settings as given
    info: ModelInfo


def who_speaks(config: RunConfig, info: ModelInfo) -> tuple[RunConfig, ModelInfo, VoiceDesigner]:
    """Return the settings and the checkpoint that synthesize the rows, and those that generate
    voices.

    Args:
        config, info: of `--model`.
    Raises:
        UsageError: the checkpoint of `--clone-model` cannot clone, or has nothing to clone.
        SetupError: it cannot be read.
    """
    maker = VoiceDesigner(config, info)
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


def makes_voices(info: ModelInfo, maker: VoiceDesigner) -> bool:
    if maker.info is not info:
        return True
    is_free = not info.voices and not info.needs_reference
    return is_free and info.can_clone and "icl" in info.clone_modes


@dataclass
class Ask:
    """A generated voice that rows use or need."""

    voice: str  # name of the voice
    character: str | None  # character that it belongs to
    description: str | None  # description for the checkpoint: the first one of a character
    language: str  # language of its text, as the checkpoint names it
    rows: int = 0  # rows that use it
    due: int = 0  # pending rows that use it
    lost: int = 0  # done rows that were synthesized with it before it was deleted
    is_there: bool = False  # it exists, encoded for the checkpoint that clones it
    is_gone: bool = False  # it does not exist in any form
    problem: str = ""  # why it could not be generated
    text: str = ""  # a row's text that it can be generated with; empty: none has a good length
    joined: str = ""  # the same, joined from shorter texts or cut from a longer one

    def offer_text(self, text: str, language: str) -> None:
        """Use a row's text, which has no markup, if the voice can be generated with it."""
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
        """Return the text and language to generate the voice with: `given`, or those of a row."""
        joined = self.joined if usual_s(self.joined) >= GOOD_S[0] else ""
        text = given or self.text or joined
        return (text, self.language) if text else (BUILT_IN, "auto")

    @property
    def shown(self) -> str:
        return whose(self.character, self.description)


@dataclass
class FreeVoices:
    """The generated voices of a run; without effect if none can be generated.

    Args:
        config, info: settings and checkpoint that synthesize the rows.
    """

    config: RunConfig
    info: ModelInfo
    maker: VoiceDesigner
    made: VoiceStore
    asks: dict[str, Ask] = field(default_factory=dict)
    _first: SpeechRequest | None = None
    _names: dict[tuple[str | None, str | None], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.is_possible = makes_voices(self.info, self.maker)
        can_end = self.is_two or self.config.free_voice == ONE or not never_ends(self.config.model)
        self.is_one = self.is_possible and self.config.free_voice != EACH and can_end
        # Until `settle` rows that are not selected count, too: voices depend on all rows.
        self.is_asked = self.is_one

    @property
    def is_two(self) -> bool:
        """Whether one checkpoint generates the voices and another one clones them."""
        return self.maker.info is not self.info

    def follow(self, others: FreeVoices) -> None:
        """Give rows their voices in `others`, uncounted, for requests that are only compared."""
        self.is_asked = False
        if self.config.free_voice == others.config.free_voice:
            self.is_one = others.is_one

    def begin(self) -> None:
        """Prepare for reading the manifest, possibly again."""
        for ask in self.asks.values():
            ask.due = 0

    def settle(self, is_split: Callable[[SpeechRequest], bool]) -> bool:
        """Decide after all rows were read which voices are generated. Return True if the manifest
        must be read again, because a single short row needs no generated voice after all.

        Args:
            is_split: returns whether a request would be split if it had a voice.
        Raises:
            UsageError: rows ask for implausibly many voices.
        """
        if not self.is_asked:
            return False
        self.is_asked = False
        is_any = bool(self.asks)
        is_worth = sum(ask.rows for ask in self.asks.values()) > 1
        is_worth = is_worth or not all(ask.is_gone for ask in self.asks.values())
        is_worth = is_worth or (self._first is not None and is_split(self._first))
        if not (is_worth or self.is_two or self.config.free_voice == ONE):
            self.is_one = False  # one piece of one row cannot change its voice
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
        """Return the voice of a row. Before `settle`, count the row and offer its text."""
        voice = self._voice(row)
        if voice not in self.asks:
            self.asks[voice] = self._new(row, voice, request.language)
        ask = self.asks[voice]
        if not self.is_asked:
            return ask
        self._first = self._first or request
        ask.rows += 1
        if ask.is_gone and not ask.text:
            text, pace = without_pauses(request.text), self.info.pace
            ask.offer_text(text if pace is None else pace.without_markup(text), request.language)
        return ask

    def _new(self, row: Row, voice: str, language: str) -> Ask:
        """Return a voice that no earlier row uses. Raises UsageError: its file is damaged."""
        ask = Ask(voice, row.character, self._description(row), language)
        try:
            made = self.made.made(voice)
            ask.is_there = self.made.find(voice, self.info) is not None
            if not ask.is_there and made is not None and not self.is_two:
                made.codes()  # raises RowError if they are damaged
        except RowError as error:
            raise damaged(voice, error) from None
        ask.is_gone = made is None and not ask.is_there
        if made is not None:
            ask.description = made.description
        return ask

    def _voice(self, row: Row) -> str:
        key = (row.character, None if row.character else self._description(row))
        if key not in self._names:
            recipe = Recipe(*key, self.maker.info.identity, self.config.seed)
            self._names[key] = recipe.voice
        return self._names[key]

    def _description(self, row: Row) -> str | None:
        return row.instruct if self.maker.info.needs_instruct else None

    def given(self, row: Row, request: SpeechRequest) -> SpeechRequest:
        """Return a row's request with its generated voice, if `is_one`. Raises UsageError."""
        if not is_free(request):
            return request
        instruct = None if self.is_two else request.instruct
        return replace(request, voice=self._ask(row, request).voice, instruct=instruct)

    def count_lost(
        self, request: SpeechRequest, row_id: str, take_of: Callable[[str], JournalEntry | None]
    ) -> None:
        """Count a row whose take was synthesized with a voice that does not exist any more. Call it
        while `is_asked`.

        Args:
            take_of: looks up a row's take; called only if the voice does not exist.
        """
        ask = self.asks.get(request.voice or "")
        if ask is not None and ask.is_gone and (take := take_of(row_id)) is not None:
            ask.lost += take.voice == ask.voice

    def count(self, request: SpeechRequest) -> None:
        if (ask := self.asks.get(request.voice or "")) is not None:
            ask.due += 1

    def is_unheard(self, row: Row, request: SpeechRequest) -> bool:
        """Return whether a row's description differs from the one of its character's voice."""
        ask = self.asks.get(request.voice or "")
        return ask is not None and self._description(row) not in (None, ask.description)

    def require_there(self) -> None:
        """Raise UsageError if voices of done rows are missing, if `--made-voices` has no voices,
        or if a shard would generate a voice, which would differ in every shard.
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
        """Return the advice for runs in which no voice is fixed, or None."""
        if self.is_two or not self.info.needs_instruct:
            return None
        return (
            "every row has a different voice, even rows with the same description; "
            "--clone-model with a Base checkpoint gives each description one voice"
        )

    def to_make(self) -> list[Ask]:
        """Return the missing voices of pending rows, for --voices-only those of all rows."""
        wanted = (ask for ask in self.asks.values() if ask.due or self.config.voices_only)
        return [ask for ask in wanted if not ask.is_there]

    def facts(self) -> list[dict[str, Any]]:
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
    """Return whether a request's voice is not fixed, so that the model would invent one."""
    return request.voice is None and request.ref_audio is None
