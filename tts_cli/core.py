"""The nouns that all rooms share: what a take is, how its speech ended and what is said of it;
a row from the plan to its samples.

Values of the enums are what stands in the files. No numpy and no torch is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from models.base import SpeechRequest
    from tts_cli.text.reading import Reading
    from tts_cli.text.split import Part
    from tts_cli.voices.encoding import Ticket


class _Word(str, Enum):
    """A word of a file. It is its text, in messages too, by every version of Python."""

    __str__ = str.__str__


class Role(_Word):
    """What a take is to its row."""

    OWN = "own"  # what the manifest and the settings ask for; the row's file is this take
    HELD = "held"  # somebody chose it: the row's file is this take, whatever seed a run has
    EXTRA = "extra"  # spoken beside the row's own file


class Status(_Word):
    """What came of a take."""

    OK = "ok"
    FAILED = "failed"
    GONE = "gone"  # no manifest has the row any more: nothing but a run for it may look at the line


class Finish(_Word):
    """How a speech ended."""

    EOS = "eos"  # by itself
    MAX_FRAMES = "max_frames"  # at its cap
    EARLY = "early"  # with fewer frames than its text can take
    STUCK = "stuck"  # it stood still for 4 s
    WORDLESS = "wordless"  # there was nothing to speak in its text: silence without frames

    @property
    def is_runaway(self) -> bool:
        """Whether the speech is not all of the text."""
        return self in (Finish.MAX_FRAMES, Finish.EARLY, Finish.STUCK)


class Unfinished(_Word):
    """Why a failed line judges no speech."""

    # It says what its row is once the file of its sum has its name, and stands alone only where the
    # run died about then; see `takes.TakeFolder.repair`.
    REPLACING = "replacing"
    TORN = "torn"  # the run died while the line was written
    UNRECORDED = "unrecorded"  # the run died between the file and its line


class Kind(_Word):
    """What a remark is about."""

    EARLY = "early"
    CUT = "cut"
    STUCK = "stuck"
    LONG = "long"
    FAST = "fast"
    SLOW = "slow"
    SILENCE = "silence"
    REPEATS = "repeats"
    LOUD = "loud"
    QUIET = "quiet"
    CLIPPED = "clipped"
    WORDS = "words"
    GARBLED = "garbled"
    LESS = "less"
    MORE = "more"
    DRIFT = "drift"
    OTHER = "other"
    LEVEL = "level"
    NOISE_FLOOR = "noise_floor"

    @classmethod
    def named(cls, name: str) -> Kind:
        """The kind of this name; what is not known by it is something else."""
        return cls(name) if name in cls._value2member_map_ else cls.OTHER

    @property
    def about(self) -> str:
        """`speech`, or `file`: of what was made of the speech, so that a new file drops it."""
        return "file" if self in (Kind.LEVEL, Kind.NOISE_FLOOR) else "speech"


class Remark(NamedTuple):
    """What somebody should listen for. Nobody parses the text."""

    kind: Kind
    text: str  # with figures
    weight: float = 2.0  # 1: just so; 10 at most


@dataclass(frozen=True)
class Levels:
    """Measures of one row's audio, under the names of `Take`. dBFS: 0 is the root mean square,
    or the peak, of a square wave of full scale; None is digital silence.
    """

    level_dbfs: float | None = None  # root mean square of all samples
    peak_dbfs: float | None = None
    clipped_share: float = 0.0  # samples at full scale, 0 to 1
    # Near-silence; audio that is nothing else has all of it at its start.
    silence_start_s: float = 0.0
    silence_end_s: float = 0.0
    silence_inside_s: float = 0.0  # the longest between two sounds

    @property
    def longest_silence_s(self) -> float:
        """The longest near-silence anywhere."""
        return max(self.silence_start_s, self.silence_inside_s, self.silence_end_s)


@dataclass(frozen=True)
class Place:
    """Which take of a row a speech is to be."""

    take: int = 1
    role: Role = Role.OWN
    has_folder: bool = False  # the row has several takes, or will have

    def file_take(self, is_truncated: bool) -> int | None:
        """The take that names the speech's file; None: the row alone does."""
        is_named = self.role is Role.EXTRA if is_truncated else self.has_folder
        return self.take if is_named else None


@dataclass(frozen=True)
class Need:
    """The voice a row needs."""

    digest: str  # empty: it is still to be made
    num_frames: int  # at most this many reference frames stand in its prompt
    num_bytes: int  # UTF-8 bytes of the transcript
    ref_sha256: str | None = None  # of the recording; None for a voice file


@dataclass(frozen=True)
class Work:
    """What a row took, under the names of `Take`. Times are milliseconds, the row's own share
    where rows run together.
    """

    prompt_tokens: int = 0
    bucket: int = 0  # the largest batch it ran in
    queue_ms: float = 0.0  # from the thread that makes prompts to its slot
    reference_ms: float = 0.0  # encoding a reference, with the row that named it first
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    vocoder_ms: float = 0.0


@dataclass(frozen=True)
class PlannedPart:
    """A piece of a row that is too long to be spoken in one, or has pauses."""

    span: Part  # of the row's text as it is spoken
    request: SpeechRequest  # its text behind the tags in force there; the row's settings
    pause_before_s: float | None = None  # that the text marks; only of the first part
    pause_after_s: float | None = None  # that the text marks; None: what the boundary asks for


@dataclass(eq=False)
class SpeechRow:
    """One row of a run, with everything that holds for all its attempts.

    One thread has it at a time: the one that makes prompts until its first job is in the queue,
    then the engine's, then whoever takes it at its end. Then it may have samples in spite of an
    error: speech that did not come to its end.
    """

    id: str
    request: SpeechRequest  # of the first attempt
    request_hash: str = ""  # what it is recorded under; nobody here looks at it
    need: Need | None = None  # the voice to be cloned; None: none, or `request.clone` has it
    character: str | None = None  # see `Row`, as the next
    extra: Mapping[str, Any] | None = None
    reading: Reading | None = None  # of the manifest's text; None: it is spoken as it is written
    parts: tuple[PlannedPart, ...] = ()  # it is spoken in; none: it is spoken in one
    most_frames: int | None = None  # of all its parts together; None: nobody set a cap
    part_of: SpeechRow | None = None  # the row that this one is a part of
    is_first_part: bool = False
    content_hash: str = ""  # what it is recorded under as well
    place: Place = field(default_factory=Place)  # which take of its row it is to be
    # Attempts of earlier runs at the very same, none of which was all of its text: this one goes on
    # behind them. Of a row in parts those at each of them.
    attempts_before: int = 0
    part_attempts_before: tuple[int, ...] = ()
    # On its way.
    least_frames: int = 0  # speech of fewer is not all of the text; 0: not known
    expected_s: float = 0.0  # what speech of the text usually takes; 0: not known
    encoding: Ticket | None = None  # the reference's, of the row that named it first
    queued_s: float | None = None  # `perf_counter` when its prompt was made; None: it had none
    has_been_nan: bool = False  # an attempt gave NaN or infinite values
    frames_dropped: int = 0  # of attempts that were made again
    # At its end.
    error: str | None = None  # None: it came out well
    finish_reason: Finish | None = None  # None: no end at all
    attempts: int = 0
    seed: int = field(init=False)  # of the attempt that was kept
    frames: int = 0
    samples: np.ndarray[Any, Any] | None = None  # (n,) float32, or int16 if the run wants them so
    codes: np.ndarray[Any, Any] | None = None  # (F, K) int64; there whenever samples are
    levels: Levels | None = None  # of the samples
    remarks: list[Remark] = field(default_factory=list)  # of its audio
    work: Work = Work()
    part_records: list[dict[str, Any]] = field(default_factory=list)  # what came of its parts
    # `MadeFiles` of the samples, which core does not know; None: there are none, or are unwritable.
    made: Any = None
    unwritable: str | None = None  # why no files can be made
    make_ms: float = 0.0
    worker: int | None = None  # that spoke it, from 1; None: this process

    def __post_init__(self) -> None:
        self.seed = self.request.seed

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.id}, take {self.place.take}" if self.is_extra else self.id

    @property
    def is_extra(self) -> bool:
        """Whether it is spoken beside the row's own file."""
        return self.place.role is Role.EXTRA

    @property
    def is_silent(self) -> bool:
        """Whether nothing of it is spoken: its text has no word."""
        return self.finish_reason is Finish.WORDLESS
