"""Deal rows to workers: planned, given out, taken back from workers that die, recorded.

A call carries all rows that a worker has room for at the moment, and an answer all that have ended
since the last one: a call costs Ray a millisecond on each side, whatever is in it. Which rows a
worker has is known by numbers; what answers to a number that it has no more comes too late.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tts_cli.core import Encoded, Keep, Result, Task
from tts_cli.engine.pieces import estimated_frames
from tts_cli.voices.stage import Voiced, VoiceStage
from tts_cli.workers.hand import Hand, Row, UnansweredRow, Window
from tts_cli.workers.lives import DriverQueue, Lives
from tts_cli.workers.messages import Ended, RowOrder
from tts_cli.workers.voices import ClusterVoices

if TYPE_CHECKING:
    from tts_cli.voices.needs import Cloning

Drop = Callable[[Encoded], None]

LOOK_AHEAD = 1024  # rows for each worker that the driver looks ahead
RECORDERS = 32  # threads that record rows; they wait for the disk, which syncs for many at once
MAX_RECORDING = 256  # rows spoken and not yet recorded, before no more are given out
MAX_LONE_DEATHS = 3  # of workers that had one row and nothing else, and the row fails
WAIT_S = 0.2  # between two looks at whether the run was stopped


class Dealer:
    """Gives rows out and has them recorded. All in the driver's thread, but for a thread that plans
    rows and finds their voices (`VoiceStage`, as in one process), and a few that record.

    Args:
        lives: of the workers, of which some may die or be given up.
        rate_hz: of the samples that they make.
    """

    def __init__(
        self,
        events: DriverQueue,
        lives: Lives,
        voices: ClusterVoices,
        cloning: Cloning,
        keep: Keep,
        drop: Drop,
        rate_hz: int,
    ) -> None:
        size = LOOK_AHEAD * len(lives.hands)
        self._events = events
        self._lives = lives
        self._voices = voices
        self._cloning = cloning
        self._keep = keep
        self._drop_files = drop
        self._rate_hz = rate_hz
        self._pool = ThreadPoolExecutor(RECORDERS, "record")
        self._window: Window[Voiced] = Window(size)
        self._places = threading.Semaphore(size)  # free ones in the window
        self._num_recording = 0
        self._is_planned = False  # every row has come
        self.load_s = 0.0  # reading references

    def run(self, tasks: Iterable[Task | None]) -> None:
        """Have rows spoken and recorded; the end, and an early one's reason, is in the events."""
        rows = threading.Thread(target=self._plan, args=(tasks,), name="plan", daemon=True)
        with self._pool:
            rows.start()
            while True:
                self._give_out()
                if self._is_over:
                    break
                self._events.turn()
                self._lives.look()
            rows.join()

    @property
    def _is_over(self) -> bool:
        if self._num_recording or any(hand.rows for hand in self._lives.hands):
            return False
        return self._is_planned and (self._events.stopped.is_set() or not self._window)

    def _plan(self, tasks: Iterable[Task | None]) -> None:
        """The thread that plans rows and finds their voices."""
        stopped = self._events.stopped
        stage = VoiceStage(self._cloning, self._voices)
        try:
            for voiced in stage.attach(tasks, stopped):
                while not self._places.acquire(timeout=WAIT_S):
                    if stopped.is_set():
                        break
                if stopped.is_set():
                    break
                self._events.put(partial(self._window.add, waiting(voiced)))
        except BaseException as error:
            self._events.put(partial(self._events.fail, error))
        finally:
            self.load_s = stage.load_s
            self._events.put(self._all_planned)

    def _all_planned(self) -> None:
        self._is_planned = True

    def _give_out(self) -> None:
        """Give rows to workers while they have room."""
        if self._events.stopped.is_set():
            return
        hands = [hand for hand in self._lives.hands if hand.ready is not None]
        self._voices.give_out(hands)
        given: dict[Hand, list[tuple[int, Row]]] = {}
        while self._num_recording < MAX_RECORDING and (row := self._window.next()) is not None:
            free = [hand for hand in hands if hand.can_take(row)]
            if not free:
                break
            hand = min(free, key=lambda hand: hand.frames)
            self._window.give()
            given.setdefault(hand, []).append((hand.give(row), row))
            if not row.deaths:
                self._places.release()
        for hand, rows in given.items():
            self._send(hand, rows)
        if self._is_planned and not self._window:
            for hand in hands:
                if not hand.is_drained:
                    hand.is_drained = True
                    hand.actor.drain.remote(hand.num_sent)
        if self._lives.are_all_given_up:
            self._events.fail(self._lives.none_left())

    def _send(self, hand: Hand, rows: list[tuple[int, Row]]) -> None:
        """Call a worker with rows."""
        places: dict[str, int] = {}  # of each voice among the call's, by digest
        voices: list[Any] = []
        orders = []
        for number, row in rows:
            voice = row.item.voice
            if voice is not None and voice.digest not in places:
                places[voice.digest] = len(voices)
                voices.append(self._voices.kept(voice))
            place = None if voice is None else places[voice.digest]
            orders.append(RowOrder(number, row.item._replace(voice=None, ticket=None), place))
        self._lives.watch(hand, hand.actor.speak.remote(orders, *voices))

    def take(self, hand: Hand, ended: list[Ended]) -> None:
        """Rows came to their ends in a worker."""
        for one in ended:
            if one.number not in hand.rows:
                self._drop(one)
                continue
            row = hand.take_back(one.number)
            if one.error is not None:
                self._events.fail(one.error)
            elif one.spoken is not None:  # else the run was stopped before its turn
                hand.deaths = 0
                spoken, ticket = one.spoken, row.item.ticket
                if ticket is not None:
                    work = replace(spoken.work, reference_ms=ticket.milliseconds)
                    spoken = replace(spoken, work=work)
                queued_s = None if one.age_s is None else time.perf_counter() - one.age_s
                spoken = replace(spoken, worker=hand.number, queued_s=queued_s)
                self._record(row.item.task, spoken, hand)

    def take_from_dead(self, hand: Hand, reason: str) -> None:
        """A worker died: its rows go to others. It may have been one of them that killed it."""
        rows = [hand.take_back(number) for number in list(hand.rows)]
        if self._events.stopped.is_set():
            return
        for row in rows:
            again = row.given_back(was_alone=len(rows) == 1)
            if again.lone_deaths < MAX_LONE_DEATHS:
                self._window.add(again)
                continue
            hand.deaths = 0  # it was not the worker's fault
            error = (
                f"{again.lone_deaths} workers died while they synthesized only this row: {reason}"
            )
            task = row.item.task
            self._record(task, Result(error=error, seed=task.request.seed), None)

    def _record(self, task: Task, spoken: Result, hand: Hand | None) -> None:
        """Have a task recorded by another thread."""
        self._num_recording += 1
        done = self._pool.submit(self._keep, task, spoken)
        done.add_done_callback(
            lambda found: self._events.put(partial(self._recorded, spoken, hand, found))
        )

    def _recorded(self, spoken: Result, hand: Hand | None, found: Future[None]) -> None:
        self._num_recording -= 1
        if hand is not None:
            hand.num_rows += 1
            if spoken.error is None and spoken.encoded is not None:
                hand.audio_s += spoken.encoded.num_samples / self._rate_hz
        if (error := found.exception()) is not None:
            self._events.fail(error)

    def _drop(self, ended: Ended) -> None:
        """An answer that comes too late: its row is spoken by another worker."""
        if ended.spoken is not None and ended.spoken.encoded is not None:
            self._drop_files(ended.spoken.encoded)


def waiting(voiced: Voiced) -> Row:
    """A task with what it will probably take."""
    pieces = voiced.task.pieces
    frames = sum(estimated_frames(piece.request) for piece in pieces)
    return UnansweredRow(voiced, frames, len(pieces))
