"""The loop that fills the slots of a model: prefill, frames, refill, compaction, vocoder.

The host never waits inside a frame. On a GPU it launches a few frames, requests a copy of the
slots' status, and reads the copy of the previous launch, so that the device always has work queued.
A finished row therefore idles for a few frames. On a CPU the status is read after every frame.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from kernels.launch.dispatch import KernelFailed
from models.base import SlotStatus
from models.device.spans import DeviceSpan
from models.device.streams import WorkStreams
from tts_cli.core import Finish
from tts_cli.engine.busy import BusyMeter
from tts_cli.engine.kernels import leave_triton, with_fallback
from tts_cli.engine.pieces import NAN, Attempt
from tts_cli.engine.scheduler import BatchSize, Scheduler
from tts_cli.engine.vocoder import VocoderQueue
from tts_cli.errors import StoppedEarly, TtsCliError, first_line
from tts_cli.named import counted

if TYPE_CHECKING:
    from models.slots.model import SpeechModel

log = logging.getLogger(__name__)

# Frames between two reads of the status on a GPU. A finished row idles for one and a half times as
# many frames, and everything that the host does between two launches must fit into their time.
# Nothing else depends on it.
POLL_FRAMES = 2
# Rows that the scheduler looks ahead, 10 KB of prompt each. If the run has more, long rows may come
# last. Sorting them takes 0.6 ms per admission.
WINDOW = 4096
# Rows taken into the window between two launches, 0.1 ms each: taking all of them could last as
# long as others come.
MAX_TAKEN = 64
START_S = 0.1  # the first admission waits this long for enough rows to choose from
# This many times the slots are enough rows. With fewer, the longest rows begin and short ones end
# the run: on an H100, 300 rows took 18 % less time with 256 slots, 512 rows 2 %, and 256 to 512
# rows 5 to 7 % with 64; 1,024 rows the same.
CHOICE = 2


@dataclass
class InFlightStep:
    """Launched frames: the status to be read after them, and the rows in the slots."""

    poll: Any
    slots: dict[int, Attempt]
    span: DeviceSpan
    bucket: int


class Engine:
    """Run attempts on one model, in the thread that calls `run`. Any thread may set `stop`.

    Every attempt that goes to `sink` must be answered by one list in `retries`, empty if there is
    no retry.

    Args:
        model: loaded, allocated and captured for `batch` slots.
        batch: slots in use; halved here if memory is short and it may change.
        input: attempts; None is the end.
        sink: takes every attempt that is not retried; may block to slow the engine down. On a CPU
            the vocoder thread calls it, too.
        retry: returns the next attempt after a finished one, or None to accept it.
        chore: other work on the device, done between two launches of frames.
        is_int16: convert samples to 16-bit numbers on the device.
    """

    def __init__(
        self,
        model: SpeechModel,
        device: torch.device,
        batch: BatchSize,
        input: queue.Queue[Attempt | None],
        sink: Callable[[Attempt], None],
        retry: Callable[[Attempt], Attempt | None],
        chore: Callable[[], None] | None = None,
        is_int16: bool = False,
    ) -> None:
        self.model = model
        self.device = device
        self.batch = batch
        self.input = input
        self.retries: queue.SimpleQueue[list[Attempt]] = queue.SimpleQueue()
        self.num_unsettled = 0  # attempts that left their slots without an answer in `retries`
        self.is_dry = False  # `input` has ended
        self.retry = retry
        self.chore = chore
        self.busy = BusyMeter(device)
        self.streams = WorkStreams(device)
        self.vocoder = VocoderQueue(model, device, self.streams, self.busy, sink, is_int16)
        self.scheduler: Scheduler[Attempt] = Scheduler(batch, WINDOW, model.pass_tokens)
        self.stop = threading.Event()
        self.is_async = device.type == "cuda"
        self.poll_frames = POLL_FRAMES if self.is_async else 1
        self.steps = 0  # frames stepped, whatever the bucket
        self.row_steps = 0  # frames times live rows
        self.padded_steps = 0  # frames times bucket
        self.sparse_steps = 0  # frames of fewer rows than half of the slots
        self.shrinks = 0
        self.fall_backs = 0  # times that rows started again without Triton; at most once

    def run(self) -> None:
        """Work until the input has ended and every row is settled, or until `stop` is set.

        Raises StoppedEarly if memory is too small for one row or for a fixed batch. If a kernel
        fails that may not be replaced, raises StoppedEarly, or SetupError if it was requested by
        name.
        """
        try:
            with self.streams.frames():
                self._run()
        finally:
            self.vocoder.end()

    def _run(self) -> None:
        step: InFlightStep | None = None
        while not self.stop.is_set():
            lack = failure = None
            try:
                if not self.scheduler.num_live and step is None:
                    self.vocoder.run(is_last=True)
                if self.chore is not None:
                    self.chore()
                self._fill_window()
                self._take_retries(is_idle=step is None)
                is_over = self.is_dry and not self.num_unsettled  # no more attempts can come
                if self.scheduler.is_done and step is None and is_over:
                    break
                step = self._turn(step)
            except torch.OutOfMemoryError as error:
                lack = first_line(error)
            except KernelFailed as error:
                if self.fall_backs:
                    raise
                failure = str(error)
            # Outside of the handlers, because the error holds what the attempt had allocated.
            if lack is not None:
                step = None
                self._shrink(lack)
            elif failure is not None:
                step = None
                self._leave_triton(failure)
        with_fallback(partial(self.vocoder.run, is_last=True), self.model, self.batch.is_fixed)
        self.streams.join()
        self.busy.end()

    def _fill_window(self) -> None:
        """Move ready rows into the window. Wait for rows only if none is running."""
        scheduler, num_waiting = self.scheduler, self.scheduler.num_waiting
        is_idle, most = not scheduler.num_live, scheduler.window
        # With one slot the order does not matter.
        enough = CHOICE * self.batch.rows if self.batch.rows > 1 else 1
        deadline_s = time.perf_counter() + START_S
        if not is_idle:
            most = min(most, num_waiting + MAX_TAKEN)
        while num_waiting < most and not self.is_dry:
            wait_s = 0.0
            if is_idle and not num_waiting:
                wait_s = START_S
            elif is_idle and self.is_async and num_waiting < enough:
                # Else later rows of the first batch would start one by one.
                wait_s = deadline_s - time.perf_counter()
            try:
                attempt = self.input.get(wait_s > 0, wait_s)
            except queue.Empty:
                break
            if attempt is None:
                self.is_dry = True
                break
            scheduler.offer(attempt, attempt.estimated_frames, attempt.prompt.num_own)
            num_waiting += 1

    def _take_retries(self, is_idle: bool) -> None:
        """Take retries. Wait for them if the engine has nothing else to do."""
        is_idle = is_idle and self.scheduler.is_done and self.is_dry
        while self.num_unsettled:
            try:
                retries = self.retries.get(is_idle, START_S)
            except queue.Empty:
                return
            self.num_unsettled -= 1
            for attempt in retries:
                self._offer_again(attempt)
                is_idle = False

    def _turn(self, previous: InFlightStep | None) -> InFlightStep | None:
        """Admit, compact, launch frames, and read the status of the previous launch.

        Vocoder batches are queued after the launch: preparing one takes the host 3 to 10 ms.
        """
        self._admit()
        moves = self.scheduler.compact(self.is_dry)
        if moves:
            self.model.move([source for source, _ in moves], [target for _, target in moves])
        current = self._launch() if self.scheduler.num_live else None
        if current is not None:
            self.vocoder.run(is_last=False)
        if not self.is_async:
            previous, current = current, None
        if previous is not None:
            self._collect(previous)
        return current

    def _admit(self) -> None:
        admitted = self.scheduler.admit()
        if not admitted:
            return
        if self.is_async:  # the share is meaningless on a CPU
            self.busy.start()
        now = time.perf_counter()
        span = DeviceSpan(self.device)
        self.model.prefill(
            [attempt.prompt for attempt, _ in admitted], [slot for _, slot in admitted]
        )
        self.busy.add(span.end())
        for attempt, _ in admitted:
            attempt.admitted_s = now
            attempt.prefill = (span, len(admitted))

    def _launch(self) -> InFlightStep:
        bucket, live = self.scheduler.bucket, self.scheduler.live
        span = DeviceSpan(self.device)
        self.model.decode_frames(bucket, self.poll_frames)
        self.busy.add(span.end())
        self.steps += self.poll_frames
        self.row_steps += self.poll_frames * len(live)
        self.padded_steps += self.poll_frames * bucket
        self.sparse_steps += self.poll_frames * (2 * len(live) < self.batch.rows)
        return InFlightStep(self.model.poll(), live, span, bucket)

    def _collect(self, step: InFlightStep) -> None:
        """Remove rows that a step has finished, unless they were removed before."""
        present = {attempt: slot for slot, attempt in self.scheduler.live.items()}
        slots = [slot for slot, attempt in step.slots.items() if attempt in present]
        statuses = self.model.status(step.poll, slots)
        share_ms = step.span.milliseconds() / max(1, len(step.slots))
        ended: dict[str, list[int]] = {}  # by reason
        for slot, status in zip(slots, statuses, strict=True):
            attempt = step.slots[slot]
            attempt.decode_ms += share_ms
            attempt.bucket = max(attempt.bucket, step.bucket)
            if status.is_finished:
                self._finish(attempt, present[attempt], status)
                ended.setdefault(status.finish_reason, []).append(present[attempt])
        for reason, freed in ended.items():
            self.model.release(freed, is_failed=reason == "nan")

    def _finish(self, attempt: Attempt, slot: int, status: SlotStatus) -> None:
        """Retry a row, or pass its codes to the vocoder; the caller clears the slot."""
        attempt.frames = status.frames
        if status.finish_reason == "nan":
            attempt.finish, attempt.trouble = None, NAN
        else:
            attempt.finish = Finish(status.finish_reason)
            # First: a row without memory for its codes still has its slot, and starts again.
            attempt.codes = self.model.codes(slot, attempt.frames)
        best = attempt if attempt.codes is not None else attempt.fallback or attempt
        again = self.retry(attempt)
        self.scheduler.finish(slot)
        if again is not None:
            again.fallback = best if best.codes is not None else None
            self._offer_again(again)
        else:
            best.made = attempt.number
            self.num_unsettled += 1
            self.vocoder.add(best)

    def _shrink(self, reason: str) -> None:
        """Halve the slots; every live row starts again, with the same draws."""
        if not self.batch.can_fall:
            self.vocoder.run(is_last=True)
            raise StoppedEarly(*self._too_many(reason))
        slots = self.batch.rows
        self.batch.halve()
        self.shrinks += 1
        log.warning(
            "out of device memory; continuing with %s at a time", counted(self.batch.rows, "row")
        )
        self._begin_again(slots)

    def _leave_triton(self, failure: str) -> None:
        """Continue with the PyTorch references; live rows start again, with the same draws."""
        try:
            leave_triton(failure, self.model, self.batch.is_fixed)
        except TtsCliError:
            with suppress(KernelFailed):  # finished rows still get their audio
                self.vocoder.run(is_last=True)
            raise
        self.fall_backs += 1
        self._begin_again(self.batch.rows)

    def _begin_again(self, slots: int) -> None:
        torch.cuda.empty_cache()
        self.model.release(list(range(slots)))
        for attempt in self.scheduler.evict():
            self._offer_again(attempt)

    def _offer_again(self, attempt: Attempt) -> None:
        """Put a row that was started before into the window, ahead of all others."""
        tokens = attempt.prompt.num_own
        self.scheduler.offer(attempt, attempt.estimated_frames, tokens, is_urgent=True)

    def _too_many(self, reason: str) -> tuple[str, str]:
        if self.batch.rows == 1:
            return (
                f"the device does not have enough memory for even one row: {reason}",
                "lower --max-seconds, use a smaller model or free memory on the device",
            )
        return (
            f"the device does not have enough memory for {self.batch.rows} rows at a time, "
            f"and with --reproducible fewer would change the audio: {reason}",
            "free memory on the device, or start again with a smaller --max-batch, which "
            "synthesizes every row again",
        )

    def facts(self) -> dict[str, Any]:
        return {
            "steps": self.steps,  # [frames] steps, each for any number of rows
            "row_steps": self.row_steps,  # [frames] frames of rows in these steps
            # [frames] frames of slots in these steps, including empty slots
            "padded_steps": self.padded_steps,
            # [frames] steps in which fewer than half of the slots had rows (since 0.4)
            "sparse_steps": self.sparse_steps,
            # [times] how often memory ran short while rows were synthesized
            "memory_step_downs": self.shrinks,
            # [0 or 1] 1: Triton failed, and the run continued with the PyTorch reference (since
            # 0.4)
            "kernel_fall_backs": self.fall_backs,
        }
