"""Keeps the slots of a model busy: prefill, frames, refill, compaction, vocoder.

The host never waits inside a frame. On a GPU it launches a few frames, asks for a copy of the
slots' status, and reads the copy of the launch before, so that the device always has work queued;
a finished row therefore idles for a few frames. On a CPU there is nothing to overlap and every
frame is looked at.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from models.base import Prompt, SpeechModel
from models.timing import Span
from tts_cli.busy import BusyMeter
from tts_cli.errors import StoppedEarly
from tts_cli.pcm import has_bad_samples, to_int16
from tts_cli.scheduler import Scheduler

log = logging.getLogger(__name__)

# Frames between two looks at the status on a GPU. A row that ends idles for one and a half times as
# many, and the host has as many frames' time for everything it does between two launches.
POLL_FRAMES = 4
START_S = 0.1  # the first rows wait this long for enough of them to fill all slots
VOCODER_ROWS = 32  # finished rows that wait for a common vocoder batch
FRAMES_PER_BYTE = 0.94  # typical speech: 0.075 s a UTF-8 byte of text


@dataclass(eq=False)
class Job:
    """One attempt at one row."""

    row: Any  # the caller's own record; never looked at here
    prompt: Prompt
    attempt: int = 1
    queued_s: float = field(default_factory=time.perf_counter)
    admitted_s: float = 0.0
    prefill: tuple[Span, int] | None = None  # shared by this many rows
    decode_ms: float = 0.0  # this row's share of its steps
    bucket: int = 0  # the largest bucket it ran in
    runaway: Outcome | None = None  # of an earlier attempt; used if this one gives no audio at all

    @property
    def estimated_frames(self) -> float:
        """Frames the text will probably take."""
        request = self.prompt.request
        return min(request.max_frames, FRAMES_PER_BYTE * len(request.text.encode()))

    @property
    def reference_codes(self) -> torch.Tensor | None:
        """(R, K) codes that the row is decoded behind; None without a reference in its prompt."""
        clone = self.prompt.request.clone
        return None if clone is None else clone.codes


@dataclass
class Outcome:
    """What became of a job. Audio and codes are on their way to the host until `wait` returns."""

    job: Job
    reason: str  # eos, max_frames, nan, or a message when the vocoder had no memory
    frames: int
    samples: torch.Tensor | None = None  # (n,) float32 or int16 on the host
    is_bad: torch.Tensor | None = None  # () bool on the host: int16 samples of what was not finite
    codes: torch.Tensor | None = None  # (F, K) int64 on the host
    vocoder: Span | None = None
    vocoder_share: float = 1.0
    copied: Span | None = None
    attempts: int = 0  # made in all, those after this job's included

    def wait(self) -> None:
        """Wait for the copies."""
        if self.copied is not None:
            self.copied.wait()

    @property
    def vocoder_ms(self) -> float:
        """This row's share of its vocoder batch, by frames."""
        return 0.0 if self.vocoder is None else self.vocoder.milliseconds() * self.vocoder_share

    @property
    def prefill_ms(self) -> float:
        """This row's share of its prefill group."""
        if self.job.prefill is None:
            return 0.0
        span, rows = self.job.prefill
        return span.milliseconds() / rows


class JobQueue:
    """Planned rows from the tokenising thread to the engine: bounded, closed once."""

    def __init__(self, size: int) -> None:
        self._queue: queue.Queue[Job | None] = queue.Queue(size)
        self._is_closed = False

    def put(self, job: Job, stop: threading.Event) -> bool:
        """Add a job, waiting for room; False when `stop` was set meanwhile."""
        return self._put(job, stop)

    def close(self, stop: threading.Event) -> None:
        """Say that no further job comes."""
        self._put(None, stop)

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
        """Closed and empty."""
        return self._is_closed

    def _put(self, job: Job | None, stop: threading.Event) -> bool:
        while not stop.is_set():
            try:
                self._queue.put(job, timeout=0.2)
                return True
            except queue.Full:
                continue
        return False


@dataclass
class Flight:
    """Frames under way: the poll behind them and who sat where."""

    poll: Any
    slots: dict[int, Job]
    span: Span
    bucket: int


class Engine:
    """Runs jobs to outcomes on one model.

    Args:
        model: loaded, allocated and captured for max_batch slots.
        jobs: where rows come from.
        sink: takes every outcome that is not retried; may block to slow the engine down.
        retry: gives the next attempt of a job that ended for a reason, or None to accept it.
        chore: other work on the device, done between two launches of frames.
        is_int16: turn samples into 16-bit numbers on the device.
    """

    def __init__(
        self,
        model: SpeechModel,
        device: torch.device,
        max_batch: int,
        jobs: JobQueue,
        sink: Callable[[Outcome], None],
        retry: Callable[[Job, str], Job | None],
        window: int = 1024,
        chore: Callable[[], None] | None = None,
        is_int16: bool = False,
    ) -> None:
        self.model = model
        self.device = device
        self.jobs = jobs
        self.sink = sink
        self.retry = retry
        self.chore = chore
        self.is_int16 = is_int16
        self.busy = BusyMeter(device)
        self.scheduler: Scheduler[Job] = Scheduler(max_batch, window)
        self.stop = threading.Event()
        self.is_async = device.type == "cuda"
        self.poll_frames = POLL_FRAMES if self.is_async else 1
        self.vocoder_rows = VOCODER_ROWS if self.is_async else 1
        self.steps = 0  # frames stepped, whatever the bucket
        self.row_steps = 0  # frames times live rows
        self.padded_steps = 0  # frames times bucket
        self.shrinks = 0
        self._ready: list[Outcome] = []  # finished, waiting for the vocoder; codes on the device

    def run(self) -> None:
        """Work until the queue is dry and every row has ended, or until `stop` is set.

        Raises:
            StoppedEarly: not even one row fits into memory.
        """
        flight: Flight | None = None
        while not self.stop.is_set():
            if self.chore is not None:
                self.chore()
            self._fill_window()
            if self.scheduler.is_done and flight is None and self.jobs.is_dry:
                break
            try:
                flight = self._turn(flight)
            except torch.OutOfMemoryError as error:
                flight = None
                self._shrink(error)
            self._vocode(is_last=not self.scheduler.num_live and flight is None)
        self._vocode(is_last=True)
        self.busy.end()

    def _fill_window(self) -> None:
        """Take what has been planned. Where nobody speaks, wait for rows to come."""
        scheduler = self.scheduler
        deadline_s = time.perf_counter() + START_S
        while scheduler.has_room and not self.jobs.is_dry:
            wait_s = 0.0
            if not scheduler.num_live and not scheduler.num_waiting:
                wait_s = START_S
            elif not scheduler.num_live and self.is_async:
                # Rows of the first batch that come a little later would start one by one.
                is_full = scheduler.num_waiting >= scheduler.max_batch
                wait_s = 0.0 if is_full else deadline_s - time.perf_counter()
            job = self.jobs.take(max(0.0, wait_s))
            if job is None:
                break
            scheduler.offer(job, job.estimated_frames)

    def _turn(self, previous: Flight | None) -> Flight | None:
        """Admit, compact, launch frames, and read the frames launched a turn ago."""
        self._admit()
        if self.jobs.is_dry and not self.scheduler.num_waiting:
            self.busy.end_steady()
        moves = self.scheduler.compact(self.jobs.is_dry)
        if moves:
            self.model.move([source for source, _ in moves], [target for _, target in moves])
        current = self._launch() if self.scheduler.num_live else None
        if not self.is_async:
            previous, current = current, None
        if previous is not None:
            self._collect(previous)
        return current

    def _admit(self) -> None:
        admitted = self.scheduler.admit()
        if not admitted:
            return
        self.busy.start()
        now = time.perf_counter()
        span = Span(self.device)
        self.model.prefill([job.prompt for job, _ in admitted], [slot for _, slot in admitted])
        self.busy.add("prefill", span.end())
        for job, _ in admitted:
            job.admitted_s = now
            job.prefill = (span, len(admitted))

    def _launch(self) -> Flight:
        bucket, live = self.scheduler.bucket, self.scheduler.live
        span = Span(self.device)
        self.model.decode_frames(bucket, self.poll_frames)
        self.busy.add("frames", span.end())
        self.steps += self.poll_frames
        self.row_steps += self.poll_frames * len(live)
        self.padded_steps += self.poll_frames * bucket
        return Flight(self.model.poll(), live, span, bucket)

    def _collect(self, flight: Flight) -> None:
        """Take out the rows a flight has finished, unless they were taken out before."""
        present = {job: slot for slot, job in self.scheduler.live.items()}
        slots = [slot for slot, job in flight.slots.items() if job in present]
        statuses = self.model.status(flight.poll, slots)
        share_ms = flight.span.milliseconds() / max(1, len(flight.slots))
        ended: dict[str, list[int]] = {}  # by reason
        for slot, status in zip(slots, statuses, strict=True):
            job = flight.slots[slot]
            job.decode_ms += share_ms
            job.bucket = max(job.bucket, flight.bucket)
            if status.is_finished:
                self._finish(job, present[job], status.finish_reason, status.frames)
                ended.setdefault(status.finish_reason, []).append(present[job])
        for reason, freed in ended.items():
            self.model.release(freed, is_failed=reason == "nan")

    def _finish(self, job: Job, slot: int, reason: str, frames: int) -> None:
        """Retry a row, or keep its codes for the vocoder; the caller clears the slot."""
        again = self.retry(job, reason)
        outcome = Outcome(job, reason, frames)
        if reason != "nan":
            outcome.codes = self.model.codes(slot, frames)
        elif job.runaway is not None:
            outcome = job.runaway
        outcome.attempts = job.attempt
        # Last, so that a row whose codes find no memory still has its slot and starts again.
        self.scheduler.finish(slot)
        if again is not None:
            again.runaway = outcome if outcome.codes is not None else None
            self.scheduler.offer(again, again.estimated_frames, is_urgent=True)
        else:
            self._ready.append(outcome)

    def _vocode(self, is_last: bool) -> None:
        """Decode what is ready, a full batch at a time; all of it when nothing else is coming."""
        while self._ready and (is_last or len(self._ready) >= self.vocoder_rows):
            batch = self._ready[: self.vocoder_rows]
            self._ready = self._ready[self.vocoder_rows :]
            for outcome in self._decode(batch):
                self.sink(outcome)

    def _decode(self, batch: list[Outcome]) -> list[Outcome]:
        speakable = [outcome for outcome in batch if outcome.codes is not None]
        codes = [outcome.codes for outcome in speakable if outcome.codes is not None]
        if not codes:
            return batch
        references = [outcome.job.reference_codes for outcome in speakable]
        has_reference = any(reference is not None for reference in references)
        try:
            span = Span(self.device)
            waves = self.model.decode_audio(codes, references if has_reference else None)
            self.busy.add("vocoder", span.end())
            samples, is_bad = self._samples_to_host(waves)
            on_host = list(zip(speakable, samples, is_bad, self._to_host(codes), strict=True))
        except torch.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            if len(batch) == 1:
                batch[0].reason = f"no memory to decode its audio: {first_line(error)}"
                batch[0].codes = None
                return batch
            half = len(batch) // 2
            return self._decode(batch[:half]) + self._decode(batch[half:])
        total = max(1, sum(outcome.frames for outcome in speakable))
        for outcome, wave, is_bad_wave, row_codes in on_host:
            outcome.samples, outcome.is_bad, outcome.codes = wave, is_bad_wave, row_codes
            outcome.vocoder, outcome.vocoder_share = span, outcome.frames / total
        copied = Span(self.device).end()
        for outcome in speakable:
            outcome.copied = copied
        return batch

    def _samples_to_host(
        self, waves: list[torch.Tensor]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
        """Start the copy of all rows' samples, as the run wants them."""
        lengths = [len(wave) for wave in waves]
        if not self.is_int16 or not all(lengths):
            return self._to_host(waves), [None] * len(waves)
        joined = torch.cat(waves)
        flags = self._copy(has_bad_samples(joined, lengths))
        return list(torch.split(self._copy(to_int16(joined)), lengths)), list(flags.unbind())

    def _to_host(self, rows: list[torch.Tensor]) -> list[torch.Tensor]:
        """Start one pinned copy of all rows; they are there when the span after it has ended."""
        if rows[0].device.type != "cuda":
            return rows
        return list(torch.split(self._copy(torch.cat(rows)), [len(row) for row in rows]))

    @staticmethod
    def _copy(values: torch.Tensor) -> torch.Tensor:
        if values.device.type != "cuda":
            return values
        host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
        return host.copy_(values, non_blocking=True)

    def _shrink(self, error: torch.OutOfMemoryError) -> None:
        """Step down to half the slots; every live row starts again, with the same draws."""
        if self.scheduler.max_batch == 1:
            self._vocode(is_last=True)
            raise StoppedEarly(
                f"the device has no memory for even one row: {first_line(error)}",
                remedy="lower --max-seconds, use a smaller model or free the device",
            ) from None
        slots = self.scheduler.max_batch
        rows = self.scheduler.shrink()
        self.shrinks += 1
        log.warning(
            "out of device memory; going on with %d rows at a time", self.scheduler.max_batch
        )
        torch.cuda.empty_cache()
        self.model.release(list(range(slots)))
        for job in rows:
            self.scheduler.offer(job, job.estimated_frames, is_urgent=True)


def first_line(error: BaseException) -> str:
    """The first line of an exception's text, or its type."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
