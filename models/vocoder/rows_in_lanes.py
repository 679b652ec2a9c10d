"""A vocoder whose rows lie one behind the other in lanes, each lane shape a graph.

What `ChunkedVocoder` does with a bucket for every batch size and length, ten shapes do here, and
with next to no padding: rows of 62 to 187 frames cost a third more when each is padded to a power
of two. Lanes are long, so the GPU is as full with one as with a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import Tensor

from models.device.buckets import choose_bucket, next_power_of_two, round_up
from models.device.graphs import Capturer
from models.device.to_device import to_device
from models.vocoder.lane_plan import LaneBatch, choose_rows, plan_lanes
from models.vocoder.rows_alone import MAX_BATCH, Bucket, ChunkedVocoder, Job, longest_of_each

LANE_FRAMES = 1024
MAX_LANES = 4  # 4,096 frames of one batch: bounds its activations
LANE_BUCKETS = (64, 128, 192, 256, 384, 512, 768)  # of a last lane that is not full


class LaneVocoder(Protocol):
    """Codes (B, K, F) to samples (B, F * samples_per_frame), causal; rows may lie one behind the
    other in a batch row.
    """

    samples_per_frame: int
    dtype: torch.dtype  # of latents
    latent_dim: int
    context_frames: int  # latent frames before its own that a frame's samples depend on
    gap_frames: int  # frames of zeros that keep two rows apart

    def parameters(self) -> Iterator[Tensor]:
        """Its weights."""
        ...

    def __call__(self, codes: Tensor, positions: Tensor | None = None) -> Tensor:
        """Decode; positions (B, F) of each frame in its row, -1 in gaps."""
        ...

    def latents(self, codes: Tensor, positions: Tensor | None = None) -> Tensor:
        """(B, F, latent_dim): all that looks further back than context_frames."""
        ...

    def render(self, latents: Tensor, kept: Tensor | None = None) -> Tensor:
        """Samples of latents; kept (B, F) is false in gaps."""
        ...


class PackedVocoder(ChunkedVocoder):
    """A vocoder behind lanes; cuts long rows into chunks as its parent does.

    Args:
        capturer: records one graph a lane shape; None runs the same shapes eagerly.
        renders_windows: as its parent's. Latents of whole rows are then made in single lanes, as
            long as the longest row asks for.
    """

    vocoder: LaneVocoder

    def __init__(
        self,
        vocoder: LaneVocoder,
        num_codebooks: int,
        chunk_frames: int,
        left_context: int,
        device: torch.device,
        capturer: Capturer | None,
        renders_windows: bool = False,
    ) -> None:
        super().__init__(
            vocoder,
            num_codebooks,
            chunk_frames,
            left_context,
            device,
            capturer,
            use_buckets=True,
            renders_windows=renders_windows,
        )
        self._positions: dict[Bucket, Tensor] = {}
        self._size(LANE_FRAMES, MAX_LANES)

    def _size(self, num_frames: int, num_lanes: int) -> None:
        """Lanes are filled up to num_frames, and num_lanes of them decoded at once."""
        window = self.chunk_frames + self.vocoder.context_frames
        longest = window
        if not self.renders_windows:
            longest = max(self.chunk_frames + self.left_context, window)
        lane = LANE_FRAMES if longest <= LANE_FRAMES else round_up(longest, LANE_BUCKETS[0])
        buckets = sorted({*(b for b in LANE_BUCKETS if b < lane), lane})
        most = next((bucket for bucket in buckets if bucket >= num_frames), lane)
        self.lane_buckets = [bucket for bucket in buckets if bucket <= most]
        self.num_lanes = num_lanes

    def capture(self, max_batch: int, max_frames: int, max_reference_frames: int = 0) -> None:
        """Capture the lanes that up to max_batch rows of up to max_frames frames can need.

        Args:
            max_reference_frames: the longest reference in front of a row; 0 where none is.
        """
        rows = min(MAX_BATCH, next_power_of_two(max_batch))
        longest = whole = max_frames + max_reference_frames
        is_cut = longest > self.chunk_frames
        if is_cut:
            whole = min(whole, self.chunk_frames + self.left_context)
            longest = self.chunk_frames
            if not self.renders_windows:
                longest += self.left_context
        has_tails = max_reference_frames > 0 or (is_cut and self.renders_windows)
        if has_tails:
            window = min(max_frames, self.chunk_frames) + self.vocoder.context_frames
            longest = max(longest, window)
        total = rows * (longest + self.vocoder.gap_frames)
        self._size(max(longest, total), MAX_LANES)
        self.num_lanes = min(MAX_LANES, next_power_of_two(-(-total // self.lane_buckets[-1])))
        lanes = [1 << power for power in range(self.num_lanes.bit_length())]
        keys = [(count, self.lane_buckets[-1]) for count in lanes]
        keys += [(1, frames) for frames in self.lane_buckets[:-1]]
        runners = [self.runner, self.renderer] if has_tails else [self.runner]
        for runner in runners:
            runner.capture(keys, size=lambda key: key[0] * key[1])
        if has_tails and self.renders_windows:
            keys = [(1, frames) for frames in self._front_lanes(whole)]
        if has_tails:
            self.fronts.capture(keys, size=lambda key: key[0] * key[1])

    def choose(self, frames: list[int], references: list[int]) -> list[int]:
        """Rows that fill the lanes of the largest graph, once there are enough to choose from.

        On an H200 Fish Speech's vocoder made 2,046 s of audio a second in full batches of four
        lanes, and 1,780 to 1,835 with 32 rows at a time, whose last lanes run two, one and less.
        """
        lane, gap = self.lane_buckets[-1], self.vocoder.gap_frames
        if sum(frames) < (self.num_lanes + 1) * lane:  # asked often, and mostly too early
            return []
        whole, tails = self._jobs(frames, references)
        for jobs, size in ((whole, _num_frames), (tails, self._window)):
            chosen = choose_rows([size(job) for job in jobs], lane, self.num_lanes, gap)
            if chosen:
                return sorted({jobs[index].row for index in chosen})
        return []

    def _front_lanes(self, longest: int) -> list[int]:
        """Lengths of the single lanes for latents of whole rows of up to `longest` frames."""
        lanes = sorted({*LANE_BUCKETS, LANE_FRAMES, *self.front_buckets})
        return [frames for frames in lanes if frames <= choose_bucket(longest, lanes)]

    def _pieces(self, rows: list[Tensor], whole: list[Job], tails: list[Job]) -> dict[Job, Tensor]:
        pieces: dict[Job, Tensor] = {}
        for batch, jobs in self._plan(whole, _num_frames):
            self._put_codes(rows, batch, jobs)
            samples = self.runner.run(batch.key)
            pieces.update(self._take(samples, batch, jobs, _num_frames))
        latents: dict[Job, Tensor] = {}
        mates = longest_of_each(tails)
        for batch, fronts in self._plan_fronts(list(mates)):
            self._put_codes(rows, batch, fronts)
            found = self.fronts.run(batch.key)
            for place, front in zip(batch.places, fronts, strict=True):
                for job in mates[front]:
                    end = place.start + job.chunk.num_frames
                    latents[job] = found[place.lane, end - self._window(job) : end].clone()
        for batch, jobs in self._plan(tails, self._window):
            inputs = self._latent_input(batch.key).zero_()
            index = self._put_positions(batch, jobs, self._window)
            inputs.flatten(0, 1)[index] = torch.cat([latents.pop(job) for job in jobs])
            samples = self.renderer.run(batch.key)
            pieces.update(self._take(samples, batch, jobs, self._window))
        return pieces

    def _plan(
        self, jobs: list[Job], size: Callable[[Job], int]
    ) -> list[tuple[LaneBatch, list[Job]]]:
        """Batches of lanes, each with the jobs of its places."""
        return self._in_lanes(jobs, [size(job) for job in jobs], self.lane_buckets, self.num_lanes)

    def _plan_fronts(self, jobs: list[Job]) -> list[tuple[LaneBatch, list[Job]]]:
        """The same for latents alone."""
        if not self.renders_windows or not jobs:
            return self._plan(jobs, _num_frames)
        sizes = [_num_frames(job) for job in jobs]
        return self._in_lanes(jobs, sizes, self._front_lanes(max(sizes)), max_lanes=1)

    def _in_lanes(
        self, jobs: list[Job], sizes: list[int], buckets: list[int], max_lanes: int
    ) -> list[tuple[LaneBatch, list[Job]]]:
        batches = plan_lanes(sizes, buckets, max_lanes, self.vocoder.gap_frames)
        return [(batch, [jobs[place.row] for place in batch.places]) for batch in batches]

    def _put_positions(
        self, batch: LaneBatch, jobs: list[Job], size: Callable[[Job], int]
    ) -> Tensor:
        """Fill the static positions of a batch; returns where its frames are in the flat lanes."""
        frames = batch.num_frames
        starts = torch.tensor([place.lane * frames + place.start for place in batch.places])
        sizes = torch.tensor([size(job) for job in jobs])
        within = torch.arange(int(sizes.sum())) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
        index = starts.repeat_interleave(sizes) + within
        positions = torch.full((batch.num_lanes * frames,), -1)
        positions[index] = within
        static = self._position(batch.key)
        static.copy_(to_device(positions.view(batch.key), self.device))
        return to_device(index, self.device)

    def _put_codes(self, rows: list[Tensor], batch: LaneBatch, jobs: list[Job]) -> None:
        """Put the codes of a batch into its static input."""
        index = self._put_positions(batch, jobs, _num_frames)
        inputs = self._input(batch.key).zero_()
        codes = [rows[job.row][job.chunk.first : job.chunk.end] for job in jobs]
        inputs.flatten(0, 1)[index] = torch.cat(codes).to(self.device)

    def _take(
        self, samples: Tensor, batch: LaneBatch, jobs: list[Job], size: Callable[[Job], int]
    ) -> dict[Job, Tensor]:
        """Samples of the kept frames of every job, copied out of the static output at once."""
        width = self.vocoder.samples_per_frame
        kept = torch.tensor([job.kept for job in jobs])
        ends = torch.tensor(
            [
                place.lane * batch.num_frames + place.start + size(job)
                for place, job in zip(batch.places, jobs, strict=True)
            ]
        )
        within = torch.arange(int(kept.sum())) - kept.cumsum(0).repeat_interleave(kept)
        index = to_device(ends.repeat_interleave(kept) + within, self.device)
        frames = samples.view(-1, width)[index]
        counts = [job.kept for job in jobs]
        return {
            job: piece.flatten()
            for job, piece in zip(jobs, torch.split(frames, counts), strict=True)
        }

    def _input(self, key: Bucket) -> Tensor:
        """(lanes, frames, K): frames outermost, so that rows are put in at once."""
        if key not in self._inputs:
            shape = (*key, self.num_codebooks)
            self._inputs[key] = torch.zeros(shape, dtype=torch.int64, device=self.device)
        return self._inputs[key]

    def _position(self, key: Bucket) -> Tensor:
        if key not in self._positions:
            lane = torch.arange(key[1], device=self.device)
            self._positions[key] = lane.repeat(key[0], 1)
        return self._positions[key]

    def _run(self, key: Bucket) -> Tensor:
        return self.vocoder(self._input(key).transpose(1, 2), self._position(key))

    def _run_latents(self, key: Bucket) -> Tensor:
        return self.vocoder.latents(self._input(key).transpose(1, 2), self._position(key))

    def _render(self, key: Bucket) -> Tensor:
        return self.vocoder.render(self._latent_input(key), self._position(key) >= 0)


def _num_frames(job: Job) -> int:
    return job.chunk.num_frames
