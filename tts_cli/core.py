"""The types that all rooms share: a row, its task, the result, and the words stored in files.

The values of the enums are stored in files. Neither numpy nor torch is imported here.
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
    """An enum whose members format as their value, in every version of Python."""

    __str__ = str.__str__


class Role(_Word):
    """The role of a take for its row."""

    OWN = "own"  # the row's file, as chosen by manifest and settings
    HELD = "held"  # the row's file, pinned by a user; other seeds do not replace it
    EXTRA = "extra"  # an alternative to the row's file


class Status(_Word):
    """The result of a take."""

    OK = "ok"  # the audio is good
    FAILED = "failed"  # the row failed, see `error`
    # the row is no longer in the manifest and was removed; its file is among its takes (`gone` in
    # earlier versions)
    REMOVED = "removed"


class Finish(_Word):
    """How the audio of a row ended."""

    EOS = "eos"  # the model ended the audio
    MAX_FRAMES = "max_frames"  # the audio reached its limit
    EARLY = "early"  # the audio ended too soon for its text: too few frames
    STUCK = "stuck"  # the audio made no progress for 4 s
    WORDLESS = "wordless"  # the text has no words: silence without frames

    @property
    def is_runaway(self) -> bool:
        """Whether the audio cannot be all of the text."""
        return self in (Finish.MAX_FRAMES, Finish.EARLY, Finish.STUCK)


class Kind(_Word):
    """The subject of a remark."""

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
    SLOT = "slot"

    @classmethod
    def named(cls, name: str) -> Kind:
        """Return the kind of this name, or OTHER if it is unknown."""
        return cls(name) if name in cls._value2member_map_ else cls.OTHER

    @property
    def about(self) -> str:
        """`speech`, or `file` for remarks about the processed file, which a new file drops."""
        return "file" if self in (Kind.LEVEL, Kind.NOISE_FLOOR, Kind.SLOT) else "speech"


class Remark(NamedTuple):
    """A reason to listen to a take. No code parses its text."""

    kind: Kind  # [see below] subject of the remark
    text: str  # description, with figures
    weight: float = 2.0  # [1 to 10] weight of the remark; 1: only just above the limit


@dataclass(frozen=True)
class Levels:
    """Measures of one row's audio, named as in `JournalEntry`. dBFS: 0 is the root mean square, or
    the peak, of a square wave of full scale; None is digital silence.
    """

    level_dbfs: float | None = None  # root mean square of all samples
    peak_dbfs: float | None = None
    clipped_share: float = 0.0  # samples at full scale, 0 to 1
    # Near-silence; all of it counts as the start if the audio has nothing else.
    silence_start_s: float = 0.0
    silence_end_s: float = 0.0
    silence_inside_s: float = 0.0  # longest between two sounds

    @property
    def longest_silence_s(self) -> float:
        return max(self.silence_start_s, self.silence_inside_s, self.silence_end_s)


@dataclass(frozen=True)
class TakeRef:
    take: int = 1
    role: Role = Role.OWN
    is_new: bool = False  # no line of the journal had the row when it was planned

    @property
    def file_take(self) -> int | None:
        """Number in the names of the take's files; None: the row's own names."""
        return self.take if self.role is Role.EXTRA else None


@dataclass(frozen=True)
class VoiceKey:
    """The voice that a row needs."""

    digest: str  # empty: not generated yet
    num_frames: int  # maximum of reference frames in its prompt
    num_bytes: int  # UTF-8 bytes of the transcript
    ref_sha256: str | None = None  # hash of the recording; None for a voice file
    mode: str | None = None  # clone mode of a voice file; None: the row's


@dataclass(frozen=True)
class Work:
    """What a row took, named as in `JournalEntry`. Times are milliseconds, the row's own share if
    rows run together.
    """

    prompt_tokens: int = 0
    bucket: int = 0  # largest batch it ran in
    queue_ms: float = 0.0  # from its prompt to its slot
    reference_ms: float = 0.0  # encoding a reference, counted for the first row that uses it
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    vocoder_ms: float = 0.0


class FilePace(NamedTuple):
    """The pace of a row's file: a speed, or a length that it must fit into."""

    speed: float = 1.0
    fit_s: float | None = None  # length of the file in seconds; None: any
    is_own: bool = False  # whether it is from the row's fields, which flags do not change


AS_SYNTHESIZED = FilePace()


@dataclass  # never changed; creating a frozen one takes 6 us instead of 2
class Row:
    """A row of a manifest. None: not given, so a flag or the checkpoint decides."""

    line: int  # line of the manifest where the row starts, from 1
    number: int  # position of the row, from 1, including invalid rows
    id: str
    text: str  # 1 .. 20,000 characters, not blank, `clean_unicode`; line ends are \n
    character: str | None = None  # name in the cast, which has its voice
    voice: str | None = None
    language: str | None = None
    instruct: str | None = None
    ref_audio: str | None = None  # absolute, or relative to the working folder
    ref_text: str | None = None
    clone_mode: str | None = None  # icl or xvec; set whenever ref_audio is
    seed: int | None = None  # 0 .. 2**53 - 1
    sampling: Mapping[str, float] = field(default_factory=dict)  # given settings, by name
    max_frames: int | None = None  # at most one of max_frames and max_seconds
    max_seconds: float | None = None
    speed: float | None = None  # of its file
    duration_s: float | None = None  # length that its file must fit into
    lexicon: str | None = None  # pronunciations of its words: `lead=led; read=red`
    extra: Mapping[str, Any] | None = None  # unrecognized columns, with --extra keep
    file: str = ""  # manifest of the row, if a run has several

    @property
    def record_id(self) -> str:
        return self.id


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be synthesized, and the reason."""

    line: int
    number: int
    id: str | None  # None: not valid, or another row's
    message: str
    text: str | None = None  # None: not known
    is_late: bool = False  # found during the run, not when the manifest was checked
    file: str = ""  # see `Row`
    row: Row | None = None  # row of the manifest; None: it cannot be read
    request: SpeechRequest | None = None  # request to the model; None: not known

    @property
    def record_id(self) -> str:
        """The id of the failure's journal entry; `#` distinguishes it from ids of rows."""
        if self.id is not None:
            return self.id
        file = "".join(char if char.isprintable() else "?" for char in self.file)
        return f"#{file}:{self.line}" if file else f"#{self.line}"


@dataclass(frozen=True)
class Piece:
    """A part of a task that is synthesized in one request: all of it unless the text is split."""

    request: SpeechRequest  # text of the piece after the tags in force, its seed and limit
    written: tuple[int, int]  # range of its characters in `Row.text`
    boundary: str | None = None  # kind of its end, as `Pauses` names it; None: the text's end
    pause_before_s: float | None = None  # pause marked in the text; first piece only
    pause_after_s: float | None = None  # pause marked in the text; None: that of the boundary
    usual_s: float = 0.0  # usual length of the audio; 0: not known
    least_frames: int = 0  # fewer frames cannot be all of the text; 0: not known
    attempts_before: int = 0  # failed attempts of earlier runs


def are_joined(pieces: Sequence[Piece]) -> bool:
    """Whether audio is joined from pieces, or from one piece and the pauses around it."""
    if len(pieces) != 1:
        return len(pieces) > 1
    return not (pieces[0].pause_before_s is None and pieces[0].pause_after_s is None)


@dataclass(frozen=True, eq=False)
class Task:
    """One take of a row to synthesize. Its result is a `Result`."""

    row: Row
    request: SpeechRequest  # whole text, first attempt; the hashes cover it
    pieces: tuple[Piece, ...] = ()  # in order; none: silence is written
    most_frames: int | None = None  # limit of all pieces together; None: none
    need: VoiceKey | None = None  # voice to clone; None: none
    notes: tuple[str, ...] = ()  # warnings about a row that is not from a manifest
    place: TakeRef = TakeRef()
    request_hash: str = ""  # recorded in the journal, as is the next
    content_hash: str = ""
    edits: tuple[tuple[int, int, str], ...] = ()  # edits of its text: start, end, words
    pace: FilePace = AS_SYNTHESIZED  # of its file

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def name(self) -> str:
        """Name of its row in messages, with the take's number unless it is the row's own."""
        return f"{self.id}, take {self.place.take}" if self.place.file_take else self.id

    @property
    def is_silent(self) -> bool:
        """Whether nothing is synthesized, because its text has no words."""
        return not self.pieces

    @property
    def is_joined(self) -> bool:
        return are_joined(self.pieces)


@dataclass(frozen=True)
class Encoded:
    """A row's files before they are renamed: paths of temporary files, relative to the output
    folder, or bytes in memory.
    """

    audio: bytes | str
    codes: bytes | str | None  # None: none are kept
    num_bytes: int  # of the audio, as the next
    sha256: str
    codes_sha256: str | None  # None: no codes are kept
    num_samples: int  # at the native rate, before anything was done to them
    applied: Any = None  # `PostProcessReport` about the samples, a type unknown here; None: nothing
    remarks: tuple[Remark, ...] = ()  # of the file, in addition to those of the speech


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a piece or of a task.

    `samples` may be set although `error` is: the audio was cut off.
    """

    finish: Finish | None = None  # None: generation did not end
    error: str | None = None  # None: the audio is good
    samples: np.ndarray[Any, Any] | None = None  # (n,) float32, or int16 if the run uses that
    codes: np.ndarray[Any, Any] | None = None  # (F, K) int64; set whenever samples are
    frames: int = 0
    frames_dropped: int = 0  # frames of discarded attempts
    seed: int = 0  # seed of the accepted attempt
    attempts: int = 0  # total, including earlier runs
    levels: Levels | None = None  # measures of the samples
    remarks: tuple[Remark, ...] = ()  # remarks about the audio
    usual_s: float = 0.0  # usual length of all pieces, see `Piece`
    work: Work = Work()
    parts: tuple[dict[str, Any], ...] = ()  # results of its pieces, see `JournalEntry`
    queued_s: float | None = None  # `perf_counter` when its prompt was made; None: it had none
    encoded: Encoded | None = None  # instead of samples and codes, where files are made of them
    unwritable: str | None = None  # why no files can be made
    encode_ms: float = 0.0
    worker: int | None = None  # number of the worker, from 1; None: this process


Step = Callable[[str], AbstractContextManager[Any]]  # shows that a long step is running
# Receives the results of some tasks, in any thread.
Keep = Callable[[Sequence[tuple[Task, Result]]], None]
