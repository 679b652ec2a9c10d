"""A row on its way through the engine, one attempt at a time, and the queue in front."""

from __future__ import annotations

import math
import queue
import threading
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from models.base import Prompt
from models.device.spans import DeviceSpan

NOT_A_SAMPLE = -32768  # int16, one below the lowest: stands for what was not finite
FRAMES_PER_BYTE = 0.94  # typical speech: 0.075 s a UTF-8 byte of text


@dataclass(eq=False)
class Job:
    """One attempt at one row, and what came of it.

    One thread has it at a time: the one that makes it, then through the `JobQueue` the engine's,
    the vocoder's where it has one, then through the engine's sink whoever takes it. Samples and
    codes are on their way to the host until `wait` returns.
    """

    row: Any  # the caller's own record; never looked at here
    prompt: Prompt
    attempt: int = 1
    is_part: bool = False  # of a long row: admitted before rows, in order
    # Frames at the end of its reference that it is decoded behind; None: all of them.
    reference_context: int | None = None
    runaway: Job | None = None  # an earlier attempt; used if this one gives no audio at all
    admitted_s: float = 0.0  # `perf_counter`
    prefill: tuple[DeviceSpan, int] | None = None  # shared by this many rows
    decode_ms: float = 0.0  # this row's share of its steps
    bucket: int = 0  # the largest bucket it ran in
    # From here on: once it has ended.
    # eos, max_frames, early, stuck, nan, or a message when the vocoder had no memory
    reason: str = ""
    frames: int = 0
    attempts: int = 0  # made in all, those after this one included
    codes: torch.Tensor | None = None  # (F, K) int64
    samples: torch.Tensor | None = None  # (n,) float32 or int16
    vocoder: DeviceSpan | None = None  # of the batch it was decoded in
    vocoder_share: float = 1.0  # of that span, by frames
    copied: DeviceSpan | None = None

    @property
    def estimated_frames(self) -> float:
        """Frames the text will probably take; the longest first is the order of admission."""
        request = self.prompt.request
        if self.is_part:
            return math.inf
        return min(request.max_frames, FRAMES_PER_BYTE * len(request.text.encode()))

    @property
    def reference_codes(self) -> torch.Tensor | None:
        """(R, K) codes that the row is decoded behind; None without a reference in its prompt."""
        clone = self.prompt.request.clone
        if clone is None or clone.codes is None or self.reference_context is None:
            return None if clone is None else clone.codes
        return clone.codes[-self.reference_context :]

    @property
    def num_reference_frames(self) -> int:
        """Frames of those codes."""
        return 0 if self.reference_codes is None else len(self.reference_codes)

    def wait(self) -> None:
        """Wait for the copies to the host."""
        if self.copied is not None:
            self.copied.wait()

    @cached_property
    def is_noise(self) -> bool:
        """Whether its int16 samples were made of what is not finite; after `wait`."""
        samples = self.samples
        if samples is None or samples.dtype != torch.int16:
            return False
        return bool((samples.numpy() == NOT_A_SAMPLE).any())

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


class JobQueue:
    """Jobs on their way to the engine: bounded, closed once. And back to it: an ended job is lent
    to whoever judges its audio, who settles it, perhaps with more jobs.

    `put` and `close` belong to the thread that makes jobs, `settle` to those that judge, `lend` to
    whoever calls the engine's sink, the rest to the engine's.
    """

    def __init__(self, size: int) -> None:
        self._queue: queue.Queue[Job | None] = queue.Queue(size)
        self._is_closed = False
        self._settled = threading.Condition()
        self._num_lent = 0
        self._again: deque[Job] = deque()

    def put(self, job: Job | None, stop: threading.Event) -> bool:
        """Add a job, waiting for room; False when `stop` was set meanwhile."""
        while not stop.is_set():
            try:
                self._queue.put(job, timeout=0.2)
                return True
            except queue.Full:
                continue
        return False

    def close(self, stop: threading.Event) -> None:
        """Say that no further job comes."""
        self.put(None, stop)

    def take(self, timeout_s: float = 0.0) -> Job | None:
        """The next job, or None when there is none (yet)."""
        if self._is_closed:
            return None
        try:
            job = self._queue.get(timeout_s > 0, timeout_s or None)
        except queue.Empty:
            return None
        self._is_closed = job is None
        return job

    @property
    def is_dry(self) -> bool:
        """Closed and empty; another attempt may still come back."""
        return self._is_closed

    def lend(self) -> None:
        """Say that a job has ended and is being judged."""
        with self._settled:
            self._num_lent += 1

    def settle(self, more: list[Job]) -> None:
        """Say that a lent job is judged, and hand over what comes of it: its next attempt, or jobs
        that waited for it.
        """
        with self._settled:
            self._num_lent -= 1
            self._again += more
            self._settled.notify()

    def take_again(self, timeout_s: float = 0.0) -> Job | None:
        """The next attempt that came back; waits for one while any job is lent."""
        with self._settled:
            self._settled.wait_for(lambda: self._again or not self._num_lent, timeout_s)
            return self._again.popleft() if self._again else None

    @property
    def is_over(self) -> bool:
        """Dry, and nothing can come back."""
        with self._settled:
            return self.is_dry and not self._num_lent and not self._again
