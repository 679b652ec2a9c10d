"""Give rows to workers, take their results back, and replace workers that die.

The caller's thread owns all of it: everything that happens elsewhere becomes an event in
`DriverQueue`, and that thread handles one event after the other. A call costs Ray a millisecond on
each side whatever it contains, so it carries all rows that a worker has room for, and an answer all
rows that have finished since the last one. An answer about a row that the worker no longer has
comes too late and is ignored. The rows of a lost worker go to the others immediately.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tts_cli.core import Encoded, Keep, Result, Task
from tts_cli.errors import SetupError, StoppedEarly, first_line
from tts_cli.voices.voice_loader import VoiceLoader
from tts_cli.workers.cluster import Cluster
from tts_cli.workers.messages import EncodedVoice, Ended, LogMessage, Ready, RowOrder, WorkerNews
from tts_cli.workers.voices import ClusterVoices
from tts_cli.workers.worker import WorkerFailed
from tts_cli.workers.worker_handle import OpenRow, WorkerHandle

if TYPE_CHECKING:
    from tts_cli.voices.encoding import VoiceFuture
    from tts_cli.voices.needs import Cloning
    from tts_cli.voices.recording import Reference

log = logging.getLogger(__name__)

Drop = Callable[[Encoded], None]
Event = Callable[[], None]

LOOK_AHEAD = 1024  # rows per worker that the driver sorts by length
MAX_DEATHS = 3  # of one worker without a row in between, before it is given up
MAX_LONE_DEATHS = 3  # of workers that had this row alone, before the row fails
RECORDERS = 32  # threads that record rows; they wait for the disk, which syncs many together
MAX_RECORDING = 256  # results not yet recorded, before no more rows are given out
WAIT_S = 0.2  # between two checks whether the run was stopped
LOOK_S = 5.0  # longest wait for an event
EVENTS_PER_TURN = 1000  # before rows are given out again
ASK_AGAIN_S = 0.1  # after a call that found no process
START_S = 300.0  # for Ray to start a process
STILL_S = 300.0  # without progress of a worker with rows, before it counts as dead
REPORT_S = 10.0  # for the final reports of workers


class DriverQueue:
    """Events for the driver's thread, and whether the run must end. Any thread may call `put`,
    `fail` and `stop`, and a signal handler `stop`.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.stopped = threading.Event()
        self.error: BaseException | None = None  # the first one

    def put(self, event: Event) -> None:
        self._queue.put(event)

    def put_later(self, event: Event, delay_s: float) -> None:
        timer = threading.Timer(delay_s, self.put, (event,))
        timer.daemon = True
        timer.start()

    def when_answered(self, call: Any, take: Callable[[Future[Any]], None]) -> None:
        """Call a function in the driver's thread with the answer or the error of a call."""
        call.future().add_done_callback(lambda found: self.put(partial(take, found)))

    def turn(self) -> None:
        """Wait for an event, and handle all events that have come."""
        try:
            event = self._queue.get(timeout=LOOK_S)
            for _ in range(EVENTS_PER_TURN):
                event()
                event = self._queue.get_nowait()
        except queue.Empty:
            return
        event()

    def stop(self) -> None:
        self.stopped.set()
        self.put(lambda: None)

    def fail(self, error: BaseException) -> None:
        """End the run in order with an error. Only the first error counts."""
        if self.error is None:
            self.error = error
            self.stop()


@dataclass(frozen=True)
class _Run:
    """What one call of `Dispatcher.run` needs."""

    keep: Keep
    pool: ThreadPoolExecutor  # records rows
    places: threading.Semaphore  # free places among the rows that wait


class Dispatcher:
    """The workers of a session, and the rows of its run. Only the driver's thread uses it, except
    for `_plan` and the threads that record. `drop` removes the files of a result that comes too
    late.
    """

    def __init__(
        self,
        cluster: Cluster,
        events: DriverQueue,
        voices: ClusterVoices,
        cloning: Cloning,
        drop: Drop,
        rate_hz: int,
    ) -> None:
        self.workers: list[WorkerHandle] = []
        self.load_s = 0.0  # reading references
        self._cluster = cluster
        self._events = events
        self._voices = voices
        self._cloning = cloning
        self._drop = drop
        self._rate_hz = rate_hz
        self._is_stopping = False  # the workers know that the run is stopped
        self._run: _Run | None = None
        self._waiting: list[tuple[tuple[float, float], int, OpenRow]] = []  # a heap
        self._numbers = itertools.count()  # break ties in the heap
        self._is_planned = True  # all rows have come
        self._num_recording = 0

    def start(self, actors: list[Any]) -> None:
        """Wait until each worker is ready or given up. Raises SetupError."""
        self.workers = [WorkerHandle(number, actor) for number, actor in enumerate(actors, 1)]
        for worker in self.workers:
            self._ask(worker)
        while any(one.ready is None and one.given_up is None for one in self.workers):
            self._turn()
            if self._events.error is not None:
                raise self._events.error
        if self._are_all_given_up:
            raise SetupError(f"no worker could be started: {self._reasons()}")

    def run(self, tasks: Iterable[Task | None], keep: Keep) -> None:
        """Have tasks synthesized and recorded. An error of the run is then in the events."""
        look_ahead = LOOK_AHEAD * len(self.workers)
        self._is_planned = False
        with ThreadPoolExecutor(RECORDERS, "record") as pool:
            self._run = run = _Run(keep, pool, threading.Semaphore(look_ahead))
            planner = threading.Thread(
                target=self._plan, args=(tasks, run.places, look_ahead), name="plan", daemon=True
            )
            planner.start()
            while True:
                self._give_out(run)
                if self._is_over:
                    break
                self._turn()
                self._check_heartbeats()
            planner.join()
            self._waiting.clear()

    def end(self) -> None:
        """End the processes. Later answers are ignored."""
        for worker in self.workers:
            self._cluster.kill(worker.actor, is_final=True)
            worker.lose()

    def collect_reports(self) -> None:
        workers = [one for one in self.workers if one.ready is not None]
        calls = [one.actor.counted.remote().future() for one in workers]
        for worker, call in zip(workers, calls, strict=True):
            try:
                worker.counted, last = call.result(REPORT_S)
                if worker.news is not None:
                    log_messages(worker, worker.news.result(REPORT_S).messages)
                log_messages(worker, last)
            except Exception as error:
                log.debug("worker %d did not send its final report: %s", worker.number, error)

    # Rows.

    def _plan(
        self, tasks: Iterable[Task | None], places: threading.Semaphore, look_ahead: int
    ) -> None:
        """Body of the thread that plans rows and finds their voices."""
        stopped, stage = self._events.stopped, VoiceLoader(self._cloning, self._voices)
        try:
            for number, voiced in enumerate(stage.attach(tasks, stopped)):
                while not (stopped.is_set() or places.acquire(timeout=WAIT_S)):
                    pass
                if stopped.is_set():
                    break
                self._events.put(partial(self.add, OpenRow.of(voiced, number // look_ahead)))
        except BaseException as error:
            self._events.put(partial(self._events.fail, error))
        finally:
            self.load_s = stage.load_s
            self._events.put(self._all_planned)

    def _all_planned(self) -> None:
        self._is_planned = True

    def add(self, row: OpenRow) -> None:
        heapq.heappush(self._waiting, (row.rank, next(self._numbers), row))

    @property
    def _is_over(self) -> bool:
        if self._num_recording or any(worker.rows for worker in self.workers):
            return False
        return self._is_planned and (self._events.stopped.is_set() or not self._waiting)

    def _give_out(self, run: _Run) -> None:
        if self._events.stopped.is_set():
            return
        workers = [worker for worker in self.workers if worker.ready is not None]
        while workers and (pending := self._voices.next_reference()) is not None:
            self._encode(min(workers, key=lambda one: one.frames), *pending)
        given: dict[WorkerHandle, list[tuple[int, OpenRow]]] = {}
        while self._waiting and self._num_recording < MAX_RECORDING:
            row = self._waiting[0][2]
            free = [worker for worker in workers if worker.can_take(row)]
            if not free:
                break
            heapq.heappop(self._waiting)
            worker = min(free, key=lambda one: one.frames)
            given.setdefault(worker, []).append((worker.give(row), row))
            if not row.deaths:
                run.places.release()
        for worker, rows in given.items():
            self._send(worker, rows)
        if self._is_planned and not self._waiting:
            for worker in workers:
                if not worker.is_drained:
                    worker.is_drained = True
                    worker.actor.drain.remote(worker.num_sent)
        if self._are_all_given_up:
            remedy = "finished rows are safe; run the same command again, or run it without "
            error = StoppedEarly(f"no worker is left: {self._reasons()}", f"{remedy}--workers")
            self._events.fail(error)

    def _send(self, worker: WorkerHandle, rows: list[tuple[int, OpenRow]]) -> None:
        places: dict[str, int] = {}  # of each voice in the call, by digest
        voices: list[Any] = []
        orders = []
        for number, row in rows:
            place, voice = None, row.voiced.voice
            if voice is not None:
                if voice.digest not in places:
                    places[voice.digest] = len(voices)
                    voices.append(self._voices.stored(voice))
                place = places[voice.digest]
            orders.append(RowOrder(number, row.voiced._replace(voice=None, ticket=None), place))
        call = worker.actor.speak.remote(orders, *voices)
        self._events.when_answered(call, partial(self._was_called, worker, worker.life))

    def _encode(self, worker: WorkerHandle, reference: Reference, ticket: VoiceFuture) -> None:
        worker.add_reference()
        call = worker.actor.encode.remote(reference)
        take = partial(self._encoded, worker, worker.life, reference, ticket)
        self._events.when_answered(call, take)

    def _encoded(
        self,
        worker: WorkerHandle,
        life: int,
        reference: Reference,
        ticket: VoiceFuture,
        found: Future[EncodedVoice],
    ) -> None:
        if (error := found.exception()) is None:
            self._voices.settle(ticket, found.result())
        elif self._is_death(error):
            self._voices.return_reference(reference, ticket)
            self._was_called(worker, life, found)
        else:
            reason = f"its reference cannot be encoded: {first_line(self._cluster.cause(error))}"
            self._voices.settle(ticket, EncodedVoice(None, reason))

    def take(self, worker: WorkerHandle, ended: list[Ended]) -> None:
        for one in ended:
            if self._run is None or one.number not in worker.rows:
                if one.spoken is not None and one.spoken.encoded is not None:
                    self._drop(one.spoken.encoded)  # another worker has the row now
                continue
            row = worker.take_back(one.number)
            if one.error is not None:
                self._events.fail(one.error)
            elif one.spoken is not None:  # else the run was stopped before its turn
                worker.deaths = 0
                result, ticket = one.spoken, row.voiced.ticket
                if ticket is not None:
                    work = replace(result.work, reference_ms=ticket.milliseconds)
                    result = replace(result, work=work)
                queued_s = None if one.age_s is None else time.perf_counter() - one.age_s
                result = replace(result, worker=worker.number, queued_s=queued_s)
                self._record(self._run, row.voiced.task, result, worker)

    def take_from_dead(self, worker: WorkerHandle, reason: str) -> None:
        """Put the rows of a dead worker back into the queue. One of them may have killed it."""
        rows = [worker.take_back(number) for number in list(worker.rows)]
        if self._run is None or self._events.stopped.is_set():
            return
        for row in rows:
            lone_deaths = row.lone_deaths + (len(rows) == 1)
            if lone_deaths < MAX_LONE_DEATHS:
                self.add(replace(row, deaths=row.deaths + 1, lone_deaths=lone_deaths))
                continue
            worker.deaths = 0  # the row is the cause
            task = row.voiced.task
            error = f"{lone_deaths} workers died while they synthesized only this row: {reason}"
            self._record(self._run, task, Result(error=error, seed=task.request.seed), None)

    def _record(self, run: _Run, task: Task, result: Result, worker: WorkerHandle | None) -> None:
        """Have a result recorded by another thread."""
        self._num_recording += 1
        done = run.pool.submit(run.keep, [(task, result)])
        done.add_done_callback(
            lambda found: self._events.put(partial(self._recorded, result, worker, found))
        )

    def _recorded(self, result: Result, worker: WorkerHandle | None, found: Future[None]) -> None:
        self._num_recording -= 1
        if worker is not None:
            worker.num_rows += 1
            if result.error is None and result.encoded is not None:
                worker.audio_s += result.encoded.num_samples / self._rate_hz
        if (error := found.exception()) is not None:
            self._events.fail(error)

    # The workers' lives.

    def _turn(self) -> None:
        """Handle events. If the run is stopped, stop the workers."""
        self._events.turn()
        if self._events.stopped.is_set() and not self._is_stopping:
            self._is_stopping = True
            for worker in self.workers:
                if worker.ready is not None:
                    worker.actor.stop.remote()

    @property
    def _are_all_given_up(self) -> bool:
        return all(worker.given_up is not None for worker in self.workers)

    def _reasons(self) -> str:
        return "; ".join(f"worker {one.number}: {one.given_up}" for one in self.workers)

    def _is_death(self, error: BaseException) -> bool:
        """Whether a call failed because its process cannot synthesize any more."""
        return isinstance(self._cluster.cause(error), WorkerFailed) or self._cluster.is_death(error)

    def _check_heartbeats(self) -> None:
        """Treat workers as dead that have rows and make no progress."""
        for worker in self.workers:
            if worker.ready is not None and worker.still_s() > STILL_S:
                self._died(worker, WorkerFailed(f"it has not responded for {STILL_S:.0f} s"))

    def _ask(self, worker: WorkerHandle) -> None:
        call = worker.actor.hello.remote()
        self._events.when_answered(call, partial(self._met, worker, worker.life))

    def _met(self, worker: WorkerHandle, life: int, found: Future[None]) -> None:
        """Handle the answer of a worker's process: it was started, or Ray has not started it yet
        and may not know that the previous one has ended.
        """
        if life != worker.life:
            return
        if (error := found.exception()) is None:
            self._await_news(worker)
            call = worker.actor.ready.remote()
            self._events.when_answered(call, partial(self._is_ready, worker, life))
        elif self._cluster.is_final(error) or time.perf_counter() - worker.lost_s > START_S:
            self._give_up(worker, f"it cannot be started: {first_line(error)}")
        else:
            self._events.put_later(partial(self._ask, worker), ASK_AGAIN_S)

    def _is_ready(self, worker: WorkerHandle, life: int, found: Future[Ready]) -> None:
        if life != worker.life:
            return
        if (error := found.exception()) is not None:
            cause = self._cluster.cause(error)
            if not isinstance(cause, SetupError):
                self._died(worker, error)
                return
            self._give_up(worker, str(cause))
            if self._are_all_given_up:
                self._events.fail(SetupError(cause.message, cause.remedy))
            return
        worker.begin(found.result())
        if worker.restarts:
            log.info("worker %d was restarted", worker.number)

    def _was_called(self, worker: WorkerHandle, life: int, found: Future[Any]) -> None:
        """Handle the answer to a call. An error may be the death of the worker."""
        if life != worker.life or (error := found.exception()) is None:
            return
        if self._is_death(error):
            self._died(worker, error)
        else:
            self._events.fail(self._cluster.cause(error))

    def _await_news(self, worker: WorkerHandle) -> None:
        worker.news = worker.actor.news.remote().future()
        take = partial(self._take_news, worker, worker.life)
        worker.news.add_done_callback(lambda found: self._events.put(partial(take, found)))

    def _take_news(self, worker: WorkerHandle, life: int, found: Future[WorkerNews]) -> None:
        if found.exception() is not None:
            if worker.ready is not None:  # else the answer of `ready` has the reason
                self._was_called(worker, life, found)
            return
        news = found.result()
        log_messages(worker, news.messages)
        if life == worker.life:
            worker.take_news(news)
            if worker.given_up is None:
                self._await_news(worker)
        self.take(worker, news.ended)

    def _died(self, worker: WorkerHandle, error: BaseException) -> None:
        """Give a worker's rows to others, and wait for its next process, or give it up."""
        cause = self._cluster.cause(error)
        reason = str(cause) if isinstance(cause, WorkerFailed) else "its process died"
        log.debug("worker %d: %s", worker.number, error)
        worker.lose()
        if self._events.stopped.is_set():
            self.take_from_dead(worker, reason)
            worker.given_up = worker.given_up or "it died while the run was stopping"
            return
        worker.restarts += 1
        worker.deaths += 1
        num_rows = len(worker.rows)
        log.warning(
            "worker %d: %s; rows moved to other workers: %d", worker.number, reason, num_rows
        )
        self.take_from_dead(worker, reason)
        if worker.deaths >= MAX_DEATHS:
            self._give_up(worker, f"it died {worker.deaths} times in a row: {reason}")
        else:
            if isinstance(cause, WorkerFailed):
                self._cluster.kill(worker.actor, is_final=False)
            self._ask(worker)

    def _give_up(self, worker: WorkerHandle, reason: str) -> None:
        log.warning("worker %d will not be restarted: %s", worker.number, reason)
        worker.given_up = reason
        worker.lose()
        self._cluster.kill(worker.actor, is_final=True)


def log_messages(worker: WorkerHandle, messages: Iterable[LogMessage]) -> None:
    for one in messages:
        logging.getLogger(one.logger).log(one.level, "worker %d: %s", worker.number, one.text)
