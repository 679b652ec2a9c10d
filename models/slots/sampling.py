"""Per-slot sampling settings as device tensors, and the two draws of a frame.

Order, as the official implementation applies it: repetition penalty over the row's generated
first-codebook codes, no end of speech before the minimum, suppressed ids, temperature, top-k,
top-p, draw. Codebooks 1..K-1 have their own settings and only the last four steps. Each draw is
addressed by (row seed, frame, codebook), so it never depends on batch mates.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.sampling.draws import uniforms
from kernels.sampling.sample import sample
from models.device.to_device import to_device
from models.sampling import Sampling

MIN_FRAMES = 2  # the official code forbids end of speech for the first two samples


@dataclass
class Hints:
    """What the host knows of the settings in use, so that the reference path can skip work."""

    max_top_k: int | None  # None: not known, or a row has top-k off
    has_top_p: bool


class SamplingSlots:
    """Settings, seeds and penalty history of every slot."""

    def __init__(
        self, num_slots: int, vocab_size: int, suppress: Tensor, eos: int, device: torch.device
    ) -> None:
        def filled(value: float, dtype: torch.dtype) -> Tensor:
            return torch.full((num_slots,), value, device=device, dtype=dtype)

        self.seeds = filled(0, torch.int64)
        self.greedy = filled(True, torch.bool)
        self.temperature = filled(1.0, torch.float32)
        self.top_k = filled(1, torch.int32)
        self.top_p = filled(1.0, torch.float32)
        self.penalty = filled(1.0, torch.float32)
        self.subtalker_greedy = filled(True, torch.bool)
        self.subtalker_temperature = filled(1.0, torch.float32)
        self.subtalker_top_k = filled(1, torch.int32)
        self.subtalker_top_p = filled(1.0, torch.float32)
        self.seen = torch.zeros(num_slots, vocab_size, device=device, dtype=torch.bool)
        self.suppress = suppress  # (V,) bool
        self.eos = eos
        self.rows: list[Sampling | None] = [None] * num_slots

    def assign(
        self, slots: list[int], rows: list[Sampling], seeds: list[int], index: Tensor
    ) -> None:
        """Give slots new settings and an empty history. `index` is `slots` on the device."""
        device = self.seeds.device
        counts = [
            (seed, row.top_k, row.subtalker_top_k, row.greedy, row.subtalker_greedy)
            for row, seed in zip(rows, seeds, strict=True)
        ]
        numbers = [
            (
                row.temperature,
                row.top_p,
                row.repetition_penalty,
                row.subtalker_temperature,
                row.subtalker_top_p,
            )
            for row in rows
        ]
        columns = to_device(counts, device).unbind(1)
        self.seeds[index] = columns[0]
        self.top_k[index] = columns[1].int()
        self.subtalker_top_k[index] = columns[2].int()
        self.greedy[index] = columns[3].bool()
        self.subtalker_greedy[index] = columns[4].bool()
        columns = to_device(numbers, device, torch.float32).unbind(1)
        self.temperature[index] = columns[0]
        self.top_p[index] = columns[1]
        self.penalty[index] = columns[2]
        self.subtalker_temperature[index] = columns[3]
        self.subtalker_top_p[index] = columns[4]
        self.seen.index_fill_(0, index, False)
        for slot, row in zip(slots, rows, strict=True):
            self.rows[slot] = row

    def move(self, sources: list[int], targets: list[int], source: Tensor, target: Tensor) -> None:
        """Copy settings, seeds and history from slots to slots."""
        for tensor in (
            self.seeds,
            self.greedy,
            self.temperature,
            self.top_k,
            self.top_p,
            self.penalty,
            self.subtalker_greedy,
            self.subtalker_temperature,
            self.subtalker_top_k,
            self.subtalker_top_p,
            self.seen,
        ):
            tensor[target] = tensor[source]
        for old, new in zip(sources, targets, strict=True):
            self.rows[new], self.rows[old] = self.rows[old], None

    def release(self, slots: list[int]) -> None:
        """Forget the rows of slots, so that they no longer widen the hints."""
        for slot in slots:
            self.rows[slot] = None

    def hints(self, bucket: int) -> tuple[Hints, Hints]:
        """Hints for the first codebook and for the others, over the rows in slots 0..bucket-1."""
        rows = [row for row in self.rows[:bucket] if row is not None]
        return (
            _hints([(row.top_k, row.top_p) for row in rows]),
            _hints([(row.subtalker_top_k, row.subtalker_top_p) for row in rows]),
        )

    def draws(self, rows: Tensor | slice, frames: Tensor, count: int) -> Tensor:
        """(B, count) uniforms of the rows' frames (B,), one a codebook."""
        return uniforms(self.seeds[rows], frames, count)

    def first_draws(self, rows: Tensor | slice, frames: Tensor) -> Tensor:
        """The uniforms that `first` wants for the rows' frames (B,)."""
        return self.draws(rows, frames, 1)[:, 0]

    def first(
        self,
        rows: Tensor | slice,
        logits: Tensor,
        uniform: Tensor,
        step: Tensor,
        hints: Hints,
        out: Tensor,
    ) -> Tensor:
        """Draw first-codebook codes (B,) into `out`; -1 where the logits are not finite.

        Args:
            step: (B,) int64, how many first codes the row has drawn so far.
        """
        return sample(
            logits,
            uniform,
            self.greedy[rows],
            self.temperature[rows],
            self.top_k[rows],
            self.top_p[rows],
            out,
            seen=self.seen[rows],
            penalty=self.penalty[rows],
            suppress=self.suppress,
            eos=self.eos,
            no_eos=step < MIN_FRAMES,
            max_top_k=hints.max_top_k,
            has_top_p=hints.has_top_p,
        )

    def rest(
        self, bucket: int, logits: Tensor, uniform: Tensor, hints: Hints, out: Tensor
    ) -> Tensor:
        """Draw the codes (B,) of one further codebook for slots 0..bucket-1 into `out`."""
        return sample(
            logits,
            uniform,
            self.subtalker_greedy[:bucket],
            self.subtalker_temperature[:bucket],
            self.subtalker_top_k[:bucket],
            self.subtalker_top_p[:bucket],
            out,
            max_top_k=hints.max_top_k,
            has_top_p=hints.has_top_p,
        )


UNKNOWN = Hints(max_top_k=None, has_top_p=True)


def _hints(settings: list[tuple[int, float]]) -> Hints:
    if not settings:
        return Hints(max_top_k=1, has_top_p=False)
    has_all_k = all(top_k > 0 for top_k, _ in settings)
    largest = max(top_k for top_k, _ in settings)
    return Hints(largest if has_all_k else None, any(top_p < 1 for _, top_p in settings))
