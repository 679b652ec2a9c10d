"""The vocoder's layout on a GPU: rows one after the other in lanes, each lane shape with a graph.

One bucket per batch size and length would need 42 graphs instead of ten, and a third more work for
padding. Lanes are long, so one fills the GPU as well as a batch does.

With fixed shapes there is one shape of full lanes. A row's place in them does not matter to
convolutions, which sum the same numbers in the same order, but to attention, which reads keys in
blocks from the lane's first frame on. So latents of each row are made from the first frame of a
separate lane (`VocoderRunner.fix_shapes`), which is a fiftieth of the work.

A pass first allocates the memory of all its activations in one piece and frees it: its allocations
are then cut from that piece. Allocated one by one, each larger than the last, they would leave free
pieces too small for the next, and a graph would retain twice the memory in use at a time. Results
of a pass are copied out of that memory, so that the next pass finds it whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.device.beside import Beside
from models.device.buckets import choose_bucket, next_power_of_two, round_up
from models.device.graphs import Capturer, GraphRunner, take_workspace
from models.device.to_device import to_device
from models.vocoder.lane_plan import (
    LaneBatch,
    choose_rows,
    plan_fixed_lanes,
    plan_lanes,
    plan_rows_apart,
    share_lanes,
)
from models.vocoder.network import CodecDecoder
from models.vocoder.sizes import LANE_FRAMES

MAX_ROWS = 32  # of a batch, for the size of lanes: more wait for the next one
MAX_LANES = 4  # 4,096 frames of one batch: bounds its activations
LANE_BUCKETS = (64, 128, 192, 256, 384, 512, 768)  # of a last lane that is not full
# Batches of a shape that are worth capturing it; until then they run in the next larger captured
# shape, or in one full lane. On an H200 cuDNN takes 0.25 s to choose its kernels for a new shape,
# and a capture as long; a full lane takes 15 ms.
GRAPH_BATCHES = 16
FIXED_FRONT = 192  # frames of the shortest lanes for one row each; longer ones double it

Shape = tuple[int, int]  # lanes, frames


class Lanes:
    """Lanes on static buffers, used by one thread on one stream.

    Args:
        capturer: captures one graph per lane shape; None: the same shapes run eagerly.
        beside: runs everything but replays; None: the caller's thread.
    """

    def __init__(
        self, network: CodecDecoder, capturer: Capturer | None, beside: Beside | None = None
    ) -> None:
        self.network = network
        self.cut = network.cut
        self.device = network.device

        def runner(name: str, work: Callable[[Shape], Tensor]) -> GraphRunner[Shape]:
            return GraphRunner(name, work, capturer, beside=beside)

        self.whole = runner("vocoder", self._run)
        self.fronts = runner("latents", self._run_latents)
        self.renderer = runner("render", self._render)
        self.runners: list[GraphRunner[Any]] = [self.whole, self.fronts, self.renderer]
        self._positions: dict[Shape, Tensor] = {}
        self._buffers: dict[tuple[str, Shape], Tensor] = {}  # inputs and outputs of runners
        cut = self.cut
        longest = window = cut.chunk_frames + network.context_frames
        if not cut.renders_windows:
            longest = max(cut.chunk_frames + cut.left_context, window)
        self._longest = longest  # frames of a row or chunk with its context
        self._lane = max(LANE_FRAMES, round_up(longest, LANE_BUCKETS[0]))  # frames of a full lane
        self._front_shapes: list[Shape] = []  # of lanes with one row each, if shapes are fixed
        self.most_frames = MAX_LANES * self._lane  # of a batch
        self._size(LANE_FRAMES, MAX_LANES)

    def _size(self, num_frames: int, num_lanes: int) -> None:
        """Fill lanes up to num_frames, and decode num_lanes of them at a time."""
        lane = min(self._lane, self.most_frames)
        buckets = [*(bucket for bucket in LANE_BUCKETS if bucket < lane), lane]
        most = next((bucket for bucket in buckets if bucket >= num_frames), lane)
        self.lane_buckets = [bucket for bucket in buckets if bucket <= most]
        self.num_lanes = num_lanes

    def fix_shapes(self) -> None:
        """From now on, use one lane shape for all batches, and separate lanes for latents: in two
        lanes rows were not always equal on an H200, in four they were (`samples/reproducible.py`).
        """
        self.lane_buckets = self.lane_buckets[-1:]
        self.num_lanes = MAX_LANES
        most = self.cut.chunk_frames + self.cut.left_context
        powers = [FIXED_FRONT << power for power in range(most.bit_length())]
        lengths = [*(frames for frames in powers if frames < most), most]
        self._front_shapes = [
            (max(1, MAX_LANES * LANE_FRAMES // frames), frames) for frames in lengths
        ]

    @property
    def work_choices(self) -> list[int]:
        """Choices of the maximum of frames per batch, largest first; smaller ones are hardly
        slower: one to four full lanes, or half a lane if the longest row fits.
        """
        lanes = [self._lane << power for power in reversed(range(MAX_LANES.bit_length()))]
        if self._front_shapes:
            return lanes[:1]
        return [*lanes, self._lane // 2] if self._longest <= self._lane // 2 else lanes

    def use_work(self, most: int) -> None:
        """From now on, put at most `most` frames, one of the choices, into a batch."""
        assert most in self.work_choices, (most, self.work_choices)
        self.most_frames = most

    def work_bytes(self, most: int) -> int:
        """Return the device memory of graphs and eager passes of up to `most` frames, one of the
        choices, in addition to the graphs captured before.
        """
        # A shape without a graph runs outside of the graphs' pool: half as many lanes, or the next
        # shorter one.
        shorter = max(bucket for bucket in LANE_BUCKETS if bucket < most)
        eager = most // 2 if most > self._lane else shorter
        keys = [*self.whole.keys, *self.renderer.keys]
        held = max((lanes * frames for lanes, frames in keys), default=0)
        pool = self.network.work_bytes(most) if most > held else 0
        return pool + self.network.work_bytes(eager)

    @property
    def enough_frames(self) -> int:
        """Frames that must wait before a choice among them fills all lanes."""
        return (self.num_lanes + 1) * self.lane_buckets[-1]

    def announce(self, max_rows: int, longest: int, longest_front: int) -> None:
        """Announce the lane shapes of up to max_rows rows.

        Args:
            longest: frames of the longest row whose samples are made.
            longest_front: frames of the longest row that gets latents alone, or 0.
        """
        if self._front_shapes:
            self.renderer.announce([(self.num_lanes, self.lane_buckets[-1])])
            most = next(frames for _, frames in self._front_shapes if frames >= longest_front)
            self.fronts.announce([shape for shape in self._front_shapes if shape[1] <= most])
            return
        rows = min(MAX_ROWS, next_power_of_two(max_rows))
        total = rows * (longest + self.network.gap_frames)
        most_lanes = max(1, self.most_frames // self._lane)
        self._size(total, most_lanes)
        self.num_lanes = min(most_lanes, next_power_of_two(-(-total // self.lane_buckets[-1])))
        lanes = [1 << power for power in range(self.num_lanes.bit_length())]
        shapes = [(count, self.lane_buckets[-1]) for count in lanes]
        shapes += [(1, frames) for frames in self.lane_buckets[:-1]]
        usual = (1, self.lane_buckets[-1])
        self.whole.announce(shapes, usual)
        if not longest_front:
            return
        self.renderer.announce(shapes, usual)
        if self.cut.renders_windows:
            shapes = [(1, frames) for frames in self._front_buckets(longest_front)]
        self.fronts.announce(shapes)

    def choose(self, sizes: Sequence[int]) -> list[int]:
        """Choose rows that fill the lanes of the largest graph, once there are enough of them:
        11 to 15 % faster than batches of 32 rows (H200).
        """
        return choose_rows(sizes, self.lane_buckets[-1], self.num_lanes, self.network.gap_frames)

    def decode(self, rows: Sequence[Tensor], kept: Sequence[int]) -> list[Tensor]:
        """Decode rows of codes to the samples of their last `kept` frames."""
        return self._samples(self.whole, self._code_input, rows, kept)

    def latents(self, rows: Sequence[Tensor]) -> Iterator[tuple[int, Tensor]]:
        """Yield each row's number and its latents, which are static: valid until the next lanes. If
        windows are rendered, rows are whole: in single lanes, as long as the longest row needs.
        """
        sizes = [len(row) for row in rows]
        for batch in self._plan_latents(sizes):
            self._put(batch, rows, self._code_input(batch.key))
            found = self.fronts.run(batch.key)
            for place in batch.places:
                yield place.row, found[place.lane, place.start :][: sizes[place.row]]

    def render(self, windows: Sequence[Tensor], kept: Sequence[int]) -> list[Tensor]:
        """Render windows of latents to the samples of their last `kept` frames."""
        return self._samples(self.renderer, self._latent_input, windows, kept)

    def _samples(
        self,
        runner: GraphRunner[Shape],
        inputs: Callable[[Shape], Tensor],
        rows: Sequence[Tensor],
        kept: Sequence[int],
    ) -> list[Tensor]:
        waves: dict[int, Tensor] = {}
        sizes = [len(row) for row in rows]
        planned = self._plan(sizes)
        if not self._front_shapes:  # several batches may share larger lanes that have a graph
            shapes = [runner.pick(batch.key, 1, GRAPH_BATCHES) for batch in planned]
            planned = share_lanes(planned, shapes)
        for batch in planned:
            self._put(batch, rows, inputs(batch.key))
            waves |= self._take(runner.run(batch.key), batch, sizes, kept)
        return [waves[row] for row in range(len(rows))]

    def _plan(self, sizes: Sequence[int]) -> list[LaneBatch]:
        gap = self.network.gap_frames
        if self._front_shapes:
            return plan_fixed_lanes(sizes, self.lane_buckets[-1], self.num_lanes, gap)
        return plan_lanes(sizes, self.lane_buckets, self.num_lanes, gap)

    def _plan_latents(self, sizes: Sequence[int]) -> list[LaneBatch]:
        if self._front_shapes:
            return plan_rows_apart(sizes, self._front_shapes)
        buckets, max_lanes = self.lane_buckets, self.num_lanes
        if self.cut.renders_windows:
            buckets, max_lanes = self._front_buckets(max(sizes, default=0)), 1
        return plan_lanes(sizes, buckets, max_lanes, self.network.gap_frames)

    def _put(self, batch: LaneBatch, rows: Sequence[Tensor], inputs: Tensor) -> None:
        """Fill the static positions of a batch and its static input (lanes, frames, width), without
        PyTorch, because each of its calls lets other threads run, and with one copy to the device.
        """
        num_frames = batch.num_lanes * batch.num_frames
        positions = np.full(num_frames, -1)
        index = []
        for place in batch.places:
            size, start = len(rows[place.row]), place.lane * batch.num_frames + place.start
            positions[start : start + size] = np.arange(size)
            index.append(np.arange(start, start + size))
        numbers = to_device(np.concatenate([positions, *index]), self.device)
        self._position(batch.key).copy_(numbers[:num_frames].view(batch.key))
        content = torch.cat([rows[place.row] for place in batch.places]).to(self.device)
        inputs.zero_().flatten(0, 1)[numbers[num_frames:]] = content

    def _take(
        self, samples: Tensor, batch: LaneBatch, sizes: Sequence[int], kept: Sequence[int]
    ) -> dict[int, Tensor]:
        places = batch.places
        index = []
        counts = []
        for place in places:
            end = place.lane * batch.num_frames + place.start + sizes[place.row]
            index.append(np.arange(end - kept[place.row], end))
            counts.append(kept[place.row] * self.network.samples_per_frame)
        frames = samples.view(-1, self.network.samples_per_frame)
        found = frames[to_device(np.concatenate(index), self.device)]
        pieces = torch.split(found.flatten(), counts)
        return {place.row: piece for place, piece in zip(places, pieces, strict=True)}

    def _front_buckets(self, longest: int) -> list[int]:
        """Return the lengths of the single lanes for latents of whole rows of up to `longest`
        frames; all rows are longer than a chunk.
        """
        most = self.cut.chunk_frames + self.cut.left_context
        powers = [1 << power for power in range(LANE_FRAMES.bit_length(), most.bit_length())]
        lanes = sorted({*LANE_BUCKETS, LANE_FRAMES, *powers, most})
        lanes = [frames for frames in lanes if frames > self.cut.chunk_frames]
        return [frames for frames in lanes if frames <= choose_bucket(longest, lanes)]

    def _code_input(self, key: Shape) -> Tensor:
        """(lanes, frames, K): frames outermost, so that rows are written in one operation."""
        return self._buffer("codes", key, self.network.num_codebooks, torch.int64)

    def _latent_input(self, key: Shape) -> Tensor:
        """(lanes, frames, latent_dim)."""
        return self._buffer("windows", key, self.network.latent_dim, self.network.dtype)

    def _position(self, key: Shape) -> Tensor:
        """(lanes, frames): each frame's place in its row, -1 in gaps."""
        if key not in self._positions:
            lane = torch.arange(key[1], device=self.device)
            self._positions[key] = lane.repeat(key[0], 1)
        return self._positions[key]

    def _run(self, key: Shape) -> Tensor:
        out, positions = self._samples_output("samples", key), self._position(key)
        codes = self._code_input(key).transpose(1, 2)
        self._make_room(key)
        return out.copy_(self.network(codes, positions))

    def _run_latents(self, key: Shape) -> Tensor:
        out = self._buffer("latents", key, self.network.latent_dim, self.network.dtype)
        codes = self._code_input(key).transpose(1, 2)
        return out.copy_(self.network.latents(codes, self._position(key)))

    def _render(self, key: Shape) -> Tensor:
        out, positions = self._samples_output("rendered", key), self._position(key)
        latents = self._latent_input(key)
        self._make_room(key)
        return out.copy_(self.network.render(latents, positions >= 0))

    def _make_room(self, key: Shape) -> None:
        """Make the allocator use one piece of memory for a pass. Tensors that outlive the pass
        must be allocated before, or they would be part of the piece and retain all of it. So
        must cuBLAS's workspace, one per thread and stream: it is allocated while the piece
        is, and by the capturer before a capture.
        """
        if self.device.type != "cuda":
            return
        num_bytes = self.network.work_bytes(key[0] * key[1])
        piece = torch.empty(num_bytes, dtype=torch.uint8, device=self.device)
        if not torch.cuda.is_current_stream_capturing():
            take_workspace(self.device)
        del piece

    def _samples_output(self, name: str, key: Shape) -> Tensor:
        """(lanes, samples) float32, as `_buffer`."""
        made = self._buffer(name, key, self.network.samples_per_frame, torch.float32)
        return made.view(key[0], -1)

    def _buffer(self, name: str, key: Shape, width: int, dtype: torch.dtype) -> Tensor:
        """(lanes, frames, width): a static input or output of a shape."""
        if (name, key) not in self._buffers:
            self._buffers[name, key] = torch.zeros(*key, width, dtype=dtype, device=self.device)
        return self._buffers[name, key]
