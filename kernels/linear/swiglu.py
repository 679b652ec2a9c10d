"""SwiGLU: the gated activation between the two halves of an MLP.

    y = cast(silu(gate)) * up,    silu(a) = a / (1 + exp(-a))

gate_up is (R, 2I), gate in the first half and up in the second, as one fused linear layer writes
them; y is (R, I). One kernel instead of two, and no copy of the halves.

Rounding: silu is computed in float32 and rounded, and so is the product, as in PyTorch.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.launch.dispatch import jit, next_power_of_2, tl
from kernels.launch.early_launch import launch_options, wait_for_previous
from kernels.launch.op import op

_MAX_BLOCK = 1024


def swiglu_ref(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate).mul_(up)


@jit
def gated(gate, up, dtype: tl.constexpr):
    """silu(gate) * up; gate, up, silu(gate) and the product are rounded to dtype."""
    gate = gate.to(dtype).to(tl.float32)
    silu = (gate / (1.0 + tl.exp(-gate))).to(dtype).to(tl.float32)
    return (silu * up.to(dtype).to(tl.float32)).to(dtype)


@jit
def _swiglu_kernel(
    gate_up_ptr, out_ptr, row_stride, width, IS_DEPENDENT: tl.constexpr, BLOCK: tl.constexpr
):
    wait_for_previous(IS_DEPENDENT)
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    base = gate_up_ptr + row * row_stride + column
    gate = tl.load(base, mask=inside, other=0.0)
    up = tl.load(base + width, mask=inside, other=0.0)
    tl.store(out_ptr + row * width + column, gated(gate, up, dtype), mask=inside)


@op(swiglu_ref)
def swiglu(gate_up: Tensor) -> Tensor:
    """silu(gate) * up for gate_up (R, 2I); returns (R, I), contiguous."""
    if gate_up.ndim != 2 or gate_up.shape[1] % 2 or gate_up.stride(1) != 1:
        raise ValueError(
            f"gate_up must be (R, 2I) with contiguous rows, got {tuple(gate_up.shape)}"
        )
    num_rows, width = gate_up.shape[0], gate_up.shape[1] // 2
    out = torch.empty((num_rows, width), dtype=gate_up.dtype, device=gate_up.device)
    block = min(_MAX_BLOCK, next_power_of_2(width))
    grid = (num_rows, -(-width // block))
    _swiglu_kernel[grid](
        gate_up, out,
        gate_up.stride(0),
        width,
        BLOCK=block,
        num_warps=max(1, block // 256), **launch_options(),
    )  # fmt: skip
    return out
