"""The nouns that all rooms share: a row, the task that is made of it and what is spoken of that;
what a take is, how its speech ended and what is said of it.

Values of the enums are what stands in the files. No numpy and no torch is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from models.base import SpeechRequest


class _Word(str, Enum):
    """A word of a file. It is its text, in messages too, by every version of Python."""

    __str__ = str.__str__


class Role(_Word):
    """What a take is to its row."""

    OWN = "own"  # the row's file, as chosen by manifest and settings
    HELD = "held"  # the row's file, pinned by a user; other seeds do not replace it
    EXTRA = "extra"  # an alternative to the row's file


class Status(_Word):
    """What came of a take."""

    OK = "ok"  # the audio is good
    FAILED = "failed"  # the row failed, see `error`
    # the row is no longer in the manifest and was removed; its file is among its takes (`gone` in
    # earlier versions)
    REMOVED = "removed"


class Finish(_Word):
    """How a speech ended."""

    EOS = "eos"  # the model ended the audio
    MAX_FRAMES = "max_frames"  # the audio reached its limit
    EARLY = "early"  # the audio ended too soon for its text: too few frames
    STUCK = "stuck"  # the audio made no progress for 4 s
    WORDLESS = "wordless"  # the text has no words: silence without frames

    @property
    def is_runaway(self) -> bool:
        """Whether the speech is not all of the text."""
        return self in (Finish.MAX_FRAMES, Finish.EARLY, Finish.STUCK)


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
    QUALITY = "quality"
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

    kind: Kind  # [see below] subject of the remark
    text: str  # description, with figures
    weight: float = 2.0  # [1 to 10] weight of the remark; 1: only just above the limit


@dataclass(frozen=True)
class Levels:
    """Measures of one row's audio, named as in `JournalEntry`. dBFS: 0 is the root mean square,
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

    @property
    def file_take(self) -> int | None:
        """Number in the name of the take's files; None: the row's own names."""
        return self.take if self.role is Role.EXTRA else None


@dataclass(frozen=True)
class Need:
    """The voice a row needs."""

    digest: str  # empty: it is still to be made
    num_frames: int  # at most this many reference frames stand in its prompt
    num_bytes: int  # UTF-8 bytes of the transcript
    ref_sha256: str | None = None  # of the recording; None for a voice file
    mode: str | None = None  # how a voice file is cloned; None: as the row says


@dataclass(frozen=True)
class Work:
    """What a row took, named as in `JournalEntry`. Times are milliseconds, the row's own share
    where rows run together.
    """

    prompt_tokens: int = 0
    bucket: int = 0  # the largest batch it ran in
    queue_ms: float = 0.0  # from the thread that makes prompts to its slot
    reference_ms: float = 0.0  # encoding a reference, with the row that named it first
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    vocoder_ms: float = 0.0


@dataclass  # never changed; frozen, one would take 6 us to make instead of 2
class Row:
    """A manifest's row as plain values. None: not given, so a flag or the checkpoint decides."""

    line: int  # where the row starts in the manifest, from 1
    number: int  # which row it is, from 1, bad ones counted
    id: str
    text: str  # 1 .. 20,000 characters, not blank, `clean_unicode`; line ends are \n
    character: str | None = None  # who says it; a cast tells in which voice
    voice: str | None = None
    language: str | None = None
    instruct: str | None = None
    ref_audio: str | None = None  # absolute, or relative to the working folder
    ref_text: str | None = None
    clone_mode: str | None = None  # icl or xvec; set whenever ref_audio is
    seed: int | None = None  # 0 .. 2**53 - 1
    sampling: Mapping[str, float] = field(default_factory=dict)  # settings given, by name
    max_frames: int | None = None  # at most one of max_frames and max_seconds
    max_seconds: float | None = None
    extra: Mapping[str, Any] | None = None  # columns that are no fields, if kept
    file: str = ""  # the manifest it is from, where a run has several

    @property
    def record_id(self) -> str:
        """The id the row's outcome is recorded under."""
        return self.id


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be spoken, and why."""

    line: int
    number: int
    id: str | None  # only an id that is valid and this row's own
    message: str
    text: str | None = None  # what it was to say, where that is known
    is_late: bool = False  # found when it was to be spoken, so not among the check's bad rows
    file: str = ""  # see `Row`
    row: Row | None = None  # as the manifest gives it; None: it cannot be read
    request: SpeechRequest | None = None  # what it asks of the model, where that is known

    @property
    def record_id(self) -> str:
        """The id the failure is recorded under; '#' keeps it apart from ids of rows."""
        if self.id is not None:
            return self.id
        file = "".join(char if char.isprintable() else "?" for char in self.file)
        return f"#{file}:{self.line}" if file else f"#{self.line}"


@dataclass(frozen=True)
class Piece:
    """What of a task is spoken in one: all of it, where nothing splits the text."""

    request: SpeechRequest  # its own text behind the tags in force, its own seed and cap
    written: tuple[int, int]  # the characters of `Row.text` that it says
    boundary: str | None = None  # what ends there, as `Pauses` names it; None: the text
    pause_before_s: float | None = None  # that the text marks, as the next; only of the first
    pause_after_s: float | None = None  # None: as the boundary asks
    usual_s: float = 0.0  # what speech of its text usually takes; 0: not known
    least_frames: int = 0  # speech of fewer is not all of its text; 0: not known
    attempts_before: int = 0  # of earlier runs, none of which was all of its text


def are_joined(pieces: Sequence[Piece]) -> bool:
    """Whether audio is put together of pieces, or of one and the pauses around it."""
    if len(pieces) != 1:
        return len(pieces) > 1
    return not (pieces[0].pause_before_s is None and pieces[0].pause_after_s is None)


@dataclass(frozen=True, eq=False)
class Task:
    """One speech to be made of a row. What comes of it is a `Result`."""

    row: Row
    request: SpeechRequest  # of the whole text, first attempt; what the hashes cover
    pieces: tuple[Piece, ...] = ()  # in order; none: it is kept as silence
    most_frames: int | None = None  # of all pieces together; None: nobody set a cap
    need: Need | None = None  # the voice to be cloned; None: none
    notes: tuple[str, ...] = ()  # what is odd about it, where its row was given alone
    place: Place = Place()
    request_hash: str = ""  # what it is recorded under, as the next; nobody here looks at it
    content_hash: str = ""
    edits: tuple[tuple[int, int, str], ...] = ()  # of its text: start, end, words

    @property
    def id(self) -> str:
        """The row's."""
        return self.row.id

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
        return not self.pieces

    @property
    def is_joined(self) -> bool:
        """See `are_joined`."""
        return are_joined(self.pieces)


@dataclass(frozen=True)
class Encoded:
    """A row's files before they have their names: on disk under temporary ones, as paths relative
    to the output folder, or in memory, as bytes.
    """

    audio: bytes | str
    codes: bytes | str | None  # None: none are kept
    num_bytes: int  # of the audio, as the next
    sha256: str
    codes_sha256: str | None  # None: no codes are kept
    num_samples: int  # at the native rate, before anything was done to them
    applied: Any = (
        None  # `PostProcessReport` to the samples first, which core does not know; None: nothing
    )
    remarks: tuple[Remark, ...] = ()  # of the file, beside those of the speech


@dataclass(frozen=True, eq=False)
class Result:
    """What came of a piece, or of a task. It may have samples in spite of an error: speech that did
    not come to its end.
    """

    finish: Finish | None = None  # None: no end at all
    error: str | None = None  # None: it came out well
    samples: np.ndarray[Any, Any] | None = None  # (n,) float32, or int16 if the run wants them so
    codes: np.ndarray[Any, Any] | None = None  # (F, K) int64; there whenever samples are
    frames: int = 0
    frames_dropped: int = 0  # of attempts that were made again
    seed: int = 0  # of the attempt that was kept
    attempts: int = 0  # in all, those of earlier runs too
    levels: Levels | None = None  # of the samples
    remarks: tuple[Remark, ...] = ()  # of its audio
    usual_s: float = 0.0  # see `Piece`; of all pieces
    work: Work = Work()
    parts: tuple[
        dict[str, Any], ...
    ] = ()  # what came of the pieces of a joined one, see `JournalEntry`
    queued_s: float | None = None  # `perf_counter` when its prompt was made; None: it had none
    encoded: Encoded | None = None  # instead of samples and codes, where files are made of them
    unwritable: str | None = None  # why no files can be made
    encode_ms: float = 0.0
    worker: int | None = None  # that spoke it, from 1; None: this process


# Shows that something goes on, while one step is taken.
Step = Callable[[str], AbstractContextManager[Any]]
Keep = Callable[[Task, Result], None]  # takes what came of each task; any thread calls it
