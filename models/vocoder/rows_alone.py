"""The vocoder's layout on a CPU: every row by itself, at its own length.

Padding to a common length, and frames in front of others, are work that a CPU has no cores left
for; and what a row sounds like then depends on nothing but the row, bit for bit. What each method
promises stands in `lanes.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from torch import Tensor

from models.device.graphs import GraphRunner
from models.vocoder.network import CodecDecoder


class RowsAlone:
    """One eager pass a row."""

    lane_choices: ClassVar[list[int]] = [1]  # there are no lanes to be fewer
    enough_frames = 0  # one row is enough

    def __init__(self, network: CodecDecoder) -> None:
        self.network = network
        self.runners: list[GraphRunner[Any]] = []

    def use_lanes(self, most: int) -> None:
        """Nothing changes."""

    def work_bytes(self, most: int) -> int:
        """Nothing is kept on a device."""
        return 0

    def fix_shapes(self) -> None:
        """Rows are alone already."""

    def announce(self, max_rows: int, longest: int, longest_front: int) -> None:
        """Nothing is recorded."""

    def choose(self, sizes: Sequence[int]) -> list[int]:
        """All of them: no batch is better than another."""
        return list(range(len(sizes)))

    def decode(self, rows: Sequence[Tensor], kept: Sequence[int]) -> list[Tensor]:
        """Samples of the last `kept` frames of each row of codes."""
        return [
            self._last(self.network(row.T[None]), count)
            for row, count in zip(rows, kept, strict=True)
        ]

    def latents(self, rows: Sequence[Tensor]) -> Iterator[tuple[int, Tensor]]:
        """Each row's number and its latents."""
        for index, row in enumerate(rows):
            yield index, self.network.latents(row.T[None])[0]

    def render(self, windows: Sequence[Tensor], kept: Sequence[int]) -> list[Tensor]:
        """Samples of the last `kept` frames of each window of latents."""
        return [
            self._last(self.network.render(window[None]), count)
            for window, count in zip(windows, kept, strict=True)
        ]

    def _last(self, waves: Tensor, frames: int) -> Tensor:
        return waves[0, -frames * self.network.samples_per_frame :]
