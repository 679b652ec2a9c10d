"""The vocoder's queue: finished rows wait until they make a good batch, are decoded on a separate
stream, and are passed on while their copies to the host are in progress.

On a CPU every row is decoded alone, in a `VocoderThread` next to the frames. If it is slower than
the frames, or no frames are left, the engine's thread decodes rows too. The audio does not depend
on the thread: PyTorch's operators use one thread for a row, a setting of each calling thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from kernels.launch.dispatch import KernelFailed
from models.device.memory import in_halves
from models.device.spans import DeviceSpan
from models.device.streams import WorkStreams
from models.device.threads import limited_threads
from tts_cli.engine.busy import BusyMeter
from tts_cli.engine.kernels import with_fallback
from tts_cli.engine.pieces import NOT_A_SAMPLE, Attempt
from tts_cli.engine.stored_codes import decode, read_codes
from tts_cli.errors import first_line
from tts_cli.store.entry import JournalEntry
from tts_cli.store.reencode import Decode
from tts_cli.store.sources import Array, AudioSource

if TYPE_CHECKING:
    from models.slots.model import SpeechModel

SCALE = 32767.0
MAX_WAITING = 256  # else thousands of short rows would wait to fill a batch


def decoder_of(model: SpeechModel) -> Decode:
    """Return a function that decodes the codes of a folder."""
    num_codes = getattr(model, "num_entries", None)

    def decoded(source: AudioSource, take: JournalEntry, is_int16: bool) -> Array:
        codes = read_codes(source, take, model.info.num_codebooks, num_codes)
        return with_fallback(partial(decode, codes, take, model, is_int16), model)

    return decoded


class VocoderQueue:
    """Decode the codes of attempts into samples. Only the engine's thread uses it.

    Args:
        busy: records the spans of the vocoder.
        sink: takes every attempt; may block. On a CPU the vocoder thread calls it as well.
        is_int16: convert samples to 16-bit numbers on the device.
    """

    def __init__(
        self,
        model: SpeechModel,
        device: torch.device,
        streams: WorkStreams,
        busy: BusyMeter,
        sink: Callable[[Attempt], None],
        is_int16: bool = False,
    ) -> None:
        self.model = model
        self.device = device
        self.streams = streams
        self.busy = busy
        self.sink = sink
        self.is_int16 = is_int16
        self.is_patient = device.type == "cuda"  # waits for a good batch
        self.waiting: list[Attempt] = []  # the oldest first; codes on the device
        self.beside: VocoderThread | None = None
        if model.decodes_beside:
            self.beside = VocoderThread(self._hand_on)
        # Tensors that the vocoder reads, until it is done: cheaper than recording streams of each.
        self.read: deque[tuple[DeviceSpan, list[Tensor]]] = deque()

    def add(self, attempt: Attempt) -> None:
        if self.beside is not None:
            self.beside.add(attempt)
        else:
            self.waiting.append(attempt)

    def run(self, is_last: bool) -> None:
        """Decode rows that make a good batch; all rows if `is_last`. After KernelFailed, the rows
        of the batch are back in the queue. Also raises the errors of the vocoder thread.
        """
        while self.read and self.read[0][0].is_over():
            self.read.popleft()
        if self.beside is not None:
            self.beside.run(is_last)
        while batch := self._take(is_last):
            self._hand_on(batch)

    def end(self) -> None:
        """End the vocoder thread. Its rows are passed on."""
        if self.beside is not None:
            self.beside.end()

    def _hand_on(self, batch: list[Attempt]) -> None:
        """Decode the rows that have codes, and pass on all of them."""
        speakable = [attempt for attempt in batch if attempt.codes is not None]
        try:
            if speakable:
                in_halves(speakable, self._decode, _give_up)
        except KernelFailed:
            self.waiting[:0] = batch  # to be decoded without that kernel
            raise
        for attempt in batch:
            self.sink(attempt)

    def _take(self, is_last: bool) -> list[Attempt]:
        waiting = self.waiting
        silent = [index for index, attempt in enumerate(waiting) if attempt.codes is None]
        if not self.is_patient:
            chosen = [0][: len(waiting)]
        elif silent:
            chosen = silent
        else:
            chosen = self.model.choose_audio(
                [attempt.frames for attempt in waiting],
                [attempt.num_reference_frames for attempt in waiting],
            )
            if not chosen and (is_last or len(waiting) > MAX_WAITING):
                chosen = list(range(len(waiting)))
        taken = set(chosen)
        self.waiting = [attempt for index, attempt in enumerate(waiting) if index not in taken]
        return [waiting[index] for index in chosen]

    def _decode(self, attempts: list[Attempt]) -> str | None:
        """Queue the decoding of rows and the copies to the host. Return an error, or None."""
        codes = [attempt.codes for attempt in attempts if attempt.codes is not None]
        references = [attempt.reference_codes for attempt in attempts]
        fronts = [reference for reference in references if reference is not None]
        try:
            with self.streams.vocoder():
                copied = DeviceSpan(self.device, sleeps=True)
                try:
                    span = DeviceSpan(self.device)
                    waves = self.model.decode_audio(codes, references if fronts else None)
                    span.end()
                    if self.beside is None:
                        self.busy.add(span)
                    on_host = zip(attempts, self._to_host(waves), self._to_host(codes), strict=True)
                finally:
                    self.read.append((copied.end(), [*codes, *fronts]))
        except torch.OutOfMemoryError as error:
            return f"there is not enough memory to decode its audio: {first_line(error)}"
        total = max(1, sum(attempt.frames for attempt in attempts))
        for attempt, wave, row_codes in on_host:
            attempt.samples, attempt.codes = wave, row_codes
            attempt.vocoder, attempt.vocoder_share = span, attempt.frames / total
            attempt.copied = copied
        return None

    def _to_host(self, rows: list[Tensor]) -> list[Tensor]:
        """Start one pinned copy of all rows. It is complete when the span around it has ended."""
        is_wanted = self.is_int16 and rows[0].is_floating_point()
        if rows[0].device.type != "cuda":
            return [to_int16(row) for row in rows] if is_wanted else rows
        joined = torch.cat(rows)
        if is_wanted:
            joined = to_int16(joined)
        host = torch.empty(joined.shape, dtype=joined.dtype, pin_memory=True)
        return list(torch.split(host.copy_(joined, non_blocking=True), [len(row) for row in rows]))


def _give_up(attempt: Attempt, reason: str) -> None:
    """Fail a row whose audio does not fit into memory even alone."""
    attempt.trouble, attempt.finish, attempt.codes = reason, None, None


def to_int16(samples: Tensor) -> Tensor:
    """Convert float32 samples to int16: clip to [-1, 1], scale by 32767, round to even.

    It runs on the device before the copy to the host, which then has half the bytes. Equals
    `audio.file.to_int16` bit for bit, but values that are not finite become NOT_A_SAMPLE.
    """
    scaled = (samples.clamp(-1, 1) * SCALE).round_()
    return scaled.masked_fill_(samples.isfinite().logical_not_(), NOT_A_SAMPLE).to(torch.int16)


MAX_IN_THREAD = 4  # rows that wait; a stopped run waits for these


class VocoderThread:
    """Decode rows one by one, in the order in which they finished. Only the engine's thread uses
    it. `decode` also passes rows on; both threads call it, concurrently.
    """

    def __init__(self, decode: Callable[[list[Attempt]], None]) -> None:
        self._decode = decode
        self._changed = threading.Condition()  # guards the fields below
        self._waiting: deque[Attempt] = deque()  # the oldest first
        self._has_row = False  # the thread decodes a row
        self._is_over = False
        self._error: BaseException | None = None  # error that ended the thread
        self._thread: threading.Thread | None = None  # started with the first row

    def add(self, attempt: Attempt) -> None:
        with self._changed:
            self._waiting.append(attempt)
            self._changed.notify_all()

    def run(self, is_last: bool) -> None:
        """Decode the oldest rows here while more than MAX_IN_THREAD wait. With `is_last`, decode
        rows in both threads, and return when all are passed on.

        Raises any error of `decode`, in either thread. The row is then lost, and after an error in
        the vocoder thread all waiting rows.
        """
        if self._thread is None and self._waiting and not is_last:
            self._thread = threading.Thread(target=self._work, name="vocoder", daemon=True)
            self._thread.start()
        while (attempt := self._next_here(is_last)) is not None:
            self._decode([attempt])

    def end(self) -> None:
        """Let the thread decode all waiting rows, and wait for its end. Also called after an error
        in the engine's thread, because these rows had finished before.
        """
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _next_here(self, is_last: bool) -> Attempt | None:
        with self._changed:
            if is_last and not self._waiting:
                self._changed.wait_for(lambda: not self._has_row)
            if self._error is not None:
                raise self._error
            is_mine = len(self._waiting) > (0 if is_last else MAX_IN_THREAD)
            return self._waiting.popleft() if is_mine else None

    def _next_there(self) -> Attempt | None:
        """Wait for the vocoder thread's next row. None is the end."""
        with self._changed:
            self._has_row = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or self._is_over)
            self._has_row = bool(self._waiting)
            return self._waiting.popleft() if self._has_row else None

    def _work(self) -> None:
        try:
            with limited_threads(1):
                while (attempt := self._next_there()) is not None:
                    self._decode([attempt])
        except BaseException as error:
            with self._changed:
                self._error, self._has_row = error, False
                self._changed.notify_all()
