"""Speak rows that come one by one, perhaps without end, and give the results one by one.

One thread pulls rows from their iterator, one runs the engine, and results wait for the thread that
wants them. A permit stands for each row between the two ends: it is taken before a row is pulled
and given back when its result is handed over, so that nothing piles up anywhere, however slow
either end is.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tts_cli.app.verify import HeardSession
from tts_cli.checks.verdicts import TakeVerdict
from tts_cli.core import BadRow, Result, Task
from tts_cli.engine.made_voices import make_voices, studio_of
from tts_cli.engine.session import LocalSession
from tts_cli.errors import (
    Cancelled,
    DiskFull,
    RowError,
    SetupError,
    StoppedEarly,
    is_device_lost,
)
from tts_cli.library.settings import GivenRow
from tts_cli.library.speech import Speech, speech_of, unspoken
from tts_cli.plan.resolve import Resolver, silence_of
from tts_cli.plan.room import Needs

log = logging.getLogger(__name__)

WAIT_S = 0.1  # between two looks at what else there is to do, where no row comes
PATIENCE_S = 0.5  # that an iterator has for the row it was asked for, once nobody wants it
_NO_ROW = object()


@dataclass(frozen=True)
class _End:
    """What comes behind the last row, and behind the last result."""

    error: BaseException | None = None


def is_ready(task: Task, session: LocalSession) -> bool:
    """Whether a task can be spoken as things are."""
    has_voice = task.need is None or bool(task.need.digest)
    return has_voice and session.has_room(Needs.of([task], session.info))


def made_ready(task: Task, session: LocalSession, maker: Resolver) -> Task:
    """A task with the voice that it lacks, and with room for it; nothing is spoken meanwhile.
    Raises RowError: that cannot be.
    """
    if task.need is not None and not task.need.digest:
        ask = maker.voices.asks[task.request.voice or ""]
        try:
            make_voices(maker.voices, [ask], maker.cloning, studio_of(session))
        except (StoppedEarly, SetupError, RowError) as error:
            if isinstance(error, Cancelled) or is_device_lost(error.__cause__ or error):
                raise
            if not isinstance(error, (SetupError, DiskFull)):  # which may be mended
                ask.problem = str(error)
            raise RowError(str(error)) from error
        task = replace(task, need=maker.cloning.need(task.request))
    session.widen(Needs.of([task], session.info))
    return task


class SpeechStream:
    """One pass over rows. `results` is iterated once, in one thread; the rest is for any.

    Args:
        session: nobody else uses it meanwhile, as the next.
        maker: makes tasks of rows.
        look_ahead: rows that may be pulled while their results are not handed over.
        is_ordered: results come in the order of the rows, not as they are ready.
        heard: has them heard, and spoken again; None: nobody does.
    """

    def __init__(
        self,
        session: LocalSession,
        maker: Resolver,
        rows: Iterable[GivenRow],
        look_ahead: int,
        *,
        is_ordered: bool,
        heard: HeardSession | None = None,
    ) -> None:
        self._session = session
        self._heard = heard
        if heard is not None:
            heard.renew(look_ahead)
        self._maker = maker
        self._rows = rows
        self._is_ordered = is_ordered
        self._permits = threading.Semaphore(look_ahead)
        self._pulled: queue.SimpleQueue[tuple[int, GivenRow] | _End] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[tuple[int, Speech] | _End] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._is_pulling = False  # the iterator of rows was asked and has not answered
        self._larger: Task | None = None  # room or a voice must be made first, or cannot
        self._last: _End | None = None  # what the rows ended with
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for name, work in (("engine", self._speak), ("rows", self._pull))
        ]

    def results(self) -> Generator[Speech, None, None]:
        """Each row's speech. However this is left, no thread is left behind, see `close`.

        Raises:
            Cancelled: somebody called `stop` or `close`.
            StoppedEarly: the device failed.
            BaseException: what the iterator of rows raised; after the results of the rows before.
        """
        ready: dict[int, Speech] = {}
        expected = 1
        try:
            for thread in self._threads:
                thread.start()
            while not isinstance(got := self._ended.get(), _End):
                ready[got[0]] = got[1]
                del got
                while ready and not self._stop.is_set():
                    number = expected if self._is_ordered else next(iter(ready))
                    if number not in ready:
                        break
                    expected += 1
                    self._permits.release()
                    yield ready.pop(number)
            if got.error is not None:
                raise got.error
            if self._stop.is_set():
                raise Cancelled("the batch was cancelled before all of its rows were finished")
        finally:
            self.close()

    def stop(self) -> None:
        """Let everything end as soon as it can."""
        self._stop.set()
        self._session.stop()
        self._permits.release()  # who pulls may wait for one

    def close(self) -> None:
        """Stop, and wait for the threads. An iterator of rows that waits for something of its own
        cannot be interrupted: its thread is left waiting, does nothing more with what comes, and
        does not keep the process.
        """
        self.stop()
        deadline_s = time.monotonic() + PATIENCE_S
        for thread in self._threads:
            if thread.ident is None or thread is threading.current_thread():
                continue
            while thread.is_alive():
                if self._is_pulling and time.monotonic() > deadline_s and thread.name == "rows":
                    log.debug("the iterator of rows did not end and is left waiting")
                    break
                thread.join(WAIT_S)

    def _pull(self) -> None:
        """The thread that asks for rows."""
        last = _End()
        try:
            self._is_pulling = True
            rows = iter(self._rows)
            for number in itertools.count(1):
                self._is_pulling = False
                self._permits.acquire()
                if self._stop.is_set():
                    return
                self._is_pulling = True
                given: Any = next(rows, _NO_ROW)
                if given is _NO_ROW or self._stop.is_set():
                    break
                self._pulled.put((number, given))
        except BaseException as error:
            last = _End(error)
        finally:
            self._is_pulling = False
            self._pulled.put(last)

    def _speak(self) -> None:
        """The engine's thread: a run over the rows, and another one behind each row that needs more
        room than there is, or a voice that is to be made.
        """
        error: BaseException | None = None
        try:
            with self._session.in_use:
                while self._last is None and not self._stop.is_set():
                    self._run_on()
            error = None if self._last is None else self._last.error
        except BaseException as caught:
            error = caught
        self._ended.put(_End(error))

    def _run_on(self) -> None:
        """Speak rows until one needs more room, or all are spoken."""
        first, self._larger = self._larger, None
        if first is not None:
            try:
                self._larger = made_ready(first, self._session, self._maker)
            except RowError as error:
                self._keep(first, Result(error=str(error), seed=first.request.seed))
        if self._heard is None:
            self._session.speak(self._feed(), self._keep)
        else:
            self._heard.speak(self._session, self._feed(), self._keep)

    def _feed(self) -> Iterator[Task | None]:
        """The tasks of a run; None where none comes."""
        if self._larger is not None:
            task, self._larger = self._larger, None
            yield task
        while True:
            try:
                found = self._pulled.get(timeout=WAIT_S)
            except queue.Empty:
                yield None
                continue
            if isinstance(found, _End):
                self._last = found
                return
            number, given = found
            made = self._maker.make(given, number)
            if isinstance(made, BadRow):
                self._ended.put((number, unspoken(made, self._session.info)))
                yield None
            elif made.is_silent:
                self._keep(made, silence_of(made, self._session.info))
                yield None
            elif is_ready(made, self._session):
                yield made
            else:
                self._larger = made
                return

    def _keep(self, task: Task, spoken: Result, check: TakeVerdict | None = None) -> None:
        """What came of a task; any thread."""
        self._ended.put((task.row.number, speech_of(task, spoken, self._session.info, check)))
