"""Rows of codes to rows of samples: the work around a vocoder's network, for every family.

Long rows are cut into the checkpoint's chunks with left context, as the official decoder does. A
layout arranges the pieces in memory while the network runs: on a CPU each one alone (`RowsAlone`),
on a GPU one after the other in lanes (`lanes.py`).

A row that clones a voice begins with reference frames whose samples are cut off. They are part of
the chunks, because the row's own frames attend to them. But most of a vocoder's work comes after
attention, and runs only over the frames whose samples are returned and the few before them that its
convolutions reach. If attention looks back further than a chunk's context, long rows are decoded
that way too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from models.device.beside import Beside
from models.device.graphs import Capturer, GraphRunner
from models.device.to_device import to_device
from models.vocoder.chunks import Slice
from models.vocoder.lanes import Lanes
from models.vocoder.network import CodecDecoder


class RowsAlone:
    """The layout on a CPU: every row alone, at its own length, so a row's samples depend on the
    row alone, bit for bit. The methods are documented in `lanes.py`.
    """

    work_choices: ClassVar[list[int]] = [1]  # no batches
    enough_frames = 0  # one row is enough

    def __init__(self, network: CodecDecoder) -> None:
        self.network = network
        self.runners: list[GraphRunner[Any]] = []

    def use_work(self, most: int) -> None:
        """Do nothing: there are no batches."""

    def work_bytes(self, most: int) -> int:
        return 0

    def fix_shapes(self) -> None:
        """Do nothing: rows are alone."""

    def announce(self, max_rows: int, longest: int, longest_front: int) -> None:
        """Do nothing: there are no graphs."""

    def choose(self, sizes: Sequence[int]) -> list[int]:
        """Choose all rows: no batch is better than another."""
        return list(range(len(sizes)))

    def decode(self, rows: Sequence[Tensor], kept: Sequence[int]) -> list[Tensor]:
        return [
            self._last(self.network(row.T[None]), count)
            for row, count in zip(rows, kept, strict=True)
        ]

    def latents(self, rows: Sequence[Tensor]) -> Iterator[tuple[int, Tensor]]:
        for index, row in enumerate(rows):
            yield index, self.network.latents(row.T[None])[0]

    def render(self, windows: Sequence[Tensor], kept: Sequence[int]) -> list[Tensor]:
        return [
            self._last(self.network.render(window[None]), count)
            for window, count in zip(windows, kept, strict=True)
        ]

    def _last(self, waves: Tensor, frames: int) -> Tensor:
        return waves[0, -frames * self.network.samples_per_frame :]


# The arrangement of rows of different lengths in memory while the network runs.
Layout = Lanes | RowsAlone


class VocoderRunner:
    """A vocoder's network and a layout.

    On a CPU several threads may call it concurrently. On a GPU only the engine's thread may:
    `decode` queues its work on the current stream, which must always be the vocoder's, because its
    graphs share one set of static buffers (`models.device.streams`). It never waits for the device.
    Its results are copies, not static buffers.
    """

    def __init__(self, network: CodecDecoder, layout: Layout) -> None:
        self.network = network
        self.layout = layout
        self.is_fixed = False  # whether `fix_shapes` was called

    def fix_shapes(self) -> None:
        """From now on, use shapes that do not depend on the rows, so that a row's samples are
        the same in any batch: latents are made separately from samples.
        """
        self.is_fixed = True
        self.layout.fix_shapes()

    def announce(self, max_batch: int, max_frames: int, max_reference_frames: int = 0) -> None:
        """Announce the buckets of up to max_batch rows of up to max_frames frames.

        Args:
            max_reference_frames: of the longest reference before a row, or 0.
        """
        cut = self.network.cut
        longest = whole = max_frames + max_reference_frames
        is_cut = longest > cut.chunk_frames
        if is_cut:
            whole = min(whole, cut.chunk_frames + cut.left_context)
            longest = cut.chunk_frames
            if not cut.renders_windows:
                longest += cut.left_context
        has_tails = self.is_fixed or max_reference_frames > 0 or (is_cut and cut.renders_windows)
        if has_tails:
            window = min(max_frames, cut.chunk_frames) + self.network.context_frames
            longest = max(longest, window)
        self.layout.announce(max_batch, longest, whole if has_tails else 0)

    def choose(self, frames: list[int], references: list[int]) -> list[int]:
        """Choose a good batch among the waiting rows, oldest first: indices in their order; none if
        it is better to wait for more rows.

        Args:
            references: reference frames before each row, or 0.
        """
        if sum(frames) < self.layout.enough_frames:  # usually there are too few
            return []
        pieces = self._pieces(frames, references)
        for is_tail in (False, True):
            kind = [piece for piece in pieces if piece.is_tail is is_tail]
            sizes = [self._window(p) if is_tail else p.chunk.num_frames for p in kind]
            chosen = self.layout.choose(sizes)
            if chosen:
                return sorted({kind[index].row for index in chosen})
        return []

    def decode(
        self, codes: list[Tensor], references: list[Tensor | None] | None = None
    ) -> list[Tensor]:
        """Each (F, K) int64 codes to (F * samples_per_frame,) float32 samples, on the device.

        Args:
            references: (R, K) codes decoded before a row's own and cut off again, or None.
        """
        fronts = [None] * len(codes) if references is None else references
        if len(fronts) != len(codes):
            raise ValueError(f"{len(codes)} rows, but {len(fronts)} references")
        rows = [
            row if front is None else torch.cat([_moved(front, row), row])
            for row, front in zip(codes, fronts, strict=True)
        ]
        pieces = self._pieces(
            [len(row) for row in codes], [0 if front is None else len(front) for front in fronts]
        )
        whole = [piece for piece in pieces if not piece.is_tail]
        inputs = [_codes(rows, piece) for piece in whole]
        waves = self.layout.decode(inputs, [piece.kept for piece in whole])
        samples = dict(zip(whole, waves, strict=True))
        samples |= self._decode_tails(rows, [piece for piece in pieces if piece.is_tail])
        parts: list[list[Tensor]] = [[] for _ in codes]
        for piece in pieces:
            parts[piece.row].append(samples[piece])
        return [
            part[0] if len(part) == 1 else torch.cat(part or [torch.zeros(0, device=row.device)])
            for row, part in zip(codes, parts, strict=True)
        ]

    def _pieces(self, frames: Sequence[int], references: Sequence[int]) -> list[Slice]:
        pieces = self.network.cut.pieces(frames, references)
        return [replace(piece, is_tail=True) for piece in pieces] if self.is_fixed else pieces

    def _decode_tails(self, rows: list[Tensor], pieces: list[Slice]) -> dict[Slice, Tensor]:
        """Make latents of whole pieces, but samples only of the last `kept` frames. Pieces of a
        row that begin at the same frame share the latents of the longest.
        """
        mates: dict[tuple[int, int], list[Slice]] = {}
        for piece in pieces:
            mates.setdefault((piece.row, piece.chunk.first), []).append(piece)
        groups = list(mates.values())
        windows: dict[Slice, Tensor] = {}
        # The longest is the last.
        for index, latents in self.layout.latents([_codes(rows, group[-1]) for group in groups]):
            for piece in groups[index]:
                end = piece.chunk.num_frames
                windows[piece] = latents[end - self._window(piece) : end].clone()
        waves = self.layout.render(
            [windows[piece] for piece in pieces], [piece.kept for piece in pieces]
        )
        return dict(zip(pieces, waves, strict=True))

    def _window(self, piece: Slice) -> int:
        """Return the latent frames that a piece's samples depend on."""
        return min(piece.chunk.num_frames, piece.kept + self.network.context_frames)


def vocoder_runner(
    network: CodecDecoder, capturer: Capturer | None, beside: Beside | None = None
) -> VocoderRunner:
    """Return the runner with the layout of the network's device.

    Args:
        capturer: records the graphs of a GPU; None runs the same shapes eagerly.
        beside: runs everything but replays on a GPU; None: the caller's thread.
    """
    if network.device.type == "cuda":
        return VocoderRunner(network, Lanes(network, capturer, beside))
    return VocoderRunner(network, RowsAlone(network))


def _codes(rows: list[Tensor], piece: Slice) -> Tensor:
    row, chunk = rows[piece.row], piece.chunk
    is_whole = chunk.first == 0 and chunk.end == len(row)
    return row if is_whole else row[chunk.first : chunk.end]


def _moved(front: Tensor, row: Tensor) -> Tensor:
    """Copy a reference to its row's device, without waiting for the device's queue."""
    return front if front.device == row.device else to_device(front, row.device, front.dtype)
