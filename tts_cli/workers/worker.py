"""A worker: the session of one process behind the calls of a Ray actor. Rows come with calls,
several in each; another call is answered by those that have ended.
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
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tts_cli.audio.encode import encoded
from tts_cli.core import Spoken, Task
from tts_cli.engine.session import LocalSession, SessionFacts
from tts_cli.errors import RowError, SetupError, StoppedEarly, first_line
from tts_cli.store.files import AudioWriter
from tts_cli.versions import versions
from tts_cli.voices.stage import Voiced
from tts_cli.workers.messages import (
    Briefing,
    EncodedVoice,
    Ended,
    Ready,
    Returned,
    RowOrder,
    Said,
    WorkerNews,
)

if TYPE_CHECKING:
    from models.base import Voice
    from tts_cli.voices.encoding import Ticket
    from tts_cli.voices.recording import Reference

log = logging.getLogger(__name__)

END_S = 5.0  # that threads have to end, once every row is answered
LOOK_S = 0.1  # between two looks at how many rows have left their slots
TOLD_SHARE = 16  # of the slots: so many more or fewer such rows are told of
LISTEN_S = 1.0  # between two answers of a worker that has nothing to say
GATHER_S = 0.03  # that a row which has ended waits for others to be told of with it
WAIT_S = 0.2  # between two looks at whether speaking has ended for another reason
MAX_SAID = 10_000


class WorkerFailed(Exception):  # noqa: N818
    """This process can speak no more rows; another one in its place might."""


class _Ear(logging.Handler):
    """Keeps messages until the driver asks for them."""

    def __init__(self) -> None:
        super().__init__()
        self.said: queue.Queue[Said] = queue.Queue(MAX_SAID)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one, unless nobody has asked for long."""
        if not self.said.full():
            self.said.put(Said(record.name, record.levelno, record.getMessage()))

    def take(self, timeout_s: float) -> list[Said]:
        """What there is; waits for the first."""
        found = []
        try:
            found.append(self.said.get(timeout=timeout_s) if timeout_s else self.said.get_nowait())
            while True:
                found.append(self.said.get_nowait())
        except queue.Empty:
            return found


class Worker:
    """The actor. Its methods are called by the driver, all in one thread; a thread of its own
    loads the model and speaks.
    """

    def __init__(self, briefing: Briefing) -> None:
        self._briefing = briefing
        self._ear = _Ear()
        for name in ("tts_cli", "models", "kernels"):
            logging.getLogger(name).setLevel(briefing.level)
            logging.getLogger(name).addHandler(self._ear)
        self._ready: Future[Ready] = Future()
        # Rows and references on their way, in order; None: no more for now.
        self._orders: queue.SimpleQueue[Voiced | tuple[Reference, Future[Ticket]] | None]
        self._orders = queue.SimpleQueue()
        self._num_came = 0  # rows and references
        self._num_due = 0  # of them, behind which there are no more for now; 0: not known
        self._tasks: dict[Task, int] = {}  # on their way, with their numbers
        self._ended: list[Ended] = []  # that the driver does not know of yet
        # Of the call that waits for such, and the loop that it waits in.
        self._waker: tuple[asyncio.Event, asyncio.AbstractEventLoop] | None = None
        self._told_behind = 0  # how many rows had left their slots, as it was told last
        self._mutex = threading.Lock()
        self._session: LocalSession | None = None  # None: it is not ready
        self._is_stopped = False
        self._failure: Exception | None = None
        self._is_idle = threading.Event()
        self._is_idle.set()
        threading.Thread(target=self._work, name="speech", daemon=True).start()

    async def hello(self) -> None:
        """Show that this process is there."""

    async def ready(self) -> Ready:
        """Wait until rows can be spoken. Raises SetupError, WorkerFailed."""
        return await asyncio.wrap_future(self._ready)

    async def speak(self, orders: list[RowOrder], *voices: Voice) -> None:
        """Take rows to be spoken, which `ended` will tell of.

        Args:
            voices: that some of them clone.
        Raises:
            WorkerFailed: nothing more can be spoken here.
        """
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

    async def ended(self) -> Returned:
        """Rows that have come to their ends, or to that of the run; waits for them, or until there
        is room for others.

        Raises:
            WorkerFailed: nothing more can be spoken here.
        """
        while True:
            with self._mutex:
                if self._has_news():
                    break
                if self._failure is not None:
                    raise self._failure
                event = asyncio.Event()
                self._waker = event, asyncio.get_running_loop()
                wait_s = None if self._session is None or self._is_stopped else LOOK_S
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(event.wait(), wait_s)
        if self._ended and self._tasks:
            await asyncio.sleep(GATHER_S)
        with self._mutex:
            self._has_news()
            ended, self._ended = self._ended, []
            return Returned(ended, self._told_behind)

    async def encode(self, reference: Reference) -> EncodedVoice:
        """Make a voice of a recording."""
        taken: Future[Ticket] = Future()
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
        """No more rows for now: the last ones need not wait for others to fill their batch.

        Args:
            num_due: rows and references that this process was sent. Calls keep no order, so some
                may still be on their way.
        """
        with self._mutex:
            self._num_due = num_due
            self._count_in(0)

    def _count_in(self, count: int) -> None:
        """Rows or references came, and perhaps the last ones. The caller holds the mutex."""
        self._num_came += count
        if self._num_due and self._num_came >= self._num_due:
            self._num_due = 0
            self._orders.put(None)

    async def stop(self) -> None:
        """Speak no more; rows that are decoded come to their ends."""
        with self._mutex:
            self._is_stopped = True
            if self._session is not None:
                self._session.stop()
        self._orders.put(None)

    async def listen(self) -> WorkerNews:
        """What was said since; waits a while for something."""
        said = await asyncio.to_thread(self._ear.take, LISTEN_S)
        return WorkerNews(said, self._pulse())

    async def counted(self) -> tuple[SessionFacts, WorkerNews]:
        """What came of the work, and what was said at last; whoever listens is answered."""
        # The last row is answered before all threads have ended.
        await asyncio.to_thread(self._is_idle.wait, END_S)
        session = self._session
        found = SessionFacts() if session is None else await asyncio.to_thread(session.facts)
        said = self._ear.take(0)
        self._ear.said.put(Said("", logging.DEBUG, ""))  # wakes who listens
        return found, WorkerNews(said, self._pulse())

    def _pulse(self) -> int:
        """Grows with every frame that is made; a new stretch of speaking begins anew."""
        return -1 if self._session is None else self._session.pulse

    def _work(self) -> None:
        """The thread that loads and speaks."""
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
            log.debug("worker %d ends", self._briefing.number, exc_info=True)
            is_known = isinstance(error, (SetupError, StoppedEarly))
            reason = str(error) if is_known else f"{type(error).__name__}: {first_line(error)}"
            failure = error if isinstance(error, SetupError) else WorkerFailed(reason)
            self._end(failure)
        else:
            self._end(None)

    def _end(self, failure: Exception | None) -> None:
        """Answer every call that still waits."""
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
        """Whether there is something to tell the driver. The caller holds the mutex."""
        session, behind, is_moved = self._session, 0, False
        if session is not None:
            behind = session.num_behind
            step = max(1, session.loaded.batch.rows // TOLD_SHARE)
            is_moved = abs(behind - self._told_behind) >= step
        if self._ended or is_moved:
            self._told_behind = behind
            return True
        return False

    def _tell(self, ended: Ended) -> None:
        """Have the driver know what came of a row. The caller holds the mutex."""
        self._ended.append(ended)
        self._wake()

    def _wake(self) -> None:
        waker, self._waker = self._waker, None
        if waker is not None:
            event, loop = waker
            loop.call_soon_threadsafe(event.set)

    def _open(self) -> tuple[LocalSession, AudioWriter]:
        """Load the model, make room, and be ready. Raises SetupError."""
        import torch

        briefing = self._briefing
        config, number = briefing.config, briefing.number
        if briefing.version != version():
            raise SetupError(
                f"worker {number} has tts-cli {version()}, but the driver has {briefing.version}",
                remedy="install the same version on every machine",
            )
        if briefing.num_threads is not None:
            torch.set_num_threads(briefing.num_threads)
        session = LocalSession(config)
        if session.info.identity != briefing.identity:
            raise SetupError(
                f"worker {number} finds another checkpoint at {config.model}",
                remedy="give every machine the same files",
            )
        session.make_room(briefing.needs)
        writer = AudioWriter(briefing.out, config, session.info.sample_rate_hz)
        writer.is_staging = sees_folder(briefing)
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
        self, session: LocalSession, first: Voiced | tuple[Reference, Future[Ticket]]
    ) -> Iterator[Voiced | None]:
        """Tasks as they come, until there are no more for now. In the thread that makes prompts,
        whose the voices are.
        """
        order: Voiced | tuple[Reference, Future[Ticket]] | None = first
        while order is not None:
            if isinstance(order, Voiced):
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

    def _keep(self, writer: AudioWriter, task: Task, spoken: Spoken) -> None:
        """What came of a task; several threads call it."""
        error: StoppedEarly | None = None
        try:
            spoken = encoded(task, spoken, writer.make, self._briefing.comment)
        except StoppedEarly as caught:
            error = caught
        with self._mutex:
            number = self._tasks.pop(task)
            if error is not None:
                self._tell(Ended(number, error=error))
            else:
                self._tell(Ended.of(number, spoken, time.perf_counter()))


def version() -> str:
    """Of tts-cli, as it is installed here."""
    return versions()["tts-cli"] or "no version"


def sees_folder(briefing: Briefing) -> bool:
    """Whether the output folder of this machine is the driver's, and can be written to."""
    path = Path(briefing.token)
    try:
        return path.read_text() == briefing.token_text and os.access(path.parent, os.W_OK | os.X_OK)
    except OSError:
        return False
