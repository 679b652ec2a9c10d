"""Static key-value cache: one allocation, one row (slot) a request, addressed by per-row positions.

Nothing in it ever moves except a whole slot. What lies beyond a row's position is never read, so
a slot needs no clearing between requests; it is cleared only after a row went wrong, because the
reference attention multiplies masked values by 0.
"""

from __future__ import annotations

import torch
from torch import Tensor


class StaticKVCache:
    """Keys and values of L layers for N slots of S positions."""

    def __init__(
        self,
        num_layers: int,
        num_slots: int,
        num_kv_heads: int,
        num_positions: int,
        head_dim: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.data = torch.zeros(
            num_layers,
            2,
            num_slots,
            num_kv_heads,
            num_positions,
            head_dim,
            device=device,
            dtype=dtype,
        )
        self.num_positions = num_positions

    def layer(self, index: int) -> tuple[Tensor, Tensor]:
        """Keys and values of one layer, each (N, H_kv, S, D_h), the live storage."""
        return self.data[index, 0], self.data[index, 1]

    def move(self, sources: Tensor, targets: Tensor) -> None:
        """Copy whole slots (n,) to (n,); sources and targets must not overlap.

        Layer by layer: the copy in between is as large as what is moved, gigabytes for all of it.
        """
        for layer in self.data:
            layer[:, targets] = layer[:, sources]

    def clear(self, slots: Tensor) -> None:
        """Zero the given slots (n,)."""
        self.data.index_fill_(2, slots, 0)


def cache_bytes(
    num_layers: int, num_kv_heads: int, head_dim: int, num_positions: int, dtype: torch.dtype
) -> int:
    """Bytes one slot of a cache takes."""
    return 2 * num_layers * num_kv_heads * head_dim * num_positions * dtype.itemsize
