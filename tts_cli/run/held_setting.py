"""Settings of the whole process that a run needs otherwise: changed while anybody needs them, and
put back as they were after the last one, however the times of several overlap.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class HeldSetting(Generic[T]):
    """One setting, and the value it has while it is held. Any thread may hold it."""

    def __init__(self, read: Callable[[], T], write: Callable[[T], None], value: T) -> None:
        self._read = read
        self._write = write
        self._value = value
        self._mutex = threading.Lock()
        self._num_holders = 0
        self._before: T | None = None

    def hold(self) -> None:
        """Change it, if nobody holds it yet. Each call wants a `release`."""
        with self._mutex:
            if not self._num_holders:
                self._before = self._read()
                self._write(self._value)
            self._num_holders += 1

    def release(self) -> None:
        """Put it back, if nobody else holds it."""
        with self._mutex:
            assert self._num_holders, "released more often than held"
            self._num_holders -= 1
            if not self._num_holders:
                before, self._before = self._before, None
                self._write(before)  # type: ignore[arg-type]  # read by `hold`

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it inside."""
        self.hold()
        try:
            yield
        finally:
            self.release()
