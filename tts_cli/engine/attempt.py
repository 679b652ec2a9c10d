"""A piece of a task on its way through the engine, spoken once; the queue in front, and the one
behind it to the threads that take attempts: the longer that is, the more takers get one.

Takers share Python with the thread that launches frames. Eight of them at a batch of the vocoder
take three times as long for it as one, and the frames' stream stands still meanwhile: 0.4 to 1.1 s
of a run of 5 to 10 s on an H200. One keeps up where the disk does. Where it is slow, or a format
takes long to encode, frames pile up or attempts grow old, and the others come to help. Attempts are
counted by their frames: of short lines a batch of the vocoder has 80 and more. On an H100 up to 24
takers, one more for every 1,024 frames, made 4,096 rows of 15 to 35 frames 4 to 5 % faster than
eight, one for every 4,096, and 1,024 rows of 62 to 187 as fast.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from models.base import Prompt
from models.device.spans import DeviceSpan
from tts_cli.core import Finish, Piece, Task
from tts_cli.engine.stored_codes import PART_CONTEXT
from tts_cli.seeds import attempt_seed

if TYPE_CHECKING:
    from tts_cli.voices.encoding import Ticket

NOT_A_SAMPLE = -32768  # int16, one below the lowest: stands for what was not finite
FRAMES_PER_BYTE = 0.94  # typical speech: 0.075 s a UTF-8 byte of text
NAN = "the model returned NaN or infinite values twice"


@dataclass(eq=False)
class Attempt:
    """One attempt at one piece, and what came of it.

    One thread has it at a time: the one that makes it, then through the `AttemptQueue` the
    engine's, the vocoder's where it has one, then through the engine's sink whoever takes it.
    Samples and codes are on their way to the host until `wait` returns.
    """

    task: Task
    index: int  # of the piece among the task's
    prompt: Prompt  # with the voice that is cloned
    number: int = 1  # seeds follow it
    first: int = 1  # of this run
    ticket: Ticket | None = None  # of the voice, where this task was the first to name it
    queued_s: float = 0.0  # `perf_counter` when the first one's prompt was made
    was_nan: bool = False  # an earlier one gave NaN or infinite values
    frames_dropped: int = 0  # of earlier ones
    fallback: Attempt | None = None  # an earlier one; used if this one gives no audio at all
    admitted_s: float = 0.0  # `perf_counter`
    prefill: tuple[DeviceSpan, int] | None = None  # shared by this many rows
    decode_ms: float = 0.0  # this row's share of its steps
    bucket: int = 0  # the largest bucket it ran in
    # From here on: once it has ended.
    finish: Finish | None = None  # None: it gave no audio
    trouble: str | None = None  # why
    frames: int = 0
    made: int = 0  # the last attempt's number, where those after this one gave nothing
    codes: torch.Tensor | None = None  # (F, K) int64
    samples: torch.Tensor | None = None  # (n,) float32 or int16
    vocoder: DeviceSpan | None = None  # of the batch it was decoded in
    vocoder_share: float = 1.0  # of that span, by frames
    copied: DeviceSpan | None = None

    def next(self) -> Attempt:
        """The one behind it, when it has ended: by another seed."""
        number = max(self.number, self.made) + 1
        seed = attempt_seed(self.piece.request.seed, number)
        return Attempt(
            self.task,
            self.index,
            replace(self.prompt, request=replace(self.prompt.request, seed=seed)),
            number,
            self.first,
            self.ticket,
            self.queued_s,
            was_nan=self.was_nan or self.finish is None,
            frames_dropped=self.frames_dropped + (0 if self.finish is None else self.frames),
        )

    @property
    def piece(self) -> Piece:
        """What is spoken."""
        return self.task.pieces[self.index]

    @property
    def name(self) -> str:
        """What messages call it."""
        count = len(self.task.pieces)
        part = f", piece {self.index + 1} of {count}" if count > 1 else ""
        return f"{self.task.name}{part}"

    @property
    def estimated_frames(self) -> float:
        """Frames the text will probably take; the longest first is the order of admission. Pieces
        that are joined come before others, in order.
        """
        request = self.prompt.request
        if self.task.is_joined:
            return math.inf
        return min(request.max_frames, FRAMES_PER_BYTE * len(request.text.encode()))

    @property
    def reference_codes(self) -> torch.Tensor | None:
        """(R, K) codes that the row is decoded behind, of which a further piece needs but the end;
        None without a reference in its prompt.
        """
        clone = self.prompt.request.clone
        if clone is None or clone.codes is None or not self.index:
            return None if clone is None else clone.codes
        return clone.codes[-PART_CONTEXT:]

    @property
    def num_reference_frames(self) -> int:
        """Frames of those codes."""
        return 0 if self.reference_codes is None else len(self.reference_codes)

    def wait(self) -> None:
        """Wait for the copies to the host."""
        if self.copied is not None:
            self.copied.wait()

    @property
    def is_noise(self) -> bool:
        """Whether its int16 samples were made of what is not finite; after `wait`."""
        samples = self.samples
        if samples is None or samples.dtype != torch.int16:
            return False
        return bool(samples.numpy().min(initial=0) == NOT_A_SAMPLE)

    @property
    def prefill_ms(self) -> float:
        """This row's share of its prefill group; waits for the device."""
        if self.prefill is None:
            return 0.0
        span, rows = self.prefill
        return span.milliseconds() / rows

    @property
    def vocoder_ms(self) -> float:
        """This row's share of its vocoder batch. On a GPU frames ran beside it, so it took longer
        than it would have alone. Waits for the device.
        """
        return 0.0 if self.vocoder is None else self.vocoder.milliseconds() * self.vocoder_share


class AttemptQueue:
    """Attempts on their way to the engine: bounded, closed once. And back to it: one that has ended
    is lent to whoever judges its audio, who settles it, perhaps with more of them.

    `put` and `close` belong to the thread that makes prompts, `settle` to those that judge, `lend`
    to whoever calls the engine's sink, the rest to the engine's.
    """

    def __init__(self, size: int) -> None:
        self._queue: queue.Queue[Attempt | None] = queue.Queue(size)
        self.is_dry = False  # closed and empty; another attempt may still come back
        self._settled = threading.Condition()
        self._num_lent = 0
        self._again: deque[Attempt] = deque()

    def put(self, attempt: Attempt | None, stop: threading.Event) -> bool:
        """Add one, waiting for room; False when `stop` was set meanwhile."""
        while not stop.is_set():
            try:
                self._queue.put(attempt, timeout=0.2)
                return True
            except queue.Full:
                continue
        return False

    def close(self, stop: threading.Event) -> None:
        """Say that no further one comes."""
        self.put(None, stop)

    def take(self, timeout_s: float = 0.0) -> Attempt | None:
        """The next one, or None when there is none (yet)."""
        if self.is_dry:
            return None
        try:
            attempt = self._queue.get(timeout_s > 0, timeout_s or None)
        except queue.Empty:
            return None
        self.is_dry = attempt is None
        return attempt

    def lend(self) -> None:
        """Say that one has ended and is being judged."""
        with self._settled:
            self._num_lent += 1

    def settle(self, more: list[Attempt]) -> None:
        """Say that one that was lent is judged, and hand over what comes of it: the next one, or
        those that waited for it.
        """
        with self._settled:
            self._num_lent -= 1
            self._again += more
            self._settled.notify()

    def take_again(self, timeout_s: float = 0.0) -> Attempt | None:
        """The next one that came back; waits for one while any is lent."""
        with self._settled:
            self._settled.wait_for(lambda: self._again or not self._num_lent, timeout_s)
            return self._again.popleft() if self._again else None

    @property
    def is_over(self) -> bool:
        """Dry, and nothing can come back."""
        with self._settled:
            return self.is_dry and not self._num_lent and not self._again


STEP = 1024  # frames that wait for each further taker: a quarter of a full batch of the vocoder
PATIENCE_S = 0.5  # or as long as the oldest has waited: several batches of the vocoder


class EndedAttempts:
    """A bounded queue. Threads of the engine put, numbered takers get.

    Args:
        size: frames it holds, as far as the last attempt goes; above `STEP * (takers - 1)`, or the
            last takers get what is old alone.
    """

    def __init__(self, size: int, takers: int) -> None:
        self._size = size
        self._frames = 0
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
            while self._frames >= self._size:
                self._has_room.wait()
            self._attempts.append((time.perf_counter(), attempt))
            self._frames += attempt.frames
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
            _, attempt = self._attempts.popleft()
            self._frames -= attempt.frames
            self._has_room.notify()
            return attempt

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
        if taker == 0 or self._is_closed or self._frames > STEP * taker:
            return True
        return time.perf_counter() - self._attempts[0][0] > PATIENCE_S * taker
