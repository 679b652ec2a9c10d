"""RoPE as Fish Speech was trained with it: by tables rounded to bfloat16."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.attention.rope import rope_tables


def rounded_tables(
    num_positions: int, head_dim: int, theta: float, device: torch.device | str
) -> tuple[Tensor, Tensor]:
    """RoPE's cos and sin rounded to bfloat16 and kept in float32, each (S, D_h)."""
    cos, sin = rope_tables(num_positions, head_dim, theta, "cpu", torch.bfloat16)
    return cos.to(device, torch.float32), sin.to(device, torch.float32)
