"""Rows of codes to rows of samples: chunks, buckets and graphs around a vocoder.

Long rows are cut into the checkpoint's chunks with left context, as the official decoder does.
Chunks of similar length share a batch; a batch is padded to a (batch, frames) bucket on the right,
which a causal vocoder does not notice, and the pad is cut off exactly. On a CPU every chunk runs
alone at its own length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from models.buckets import batch_buckets, choose_bucket, frame_buckets, next_power_of_two
from models.chunks import Chunk, plan_chunks
from models.graphs import Capturer, GraphRunner

BATCH_FRAMES = 4096  # padded frames of one vocoder batch: bounds its activations
MAX_BATCH = 32

Bucket = tuple[int, int]  # batch, frames


class Vocoder(Protocol):
    """Codes (B, K, F) to samples (B, F * samples_per_frame), causal."""

    samples_per_frame: int

    def parameters(self) -> Iterator[Tensor]:
        """Its weights."""
        ...

    def __call__(self, codes: Tensor) -> Tensor:
        """Decode a padded batch."""
        ...


@dataclass(frozen=True)
class Job:
    """One chunk of one row."""

    row: int
    chunk: Chunk


class ChunkedVocoder:
    """A vocoder behind buckets.

    Args:
        capturer: records one graph a bucket; None runs the same buckets eagerly.
        use_buckets: pad to buckets; off on a CPU, where padding is wasted work.
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
    ) -> None:
        self.vocoder = vocoder
        self.num_codebooks = num_codebooks
        self.chunk_frames, self.left_context = chunk_frames, left_context
        self.device = device
        self.use_buckets = device.type == "cuda" if use_buckets is None else use_buckets
        self.frame_buckets = frame_buckets(chunk_frames, left_context)
        self.batch_limit = MAX_BATCH
        self.runner: GraphRunner[Bucket] = GraphRunner("vocoder", self._run, capturer)
        self._inputs: dict[Bucket, Tensor] = {}

    def capture(self, max_batch: int, max_frames: int) -> None:
        """Keep to batches of up to max_batch from now on, and capture the buckets that rows of up
        to max_frames frames can need."""
        self.batch_limit = min(MAX_BATCH, next_power_of_two(max_batch))
        longest = max_frames
        if max_frames > self.chunk_frames:
            longest = self.chunk_frames + self.left_context
        ceiling = choose_bucket(longest, self.frame_buckets)
        keys = [
            (batch, frames)
            for frames in self.frame_buckets
            if frames <= ceiling
            for batch in batch_buckets(self.max_batch(frames))
        ]
        self.runner.capture(keys, size=lambda key: key[0] * key[1])

    def max_batch(self, frames: int) -> int:
        """Rows of this many frames that one batch takes: a power of two."""
        return min(self.batch_limit, 1 << max(1, BATCH_FRAMES // frames).bit_length() - 1)

    def decode(self, codes: list[Tensor]) -> list[Tensor]:
        """Each (F, K) int64 codes to (F * samples_per_frame,) float32 samples, on the device."""
        jobs = [
            Job(row, chunk)
            for row, row_codes in enumerate(codes)
            for chunk in plan_chunks(row_codes.shape[0], self.chunk_frames, self.left_context)
        ]
        pieces: dict[Job, Tensor] = {}
        for batch in self._batches(jobs):
            pieces.update(self._decode_batch(codes, batch))
        rows: list[list[Tensor]] = [[] for _ in codes]
        for job in jobs:
            rows[job.row].append(pieces[job])
        empty = torch.zeros(0, device=self.device)
        return [torch.cat(parts) if parts else empty for parts in rows]

    def _batches(self, jobs: list[Job]) -> list[list[Job]]:
        if not self.use_buckets:
            return [[job] for job in jobs]
        by_length = sorted(jobs, key=lambda job: job.chunk.num_frames, reverse=True)
        batches: list[list[Job]] = []
        frames = 0
        for job in by_length:
            bucket = choose_bucket(job.chunk.num_frames, self.frame_buckets)
            if bucket != frames or len(batches[-1]) == self.max_batch(frames):
                batches.append([])
                frames = bucket
            batches[-1].append(job)
        return batches

    def _decode_batch(self, codes: list[Tensor], batch: list[Job]) -> dict[Job, Tensor]:
        frames = max(job.chunk.num_frames for job in batch)
        key = (len(batch), frames)
        if self.use_buckets:
            key = (next_power_of_two(len(batch)), choose_bucket(frames, self.frame_buckets))
        if not self.use_buckets:
            self._inputs.clear()
        inputs = self._input(key).zero_()
        for index, job in enumerate(batch):
            chunk = job.chunk
            inputs[index, :, : chunk.num_frames] = codes[job.row][chunk.first : chunk.end].T
        samples = self.runner.run(key)
        width = self.vocoder.samples_per_frame
        return {
            # The output is static: the next batch overwrites it.
            job: samples[index, job.chunk.context * width : job.chunk.num_frames * width].clone()
            for index, job in enumerate(batch)
        }

    def _input(self, key: Bucket) -> Tensor:
        if key not in self._inputs:
            shape = (key[0], self.num_codebooks, key[1])
            self._inputs[key] = torch.zeros(shape, dtype=torch.int64, device=self.device)
        return self._inputs[key]

    def _run(self, key: Bucket) -> Tensor:
        return self.vocoder(self._input(key))
