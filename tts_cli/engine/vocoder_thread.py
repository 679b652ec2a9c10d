"""A thread for the vocoder beside the frames, on a CPU.

Frames of a small talker take one core (`models.device.threads`), and so does a small vocoder: side
by side they take two. Where the vocoder falls behind, and where no frames are left, the engine's
thread decodes rows as well, instead of waiting. Which of the two decodes a row changes no bit of
it: it is decoded alone, with one thread inside PyTorch's operators, and those are counted by each
calling thread for itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from models.device.threads import limited_threads
from tts_cli.engine.job import Job

MOST_WAITING = 4  # rows: an end of the run that was asked for waits for these


class VocoderThread:
    """Takes rows one by one, in the order they ended. Belongs to the engine's thread.

    Args:
        decode: turns a row's codes into samples and hands it on; called by both threads at once.
    """

    def __init__(self, decode: Callable[[Job], None]) -> None:
        self._decode = decode
        self._changed = threading.Condition()  # guards all below
        self._waiting: deque[Job] = deque()  # the oldest first
        self._has_row = False  # the thread, in hand
        self._is_over = False
        self._error: BaseException | None = None  # that has ended the thread
        self._thread: threading.Thread | None = None  # from the first row on that runs beside

    def __len__(self) -> int:
        """Rows that are not handed on yet; any thread may ask."""
        return len(self._waiting) + self._has_row

    def add(self, job: Job) -> None:
        """Take in a row that has ended."""
        with self._changed:
            self._waiting.append(job)
            self._changed.notify_all()

    def run(self, is_last: bool) -> None:
        """Decode here what is too much for the thread: the oldest while more than MOST_WAITING
        wait. With `is_last` share all there is, and return when every row is handed on.

        Raises:
            BaseException: what `decode` has raised, in either thread. The row is lost, and after an
                error in the thread those that wait as well.
        """
        if self._thread is None and self._waiting and not is_last:
            self._thread = threading.Thread(target=self._work, name="vocoder", daemon=True)
            self._thread.start()
        while (job := self._next_here(is_last)) is not None:
            self._decode(job)

    def end(self) -> None:
        """Let the thread decode what still waits, and wait for its end. After an error in the
        engine's thread those rows had ended before it.
        """
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _next_here(self, is_last: bool) -> Job | None:
        """A row for the engine's thread; None where it may go on."""
        with self._changed:
            if is_last and not self._waiting:
                self._changed.wait_for(lambda: not self._has_row)
            if self._error is not None:
                raise self._error
            is_mine = len(self._waiting) > (0 if is_last else MOST_WAITING)
            return self._waiting.popleft() if is_mine else None

    def _next_there(self) -> Job | None:
        """The thread's next row; None at the end."""
        with self._changed:
            self._has_row = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or self._is_over)
            self._has_row = bool(self._waiting)
            return self._waiting.popleft() if self._has_row else None

    def _work(self) -> None:
        try:
            with limited_threads(1):
                while (job := self._next_there()) is not None:
                    self._decode(job)
        except BaseException as error:
            with self._changed:
                self._error, self._has_row = error, False
                self._changed.notify_all()
