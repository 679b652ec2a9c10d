"""Follow the lives of workers: a process is met, loads, takes rows, dies, is started anew by Ray,
or is given up.

What happens beside the driver's thread, put in a line: rows are planned, calls answered, rows
recorded, the run is stopped. The driver's thread does what they ask for, one after the other.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from tts_cli.errors import SetupError, StoppedEarly, first_line
from tts_cli.workers.cluster import Cluster
from tts_cli.workers.hand import MAX_DEATHS, Hand
from tts_cli.workers.messages import Ended, Ready, Returned, WorkerNews
from tts_cli.workers.worker import WorkerFailed

log = logging.getLogger(__name__)

ASK_AGAIN_S = 0.5  # behind a question that found no process
START_S = 300.0  # that Ray has to start a process
STILL_S = 300.0  # that a worker with rows may do nothing, before it is taken for dead
LAST_WORD_S = 10.0  # that workers have for what they counted


class Lives:
    """The workers of a run. All in the driver's thread."""

    def __init__(self, cluster: Cluster, events: DriverQueue) -> None:
        self.hands: list[Hand] = []
        self._cluster = cluster
        self._events = events
        # While rows are spoken: who takes what came of them, and the rows of a worker that died,
        # with the reason.
        self.on_ended: Callable[[Hand, list[Ended]], None] = lambda *_: None
        self.on_death: Callable[[Hand, str], None] = lambda *_: None

    def begin(self, actors: list[Any]) -> None:
        """Wait until each worker is ready or given up. Raises SetupError."""
        self.hands += [Hand(number, actor) for number, actor in enumerate(actors, 1)]
        for hand in self.hands:
            self._ask(hand)
        while any(hand.ready is None and hand.given_up is None for hand in self.hands):
            self._events.turn()
            if self._events.error is not None:
                raise self._events.error
        if self.are_all_given_up:
            raise SetupError(f"no worker could be started: {self._reasons()}")

    @property
    def are_all_given_up(self) -> bool:
        """Whether nobody is left, nor will come back."""
        return all(hand.given_up is not None for hand in self.hands)

    def watch(self, hand: Hand, call: Any) -> None:
        """Notice where a call that answers nothing finds its worker dead."""
        self._events.when_answered(call, partial(self._was_called, hand, hand.life))

    def none_left(self) -> StoppedEarly:
        """What is said where all are given up."""
        remedy = "finished rows are safe; run the same command again, or run it without --workers"
        return StoppedEarly(f"no worker is left: {self._reasons()}", remedy=remedy)

    def is_death(self, error: BaseException) -> bool:
        """Whether a call failed because nothing more can be spoken in that process."""
        return isinstance(self.cause(error), WorkerFailed) or self._cluster.is_death(error)

    def cause(self, error: BaseException) -> BaseException:
        """The error that a call has raised over there."""
        return self._cluster.cause(error)

    def died(self, hand: Hand, error: BaseException) -> None:
        """Take back what a worker had, and wait for its next process, or give it up."""
        cause = self.cause(error)
        reason = str(cause) if isinstance(cause, WorkerFailed) else "its process died"
        log.debug("worker %d: %s", hand.number, error)
        hand.lose()
        hand.lost_s = time.perf_counter()
        if self._events.stopped.is_set():
            self.on_death(hand, reason)
            hand.given_up = hand.given_up or "it died while the run was stopping"
            return
        hand.restarts += 1
        hand.deaths += 1
        num_rows = len(hand.rows)
        log.warning("worker %d: %s; rows moved to other workers: %d", hand.number, reason, num_rows)
        self.on_death(hand, reason)
        if hand.deaths >= MAX_DEATHS:
            self._give_up(hand, f"it died {hand.deaths} times in a row: {reason}")
        else:
            if isinstance(cause, WorkerFailed):
                self._cluster.kill(hand.actor, is_final=False)
            self._ask(hand)

    def look(self) -> None:
        """Take workers for dead that hang: no frame is made there and no row comes back."""
        for hand in self.hands:
            if hand.ready is not None and hand.still_s() > STILL_S:
                self.died(hand, WorkerFailed(f"it has not responded for {STILL_S:.0f} s"))

    def stop(self) -> None:
        """Let workers speak no more."""
        for hand in self.hands:
            if hand.ready is not None:
                hand.actor.stop.remote()

    def end(self) -> None:
        """End the processes."""
        for hand in self.hands:
            self._cluster.kill(hand.actor, is_final=True)

    def leave(self) -> None:
        """End the processes, if there are any, and have none; answers come too late now."""
        self.end()
        for hand in self.hands:
            hand.lose()
        self.hands.clear()

    def _ask(self, hand: Hand) -> None:
        """Wait for a worker's process, from when on it is known when that dies."""
        call = hand.actor.hello.remote()
        self._events.when_answered(call, partial(self._met, hand, hand.life))

    def _met(self, hand: Hand, life: int, found: Future[None]) -> None:
        """A process is there; or Ray is still to start it, and may not yet have seen that the one
        before it is gone.
        """
        if life != hand.life:
            return
        if (error := found.exception()) is None:
            self._listen(hand)
            call = hand.actor.ready.remote()
            self._events.when_answered(call, partial(self._is_ready, hand, life))
        elif self._cluster.is_final(error) or time.perf_counter() - hand.lost_s > START_S:
            self._give_up(hand, f"it cannot be started: {first_line(error)}")
        else:
            self._events.put_later(partial(self._ask, hand), ASK_AGAIN_S)

    def _is_ready(self, hand: Hand, life: int, found: Future[Ready]) -> None:
        if life != hand.life:
            return
        error = found.exception()
        if error is not None:
            cause = self.cause(error)
            if not isinstance(cause, SetupError):
                self.died(hand, error)
                return
            self._give_up(hand, str(cause))
            if self.are_all_given_up:
                self._events.fail(SetupError(cause.message, cause.remedy))
            return
        hand.ready = found.result()
        facts = hand.ready.facts
        hand.device, hand.host = facts.device, hand.ready.host
        hand.load_s = hand.load_s or facts.load_s
        hand.capture_s = hand.capture_s or facts.capture_s
        self._await_rows(hand)
        if hand.restarts:
            log.info("worker %d was restarted", hand.number)

    def _was_called(self, hand: Hand, life: int, found: Future[None]) -> None:
        if life != hand.life or (error := found.exception()) is None:
            return
        if self.is_death(error):
            self.died(hand, error)
        else:
            self._events.fail(self.cause(error))

    def _await_rows(self, hand: Hand) -> None:
        """Ask a worker for the next rows that come to their ends."""
        call = hand.actor.ended.remote()
        self._events.when_answered(call, partial(self._have_ended, hand, hand.life))

    def _have_ended(self, hand: Hand, life: int, found: Future[Returned]) -> None:
        """Rows came back, or their worker died."""
        error = found.exception()
        if error is not None:
            self._was_called(hand, life, found)  # type: ignore[arg-type]  # an error is no result
            return
        returned = found.result()
        if life == hand.life:
            hand.pulse_s = time.perf_counter()
            hand.num_behind = returned.num_behind
            self._await_rows(hand)
        self.on_ended(hand, returned.ended)

    def _give_up(self, hand: Hand, reason: str) -> None:
        log.warning("worker %d will not be restarted: %s", hand.number, reason)
        hand.given_up = reason
        hand.lose()
        self._cluster.kill(hand.actor, is_final=True)

    def _reasons(self) -> str:
        return "; ".join(f"worker {hand.number}: {hand.given_up}" for hand in self.hands)

    def _listen(self, hand: Hand) -> None:
        """Let a worker tell what happens there."""
        hand.listening = hand.actor.listen.remote().future()
        take = partial(self._heard, hand, hand.life)
        hand.listening.add_done_callback(lambda found: self._events.put(partial(take, found)))

    def _heard(self, hand: Hand, life: int, found: Future[WorkerNews]) -> None:
        if found.exception() is not None:
            return
        heard = found.result()
        tell(hand, heard)
        if life == hand.life:
            hand.feel(heard.pulse)
        if life == hand.life and hand.given_up is None:
            self._listen(hand)

    def take_last_words(self) -> None:
        """What the workers have counted, and said at last."""
        hands = [hand for hand in self.hands if hand.ready is not None]
        calls = [hand.actor.counted.remote().future() for hand in hands]
        for hand, call in zip(hands, calls, strict=True):
            try:
                hand.counted, last = call.result(LAST_WORD_S)
                if hand.listening is not None:
                    tell(hand, hand.listening.result(LAST_WORD_S))
                tell(hand, last)
            except Exception as error:
                log.debug("worker %d did not send its final report: %s", hand.number, error)


def tell(hand: Hand, heard: WorkerNews) -> None:
    """Log what a worker said."""
    for one in heard.said:
        if one.text:
            logging.getLogger(one.logger).log(one.level, "worker %d: %s", hand.number, one.text)


Event = Callable[[], None]

LOOK_S = 5.0  # longest that the driver's thread waits for an event
MOST_AT_ONCE = 1000  # events, before the driver looks at what came of them


class DriverQueue:
    """The line of events, and whether the run is to end. `put`, `fail` and `stop` are for any
    thread; `stop` for a signal's handler too.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.stopped = threading.Event()
        self.error: BaseException | None = None  # the first one
        self.on_stop: Event = lambda: None  # done in the driver's thread

    def put(self, event: Event) -> None:
        """Have something done in the driver's thread."""
        self._queue.put(event)

    def put_later(self, event: Event, delay_s: float) -> None:
        """Have something done after a while."""
        timer = threading.Timer(delay_s, self.put, (event,))
        timer.daemon = True
        timer.start()

    def when_answered(self, call: Any, take: Callable[[Future[Any]], None]) -> None:
        """Have the answer to a call taken, or what it raised."""
        call.future().add_done_callback(lambda found: self.put(partial(take, found)))

    def turn(self) -> None:
        """Wait a while for an event, and do what it and those behind it ask for."""
        try:
            event = self._queue.get(timeout=LOOK_S)
        except queue.Empty:
            return
        for _ in range(MOST_AT_ONCE):
            event()
            try:
                event = self._queue.get_nowait()
            except queue.Empty:
                return
        event()

    def stop(self) -> None:
        """Ask for an orderly end of the run."""
        self.stopped.set()
        self.put(lambda: self.on_stop())

    def fail(self, error: BaseException) -> None:
        """End the run in an orderly way, with the first error."""
        if self.error is None:
            self.error = error
            self.stop()
