"""RoPE as Fish Speech was trained with it: neighbours rotated, by tables rounded to bfloat16."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.attention.rope import rope_tables


def halves(weight: Tensor, num_heads: int, head_dim: int) -> Tensor:
    """The first num_heads * head_dim rows with each head's even rows before its odd ones.

    RoPE here rotates a head's first half against its second; Fish Speech rotates neighbours. Dot
    products of queries and keys are the same once both are reordered.
    """
    rows = num_heads * head_dim
    head = weight[:rows].view(num_heads, head_dim // 2, 2, *weight.shape[1:])
    return torch.cat([head.transpose(1, 2).reshape(rows, *weight.shape[1:]), weight[rows:]])


def rounded_tables(
    num_positions: int, head_dim: int, theta: float, device: torch.device | str
) -> tuple[Tensor, Tensor]:
    """RoPE's cos and sin rounded to bfloat16 and kept in float32, each (S, D_h)."""
    cos, sin = rope_tables(num_positions, head_dim, theta, "cpu", torch.bfloat16)
    return cos.to(device, torch.float32), sin.to(device, torch.float32)
