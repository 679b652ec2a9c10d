"""A worker as the driver sees it, and the rows that it has or that wait for one. Only the driver's
thread uses them.

A row that was on two workers that died may be the cause. It goes last, and each further death
divides the number of rows that run with it by eight, so that the row that kills workers is soon
alone.
"""

from __future__ import annotations

import math
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from tts_cli.engine.pieces import estimated_frames
from tts_cli.engine.session import SessionFacts
from tts_cli.voices.voice_loader import TaskWithVoice
from tts_cli.workers.messages import Ready, WorkerNews

# Rows that a worker has at most: its slots, half as many more, and a few, so that free slots are
# filled without delay. Other workers cannot take them when the run ends. Rows that wait for the
# vocoder do not count: with few slots or short rows they can be twice as many as the slots.
SLOTS_SHARE = 2
MORE_ROWS = 4
COMPANY_SHIFT = 3


@dataclass(eq=False)
class OpenRow:
    """A task until it is recorded."""

    voiced: TaskWithVoice
    frames: float  # estimate
    slots: int = 1  # number of pieces, which it fills at the same time
    turn: int = 0  # rows of a lower turn go first
    deaths: int = 0  # of workers that had it
    lone_deaths: int = 0  # of workers that had only this row

    @classmethod
    def of(cls, voiced: TaskWithVoice, turn: int = 0) -> OpenRow:
        pieces = voiced.task.pieces
        return cls(voiced, sum(estimated_frames(one.request) for one in pieces), len(pieces), turn)

    @property
    def is_suspect(self) -> bool:
        """Whether it may be the cause of deaths."""
        return self.deaths > 1

    def company(self, room: int) -> int:
        """Return how many slots its worker may use, including its own."""
        return max(1, room >> (COMPANY_SHIFT * max(0, self.deaths - 1)))

    @property
    def rank(self) -> tuple[float, float]:
        """Sort key: by turn, then the longest first; the most suspect rows last."""
        if self.is_suspect:
            return math.inf, self.deaths + self.lone_deaths
        return self.turn, -self.frames


@dataclass(eq=False)
class WorkerHandle:
    """A worker as the driver sees it: its process, its rows and its totals."""

    number: int  # from 1
    actor: Any
    life: int = 0  # number of the process; answers of earlier ones are ignored
    ready: Ready | None = None  # None: it loads, or is given up
    rows: dict[int, OpenRow] = field(default_factory=dict)  # by their numbers at this worker
    num_given: int = 0
    num_sent: int = 0  # rows and references sent to this process
    slots: int = 0  # slots that its rows need
    num_behind: int = 0  # of these, pieces that have left their slots
    frames: float = 0.0  # estimate of all its rows
    deaths: int = 0  # since its last result
    restarts: int = 0
    given_up: str | None = None  # reason
    is_drained: bool = False  # it knows that no more rows come for now
    lost_s: float = field(default_factory=time.perf_counter)  # when it lost its process
    heartbeat: int = 0
    heartbeat_s: float = 0.0  # when it last made progress with its rows
    news: Future[WorkerNews] | None = None  # the answer to the last call for news
    num_rows: int = 0  # recorded rows
    audio_s: float = 0.0  # of these
    load_s: float = 0.0  # of the first process
    capture_s: float = 0.0  # of the first process
    host: str | None = None
    counted: SessionFacts = field(default_factory=SessionFacts)  # its final report
    device: dict[str, Any] = field(default_factory=dict)

    @property
    def room(self) -> int:
        """Return the slots that its rows may need together."""
        if self.ready is None:
            return 0
        return self.ready.num_slots + self.ready.num_slots // SLOTS_SHARE + MORE_ROWS

    def can_take(self, row: OpenRow) -> bool:
        if self.ready is None:
            return False
        if not self.rows:
            return True
        slots = self.slots + row.slots
        suspects = [one for one in (row, *self.rows.values()) if one.is_suspect]
        company = min((one.company(self.room) for one in suspects), default=slots)
        return slots - self.num_behind <= self.room and slots <= company

    def give(self, row: OpenRow) -> int:
        """Add a row. Return its number, which no other row of this worker has or had."""
        if not self.rows:
            self.heartbeat_s = time.perf_counter()
        self.num_given += 1
        self.num_sent += 1
        self.rows[self.num_given] = row
        self.slots += row.slots
        self.frames += row.frames
        self.is_drained = False
        return self.num_given

    def take_back(self, number: int) -> OpenRow:
        row = self.rows.pop(number)
        self.slots -= row.slots
        self.frames -= row.frames
        return row

    def add_reference(self) -> None:
        self.is_drained = False
        self.num_sent += 1

    def lose(self) -> None:
        """Record that its process has ended. Later answers from it are ignored."""
        self.life += 1
        self.num_sent = self.num_behind = 0
        self.ready = None
        self.lost_s = time.perf_counter()

    def begin(self, ready: Ready) -> None:
        facts = ready.facts
        self.ready, self.device, self.host = ready, facts.device, ready.host
        self.load_s = self.load_s or facts.load_s
        self.capture_s = self.capture_s or facts.capture_s

    def take_news(self, news: WorkerNews) -> None:
        self.num_behind = news.num_behind
        if news.ended or news.heartbeat != self.heartbeat:
            self.heartbeat, self.heartbeat_s = news.heartbeat, time.perf_counter()

    def still_s(self) -> float:
        """Return the seconds without progress on its rows; 0 without rows."""
        return time.perf_counter() - self.heartbeat_s if self.rows else 0.0

    def facts(self) -> dict[str, Any]:
        work = {
            name: value
            for name, value in self.counted.device.items()
            if name not in self.device or name.startswith("graphs")
        }
        return {
            # [1 and up] number of the worker, as `worker` in `timings.jsonl`
            "number": self.number,
            "host": self.host,  # [text] host of the worker; null: it never ran
            "device": self.device.get("device"),  # [text] device, such as `cuda:0`
            "name": self.device.get("name"),  # [text] name of the GPU
            "max_batch": self.device.get("max_batch"),  # [rows] largest batch size
            "rows": self.num_rows,  # [rows] rows that the worker synthesized
            "audio_s": round(self.audio_s, 4),  # length of the audio of these rows
            "load_s": round(self.load_s, 4),  # time to load the checkpoint
            "capture_s": round(self.capture_s, 4),  # time to allocate slots and capture graphs
            "graph_hits": self.counted.graph_hits,  # [steps] steps that used a graph
            "graph_misses": self.counted.graph_misses,  # [steps] steps that had no graph
            # peak memory of the device; null: not measured
            "peak_memory_bytes": self.counted.peak_memory_bytes,
            "restarts": self.restarts,  # [times] how often its process died
            # [text] reason why the run continued without the worker; null: the worker was used to
            # the end
            "given_up": self.given_up,
            **work,
        }
