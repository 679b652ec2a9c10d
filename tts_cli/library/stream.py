"""Synthesize rows that come one by one, perhaps without end, and yield their results one by one.

One thread pulls rows from their iterator, one runs the engine, and the caller's thread takes the
results. Each row has a permit from before it is pulled until its result is yielded, so that memory
is bounded however slow either end is.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tts_cli.app.verify import StreamVerifier, TranscriberThread
from tts_cli.checks.verdicts import TakeVerdict
from tts_cli.core import BadRow, Result, Task
from tts_cli.engine.made_voices import make_voices, run_in
from tts_cli.engine.session import LocalSession
from tts_cli.errors import Cancelled, DiskFull, RowError, SetupError, StoppedEarly, is_device_lost
from tts_cli.library.settings import GivenRow
from tts_cli.library.speech import Speech, speech_of, unspoken
from tts_cli.plan.resolve import Resolver, silence_of
from tts_cli.plan.room import Needs

log = logging.getLogger(__name__)

WAIT_S = 0.1  # between two checks while no row comes
PATIENCE_S = 0.5  # for the iterator to return its current row after the end
_NO_ROW = object()


@dataclass(frozen=True)
class _End:
    error: BaseException | None = None


def is_ready(task: Task, session: LocalSession) -> bool:
    """Whether a task has its voice, and its slots are large enough."""
    has_voice = task.need is None or bool(task.need.digest)
    return has_voice and session.has_room(Needs.of([task], session.info))


def made_ready(task: Task, session: LocalSession, maker: Resolver) -> Task:
    """Generate the voice that a task lacks, and make capacity for it. Raises RowError."""
    if task.need is not None and not task.need.digest:
        ask = maker.voices.asks[task.request.voice or ""]
        try:
            make_voices(maker.voices, [ask], maker.cloning, run_in(session))
        except (StoppedEarly, SetupError, RowError) as error:
            if isinstance(error, Cancelled) or is_device_lost(error.__cause__ or error):
                raise
            if not isinstance(error, (SetupError, DiskFull)):  # which may pass
                ask.problem = str(error)
            raise RowError(str(error)) from error
        task = replace(task, need=maker.cloning.need(task.request))
    session.widen(Needs.of([task], session.info))
    return task


class SpeechStream:
    """One pass over rows. One thread iterates `results`, once; any thread may call the rest.

    Args:
        session: used by this stream alone, like `maker`.
        maker: resolves rows into tasks.
        look_ahead: rows that may be pulled before their results are yielded.
        is_ordered: yield results in the order of the rows, not as soon as they are finished.
        transcriber: transcribes rows, to verify and retry them; None: without verification.
    """

    def __init__(
        self,
        session: LocalSession,
        maker: Resolver,
        rows: Iterable[GivenRow],
        look_ahead: int,
        *,
        is_ordered: bool,
        transcriber: TranscriberThread | None = None,
    ) -> None:
        self._session = session
        self._verifier: StreamVerifier | None = None
        if transcriber is not None:
            self._verifier = StreamVerifier(transcriber, maker, look_ahead, self._keep)
        self._maker = maker
        self._rows = rows
        self._is_ordered = is_ordered
        self._permits = threading.Semaphore(look_ahead)
        self._pulled: queue.SimpleQueue[tuple[int, GivenRow] | _End] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[tuple[int, Speech] | _End] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._is_pulling = False  # the iterator of rows is being advanced
        self._larger: Task | None = None  # must get capacity or a voice first
        self._last: _End | None = None  # the end of the rows, once it came
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for name, work in (("engine", self._speak), ("rows", self._pull))
        ]

    def results(self) -> Generator[Speech, None, None]:
        """Yield each row's speech. At the end its threads have ended, see `close`.

        Raises Cancelled after `stop` or `close`, StoppedEarly if the device failed, and any error
        of the iterator of rows, after the results of earlier rows.
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
        self._stop.set()
        self._session.stop()
        self._permits.release()  # the pulling thread may wait for one

    def close(self) -> None:
        """Stop, and wait for the threads. An iterator of rows that blocks cannot be interrupted:
        its thread remains, ignores the row, and does not keep the process alive.
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
        if self._verifier is not None:
            self._verifier.close()

    def _pull(self) -> None:
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
        """Body of the engine's thread: one run over the rows, and another one after each row that
        needs more capacity or a generated voice.
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
        """Synthesize rows until one needs more capacity or a voice, or all are done."""
        first, self._larger = self._larger, None
        if first is not None:
            try:
                self._larger = made_ready(first, self._session, self._maker)
            except RowError as error:
                self._keep(first, Result(error=str(error), seed=first.request.seed))
        if self._verifier is None:
            self._session.speak(self._feed(), self._keep_all)
        else:
            self._session.speak(self._verifier.tasks(self._feed()), self._verifier.on_results)

    def _feed(self) -> Iterator[Task | None]:
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

    def _keep_all(self, results: Sequence[tuple[Task, Result]]) -> None:
        for task, result in results:
            self._keep(task, result)

    def _keep(self, task: Task, spoken: Result, check: TakeVerdict | None = None) -> None:
        """Pass on the result of a task. Thread-safe."""
        self._ended.put((task.row.number, speech_of(task, spoken, self._session.info, check)))
