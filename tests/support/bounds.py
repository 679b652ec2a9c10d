"""What no command may do, however hostile its input: hang, take all memory, write elsewhere."""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import outside

MAX_S = 10.0  # of a core
MAX_WAIT_S = 60.0  # on the clock, for what waits instead of computing
MAX_BYTES = 512 * 2**20  # more than before


class Hangs(BaseException):
    """It took too long; no Exception, which a command would report as its own error."""


def peak_bytes() -> int:
    """The most memory this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _stop(number: int, frame: FrameType | None) -> None:
    raise Hangs(f"not done after {MAX_WAIT_S:g} s")


@contextmanager
def bounded(what: str, folder: Path) -> Iterator[None]:
    """Allow 10 s of a core and 512 MiB more than before, and no file outside of `folder`."""
    memory, started_s = peak_bytes(), time.process_time()
    before = signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, MAX_WAIT_S)
    try:
        with outside.watched(folder) as touched:
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.process_time() - started_s < MAX_S, what
    assert peak_bytes() - memory < MAX_BYTES, what
    assert not touched, f"{what}: {touched}"
