"""The driver's side: workers started, rows given to them, and taken back from those that die.

One thread, the caller's, does all of it, woken by events: a row was planned, a call was answered, a
row is recorded. Beside it one thread plans rows and finds their voices (`VoiceStage`, as in one
process), and a few record rows, which wait for the disk.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import queue
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tts_cli.config import RunConfig
from tts_cli.engine.job import FRAMES_PER_BYTE
from tts_cli.errors import SetupError, StoppedEarly, first_line
from tts_cli.output.atomic import remove_stale_parts, stage
from tts_cli.output.run_file import Totals
from tts_cli.run.records import Recorder
from tts_cli.run.speakers import WRITERS, Due
from tts_cli.voices.speech_row import SpeechRow
from tts_cli.workers.cluster import Cluster
from tts_cli.workers.hand import MAX_DEATHS, Hand, Row
from tts_cli.workers.messages import Encoded, Ended, Ready, Said, Task
from tts_cli.workers.voices import ClusterVoices, SpentTicket
from tts_cli.workers.waiting import Waiting, Window
from tts_cli.workers.worker import Worker, WorkerFailed, version

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.deliver.join import Pauses
    from tts_cli.run.needs import Needs
    from tts_cli.voices.recording import Reference
    from tts_cli.voices.resolve import Cloning

log = logging.getLogger(__name__)

LOOK_AHEAD = 1024  # rows for each worker that the driver looks ahead
MAX_RECORDING = 256  # rows spoken and not yet recorded, before no more are given out
MAX_LONE_DEATHS = 3  # of workers that had one row and nothing else, and the row fails
WAIT_S = 0.2  # between two looks at whether the run was stopped
ASK_AGAIN_S = 0.5  # behind a question that found no process
START_S = 300.0  # that Ray has to start a process
LAST_WORD_S = 10.0  # that workers have for what they counted

Event = Callable[[], None]


class Crew:
    """Speaks through workers; see `run.speakers.Speakers`.

    Args:
        comment: in every file.
    """

    def __init__(
        self,
        config: RunConfig,
        info: ModelInfo,
        needs: Needs,
        cloning: Cloning,
        pauses: Pauses,
        comment: str,
    ) -> None:
        self._config = config
        self._info = info
        self._needs = needs
        self._cloning = cloning
        self._pauses = pauses
        self._comment = comment
        self._cluster = Cluster(config)
        self._hands: list[Hand] = []
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        self._is_closed = False
        self._token: Path | None = None
        self._voices = ClusterVoices(self._order_voice, self._cluster.keep)
        self._to_encode: deque[tuple[Reference, SpentTicket]] = deque()
        self._encoding: dict[SpentTicket, tuple[Hand, Reference]] = {}
        self._load_s = 0.0  # reading references
        # While rows are spoken.
        self._recorder: Recorder | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._window: Window[SpeechRow] = Window(1)
        self._places = threading.Semaphore(0)  # free ones in the window
        self._num_recording = 0
        self._is_planned = False  # every row has come
        self.is_gpu = False

    def steps(self) -> Iterator[tuple[str, Event]]:
        """See `Speakers`."""
        yield "starting Ray", self._cluster.open
        yield "loading the model in each worker", self._start

    def stop(self) -> None:
        """See `Speakers`."""
        self._stopped.set()
        self._events.put(self._tell_to_stop)

    def close(self) -> None:
        """See `Speakers`."""
        if self._is_closed:
            return
        self._is_closed = True
        self._take_last_words()
        for hand in self._hands:
            self._cluster.kill(hand.actor, is_final=True)
        self._cluster.close(is_tidy=not any(hand.restarts for hand in self._hands))
        if self._token is not None:
            remove_stale_parts(self._token.parent)  # itself, and what workers that died have left

    def counted(self, totals: Totals) -> Totals:
        """See `Speakers`."""
        hands = self._hands
        found = [hand.counted for hand in hands]
        misses: dict[str, int] = {}
        for counted in found:
            for name, count in counted.graph_misses_by.items():
                misses[name] = misses.get(name, 0) + count
        peaks = [one.peak_memory_bytes for one in found if one.peak_memory_bytes is not None]
        return replace(
            totals,
            load_s=max((hand.load_s for hand in hands), default=0.0),
            capture_s=max((hand.capture_s for hand in hands), default=0.0),
            references=self._voices.num_encoded,
            reference_ms=self._voices.encode_ms,
            reference_load_ms=1000 * self._load_s,
            graph_hits=sum(one.graph_hits for one in found),
            graph_misses=sum(one.graph_misses for one in found),
            graph_misses_by=misses,
            peak_memory_bytes=max(peaks, default=None),
        )

    def device_facts(self) -> dict[str, Any]:
        """See `Speakers`: of the first worker."""
        return next((dict(hand.device) for hand in self._hands if hand.device), {})

    def worker_facts(self) -> list[dict[str, Any]]:
        """See `Speakers`."""
        return [hand.facts() for hand in self._hands]

    # Before the first row.

    def _start(self) -> None:
        """Start the workers, and wait until each is ready or given up. Raises SetupError."""
        share = self._cluster.share
        self.is_gpu = share.is_gpu
        task = self._task()
        devices = "GPU" if share.is_gpu else "CPU"
        log.info("workers: %d, on a %s each", share.num_workers, devices)
        for number in range(1, share.num_workers + 1):
            actor = self._cluster.spawn(Worker, replace(task, number=number))
            self._hands.append(Hand(number, actor))
        for hand in self._hands:
            self._ask(hand)
        while any(hand.ready is None and hand.given_up is None for hand in self._hands):
            self._events.get()()
            if self._error is not None:
                raise self._error
        if all(hand.given_up is not None for hand in self._hands):
            reasons = "; ".join(f"worker {hand.number}: {hand.given_up}" for hand in self._hands)
            raise SetupError(f"no worker could be started: {reasons}")
        if remote := [h.number for h in self._hands if h.ready and not h.ready.has_folder]:
            log.info(
                "the output folder is not seen by workers %s: their audio comes through Ray",
                ", ".join(map(str, remote)),
            )

    def _task(self) -> Task:
        config, share = self._config, self._cluster.share
        assert config.out is not None
        out = config.out.absolute()
        text = secrets.token_hex(16)
        self._token = stage(out / "workers", text.encode(), secrets.randbits(63))
        model = config.model
        if model is not None and Path(model).expanduser().is_dir():
            model = str(Path(model).expanduser().absolute())
        cache = None if config.kernel_cache is None else config.kernel_cache.absolute()
        device = "cuda" if share.is_gpu else "cpu"
        rows = -(-self._needs.rows // share.num_workers)
        return Task(
            0,
            replace(config, out=out, model=model, device=device, kernel_cache=cache),
            self._info.identity,
            version(),
            replace(self._needs, rows=rows),
            self._pauses,
            self._comment,
            str(self._token),
            text,
            None if "OMP_NUM_THREADS" in os.environ else share.num_cpus,
            logging.getLogger("tts_cli").getEffectiveLevel(),
        )

    # Rows.

    def speak(self, due: Due, recorder: Recorder) -> None:
        """See `Speakers`."""
        size = LOOK_AHEAD * len(self._hands)
        self._recorder, self._window = recorder, Window(size)
        self._places = threading.Semaphore(size)
        rows = threading.Thread(target=self._plan, args=(due, recorder), name="plan", daemon=True)
        with ThreadPoolExecutor(WRITERS, "record") as self._pool:
            rows.start()
            while True:
                self._give_out()
                if self._is_over:
                    break
                self._events.get()()
            rows.join()
        if self._error is not None:
            raise self._error

    @property
    def _is_over(self) -> bool:
        if self._num_recording or any(hand.rows for hand in self._hands):
            return False
        return self._is_planned and (self._stopped.is_set() or not self._window)

    def _plan(self, due: Due, recorder: Recorder) -> None:
        """The thread that plans rows and finds their voices."""
        from tts_cli.voices.stage import VoiceStage

        stage = VoiceStage(self._cloning, self._voices)
        try:
            planned = due(recorder, self._stopped.is_set)
            for row in stage.attach(planned, self._stopped):
                while not self._places.acquire(timeout=WAIT_S):
                    if self._stopped.is_set():
                        break
                if self._stopped.is_set():
                    break
                self._events.put(partial(self._window.add, waiting(row)))
        except BaseException as error:
            self._events.put(partial(self._fail, error))
        finally:
            self._load_s = stage.load_s
            self._events.put(self._all_planned)

    def _all_planned(self) -> None:
        self._is_planned = True

    def _give_out(self) -> None:
        """Give rows to workers while they have room, and end where nobody can take any."""
        if self._stopped.is_set():
            return
        hands = [hand for hand in self._hands if hand.ready is not None]
        while self._to_encode and hands:
            self._encode(min(hands, key=lambda hand: hand.frames), *self._to_encode.popleft())
        while self._num_recording < MAX_RECORDING and (row := self._window.next()) is not None:
            free = [hand for hand in hands if hand.can_take(row)]
            if not free:
                break
            self._give(min(free, key=lambda hand: hand.frames), self._window.give())
        if self._is_planned and not self._window:
            for hand in hands:
                if not hand.is_drained:
                    hand.is_drained = True
                    hand.actor.drain.remote()
        if all(hand.given_up is not None for hand in self._hands):
            self._fail(self._all_given_up())

    def _give(self, hand: Hand, row: Row) -> None:
        """Call a worker with a row."""
        assert self._recorder is not None
        item = row.item
        if not row.deaths:
            self._places.release()
        hand.give(row)
        sent = copy.copy(item)
        sent.encoding = None  # holds what no other process can use
        voice = self._voices.kept(item.request.clone)
        sent.request = replace(item.request, clone=None)
        keeps_codes = self._recorder.writer.kept_codes == item.id
        call = hand.actor.speak.remote(sent, voice, keeps_codes)
        self._when_answered(call, partial(self._answered, hand, hand.life, row))

    def _when_answered(self, call: Any, take: Callable[[Future[Any]], None]) -> None:
        call.future().add_done_callback(lambda found: self._events.put(partial(take, found)))

    def _answered(self, hand: Hand, life: int, row: Row, found: Future[Ended | None]) -> None:
        """A row came back, or its worker died."""
        if life != hand.life:
            self._drop(found)
            return
        error = found.exception()
        if error is not None and self._is_death(error):
            self._died(hand, error)
            return
        hand.take_back(row)
        if error is not None:
            self._fail(self._cluster.cause(error))
            return
        ended = found.result()
        if ended is None:  # the run was stopped before its turn
            return
        hand.deaths = 0
        ended.put_into(row.item, hand.number, time.perf_counter())
        self._record(row.item, hand)

    def _record(self, row: SpeechRow, hand: Hand | None) -> None:
        """Have a row recorded by another thread."""
        assert self._pool is not None
        assert self._recorder is not None
        self._num_recording += 1
        done = self._pool.submit(self._recorder.put, row)
        done.add_done_callback(
            lambda found: self._events.put(partial(self._recorded, row, hand, found))
        )

    def _recorded(self, row: SpeechRow, hand: Hand | None, found: Future[None]) -> None:
        self._num_recording -= 1
        if hand is not None:
            hand.num_rows += 1
            if row.error is None and row.unwritable is None and row.made is not None:
                hand.audio_s += row.made.num_samples / self._info.sample_rate_hz
        if (error := found.exception()) is not None:
            self._fail(error)

    def _drop(self, found: Future[Ended | None]) -> None:
        """An answer that comes too late: its row is spoken by another worker."""
        if found.exception() is not None or (ended := found.result()) is None:
            return
        assert self._recorder is not None
        if (made := ended.outcome["made"]) is not None:
            self._recorder.writer.drop(made)

    # Voices.

    def _order_voice(self, reference: Reference, ticket: SpentTicket) -> None:
        """From the thread that plans."""
        self._events.put(partial(self._to_encode.append, (reference, ticket)))

    def _encode(self, hand: Hand, reference: Reference, ticket: SpentTicket) -> None:
        hand.is_drained = False
        call = hand.actor.encode.remote(reference)
        self._when_answered(call, partial(self._encoded, hand, hand.life, reference, ticket))

    def _encoded(
        self,
        hand: Hand,
        life: int,
        reference: Reference,
        ticket: SpentTicket,
        found: Future[Encoded],
    ) -> None:
        error = found.exception()
        if error is None:
            self._voices.settle(ticket, found.result())
        elif self._is_death(error):
            self._to_encode.append((reference, ticket))
            if life == hand.life:
                self._died(hand, error)
        else:
            reason = f"its reference cannot be encoded: {first_line(self._cluster.cause(error))}"
            self._voices.settle(ticket, Encoded(None, reason))

    # Workers' lives.

    def _ask(self, hand: Hand) -> None:
        """Wait for a worker's process, from when on it is known when that dies."""
        call = hand.actor.hello.remote()
        self._when_answered(call, partial(self._met, hand, hand.life))

    def _met(self, hand: Hand, life: int, found: Future[None]) -> None:
        """A process is there; or Ray is still to start it, and may not yet have seen that the one
        before it is gone.
        """
        if life != hand.life:
            return
        if (error := found.exception()) is None:
            self._listen(hand)
            call = hand.actor.ready.remote()
            self._when_answered(call, partial(self._is_ready, hand, life))
        elif self._cluster.is_final(error) or time.perf_counter() - hand.lost_s > START_S:
            self._give_up(hand, f"it cannot be started: {first_line(error)}")
        else:
            timer = threading.Timer(ASK_AGAIN_S, lambda: self._events.put(partial(self._ask, hand)))
            timer.daemon = True
            timer.start()

    def _is_ready(self, hand: Hand, life: int, found: Future[Ready]) -> None:
        if life != hand.life:
            return
        error = found.exception()
        if error is not None:
            cause = self._cluster.cause(error)
            if not isinstance(cause, SetupError):
                self._died(hand, error)
                return
            self._give_up(hand, str(cause))
            if all(other.given_up is not None for other in self._hands):
                self._fail(SetupError(cause.message, cause.remedy))
            return
        hand.ready = found.result()
        hand.device, hand.host = hand.ready.device, hand.ready.host
        hand.load_s = hand.load_s or hand.ready.load_s
        hand.capture_s = hand.capture_s or hand.ready.capture_s
        if hand.restarts:
            log.info("worker %d speaks again", hand.number)

    def _is_death(self, error: BaseException) -> bool:
        cause = self._cluster.cause(error)
        return isinstance(cause, WorkerFailed) or self._cluster.is_death(error)

    def _died(self, hand: Hand, error: BaseException) -> None:
        """Take back what a worker had, and wait for its next process, or give it up."""
        cause = self._cluster.cause(error)
        reason = str(cause) if isinstance(cause, WorkerFailed) else "its process died"
        log.debug("worker %d: %s", hand.number, error)
        hand.life += 1
        hand.lost_s = time.perf_counter()
        hand.ready = None
        rows = list(hand.rows)
        for row in rows:
            hand.take_back(row)
        if self._stopped.is_set():
            hand.given_up = hand.given_up or "it died while the run was stopped"
            return
        hand.restarts += 1
        hand.deaths += 1
        log.warning("worker %d: %s; rows that go to others: %d", hand.number, reason, len(rows))
        for row in rows:
            again = row.given_back(was_alone=len(rows) == 1)
            if again.lone_deaths < MAX_LONE_DEATHS:
                self._window.add(again)
                continue
            hand.deaths = 0  # it was not the worker's fault
            row.item.error = (
                f"{again.lone_deaths} workers died while they spoke this row and no other: {reason}"
            )
            self._record(row.item, None)
        if hand.deaths >= MAX_DEATHS:
            self._give_up(hand, f"it died {hand.deaths} times without a row between: {reason}")
        else:
            if isinstance(cause, WorkerFailed):
                self._cluster.kill(hand.actor, is_final=False)
            self._ask(hand)

    def _give_up(self, hand: Hand, reason: str) -> None:
        log.warning("worker %d is given up: %s", hand.number, reason)
        hand.given_up = reason
        hand.life += 1
        hand.ready = None
        self._cluster.kill(hand.actor, is_final=True)

    def _all_given_up(self) -> Exception:
        reasons = "; ".join(f"worker {hand.number}: {hand.given_up}" for hand in self._hands)
        remedy = "finished rows are kept; run the same command again, or without --workers"
        return StoppedEarly(f"no worker is left: {reasons}", remedy=remedy)

    # Messages and the end.

    def _listen(self, hand: Hand) -> None:
        """Let a worker tell what happens there."""
        hand.listening = hand.actor.listen.remote().future()
        take = partial(self._heard, hand, hand.life)
        hand.listening.add_done_callback(lambda found: self._events.put(partial(take, found)))

    def _heard(self, hand: Hand, life: int, found: Future[list[Said]]) -> None:
        if found.exception() is not None:
            return
        tell(hand, found.result())
        if life == hand.life and hand.given_up is None:
            self._listen(hand)

    def _take_last_words(self) -> None:
        """What the workers have counted, and said at last."""
        hands = [hand for hand in self._hands if hand.ready is not None]
        calls = [hand.actor.counted.remote().future() for hand in hands]
        for hand, call in zip(hands, calls, strict=True):
            with contextlib.suppress(Exception):
                hand.counted, said = call.result(LAST_WORD_S)
                if hand.listening is not None:
                    said = hand.listening.result(LAST_WORD_S) + said
                tell(hand, said)

    def _tell_to_stop(self) -> None:
        for hand in self._hands:
            if hand.ready is not None:
                hand.actor.stop.remote()

    def _fail(self, error: BaseException) -> None:
        """End the run in an orderly way, with the first error."""
        if self._error is None:
            self._error = error
            self.stop()


def waiting(row: SpeechRow) -> Row:
    """A row with what it will probably take."""
    requests = [part.request for part in row.parts] or [row.request]
    frames = sum(
        min(request.max_frames, FRAMES_PER_BYTE * len(request.text.encode()))
        for request in requests
    )
    return Waiting(row, frames, len(requests))


def tell(hand: Hand, said: list[Said]) -> None:
    """Log what a worker said."""
    for one in said:
        if one.text:
            logging.getLogger(one.logger).log(one.level, "worker %d: %s", hand.number, one.text)
