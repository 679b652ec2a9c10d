"""Attempts that have left the engine, on their way to the threads that take them: the longer the
queue, the more takers get one.

Takers share Python with the thread that launches frames. Eight of them at a batch of the vocoder
take three times as long for it as one, and the frames' stream stands still meanwhile: 0.4 to 1.1 s
of a run of 5 to 10 s on an H200. One keeps up where the disk does. Where it is slow, or a format
takes long to encode, attempts pile up or grow old, and the others come to help.
"""

from __future__ import annotations

import threading
import time
from collections import deque

from tts_cli.engine.attempt import Attempt

STEP = 32  # attempts that wait for each further taker: about those of one batch of the vocoder
PATIENCE_S = 0.5  # or as long as the oldest has waited: several batches of the vocoder


class EndedAttempts:
    """A bounded queue. Threads of the engine put, numbered takers get.

    Args:
        size: attempts it holds; above `STEP * (takers - 1)`, or the last ones never get any.
    """

    def __init__(self, size: int, takers: int) -> None:
        self._size = size
        self._attempts: deque[tuple[float, Attempt]] = deque()  # with the `perf_counter` it came at
        self._is_closed = False
        self._mutex = threading.Lock()
        self._has_room = threading.Condition(self._mutex)
        self._is_wanted = [threading.Condition(self._mutex) for _ in range(takers)]

    def __len__(self) -> int:
        return len(self._attempts)

    def put(self, attempt: Attempt) -> None:
        """Add an attempt; waits for room."""
        with self._mutex:
            while len(self._attempts) >= self._size:
                self._has_room.wait()
            self._attempts.append((time.perf_counter(), attempt))
            for taker, wanted in enumerate(self._is_wanted):
                if not self._wants(taker):
                    break
                wanted.notify()

    def get(self, taker: int) -> Attempt | None:
        """The oldest attempt, once this taker is wanted; None when the queue is closed and empty.

        Args:
            taker: 0 gets whatever there is.
        """
        with self._mutex:
            while not self._wants(taker):
                if self._is_closed and not self._attempts:
                    return None
                self._is_wanted[taker].wait(PATIENCE_S if taker else None)
            self._has_room.notify()
            return self._attempts.popleft()[1]

    def close(self) -> None:
        """Say that no further attempt comes."""
        with self._mutex:
            self._is_closed = True
            for wanted in self._is_wanted:
                wanted.notify()

    def _wants(self, taker: int) -> bool:
        """Whether so many wait, or one for so long, that a taker is to get one; all are wanted at
        the end.
        """
        if not self._attempts:
            return False
        if taker == 0 or self._is_closed or len(self._attempts) > STEP * taker:
            return True
        return time.perf_counter() - self._attempts[0][0] > PATIENCE_S * taker
