"""Sizes of a talker or code predictor. No torch, for they are part of describing a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class LayerSizes(Protocol):
    """Sizes of a stack of layers."""

    @property
    def width(self) -> int: ...
    @property
    def mlp_width(self) -> int: ...
    @property
    def num_layers(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    @property
    def num_kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def norm_eps(self) -> float: ...


@dataclass(frozen=True)
class TransformerConfig:
    """One Qwen3-style decoder: grouped-query attention, SwiGLU, RMSNorm, RoPE."""

    width: int
    mlp_width: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_theta: float
    norm_eps: float
    max_positions: int
    has_qk_norm: bool = True

    @property
    def num_weights(self) -> int:
        """Weights of all its linear maps."""
        attention = self.width * self.head_dim * (2 * self.num_heads + 2 * self.num_kv_heads)
        return self.num_layers * (attention + 3 * self.width * self.mlp_width)
