"""The types every speech model and the engine agree on.

A family's model is a `SpeechModel` (`models/slots/model.py`). Each request becomes a `Prompt`; the
engine prefills prompts into slots, steps all slots together one frame at a time, and passes
finished codes to the vocoder. Nothing here depends on a family.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from models.pace import Pace
from models.sampling import Sampling

if TYPE_CHECKING:
    from torch import Tensor


class RequestError(ValueError):
    """This model cannot synthesize a request; the message has the reason and a remedy."""


Tokenizer = Callable[[str], list[int]]  # special tokens recognised, nothing added


@contextmanager
def library_errors(made: type[Exception], message: str) -> Iterator[None]:
    """Raise `made` for any error of a library written in Rust: its errors, which have no class
    of their own, and its panics, which are not an `Exception`.
    """
    try:
        yield
    except (made, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise made(f"{message}: {error}") from None


NO_ID = -1  # of a prompt position: no embedding of this kind
SPEAKER = -2  # of a codec id: the cloned voice's embedding
REFERENCE = -3  # of a codec id: REFERENCE - r is the sum of reference frame r's K embeddings


@dataclass(frozen=True)
class Voice:
    """A voice to clone, as its checkpoint encoded it. Voices with the same digest are equal."""

    embedding: Tensor = field(compare=False, repr=False)  # (D,) float32 on the CPU
    codes: Tensor | None = field(compare=False, repr=False)  # (R, K) int64 on the CPU; None: xvec
    text: str | None  # transcript of the reference; None for xvec
    mode: str  # icl (embedding, codes and transcript) or xvec (embedding only)
    identity: str  # of the checkpoint that encoded it
    digest: str  # hash of its source: audio, mode, text, silence

    @property
    def num_frames(self) -> int:
        """Reference frames in the prompt; 0 for xvec."""
        return 0 if self.codes is None else len(self.codes)

    def check_codes(self, num_codebooks: int, codebook_size: int) -> Tensor:
        """Return the codes (R, K) of mode icl. Raises RequestError: they do not fit."""
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
    """One text to synthesize, with every setting resolved."""

    text: str
    voice: str | None = None  # a speaker of the checkpoint; None if the model type has none
    language: str = "auto"
    instruct: str | None = None
    layout: str = "auto"  # auto, streaming or non_streaming: where the text is among the codes
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0  # 0 .. 2**63 - 1
    max_frames: int = 750  # the most frames of the row
    ref_audio: str | None = None
    ref_text: str | None = None
    clone_mode: str | None = None
    clone: Voice | None = None  # the encoded reference; the voice of a base checkpoint
    # Other settings that change its bits (`fix_shapes`); None: its batch mates change them.
    shapes: str | None = field(default=None, metadata={"as_before": None})
    # The text with the spaces that it was written with, by which it is cut; None: all are plain.
    spaced: str | None = field(default=None, metadata={"as_before": None})


@dataclass(frozen=True)
class Prompt:
    """The layout of a request: the input of prefill, in plain Python values."""

    text_ids: list[int]  # one per prompt position, or NO_ID
    codec_ids: list[int]  # one per prompt position, or NO_ID, SPEAKER, REFERENCE - r
    trailing_ids: list[int]  # text added to frame 0, 1, ...; after them the pad text is added
    request: SpeechRequest
    # Positions that every prompt of its cloned voice begins with, all frames of the reference among
    # them; 0: too few to count.
    num_shared: int = 0

    @property
    def num_tokens(self) -> int:
        """Prompt positions in the talker's cache before the first frame."""
        return len(self.text_ids)

    @property
    def num_own(self) -> int:
        """Positions after the beginning that all prompts of its voice share."""
        return self.num_tokens - self.num_shared


PromptBuilder = Callable[[SpeechRequest], Prompt]


class Reader(NamedTuple):
    """Lays requests out, without a weight."""

    prompt: PromptBuilder
    tokenize: Tokenizer
    config: Any  # of the family: a `models.decoder.config.FamilyConfig`


@dataclass(frozen=True)
class Licence:
    """Terms of a checkpoint's weights that a user must accept before they are used."""

    name: str
    terms: str  # the main terms, in plain words, and where the whole text is


@dataclass(frozen=True)
class ModelInfo:
    """Features of a checkpoint, for messages, `voices` and the report."""

    family: str  # qwen3_tts, fish_speech
    type: str  # custom_voice, voice_design, base, dual_ar; for messages only
    mode: str  # the same in words, as `voices` shows it
    size: str  # as the checkpoint names it
    can_clone: bool
    num_codebooks: int
    sample_rate_hz: int
    samples_per_frame: int
    max_frames: int  # the checkpoint's own cap
    max_positions: int  # positions the talker was made for
    sampling: Sampling  # the checkpoint's defaults
    identity: str  # changes whenever the weights or configs do
    voices: tuple[str, ...] = ()
    languages: tuple[str, ...] = ("auto",)  # `auto` first
    takes_instruct: bool = False
    needs_reference: bool = False  # only the voice of a reference is available
    needs_instruct: bool = False  # the voice is described by an instruction
    default_layout: str = "non_streaming"  # the meaning of layout `auto`: that, or streaming
    needs: str | None = None  # why a type that could clone cannot; None if it can
    clone_modes: tuple[str, ...] = ("icl", "xvec")  # modes of cloning
    prompt_overhead: int = 32  # tokens of a prompt besides its texts and references, at most
    ref_silence_s: float = 0.5  # seconds that should follow a reference of mode icl
    licence: Licence | None = None  # must be accepted first; None: no consent
    normalizes: bool = False  # texts are put into words by default
    pace: Pace | None = None  # how fast it can speak; None: random weights, not known

    @property
    def frame_s(self) -> float:
        return self.samples_per_frame / self.sample_rate_hz

    @property
    def takes_voice_files(self) -> bool:
        """Whether a row's voice is the name of a voice file, not of a speaker."""
        return self.needs_reference or self.can_clone


class SlotStatus(NamedTuple):
    """The status of one slot at a poll. A row has a dozen polls."""

    frames: int  # frames so far
    is_finished: bool
    finish_reason: str  # eos, max_frames, nan; empty while running
