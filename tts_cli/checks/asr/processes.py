"""Call a function for each take in worker processes, one per core."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import get_context, parent_process
from typing import Generic, TypeVar

from tts_cli.checks.asr.recognizer import Identity
from tts_cli.errors import StoppedEarly
from tts_cli.startup import usable_cores

A = TypeVar("A")
B = TypeVar("B")

IDLE_S = 0.1  # to wait for results if no request is ready


class Processes(Generic[A, B]):
    """A `Recognizer` or `Aligner` whose work is one function.

    Args:
        function: a module's function, so that a process can import it.
        count: number of processes; None: one per core.
    """

    def __init__(
        self, function: Callable[[A], B], identity: Identity, count: int | None = None
    ) -> None:
        self._function = function
        self.identity = identity
        self.count = count or usable_cores()
        self._pool: ProcessPoolExecutor | None = None

    def run(self, asked: Iterable[A | None]) -> Iterator[B]:
        """See `Recognizer`. Raises StoppedEarly if a process dies."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self.count, get_context("spawn"), initializer=_start)
        waiting = iter(asked)
        running: set[Future[B]] = set()
        try:
            while True:
                is_idle = False
                for one in islice(waiting, 2 * self.count - len(running)):
                    if one is None:
                        is_idle = True
                        break
                    running.add(self._pool.submit(self._function, one))
                if not running and not is_idle:
                    return
                done, running = wait(running, IDLE_S if is_idle else None, FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        except BrokenProcessPool as error:
            raise StoppedEarly(
                "a recognizer process ended unexpectedly",
                remedy="check the free memory, and run the same command again: finished "
                "transcripts are stored",
            ) from error

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


def _start() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process stops this one
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent ends: a parent that was killed cannot stop its processes."""
    parent = parent_process()
    if parent is not None:
        parent.join()  # on a pipe (Windows: a handle) that closes however the parent ends
        os._exit(1)
