"""The types every speech model and the engine agree on.

A family implements `SpeechModel`. Each request is laid out as a `Prompt`; the engine prefills
prompts into slots, steps all slots together one frame at a time, and hands finished codes to the
vocoder. Nothing here knows a family by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from models.pace import Pace
from models.sampling import Sampling

if TYPE_CHECKING:
    from torch import Tensor


class RequestError(ValueError):
    """One request cannot be spoken by this model; the message says why and what would work."""


Tokenizer = Callable[[str], list[int]]  # special tokens recognised, nothing added

NO_ID = -1  # of a prompt position: no embedding of this kind
SPEAKER = -2  # of a codec id: the cloned voice's embedding
REFERENCE = -3  # of a codec id: REFERENCE - r is the sum of reference frame r's K embeddings


@dataclass(frozen=True)
class Voice:
    """A voice to clone, as its checkpoint encoded it. Two are equal when their digests are."""

    embedding: Tensor = field(compare=False, repr=False)  # (D,) float32 on the CPU
    codes: Tensor | None = field(compare=False, repr=False)  # (R, K) int64 on the CPU; None: xvec
    text: str | None  # transcript of the reference; None for xvec
    mode: str  # icl (embedding, codes and transcript) or xvec (embedding only)
    identity: str  # of the checkpoint that encoded it
    digest: str  # hash of what it was made from: audio, mode, text, silence

    @property
    def num_frames(self) -> int:
        """Reference frames that stand in the prompt; 0 for xvec."""
        return 0 if self.codes is None else len(self.codes)

    def check_codes(self, num_codebooks: int, codebook_size: int) -> Tensor:
        """The codes (R, K) of mode icl. Raises RequestError where they are not a checkpoint's."""
        codes = self.codes
        if codes is None or codes.dim() != 2 or codes.shape[1] != num_codebooks or not len(codes):
            shape = None if codes is None else tuple(codes.shape)
            raise RequestError(
                f"the voice's reference codes have shape {shape}, icl needs "
                f"(frames, {num_codebooks})"
            )
        if int(codes.min()) < 0 or int(codes.max()) >= codebook_size:
            raise RequestError(f"the voice's reference codes must lie in 0..{codebook_size - 1}")
        return codes


@dataclass(unsafe_hash=True)  # never changed; frozen, one takes 5 us to make instead of 1.5
class SpeechRequest:
    """One text to speak, with every setting resolved."""

    text: str
    voice: str | None = None  # a speaker of the checkpoint; None where the model type has none
    language: str = "auto"
    instruct: str | None = None
    layout: str = "auto"  # auto, streaming or non_streaming: where the text stands among the codes
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0  # 0 .. 2**63 - 1
    max_frames: int = 750  # at most this many frames are kept
    ref_audio: str | None = None
    ref_text: str | None = None
    clone_mode: str | None = None
    clone: Voice | None = None  # the reference once encoded; what a base checkpoint speaks with
    # What its bits depend on besides, where shapes are fixed (`fix_shapes`); None: on its mates.
    shapes: str | None = field(default=None, metadata={"as_before": None})
    # The text with the spaces that it was written with, by which it is cut; None: all are plain.
    spaced: str | None = field(default=None, metadata={"as_before": None})


@dataclass(frozen=True)
class Prompt:
    """A request laid out: what prefill needs, in plain Python values."""

    text_ids: list[int]  # one per prompt position, or NO_ID
    codec_ids: list[int]  # one per prompt position, or NO_ID, SPEAKER, REFERENCE - r
    trailing_ids: list[int]  # text added to frame 0, 1, ...; after them the pad text is added
    request: SpeechRequest

    @property
    def num_tokens(self) -> int:
        """Prompt positions the talker's cache must hold before the first frame."""
        return len(self.text_ids)


PromptBuilder = Callable[[SpeechRequest], Prompt]


class Reader(NamedTuple):
    """What lays requests out, without a weight."""

    prompt: PromptBuilder
    tokenize: Tokenizer
    config: Any  # of the family: `models.slots.networks.FamilyConfig`


@dataclass(frozen=True)
class Licence:
    """Terms of a checkpoint's weights that a user must have accepted before they are used."""

    name: str
    terms: str  # what matters most, in plain words, and where the whole text is


@dataclass(frozen=True)
class ModelInfo:
    """What a checkpoint offers, for messages, `voices` and the report."""

    family: str  # qwen3_tts, fish_speech
    type: str  # custom_voice, voice_design, base, dual_ar; for messages only
    mode: str  # the same in words, as `voices` shows it
    size: str  # as the checkpoint names it
    voices: tuple[str, ...]
    languages: tuple[str, ...]  # `auto` first
    takes_instruct: bool
    can_clone: bool
    num_codebooks: int
    sample_rate_hz: int
    samples_per_frame: int
    max_frames: int  # the checkpoint's own cap
    max_positions: int  # positions the talker was made for
    sampling: Sampling  # the checkpoint's defaults
    identity: str  # changes whenever the weights or configs do
    needs_reference: bool = False  # it speaks in a reference's voice only
    needs_instruct: bool = False  # without one nothing describes the voice it speaks in
    default_layout: str = "non_streaming"  # what the layout `auto` means: that, or streaming
    needs: str | None = None  # why a type that could clone cannot; None where nothing is missing
    clone_modes: tuple[str, ...] = ("icl", "xvec")  # what it can clone by
    prompt_overhead: int = 32  # tokens of a prompt besides its texts and references, at most
    ref_silence_s: float = 0.5  # seconds that should follow a reference of mode icl
    licence: Licence | None = None  # what must be accepted first; None: nothing
    normalizes: bool = False  # its texts are read in words unless somebody says otherwise
    pace: Pace | None = None  # how fast it can speak; None: random weights, which say nothing

    @property
    def frame_s(self) -> float:
        """Seconds of audio one frame holds."""
        return self.samples_per_frame / self.sample_rate_hz

    @property
    def takes_voice_files(self) -> bool:
        """Whether a row's voice is the name of a voice file, not of a speaker."""
        return self.needs_reference or self.can_clone


@dataclass(frozen=True)
class SlotStatus:
    """What the host learns of one slot at a poll."""

    frames: int  # frames kept so far
    is_finished: bool
    finish_reason: str  # eos, max_frames, nan; empty while running


@runtime_checkable
class SpeechModel(Protocol):
    """A talker, a code predictor and a vocoder behind slots.

    Order is a contract: load, allocate, capture, then accept prompts.
    """

    info: ModelInfo

    def prompt(self, request: SpeechRequest) -> Prompt:
        """Tokenise and lay out one request. Thread-safe. Raises RequestError."""
        ...

    def fix_shapes(self) -> None:
        """From here on do all work in shapes that `allocate`'s max_batch and the row itself decide,
        so that a row comes out the same in whatever company; before `allocate`. `decode_frames` is
        then of all slots.
        """
        ...

    def slot_bytes(self, max_positions: int, max_frames: int = 0, max_trailing: int = 0) -> int:
        """Device memory that one slot takes, see `allocate`: nearly all of it is its cache."""
        ...

    @property
    def work_choices(self) -> list[int]:
        """How much may be decoded to audio at once, as memory allows: the largest choice first,
        which is the one in use until `choose_work`.
        """
        ...

    def work_bytes(self, choice: int, max_batch: int, max_positions: int) -> int:
        """Device memory that the work takes beside weights and slots, with one of the choices."""
        ...

    def choose_work(self, choice: int) -> None:
        """Make one of the choices; before `capture`."""
        ...

    def allocate(
        self, max_batch: int, max_positions: int, max_frames: int, max_trailing: int = 0
    ) -> None:
        """Allocate every static buffer: slots, caches, codes."""
        ...

    def capture(
        self,
        max_batch: int,
        max_audio_frames: int,
        max_reference_frames: int = 0,
        is_whole: bool = True,
    ) -> None:
        """Record the graphs of every bucket in use; does nothing where graphs are off.

        Args:
            max_audio_frames: of the longest row, without its reference.
            max_reference_frames: of the longest reference that `decode_audio` puts in front.
            is_whole: else the largest frame alone is recorded, and the others when they are used.
        """
        ...

    def graph_runners(self) -> list[Any]:
        """The runners whose hits, misses and captures belong into the report."""
        ...

    def stages(self, batch: int, position: int) -> list[Any]:
        """The parts of a frame for slots 0..batch-1 at `position` (`models.device.spans.Stage`)."""
        ...

    def settle(self) -> None:
        """Wait for what `capture` has begun beside; the device is the caller's alone then."""
        ...

    @property
    def pass_tokens(self) -> int | None:
        """Tokens of a full pass of prefill, which costs as much when it is not full; None where a
        pass is as long as its prompts.
        """
        ...

    def prefill(self, prompts: list[Prompt], slots: list[int]) -> None:
        """Run prompts through the talker into distinct free slots and sample each first code."""
        ...

    def decode_frames(self, bucket: int, count: int) -> None:
        """Run `count` frames for slots 0..bucket-1 without waiting for them."""
        ...

    def poll(self) -> Any:
        """Start copying the slots' status to the host; `status` waits for it."""
        ...

    def status(self, poll: Any, slots: list[int]) -> list[SlotStatus]:
        """Status of `slots` as of that poll."""
        ...

    def move(self, sources: list[int], targets: list[int]) -> None:
        """Move live slots into free ones, cache and state."""
        ...

    def release(self, slots: list[int], is_failed: bool = False) -> None:
        """Clear slots so that nothing of an old row reaches a new one; caches too if it failed."""
        ...

    def codes(self, slot: int, frames: int) -> Tensor:
        """(F, K) int64 codes of a slot, a copy on the model's device."""
        ...

    def choose_audio(self, frames: list[int], references: list[int]) -> list[int]:
        """Which of the rows that wait for `decode_audio`, the oldest first, to give it together on
        a GPU: indices in their order; none where it is better to wait for more.

        Args:
            frames: of each row. references: of each row's reference codes; 0 without one.
        """
        ...

    @property
    def decodes_beside(self) -> bool:
        """Whether it pays to call `decode_audio` in a thread of its own beside all else; it may
        then be called by two threads at once. Never so on a GPU, which has streams.
        """
        ...

    def decode_audio(
        self, codes: list[Tensor], references: list[Tensor | None] | None = None
    ) -> list[Tensor]:
        """Each (F, K) codes to (F * samples_per_frame,) float32 samples in [-1, 1].

        A row's reference codes (R, K) are decoded in front of its own and cut off again.
        """
        ...

    def encode_voices(
        self, waves: list[Tensor], modes: list[str]
    ) -> list[tuple[Tensor, Tensor | None]]:
        """Each reference (n,) float32 at `info.sample_rate_hz` to its embedding (D,) float32 and
        its codes (R, K) int64, None where its mode is xvec; on the device.

        Only where `info.can_clone`. A voice does not depend on its batch mates.
        """
        ...
