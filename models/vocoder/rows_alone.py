"""Rows of codes to rows of samples: chunks, buckets and graphs around a vocoder.

Long rows are cut into the checkpoint's chunks with left context, as the official decoder does.
Chunks of similar length share a batch; a batch is padded to a (batch, frames) bucket on the right,
which a causal vocoder does not notice, and the pad is cut off exactly. On a CPU every chunk runs
alone at its own length.

A row that clones a voice has reference frames in front whose samples nobody hears. They are part of
the chunks, because the row's own frames attend to them; but most of a vocoder's work comes after
attention, and that part runs over the frames that are kept and the few its convolutions reach back.
Where attention looks back further than a chunk's context, long rows are decoded that way too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from models.device.buckets import batch_buckets, choose_bucket, frame_buckets, next_power_of_two
from models.device.graphs import Capturer, GraphRunner
from models.device.to_device import to_device
from models.vocoder.chunks import Chunk, plan_chunks

BATCH_FRAMES = 4096  # padded frames of one vocoder batch: bounds its activations
MAX_BATCH = 32

Bucket = tuple[int, int]  # batch, frames


class Vocoder(Protocol):
    """Codes (B, K, F) to samples (B, F * samples_per_frame), causal."""

    samples_per_frame: int
    dtype: torch.dtype  # of latents
    latent_dim: int
    context_frames: int  # latent frames before its own that a frame's samples depend on

    def parameters(self) -> Iterator[Tensor]:
        """Its weights."""
        ...

    def __call__(self, codes: Tensor) -> Tensor:
        """Decode a padded batch: `render` of `latents`."""
        ...

    def latents(self, codes: Tensor) -> Tensor:
        """(B, F, latent_dim): all that looks further back than context_frames."""
        ...

    def render(self, latents: Tensor) -> Tensor:
        """Samples of latents."""
        ...


@dataclass(frozen=True)
class Job:
    """One chunk of one row."""

    row: int
    chunk: Chunk
    kept: int  # of the chunk's last frames: those before them are context or reference


class ChunkedVocoder:
    """A vocoder behind buckets.

    Args:
        capturer: records one graph a bucket; None runs the same buckets eagerly.
        use_buckets: pad to buckets; off on a CPU, where padding is wasted work.
        renders_windows: the left context of a chunk counts for its latents only, and samples are
            made of the chunk alone. With a left context as long as rows are, chunks are exact.
    """

    def __init__(
        self,
        vocoder: Vocoder,
        num_codebooks: int,
        chunk_frames: int,
        left_context: int,
        device: torch.device,
        capturer: Capturer | None,
        use_buckets: bool | None = None,
        renders_windows: bool = False,
    ) -> None:
        self.vocoder = vocoder
        self.num_codebooks = num_codebooks
        self.chunk_frames, self.left_context = chunk_frames, left_context
        self.device = device
        self.use_buckets = device.type == "cuda" if use_buckets is None else use_buckets
        self.renders_windows = renders_windows
        self.frame_buckets = frame_buckets(chunk_frames, left_context)
        self.batch_limit = MAX_BATCH
        self.runner: GraphRunner[Bucket] = GraphRunner("vocoder", self._run, capturer)
        self.fronts: GraphRunner[Bucket] = GraphRunner("latents", self._run_latents, capturer)
        self.renderer: GraphRunner[Bucket] = GraphRunner("render", self._render, capturer)
        self._inputs: dict[Bucket, Tensor] = {}
        self._latents: dict[Bucket, Tensor] = {}

    def capture(self, max_batch: int, max_frames: int, max_reference_frames: int = 0) -> None:
        """Keep to batches of up to max_batch from now on, and capture the buckets that rows of up
        to max_frames frames can need.

        Args:
            max_reference_frames: the longest reference in front of a row; 0 where none is.
        """
        self.batch_limit = min(MAX_BATCH, next_power_of_two(max_batch))
        is_cut = max_frames > self.chunk_frames
        longest = max_frames
        if is_cut:
            longest = self.chunk_frames
            if not self.renders_windows:
                longest += self.left_context
        self._capture(self.runner, longest, self.frame_buckets)
        if max_reference_frames or (is_cut and self.renders_windows):
            whole = max_frames + max_reference_frames
            if whole > self.chunk_frames:
                longest = self.chunk_frames + self.left_context
                whole = min(whole, longest) if self.renders_windows else longest
            fronts = self.front_buckets
            if not max_reference_frames:  # only rows of several chunks come this way
                fronts = [frames for frames in fronts if frames > self.chunk_frames]
            self._capture(self.fronts, whole, fronts)
            window = min(max_frames, self.chunk_frames) + self.vocoder.context_frames
            self._capture(self.renderer, window, self.window_buckets)

    @cached_property
    def window_buckets(self) -> list[int]:
        """Buckets of a row behind a reference: its frames and what the first looks back on."""
        whole = [frames for frames in self.frame_buckets if frames <= self.chunk_frames]
        return [frames + self.vocoder.context_frames for frames in whole]

    @cached_property
    def front_buckets(self) -> list[int]:
        """Buckets of latents: where whole rows are in front of a chunk, powers of two as well."""
        if not self.renders_windows:
            return self.frame_buckets
        buckets, size = set(self.frame_buckets), next_power_of_two(self.chunk_frames)
        while size < max(self.frame_buckets):
            buckets.add(size)
            size *= 2
        return sorted(buckets)

    def _capture(self, runner: GraphRunner[Bucket], longest: int, buckets: list[int]) -> None:
        ceiling = choose_bucket(longest, buckets)
        keys = [
            (batch, frames)
            for frames in buckets
            if frames <= ceiling
            for batch in batch_buckets(self.max_batch(frames))
        ]
        runner.capture(keys, size=lambda key: key[0] * key[1])

    def max_batch(self, frames: int) -> int:
        """Rows of this many frames that one batch takes: a power of two."""
        return min(self.batch_limit, 1 << max(1, BATCH_FRAMES // frames).bit_length() - 1)

    def decode(
        self, codes: list[Tensor], references: list[Tensor | None] | None = None
    ) -> list[Tensor]:
        """Each (F, K) int64 codes to (F * samples_per_frame,) float32 samples, on the device.

        Args:
            references: (R, K) codes decoded in front of a row's own and cut off again, or None.
        """
        fronts = [None] * len(codes) if references is None else references
        if len(fronts) != len(codes):
            raise ValueError(f"{len(codes)} rows, but {len(fronts)} references")
        rows = [
            row if front is None else torch.cat([_beside(row, front), row])
            for row, front in zip(codes, fronts, strict=True)
        ]
        lengths = [0 if front is None else len(front) for front in fronts]
        whole, tails = self._jobs([len(row) for row in codes], lengths)
        pieces = self._pieces(rows, whole, tails)
        parts: list[list[Tensor]] = [[] for _ in codes]
        for job in sorted([*whole, *tails], key=lambda job: (job.row, job.chunk.start)):
            parts[job.row].append(pieces[job])
        empty = torch.zeros(0, device=self.device)
        return [empty if not row else row[0] if len(row) == 1 else torch.cat(row) for row in parts]

    def choose(self, frames: list[int], references: list[int]) -> list[int]:
        """Which of the rows that wait to be decoded, the oldest first, make a good batch: indices
        in their order; none where it is better to wait for more.

        Args:
            references: frames in front of each row; 0 where none are.
        """
        return list(range(len(frames)))

    def _jobs(self, frames: list[int], references: list[int]) -> tuple[list[Job], list[Job]]:
        """Chunks of rows of these many frames of their own: those decoded whole, and tails."""
        jobs = [
            Job(index, chunk, chunk.end - max(chunk.start, front))
            for index, (count, front) in enumerate(zip(frames, references, strict=True))
            for chunk in plan_chunks(front + count, self.chunk_frames, self.left_context)
            if chunk.end > front
        ]
        tails = [
            job
            for job in jobs
            if references[job.row] or (self.renders_windows and job.chunk.context)
        ]
        apart = set(tails)
        return [job for job in jobs if job not in apart], tails

    def _pieces(self, rows: list[Tensor], whole: list[Job], tails: list[Job]) -> dict[Job, Tensor]:
        """Samples of the kept frames of every job; of `tails` only those are rendered."""
        pieces: dict[Job, Tensor] = {}
        for batch in self._batches(whole, _num_frames, self.frame_buckets):
            pieces.update(self._decode_batch(rows, batch))
        pieces.update(self._decode_tails(rows, tails))
        return pieces

    def _batches(
        self, jobs: list[Job], size: Callable[[Job], int], buckets: list[int]
    ) -> list[list[Job]]:
        """Jobs of one bucket together, the largest first."""
        if not self.use_buckets:
            return [[job] for job in jobs]
        batches: list[list[Job]] = []
        frames = 0
        for job in sorted(jobs, key=size, reverse=True):
            bucket = choose_bucket(size(job), buckets)
            if bucket != frames or len(batches[-1]) == self.max_batch(frames):
                batches.append([])
                frames = bucket
            batches[-1].append(job)
        return batches

    def _key(self, batch: list[Job], size: Callable[[Job], int], buckets: list[int]) -> Bucket:
        frames = max(size(job) for job in batch)
        if self.use_buckets:
            return next_power_of_two(len(batch)), choose_bucket(frames, buckets)
        self._inputs.clear()
        self._latents.clear()
        return len(batch), frames

    def _fill(self, rows: list[Tensor], batch: list[Job], buckets: list[int]) -> Bucket:
        """Put the codes of a batch into its static input."""
        key = self._key(batch, _num_frames, buckets)
        inputs = self._input(key).zero_()
        for index, job in enumerate(batch):
            chunk = job.chunk
            inputs[index, :, : chunk.num_frames] = rows[job.row][chunk.first : chunk.end].T
        return key

    def _decode_batch(self, rows: list[Tensor], batch: list[Job]) -> dict[Job, Tensor]:
        samples = self.runner.run(self._fill(rows, batch, self.frame_buckets))
        return {
            job: self._last(samples[index], job.chunk.num_frames, job.kept)
            for index, job in enumerate(batch)
        }

    def _decode_tails(self, rows: list[Tensor], jobs: list[Job]) -> dict[Job, Tensor]:
        """Latents of whole chunks, but samples only of the frames that are kept.

        Chunks of a row that begin at the same frame share the latents of the longest.
        """
        latents: dict[Job, Tensor] = {}
        mates = longest_of_each(jobs)
        for batch in self._batches(list(mates), _num_frames, self.front_buckets):
            found = self.fronts.run(self._fill(rows, batch, self.front_buckets))
            for index, front in enumerate(batch):
                for job in mates[front]:
                    end = job.chunk.num_frames
                    latents[job] = found[index, end - self._window(job) : end].clone()
        pieces: dict[Job, Tensor] = {}
        for batch in self._batches(jobs, self._window, self.window_buckets):
            key = self._key(batch, self._window, self.window_buckets)
            inputs = self._latent_input(key).zero_()
            for index, job in enumerate(batch):
                inputs[index, : self._window(job)] = latents.pop(job)
            samples = self.renderer.run(key)
            for index, job in enumerate(batch):
                pieces[job] = self._last(samples[index], self._window(job), job.kept)
        return pieces

    def _window(self, job: Job) -> int:
        """Latent frames that the samples of a job's kept frames depend on."""
        return min(job.chunk.num_frames, job.kept + self.vocoder.context_frames)

    def _last(self, samples: Tensor, frames: int, kept: int) -> Tensor:
        """Samples of the last `kept` of a row's `frames` frames, as a copy: the output they are in
        is static.
        """
        width = self.vocoder.samples_per_frame
        return samples[(frames - kept) * width : frames * width].clone()

    def _input(self, key: Bucket) -> Tensor:
        if key not in self._inputs:
            shape = (key[0], self.num_codebooks, key[1])
            self._inputs[key] = torch.zeros(shape, dtype=torch.int64, device=self.device)
        return self._inputs[key]

    def _latent_input(self, key: Bucket) -> Tensor:
        if key not in self._latents:
            shape, dtype = (*key, self.vocoder.latent_dim), self.vocoder.dtype
            self._latents[key] = torch.zeros(shape, dtype=dtype, device=self.device)
        return self._latents[key]

    def _run(self, key: Bucket) -> Tensor:
        return self.vocoder(self._input(key))

    def _run_latents(self, key: Bucket) -> Tensor:
        return self.vocoder.latents(self._input(key))

    def _render(self, key: Bucket) -> Tensor:
        return self.vocoder.render(self._latent_input(key))


def _beside(row: Tensor, front: Tensor) -> Tensor:
    """A reference on its row's device, without waiting for what is queued there."""
    return front if front.device == row.device else to_device(front, row.device, front.dtype)


def longest_of_each(jobs: list[Job]) -> dict[Job, list[Job]]:
    """Chunks of a row that begin at the same frame, under the longest of them."""
    mates: dict[tuple[int, int], list[Job]] = {}
    for job in jobs:
        mates.setdefault((job.row, job.chunk.first), []).append(job)
    return {max(group, key=_num_frames): group for group in mates.values()}


def _num_frames(job: Job) -> int:
    return job.chunk.num_frames
