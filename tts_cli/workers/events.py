"""What happens beside the driver's thread, put in a line: rows are planned, calls answered, rows
recorded, the run is stopped. The driver's thread does what they ask for, one after the other.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

Event = Callable[[], None]

LOOK_S = 5.0  # longest that the driver's thread waits for an event
MOST_AT_ONCE = 1000  # events, before the driver looks at what came of them


class Events:
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
