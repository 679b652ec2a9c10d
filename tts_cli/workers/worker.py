"""A worker: a `LocalSession` with the methods of a Ray actor. One call brings several rows, and
another call returns those that are finished.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tts_cli.audio.encode import encoded
from tts_cli.core import Result, Task
from tts_cli.engine.session import LocalSession, SessionFacts
from tts_cli.errors import RowError, SetupError, StoppedEarly, first_line
from tts_cli.store.files import AudioWriter
from tts_cli.versions import versions
from tts_cli.voices.voice_loader import TaskWithVoice
from tts_cli.workers.messages import (
    EncodedVoice,
    Ended,
    LogMessage,
    Ready,
    RowOrder,
    WorkerConfig,
    WorkerNews,
)

if TYPE_CHECKING:
    from models.base import Voice
    from tts_cli.voices.encoding import VoiceFuture
    from tts_cli.voices.recording import Reference

log = logging.getLogger(__name__)

END_S = 5.0  # for threads to end after the last row
LOOK_S = 0.1  # between two checks for messages and for rows that have left their slots
REPORT_SHARE = 16  # a change by this part of the slots in such rows is reported
NEWS_S = 1.0  # longest time between two reports
GATHER_S = 0.03  # that a finished row waits for others, to be reported together
WAIT_S = 0.2  # between two checks whether the run has ended
MAX_MESSAGES = 10_000


class WorkerFailed(Exception):  # noqa: N818
    """This process cannot synthesize any more rows. Its successor may."""


class _MessageStore(logging.Handler):
    """Stores messages until they are reported to the driver."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: deque[LogMessage] = deque()

    def emit(self, record: logging.LogRecord) -> None:
        """Store a message, unless too many wait."""
        if len(self.messages) < MAX_MESSAGES:
            message = LogMessage(record.name, record.levelno, record.getMessage())
            self.messages.append(message)

    def take(self) -> list[LogMessage]:
        return [self.messages.popleft() for _ in range(len(self.messages))]


class Worker:
    """The actor. The driver calls its methods, all in one thread; another thread loads the model
    and synthesizes.
    """

    def __init__(self, settings: WorkerConfig) -> None:
        self._settings = settings
        self._log = _MessageStore()
        for name in ("tts_cli", "models", "kernels"):
            logging.getLogger(name).setLevel(settings.level)
            logging.getLogger(name).addHandler(self._log)
        self._ready: Future[Ready] = Future()
        # Rows and references to process, in order; None: no others for now.
        self._orders: queue.SimpleQueue[
            TaskWithVoice | tuple[Reference, Future[VoiceFuture]] | None
        ]
        self._orders = queue.SimpleQueue()
        self._num_came = 0  # rows and references
        self._num_due = 0  # number of them after which no others come for now; 0: unknown
        self._tasks: dict[Task, int] = {}  # unfinished, with their numbers
        self._ended: list[Ended] = []  # not yet reported to the driver
        # Event and loop of the call that waits for news.
        self._waker: tuple[asyncio.Event, asyncio.AbstractEventLoop] | None = None
        self._reported_behind = 0  # pieces that had left their slots, in the last report
        self._mutex = threading.Lock()
        self._session: LocalSession | None = None  # None: not ready
        self._is_stopped = False
        self._failure: Exception | None = None
        self._is_idle = threading.Event()
        self._is_idle.set()
        threading.Thread(target=self._work, name="speech", daemon=True).start()

    async def hello(self) -> None:
        """Show that this process runs."""

    async def ready(self) -> Ready:
        """Wait until rows can be synthesized. Raises SetupError, WorkerFailed."""
        return await asyncio.wrap_future(self._ready)

    async def speak(self, orders: list[RowOrder], *voices: Voice) -> None:
        """Take rows and the voices they clone; `news` has the results. Raises WorkerFailed."""
        with self._mutex:
            if self._failure is not None:
                raise self._failure
            for order in orders:
                voiced = order.voiced
                if self._is_stopped:
                    self._tell(Ended(order.number))
                    continue
                if order.voice is not None:
                    voiced = voiced._replace(voice=voices[order.voice])
                self._tasks[voiced.task] = order.number
                self._orders.put(voiced)
            self._count_in(len(orders))

    async def news(self) -> WorkerNews:
        """Return results and messages, waiting up to `NEWS_S` for them. Raises WorkerFailed."""
        deadline_s, is_awake = time.perf_counter() + NEWS_S, False
        while not is_awake and time.perf_counter() < deadline_s:
            with self._mutex:
                if self._has_news():
                    break
                if self._failure is not None:
                    raise self._failure
                event = asyncio.Event()
                self._waker = event, asyncio.get_running_loop()
            with contextlib.suppress(asyncio.TimeoutError):
                is_awake = await asyncio.wait_for(event.wait(), LOOK_S)
        if self._ended and self._tasks:
            await asyncio.sleep(GATHER_S)
        with self._mutex:
            if not self._has_news() and self._failure is not None:
                raise self._failure
            ended, self._ended = self._ended, []
            session = self._session
            heartbeat = -1 if session is None else session.heartbeat  # changes with every frame
            return WorkerNews(ended, self._log.take(), self._reported_behind, heartbeat)

    async def encode(self, reference: Reference) -> EncodedVoice:
        taken: Future[VoiceFuture] = Future()
        with self._mutex:
            self._orders.put((reference, taken))
            self._count_in(1)
        ticket = await asyncio.wrap_future(taken)
        try:
            voice = await asyncio.wrap_future(ticket.voice)
        except RowError as error:
            return EncodedVoice(None, str(error))
        return EncodedVoice(voice, None, await asyncio.to_thread(lambda: ticket.milliseconds))

    async def drain(self, num_due: int) -> None:
        """Mark the end of the rows for now, so that the last ones do not wait for a full batch.

        Of all calls to this process, `num_due` were rows and references. Some may still be on their
        way, because calls have no order.
        """
        with self._mutex:
            self._num_due = num_due
            self._count_in(0)

    def _count_in(self, count: int) -> None:
        """Count rows or references, perhaps the last ones. The caller holds the mutex."""
        self._num_came += count
        if self._num_due and self._num_came >= self._num_due:
            self._num_due = 0
            self._orders.put(None)

    async def stop(self) -> None:
        """Start no more rows. Those that are being decoded are finished."""
        with self._mutex:
            self._is_stopped = True
            if self._session is not None:
                self._session.stop()
        self._orders.put(None)

    async def counted(self) -> tuple[SessionFacts, list[LogMessage]]:
        """Return the totals and the last messages, and answer a waiting `news`."""
        # The last row is reported before all threads have ended.
        await asyncio.to_thread(self._is_idle.wait, END_S)
        session = self._session
        found = SessionFacts() if session is None else await asyncio.to_thread(session.facts)
        messages = self._log.take()
        with self._mutex:
            self._wake()
        return found, messages

    def _work(self) -> None:
        """Body of the thread that loads and synthesizes."""
        try:
            session, writer = self._open()
            keep = partial(self._keep, writer)
            while not self._is_stopped:
                if (order := self._orders.get()) is not None:
                    self._is_idle.clear()
                    try:
                        session.speak(self._due(session, order), keep)
                    finally:
                        self._is_idle.set()
        except Exception as error:
            log.debug("worker %d ends", self._settings.number, exc_info=True)
            is_known = isinstance(error, (SetupError, StoppedEarly))
            reason = str(error) if is_known else f"{type(error).__name__}: {first_line(error)}"
            failure = error if isinstance(error, SetupError) else WorkerFailed(reason)
            self._end(failure)
        else:
            self._end(None)

    def _end(self, failure: Exception | None) -> None:
        with self._mutex:
            self._failure, self._is_stopped = failure, True
            if failure is None:
                for number in self._tasks.values():
                    self._tell(Ended(number))
            self._tasks.clear()
            self._wake()
        if failure is not None and not self._ready.done():
            self._ready.set_exception(failure)

    def _has_news(self) -> bool:
        """Whether anything must be reported. The caller holds the mutex."""
        session, behind, is_moved = self._session, 0, False
        if session is not None:
            behind = session.num_behind
            step = max(1, session.loaded.batch.rows // REPORT_SHARE)
            is_moved = abs(behind - self._reported_behind) >= step
        if self._ended or is_moved:
            self._reported_behind = behind
        return bool(self._ended or is_moved or self._log.messages)

    def _tell(self, ended: Ended) -> None:
        """Report a result to the driver. The caller holds the mutex."""
        self._ended.append(ended)
        self._wake()

    def _wake(self) -> None:
        waker, self._waker = self._waker, None
        if waker is not None:
            event, loop = waker
            loop.call_soon_threadsafe(event.set)

    def _open(self) -> tuple[LocalSession, AudioWriter]:
        import torch

        settings = self._settings
        config, number = settings.config, settings.number
        if settings.version != version():
            raise SetupError(
                f"worker {number} has tts-cli {version()}, but the driver has {settings.version}",
                remedy="install the same version on every machine",
            )
        if settings.num_threads is not None:
            torch.set_num_threads(settings.num_threads)
        session = LocalSession(config)
        if session.info.identity != settings.identity:
            raise SetupError(
                f"worker {number} finds another checkpoint at {config.model}",
                remedy="give every machine the same files",
            )
        session.make_room(settings.needs)
        writer = AudioWriter(settings.out, config, session.info.sample_rate_hz)
        writer.is_staging = sees_folder(settings)
        session.is_int16 = writer.accepts_int16
        ready = Ready(
            socket.gethostname(), session.facts(), session.loaded.batch.rows, writer.is_staging
        )
        with self._mutex:
            self._session = session
            self._wake()
            if self._is_stopped:
                session.stop()
        self._ready.set_result(ready)
        return session, writer

    def _due(
        self, session: LocalSession, first: TaskWithVoice | tuple[Reference, Future[VoiceFuture]]
    ) -> Iterator[TaskWithVoice | None]:
        """Yield tasks as they come, until no more are due for now. Runs in the prompt thread."""
        order: TaskWithVoice | tuple[Reference, Future[VoiceFuture]] | None = first
        while order is not None:
            if isinstance(order, TaskWithVoice):
                yield order
            else:
                reference, taken = order
                taken.set_result(session.loaded.voices.submit(reference))
            while True:
                try:
                    order = self._orders.get(timeout=WAIT_S)
                    break
                except queue.Empty:
                    yield None

    def _keep(self, writer: AudioWriter, results: Sequence[tuple[Task, Result]]) -> None:
        """Encode and report the results of tasks. Several threads call it."""
        for task, result in results:
            self._report(writer, task, result)

    def _report(self, writer: AudioWriter, task: Task, spoken: Result) -> None:
        error: StoppedEarly | None = None
        try:
            spoken = encoded(task, spoken, writer.make, self._settings.comment)
        except StoppedEarly as caught:
            error = caught
        with self._mutex:
            number = self._tasks.pop(task)
            if error is not None:
                self._tell(Ended(number, error=error))
            else:
                self._tell(Ended.of(number, spoken, time.perf_counter()))


def version() -> str:
    return versions()["tts-cli"] or "no version"


def sees_folder(settings: WorkerConfig) -> bool:
    """Whether this machine sees the driver's output folder and can write to it."""
    path = Path(settings.token)
    try:
        return path.read_text() == settings.token_text and os.access(path.parent, os.W_OK | os.X_OK)
    except OSError:
        return False
