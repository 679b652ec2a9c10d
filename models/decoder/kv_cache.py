"""Static key-value cache: one allocation, one row (slot) a request, addressed by per-row positions.

Nothing in it ever moves except a whole slot. What lies beyond a row's position is never read, so
a slot needs no clearing between requests; it is cleared only after a row went wrong, because the
reference attention multiplies masked values by 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from models.decoder.config import TransformerConfig


class StaticKVCache:
    """Keys and values of L layers for N slots of S positions."""

    def __init__(
        self,
        config: TransformerConfig,
        num_slots: int,
        num_positions: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        shape = cache_shape(config, num_slots, num_positions)
        self.data = torch.zeros(shape, device=device, dtype=dtype)  # (L, 2, N, H_kv, S, D_h)
        self.num_positions = num_positions

    def move(self, sources: Tensor, targets: Tensor) -> None:
        """Copy whole slots (n,) to (n,); sources and targets must not overlap.

        Layer by layer: the copy in between is as large as what is moved, gigabytes for all of it.
        """
        for layer in self.data:
            layer[:, targets] = layer[:, sources]

    def copy_first(self, source: int, targets: Tensor, num_positions: int) -> None:
        """Copy the first positions of one slot to other slots (n,), in one launch."""
        first = self.data[:, :, :, :, :num_positions]
        given = first[:, :, source : source + 1].expand(-1, -1, len(targets), -1, -1, -1)
        first.index_copy_(2, targets, given)

    def clear(self, slots: Tensor) -> None:
        """Zero the given slots (n,)."""
        self.data.index_fill_(2, slots, 0)


def cache_shape(config: TransformerConfig, num_slots: int, num_positions: int) -> tuple[int, ...]:
    """Layers; keys and values; slots, heads, positions, width of a head."""
    return (
        *(config.num_layers, 2, num_slots),
        *(config.num_kv_heads, num_positions, config.head_dim),
    )


def cache_bytes(config: TransformerConfig, num_positions: int, dtype: torch.dtype) -> int:
    """Bytes one slot of a cache takes."""
    return math.prod(cache_shape(config, 1, num_positions)) * dtype.itemsize
