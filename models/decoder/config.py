"""Sizes of a talker or code predictor, and the decoder of that size."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from models.decoder.decoder import Decoder


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


def build_decoder(shape: TransformerConfig, rope_dtype: torch.dtype | None = None) -> Decoder:
    """A stack of the configured size, its weights still to be loaded.

    Args:
        rope_dtype: what the RoPE tables are rounded to; None: the weights' dtype.
    """
    return Decoder(
        width=shape.width,
        mlp_width=shape.mlp_width,
        num_layers=shape.num_layers,
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        rope_theta=shape.rope_theta,
        norm_eps=shape.norm_eps,
        has_qk_norm=shape.has_qk_norm,
        rope_dtype=rope_dtype,
    )
