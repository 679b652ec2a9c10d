"""Handle SIGINT, SIGTERM and SIGHUP, from the first import to the last line.

The handler stores the signal before it raises, because exceptions get lost: Python ignores those of
callbacks, C code drops them, and libraries convert them to ImportError. `check` raises a lost one
again; commands call it after each long step. During an import the signal is only stored, because
C++ code that torch runs aborts the process when Python raises. A second signal ends the process
immediately.

On a busy machine the system may deliver a signal to another thread than the main one, which then
keeps waiting for a lock. A thread of ours therefore reads each signal from Python's wakeup socket.
It wakes the main thread for the first signal, and ends the process for the second.

No heavy import here: the handlers must be installed before those.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from types import FrameType
from typing import Any

from tts_cli.errors import Interrupted

log = logging.getLogger(__name__)

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_WAKE = [signal.SIGURG] if hasattr(signal, "pthread_kill") else []  # interrupts the main thread
_STOPPING = "stopping: finishing what is decoded (again to stop at once)"
_AT_ONCE = b"stopped at once; finished rows are kept\n"

_received: int | None = None  # the first signal since `watching` began
_stop: Callable[[], None] | None = None  # set within `stopping`
_messages: SimpleQueue[str | None] = SimpleQueue()  # for the logging thread; None ends it
_is_watching = False


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """Handle signals within the block, and restore the handlers afterwards.

    Does nothing if it is already active or not in the main thread. SIGHUP stays ignored if it is,
    as `nohup` expects.
    """
    global _is_watching, _received
    if _is_watching or threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]
    hook = sys.unraisablehook
    _is_watching, _received = True, None
    sys.unraisablehook = lambda lost: None if lost.exc_type is Interrupted else hook(lost)
    try:
        with restored_handlers([*numbers, *_WAKE]) as before, _reading(frozenset(numbers)):
            for number in _WAKE:
                signal.signal(number, lambda *_: None)
            for number in numbers:
                if before[number] != signal.SIG_IGN or number != getattr(signal, "SIGHUP", None):
                    signal.signal(number, _handle)
            yield
    finally:
        sys.unraisablehook = hook
        _is_watching = False


@contextlib.contextmanager
def _reading(numbers: frozenset[int]) -> Iterator[None]:
    """Run a thread that reads the numbers of signals from Python's wakeup socket."""
    low, (reader, writer) = [], socket.socketpair()
    while min(reader.fileno(), writer.fileno()) <= 2:  # a standard stream was closed
        low += [reader, writer]
        reader, writer = socket.socketpair()
    for one in low:
        one.close()
    writer.setblocking(False)
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=_read, args=(reader, numbers), name="signals", daemon=True)
    try:
        thread.start()
        yield
    finally:
        signal.set_wakeup_fd(before)
        writer.close()  # the thread reads the rest and ends
        thread.join()
        reader.close()


def _read(reader: socket.socket, numbers: frozenset[int]) -> None:
    count = 0
    while data := reader.recv(1):
        if data[0] in numbers:
            count += 1
            if count == 1:
                for number in _WAKE:
                    signal.pthread_kill(threading.main_thread().ident or 0, number)
            else:
                with contextlib.suppress(OSError):
                    os.write(2, _AT_ONCE)
                os._exit(128 + data[0])


@contextlib.contextmanager
def restored_handlers(numbers: Iterable[int]) -> Iterator[dict[int, Any]]:
    """Restore the handlers of signals after the block. Yield them by signal."""
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield before
    finally:
        for number, handler in before.items():
            if handler is not None:  # None: it was not installed from Python
                signal.signal(number, handler)


def received() -> int | None:
    """Return the number of the signal that came, even if its exception got lost."""
    return _received


def check() -> None:
    """Raise Interrupted if a signal came."""
    if _received is not None:
        raise Interrupted(_received)


@contextlib.contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on a signal in the block. Raises Interrupted on entry or exit after a signal."""
    global _stop, _messages
    messages: SimpleQueue[str | None] = SimpleQueue()
    _stop, _messages = stop, messages
    thread = threading.Thread(target=_log_all, args=(messages,), name="stopping", daemon=True)
    try:
        check()
        thread.start()
        yield
    finally:
        if thread.ident is not None:
            messages.put(None)
            thread.join()
        _stop = None
    check()


def _log_all(messages: SimpleQueue[str | None]) -> None:
    """Log messages until None comes.

    The handler cannot log itself: if the signal interrupted a write to stderr, another one raises
    RuntimeError.
    """
    while (message := messages.get()) is not None:
        log.warning(message)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _handle(number: int, frame: FrameType | None) -> None:
    global _received
    if _received is not None:
        return  # `_read` ends the process
    _received = number
    if _stop is None:
        if _is_importing(frame):
            return
        raise Interrupted(number)
    _messages.put(_STOPPING)  # SimpleQueue.put is reentrant
    _stop()
