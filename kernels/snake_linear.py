"""The end of a residual unit of the vocoder: SnakeBeta, a pointwise convolution, the residual add.

    x += snake_beta(h + bias) @ weight^T            x, h (R, C); weight (C, C)

Where channels are few these are three passes over large activations; two of them, writing and
reading the activation's result, disappear when it goes straight into the product. Rounding is that
of the separate steps: the activation to the dtype, the product and the sum once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.dispatch import IS_INTERPRETED, jit, next_power_of_2, tl, use_triton
from kernels.snake import snake_beta, snake_of

# One program holds all channels of its steps. On an H200, 4,096 frames at 96 channels took 1.80 ms
# against 2.21 apart; at 192, 1.44 at best against 1.47; at 384, 1.26 against 0.74: with more
# channels the product outweighs the passes saved, and a library's is faster.
MAX_CHANNELS = 128
ROWS, SUMMED, WARPS, STAGES = 64, 32, 4, 2  # a tile; the fastest of five


def snake_linear_add_ref_(
    x: Tensor, h: Tensor, alpha_exp: Tensor, inv_beta: Tensor, bias: Tensor, weight: Tensor
) -> Tensor:
    """The separate steps: the path on the CPU and of many channels, and what the kernel is tested
    against.
    """
    active = snake_beta(h.t().unsqueeze(0), alpha_exp, inv_beta, bias)
    return x.addmm_(active[0].t(), weight.t())


@jit
def _snake_linear_add_kernel(
    x_ptr,
    h_ptr,
    alpha_exp_ptr,
    inv_beta_ptr,
    bias_ptr,
    weight_ptr,
    num_rows,
    C: tl.constexpr,
    UPCAST: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    is_row = row < num_rows
    channel = tl.arange(0, BLOCK_N)
    is_channel = channel < C
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, C, BLOCK_K):
        k = first + tl.arange(0, BLOCK_K)
        is_k = k < C
        alpha_exp = tl.load(alpha_exp_ptr + k, mask=is_k, other=0.0)[None, :]
        inv_beta = tl.load(inv_beta_ptr + k, mask=is_k, other=0.0)[None, :]
        bias = tl.load(bias_ptr + k, mask=is_k, other=0.0)[None, :]
        h_mask = is_row[:, None] & is_k[None, :]
        h = tl.load(h_ptr + row[:, None] * C + k[None, :], mask=h_mask, other=0.0)
        active = snake_of(h.to(tl.float32) + bias, alpha_exp, inv_beta).to(dtype)
        w_mask = is_k[:, None] & is_channel[None, :]
        w = tl.load(weight_ptr + channel[None, :] * C + k[:, None], mask=w_mask, other=0.0)
        if UPCAST:
            active = active.to(tl.float32)
            w = w.to(tl.float32)
        total = tl.dot(active, w, total, input_precision="ieee")
    place = x_ptr + row[:, None] * C + channel[None, :]
    mask = is_row[:, None] & is_channel[None, :]
    total += tl.load(place, mask=mask, other=0.0).to(tl.float32)
    tl.store(place, total.to(dtype), mask=mask)


def snake_linear_add_(
    x: Tensor, h: Tensor, alpha_exp: Tensor, inv_beta: Tensor, bias: Tensor, weight: Tensor
) -> Tensor:
    """x += snake_beta(h + bias) @ weight^T in place; returns x.

    Args:
        x, h: (R, C), contiguous, one dtype.
        alpha_exp, inv_beta, bias: (C,) float32, as for `snake_beta`.
        weight: (C, C) of x's dtype, contiguous.
    """
    channels = x.shape[1]
    is_wide = channels > MAX_CHANNELS or (x.dtype == torch.float32 and x.is_cuda)
    if not use_triton(x) or is_wide:
        return snake_linear_add_ref_(x, h, alpha_exp, inv_beta, bias, weight)
    if h.shape != x.shape or h.dtype != x.dtype or not (x.is_contiguous() and h.is_contiguous()):
        raise ValueError(
            f"x {tuple(x.shape)} {x.dtype} and h {tuple(h.shape)} {h.dtype} must be one contiguous "
            "(R, C) shape and dtype"
        )
    if weight.shape != (channels, channels) or weight.dtype != x.dtype:
        raise ValueError(f"weight {tuple(weight.shape)} {weight.dtype} does not fit {channels}")
    if not weight.is_contiguous():
        raise ValueError("weight must be contiguous")
    if x.shape[0] == 0:
        return x
    _snake_linear_add_kernel[(-(-x.shape[0] // ROWS),)](
        x,
        h,
        alpha_exp,
        inv_beta,
        bias,
        weight,
        x.shape[0],
        C=channels,
        UPCAST=IS_INTERPRETED,  # the interpreter multiplies the bits of bfloat16, not its values
        BLOCK_M=ROWS,
        BLOCK_N=max(16, next_power_of_2(channels)),
        BLOCK_K=min(SUMMED, max(16, next_power_of_2(channels))),
        num_warps=WARPS,
        num_stages=STAGES,
    )
    return x
