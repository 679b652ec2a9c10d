"""A worker as the driver sees it, and the rows that wait for one: longest first within a look-ahead
window, as in the engine's own scheduler, so that the last rows of a run are short ones and the
workers end together. Plain Python, no Ray.

A row whose worker died waits behind all fresh ones, because it may have been what killed it, and
each such death divides by eight the company that it may be spoken in: innocent rows lose little,
and the guilty one is soon alone with the blame.

One worker as the driver sees it.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import deque
from collections.abc import Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from tts_cli.engine.session import SessionFacts
from tts_cli.voices.stage import Voiced
from tts_cli.workers.messages import Ready, WorkerNews

Item = TypeVar("Item", bound=Hashable)

COMPANY_SHIFT = 3
PATIENCE = 4  # windows of rows that may go before one that waits


@dataclass(eq=False)
class UnansweredRow(Generic[Item]):
    """A row on the driver's side, until it is recorded."""

    item: Item
    frames: float  # it will probably take
    slots: int = 1  # it fills at once: its parts
    deaths: int = 0  # of workers that had it
    lone_deaths: int = 0  # of those, that had nothing else
    is_gone: bool = False  # given to a worker
    arrived: int = 0  # rows that were given before it came

    def company(self, room: int) -> int:
        """Most slots in use of a worker that speaks it, itself included."""
        return max(1, room >> (COMPANY_SHIFT * self.deaths))

    def given_back(self, *, was_alone: bool) -> UnansweredRow[Item]:
        """The row once more, after the death of a worker that had it."""
        deaths, lone_deaths = self.deaths + 1, self.lone_deaths + was_alone
        return replace(self, deaths=deaths, lone_deaths=lone_deaths, is_gone=False)


class Window(Generic[Item]):
    """The rows that wait. One thread at a time.

    Args:
        size: rows to look ahead.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._fresh: list[tuple[float, int, UnansweredRow[Item]]] = []  # a heap, the longest on top
        self._by_age: deque[UnansweredRow[Item]] = deque()
        self._suspects: list[
            tuple[int, int, UnansweredRow[Item]]
        ] = []  # a heap, the least suspect first
        self._counter = itertools.count()
        self._given = 0

    def __len__(self) -> int:
        return len(self._suspects) + sum(1 for row in self._by_age if not row.is_gone)

    def __bool__(self) -> bool:
        return self.next() is not None

    def add(self, row: UnansweredRow[Item]) -> None:
        """Take a row that was never given, as `given_back` makes one of a row that was."""
        assert not row.is_gone, row.item
        number = next(self._counter)
        if row.deaths:
            heapq.heappush(self._suspects, (row.deaths + row.lone_deaths, number, row))
            return
        row.arrived = self._given
        heapq.heappush(self._fresh, (-row.frames, number, row))
        self._by_age.append(row)

    def next(self) -> UnansweredRow[Item] | None:
        """The row to be given next; None: there is none."""
        while self._by_age and self._by_age[0].is_gone:
            self._by_age.popleft()
        while self._fresh and self._fresh[0][2].is_gone:
            heapq.heappop(self._fresh)
        if self._by_age:
            oldest = self._by_age[0]
            has_waited = self._given - oldest.arrived > PATIENCE * self.size
            return oldest if has_waited else self._fresh[0][2]
        return self._suspects[0][2] if self._suspects else None

    def give(self) -> UnansweredRow[Item]:
        """Take out the next row."""
        if (row := self.next()) is None:
            raise IndexError("nothing waits")
        row.is_gone = True
        if row.deaths:
            heapq.heappop(self._suspects)
        self._given += 1
        return row


Row = UnansweredRow[Voiced]

# Rows that have a slot or are to have one: half as many more as there are slots, and a few, so that
# freed ones are filled at once; no more than that, because what one worker has no other can take
# when the last rows are spoken. Those that wait for the vocoder behind them do not count: it may
# want more than twice as many as there are slots, if these are few or rows short.
SLOTS_SHARE = 2
ROWS_MORE = 4
MAX_DEATHS = 3  # in a row, without a row spoken between them, and a worker is given up


@dataclass(eq=False)
class Hand:
    """A worker's process, what it has in hand, and what came of it."""

    number: int  # from 1
    actor: Any
    life: int = 0  # which of its processes; answers of earlier ones count no more
    ready: Ready | None = None  # None: it loads, or is given up
    rows: dict[int, Row] = field(default_factory=dict)  # that it has, by numbers of its own
    num_given: int = 0
    num_sent: int = 0  # rows and references, to this process
    _suspects: set[Row] = field(default_factory=set)  # of these, that a worker has died over
    slots: int = 0  # these fill, one after the other or at once
    num_behind: int = 0  # of these slots, those that are needed no more, as it was told last
    frames: float = 0.0  # that its rows will probably take
    deaths: int = 0  # since it spoke its last row
    restarts: int = 0
    given_up: str | None = None  # why
    is_drained: bool = False  # it was told that no more rows come
    lost_s: float = field(default_factory=time.perf_counter)  # when it was last without a process
    num_rows: int = 0  # recorded, as the next
    audio_s: float = 0.0
    load_s: float = 0.0  # of its first process, as the next
    capture_s: float = 0.0
    pulse: int = 0  # as it was told last
    pulse_s: float = 0.0  # when it was last seen to do anything, while it has rows
    listening: Future[WorkerNews] | None = None  # its next answer to that
    host: str | None = None
    counted: SessionFacts = field(default_factory=SessionFacts)
    device: dict[str, Any] = field(default_factory=dict)

    @property
    def room(self) -> int:
        """Slots that its rows may fill."""
        if self.ready is None:
            return 0
        return self.ready.num_slots + self.ready.num_slots // SLOTS_SHARE + ROWS_MORE

    def can_take(self, row: Row) -> bool:
        """Whether it may have one more row, this one."""
        if self.ready is None:
            return False
        if not self.rows:
            return True
        room, slots = self.room, self.slots + row.slots
        company = [other.company(room) for other in (row, *self._suspects) if other.deaths]
        return slots - self.num_behind <= room and slots <= min(company, default=slots)

    def give(self, row: Row) -> int:
        """Count a row in; returns its number, which no other row of this worker has or had."""
        if not self.rows:
            self.pulse_s = time.perf_counter()
        self.num_given += 1
        self.num_sent += 1
        self.rows[self.num_given] = row
        self.slots += row.slots
        self.frames += row.frames
        self.is_drained = False
        if row.deaths:
            self._suspects.add(row)
        return self.num_given

    def lose(self) -> None:
        """Its process is gone; what that has still answered counts no more."""
        self.life += 1
        self.num_sent = self.num_behind = 0
        self.ready = None

    def take_back(self, number: int) -> Row:
        """Count a row out."""
        row = self.rows.pop(number)
        self._suspects.discard(row)
        self.slots -= row.slots
        self.frames -= row.frames
        return row

    def feel(self, pulse: int) -> None:
        """Note whether it has done anything since it was last asked."""
        if pulse != self.pulse:
            self.pulse, self.pulse_s = pulse, time.perf_counter()

    def still_s(self) -> float:
        """Seconds since it was seen to do anything with the rows that it has; 0 without any."""
        return time.perf_counter() - self.pulse_s if self.rows else 0.0

    def facts(self) -> dict[str, Any]:
        """What run.json says of it."""
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
