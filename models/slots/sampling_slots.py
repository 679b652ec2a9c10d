"""Per-slot sampling settings as device tensors, and the two draws of a frame.

Order, as the official implementation applies it: repetition penalty over the row's generated
first-codebook codes, no end of speech before the minimum, suppressed ids, temperature, top-k,
top-p, draw. Codebooks 1..K-1 have their own settings and only the last four steps. Each draw is
addressed by (row seed, frame, codebook), so it never depends on batch mates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from kernels.linear.code_embedding import Beginning
from kernels.sampling.draws import uniforms
from kernels.sampling.row import RowSettings
from kernels.sampling.sample import sample
from models.base import SpeechRequest
from models.sampling import SETTINGS, SUBTALKER

MIN_FRAMES = 2  # the official code forbids end of speech for the first two samples
DTYPES = {float: torch.float32, int: torch.int32, bool: torch.bool}


class SamplingSlots:
    """Settings, seeds and penalty history of every slot."""

    SAMPLER: ClassVar[Callable[..., Tensor]] = staticmethod(sample)  # of further codes
    EMBEDS: ClassVar[bool] = True  # whether it can begin the step behind its draw
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
        floating = {name for name, column in self.columns.items() if column.is_floating_point()}
        self._whole = [name for name in self.columns if name not in floating]
        self._real = [name for name in self.columns if name in floating]
        self._first = {n: c for n, c in self.columns.items() if not n.startswith(SUBTALKER)}
        self._rest = {
            n.removeprefix(SUBTALKER): c for n, c in self.columns.items() if n not in self._first
        }
        self.seen = torch.zeros(num_slots, vocab_size, device=device, dtype=torch.bool)
        self.suppress = suppress  # (V,) bool
        self.eos = eos

    @property
    def num_counts(self) -> int:
        """Whole numbers of a row: its seed and the settings of that kind."""
        return 1 + len(self._whole)

    @property
    def num_numbers(self) -> int:
        """Settings of a row that are real numbers."""
        return len(self._real)

    def settings_of(
        self, requests: Sequence[SpeechRequest]
    ) -> tuple[list[list[int]], list[list[float]]]:
        """What `assign` wants of each row, on the host: its whole numbers and the others."""
        rows = [request.sampling for request in requests]
        counts = [
            [request.seed, *(int(getattr(row, name)) for name in self._whole)]
            for request, row in zip(requests, rows, strict=True)
        ]
        return counts, [[getattr(row, name) for name in self._real] for row in rows]

    def assign(self, index: Tensor, counts: Tensor, numbers: Tensor) -> None:
        """Give the slots `index` (n,) new settings and an empty history. A slot may be named more
        than once, with the same values.

        Args:
            counts: (n, num_counts) int64. numbers: (n, num_numbers) float32.
        """
        self.seeds[index] = counts[:, 0]
        for place, name in enumerate(self._whole, 1):
            self.columns[name][index] = counts[:, place].to(self.columns[name].dtype)
        for place, name in enumerate(self._real):
            self.columns[name][index] = numbers[:, place]
        self.seen.index_fill_(0, index, False)

    def move(self, source: Tensor, target: Tensor) -> None:
        """Copy settings, seeds and history from slots (n,) to slots (n,)."""
        for tensor in (self.seeds, self.seen, *self.columns.values()):
            tensor[target] = tensor[source]

    def first_settings(self, rows: Tensor | slice) -> RowSettings:
        """How first codes of the rows are drawn."""
        return RowSettings(**{name: column[rows] for name, column in self._first.items()})

    def rest_settings(self, bucket: int) -> RowSettings:
        """How further codes of slots 0..bucket-1 are drawn."""
        return RowSettings(**{name: column[:bucket] for name, column in self._rest.items()})

    def draws(self, rows: Tensor | slice, frames: Tensor, count: int) -> Tensor:
        """(B, count) uniforms of the rows' frames (B,), one a codebook."""
        return uniforms(self.seeds[rows], frames, count)

    def first(self, rows: Tensor | slice, logits: Tensor, steps: Tensor, out: Tensor) -> Tensor:
        """Draw first-codebook codes (B,) into `out`; -1 where the logits are not finite.

        Args:
            steps: (B,) int64, how many first codes each row has drawn so far, which is the frame
                that its draw is addressed by.
        """
        return sample(
            logits,
            self.draws(rows, steps, 1)[:, 0],
            self.first_settings(rows),
            out,
            seen=self.seen[rows],
            suppress=self.suppress,
            eos=self.eos,
            no_eos=steps < MIN_FRAMES,
        )

    def follow(
        self, bucket: int, spoken: Tensor, logits: Tensor, steps: Tensor, out: Tensor
    ) -> None:
        """Draw the first codes behind those `spoken` (B,), for slots 0..B-1; as `first`."""
        self.seen[:bucket].scatter_(1, spoken[:, None], True)
        self.first(slice(0, bucket), logits, steps, out)

    def rest(
        self,
        bucket: int,
        logits: Tensor,
        uniform: Tensor,
        out: Tensor,
        then: Beginning | None = None,
    ) -> Tensor:
        """Draw the codes (B,) of one further codebook for slots 0..bucket-1 into `out`.

        Args:
            then: the step that they are the codes of, where EMBEDS.
        """
        begun = {} if then is None else {"then": then}
        return self.SAMPLER(logits, uniform, self.rest_settings(bucket), out, **begun)
