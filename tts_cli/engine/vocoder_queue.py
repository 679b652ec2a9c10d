"""Finished rows on their way to samples on the host: they wait for company, are decoded on a stream
of their own, and are handed on while their copies are still under way.

On a GPU everything from codes to the copy of the samples is queued on the vocoder's stream, beside
the frames of the rows that still speak (`models.device.streams`); the model itself just runs on
whatever stream is current. On a CPU there is one stream of work, and every row is decoded alone and
at once.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from models.base import SpeechModel
from models.device.memory import in_halves
from models.device.spans import Span
from models.device.streams import WorkStreams
from tts_cli.engine.busy import BusyMeter
from tts_cli.engine.job import Job
from tts_cli.errors import first_line

SCALE = 32767.0
MOST_WAITING = 256  # rows of a few frames each would gather by the thousand to fill a batch


class VocoderQueue:
    """Turns jobs with codes into jobs with samples. Belongs to the engine's thread.

    Args:
        busy: is told what the vocoder took.
        sink: takes every job; may block.
        is_int16: turn samples into 16-bit numbers on the device.
    """

    def __init__(
        self,
        model: SpeechModel,
        device: torch.device,
        streams: WorkStreams,
        busy: BusyMeter,
        sink: Callable[[Job], None],
        is_int16: bool = False,
    ) -> None:
        self.model = model
        self.device = device
        self.streams = streams
        self.busy = busy
        self.sink = sink
        self.is_int16 = is_int16
        self.is_patient = device.type == "cuda"  # waits for rows that make a good batch
        self.waiting: list[Job] = []  # the oldest first; codes on the device

    def add(self, job: Job) -> None:
        """Take in a row that has ended."""
        self.waiting.append(job)

    def run(self, is_last: bool) -> None:
        """Decode what makes a good batch; all there is when nothing else is coming."""
        while batch := self._take(is_last):
            speakable = [job for job in batch if job.codes is not None]
            if speakable:
                in_halves(speakable, self._decode, _give_up)
            for job in batch:
                self.sink(job)

    def _take(self, is_last: bool) -> list[Job]:
        """The jobs to hand on next."""
        waiting = self.waiting
        silent = [index for index, job in enumerate(waiting) if job.codes is None]
        if not self.is_patient:
            chosen = [0][: len(waiting)]
        elif silent:
            chosen = silent
        else:
            chosen = self.model.choose_audio(
                [job.frames for job in waiting], [job.num_reference_frames for job in waiting]
            )
            if not chosen and (is_last or len(waiting) > MOST_WAITING):
                chosen = list(range(len(waiting)))
        taken = set(chosen)
        self.waiting = [job for index, job in enumerate(waiting) if index not in taken]
        return [waiting[index] for index in chosen]

    def _decode(self, jobs: list[Job]) -> str | None:
        """Queue a batch; the reason if it finds no memory."""
        try:
            self._speak(jobs)
        except torch.OutOfMemoryError as error:
            return f"no memory to decode its audio: {first_line(error)}"
        return None

    def _speak(self, jobs: list[Job]) -> None:
        """Queue the samples of rows that have codes, and their way to the host."""
        codes = [job.codes for job in jobs if job.codes is not None]
        references = [job.reference_codes for job in jobs]
        fronts = [reference for reference in references if reference is not None]
        with self.streams.vocoder([*codes, *fronts]):
            span = Span(self.device)
            waves = self.model.decode_audio(codes, references if fronts else None)
            self.busy.add("vocoder", span.end())
            samples, is_bad = self._samples_to_host(waves)
            on_host = list(zip(jobs, samples, is_bad, self._to_host(codes), strict=True))
            copied = Span(self.device, sleeps=True).end()
        total = max(1, sum(job.frames for job in jobs))
        for job, wave, is_bad_wave, row_codes in on_host:
            job.samples, job.is_bad, job.codes = wave, is_bad_wave, row_codes
            job.vocoder, job.vocoder_share = span, job.frames / total
            job.copied = copied

    def _samples_to_host(self, waves: list[Tensor]) -> tuple[list[Tensor], list[Tensor | None]]:
        """Start the copy of all rows' samples, as the run wants them."""
        lengths = [len(wave) for wave in waves]
        if not self.is_int16 or not all(lengths):
            return self._to_host(waves), [None] * len(waves)
        joined = torch.cat(waves)
        flags = self._copy(has_bad_samples(joined, lengths))
        return list(torch.split(self._copy(to_int16(joined)), lengths)), list(flags.unbind())

    def _to_host(self, rows: list[Tensor]) -> list[Tensor]:
        """Start one pinned copy of all rows; they are there when the span after it has ended."""
        if rows[0].device.type != "cuda":
            return rows
        return list(torch.split(self._copy(torch.cat(rows)), [len(row) for row in rows]))

    @staticmethod
    def _copy(values: Tensor) -> Tensor:
        if values.device.type != "cuda":
            return values
        host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
        return host.copy_(values, non_blocking=True)


def _give_up(job: Job, reason: str) -> None:
    """A row whose audio finds no memory even alone."""
    job.reason, job.codes = reason, None


def to_int16(samples: Tensor) -> Tensor:
    """float32 samples to int16: clip to [-1, 1], scale by 32767, round to even.

    On the device, before the copy to the host: half the bytes, and nothing left to do for the
    threads that write files. The twin of `audio_file.to_int16`, bit for bit.

    What is not finite becomes any number: ask `has_bad_samples` first.
    """
    return (samples.clamp(-1, 1) * SCALE).round_().to(torch.int16)


def has_bad_samples(samples: Tensor, lengths: list[int]) -> Tensor:
    """(rows,) bool on the device: which of the rows lying one behind the other in `samples` (n,)
    hold values that are not finite. Rows are not empty.
    """
    ends = torch.tensor(lengths).cumsum(0)
    bad = (~samples.isfinite()).cumsum(0, dtype=torch.int32)
    if bad.device.type == "cuda":
        ends = ends.pin_memory().to(bad.device, non_blocking=True)
    at_end = bad[ends - 1]
    return at_end.diff(prepend=at_end.new_zeros(1)) > 0
