"""Per-slot sampling settings as device tensors, and the two draws of a frame.

Order, as the official implementation applies it: repetition penalty over the row's generated
first-codebook codes, no end of speech before the minimum, suppressed ids, temperature, top-k,
top-p, draw. Codebooks 1..K-1 have their own settings and only the last four steps. Each draw is
addressed by (row seed, frame, codebook), so it never depends on batch mates.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from kernels.sampling.draws import uniforms
from kernels.sampling.sample import sample
from models.device.to_device import to_device
from models.sampling import SETTINGS, SUBTALKER, Sampling

MIN_FRAMES = 2  # the official code forbids end of speech for the first two samples
DTYPES = {float: torch.float32, int: torch.int32, bool: torch.bool}


class SamplingSlots:
    """Settings, seeds and penalty history of every slot."""

    UNUSED: ClassVar[frozenset[str]] = frozenset()  # settings that the kernel has no argument for

    def __init__(
        self, num_slots: int, vocab_size: int, suppress: Tensor, eos: int, device: torch.device
    ) -> None:
        self.seeds = torch.zeros(num_slots, device=device, dtype=torch.int64)
        # A free slot is greedy, and 1 is a value that every setting may have.
        self.columns = {
            name: torch.ones(num_slots, device=device, dtype=DTYPES[setting.kind])
            for name, setting in SETTINGS.items()
            if name not in self.UNUSED
        }
        self._first = {n: c for n, c in self.columns.items() if not n.startswith(SUBTALKER)}
        self._rest = {
            n.removeprefix(SUBTALKER): c for n, c in self.columns.items() if n not in self._first
        }
        self.seen = torch.zeros(num_slots, vocab_size, device=device, dtype=torch.bool)
        self.suppress = suppress  # (V,) bool
        self.eos = eos

    def assign(self, index: Tensor, rows: list[Sampling], seeds: list[int]) -> None:
        """Give the slots `index` (n,) new settings and an empty history."""
        device, columns = self.seeds.device, self.columns
        whole = [name for name, column in columns.items() if not column.is_floating_point()]
        real = [name for name, column in columns.items() if column.is_floating_point()]
        counts = [
            [seed, *(getattr(row, name) for name in whole)]
            for row, seed in zip(rows, seeds, strict=True)
        ]
        numbers = [[getattr(row, name) for name in real] for row in rows]
        seed, *values = to_device(counts, device).unbind(1)
        values += to_device(numbers, device, torch.float32).unbind(1)
        self.seeds[index] = seed
        for name, value in zip(whole + real, values, strict=True):
            columns[name][index] = value.to(columns[name].dtype)
        self.seen.index_fill_(0, index, False)

    def move(self, source: Tensor, target: Tensor) -> None:
        """Copy settings, seeds and history from slots (n,) to slots (n,)."""
        for tensor in (self.seeds, self.seen, *self.columns.values()):
            tensor[target] = tensor[source]

    def first_settings(self, rows: Tensor | slice) -> dict[str, Any]:
        """The kernel's arguments for first codes of the rows."""
        return {name: column[rows] for name, column in self._first.items()}

    def rest_settings(self, bucket: int) -> dict[str, Any]:
        """The kernel's arguments for further codes of slots 0..bucket-1."""
        return {name: column[:bucket] for name, column in self._rest.items()}

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
        out: Tensor,
    ) -> Tensor:
        """Draw first-codebook codes (B,) into `out`; -1 where the logits are not finite.

        Args:
            step: (B,) int64, how many first codes the row has drawn so far.
        """
        return sample(
            logits,
            uniform,
            out=out,
            **self.first_settings(rows),
            seen=self.seen[rows],
            suppress=self.suppress,
            eos=self.eos,
            no_eos=step < MIN_FRAMES,
        )

    def rest(self, bucket: int, logits: Tensor, uniform: Tensor, out: Tensor) -> Tensor:
        """Draw the codes (B,) of one further codebook for slots 0..bucket-1 into `out`."""
        return sample(logits, uniform, out=out, **self.rest_settings(bucket))
