"""The messages between the driver and a worker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tts_cli.config import RunConfig
from tts_cli.core import Result
from tts_cli.engine.session import SessionFacts
from tts_cli.errors import StoppedEarly

if TYPE_CHECKING:
    from models.base import Voice
    from tts_cli.plan.room import Needs
    from tts_cli.voices.voice_loader import TaskWithVoice


@dataclass(frozen=True)
class WorkerConfig:
    number: int  # of the worker, from 1
    config: RunConfig  # with absolute paths
    out: Path
    identity: str  # of the checkpoint
    version: str  # of tts-cli
    needs: Needs  # for its share of the rows
    comment: str  # in every file
    token: str  # path of a file that shows whether this is the driver's output folder
    token_text: str
    num_threads: int | None  # of torch; None: set by the user
    level: int  # of log messages


@dataclass(frozen=True)
class Ready:
    host: str
    facts: SessionFacts
    num_slots: int  # rows at a time
    has_folder: bool  # it sees the output folder


@dataclass(frozen=True)
class RowOrder:
    number: int  # of the row at this worker
    voiced: TaskWithVoice  # without voice and ticket, which other processes cannot use
    voice: int | None  # index among the voices of the call


@dataclass(frozen=True)
class Ended:
    number: int
    spoken: Result | None = None  # None: the run ended before, or an error
    age_s: float | None = None  # since its prompt was made; None: no prompt
    error: StoppedEarly | None = None  # the folder cannot be written

    @classmethod
    def of(cls, number: int, spoken: Result, now_s: float) -> Ended:
        """Return a result at a time of the worker's `perf_counter`."""
        queued_s = spoken.queued_s
        return cls(number, spoken, None if queued_s is None else now_s - queued_s)


@dataclass(frozen=True)
class EncodedVoice:
    voice: Voice | None
    error: str | None = None
    milliseconds: float = 0.0


@dataclass(frozen=True)
class LogMessage:
    logger: str
    level: int
    text: str


@dataclass(frozen=True)
class WorkerNews:
    ended: list[Ended]
    messages: list[LogMessage]
    num_behind: int = 0  # pieces of other rows that have left their slots
    heartbeat: int = -1  # differs from the last one if the worker made progress
