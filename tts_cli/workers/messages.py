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
    from tts_cli.voices.stage import Voiced


@dataclass(frozen=True)
class WorkerConfig:
    """What a worker needs before its first row."""

    number: int  # of the worker, from 1
    config: RunConfig  # paths are absolute
    out: Path
    identity: str  # of the checkpoint that rows were checked for
    version: str  # of tts-cli
    needs: Needs  # of its share of the rows
    comment: str  # in every file
    token: str  # path of the file that shows whether the output folder is the driver's
    token_text: str
    num_threads: int | None  # of torch; None: the user has chosen
    level: int  # of messages that the driver wants


@dataclass(frozen=True)
class Ready:
    """A worker that takes rows."""

    host: str
    facts: SessionFacts
    num_slots: int  # rows spoken at once
    has_folder: bool  # it sees the output folder


@dataclass(frozen=True)
class RowOrder:
    """A task to be spoken."""

    number: int  # that it is answered under
    voiced: Voiced  # without its voice and its ticket, which no other process can use
    voice: int | None  # its place among those of the call


@dataclass(frozen=True)
class Ended:
    """What came of a task."""

    number: int
    spoken: Result | None = None  # None: the end of the run came before it, or an error
    age_s: float | None = None  # since its prompt was made; None: it had none
    error: StoppedEarly | None = None  # the folder takes nothing more

    @classmethod
    def of(cls, number: int, spoken: Result, now_s: float) -> Ended:
        """At a reading of the worker's `perf_counter`."""
        queued_s = spoken.queued_s
        return cls(number, spoken, None if queued_s is None else now_s - queued_s)


@dataclass(frozen=True)
class Returned:
    """What came back of the rows that a worker has."""

    ended: list[Ended]
    num_behind: int  # of the others, parts counted: they need their slots no more


@dataclass(frozen=True)
class EncodedVoice:
    """What came of a reference."""

    voice: Voice | None
    error: str | None = None
    milliseconds: float = 0.0


@dataclass(frozen=True)
class Said:
    """A message for the user."""

    logger: str
    level: int
    text: str


@dataclass(frozen=True)
class WorkerNews:
    """What a worker has to tell now and then."""

    said: list[Said]
    heartbeat: int  # differs from the last one if the worker made progress
