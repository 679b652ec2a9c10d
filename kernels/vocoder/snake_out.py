"""The end of the vocoder: SnakeBeta and a causal convolution to one channel.

    out[b, t] = conv_bias + sum over taps k, channels c of s[b, t - (taps - 1) + k, c] * w[c, k]
    s = snake_beta(x + bias), zero before the first step and in frames with `kept` false

x (B, T, C) is the largest activation of all, and everything else here is small: it is read once. A
program computes for its steps the contribution of each to every tap, a product with a (C, taps)
matrix; a second, small pass adds up the taps of neighbouring steps.

Rounding: SnakeBeta is rounded to the dtype; all sums and the result are float32.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.launch.dispatch import factor, jit, next_power_of_2, tl
from kernels.launch.op import op
from kernels.vocoder.snake import Constants, active_of, check_constants, snake_beta

_PARTS = 8  # floats a step has for its taps


def snake_out_ref(
    x: Tensor, snake: Constants, weight: Tensor, conv_bias: Tensor, kept: Tensor | None = None
) -> Tensor:
    """The separate operations."""
    taps = weight.shape[3]
    active = snake_beta(x.transpose(1, 2), snake, taps - 1, kept)
    return F.conv2d(active.unsqueeze(2), weight, conv_bias)[:, 0, 0].float()


@jit
def _parts_kernel(
    x_ptr, alpha_exp_ptr, inv_beta_ptr, bias_ptr, weight_ptr, kept_ptr, parts_ptr,
    steps, num_spans, span,
    C: tl.constexpr, TAPS: tl.constexpr, PARTS: tl.constexpr,
    HAS_GAPS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1).to(tl.int64)
    step = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    is_step = step < steps
    tap = tl.arange(0, 16)
    is_tap = tap < TAPS
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    place = row * steps + step
    total = tl.zeros((BLOCK_M, 16), tl.float32)
    for first in range(0, C, BLOCK_K):
        k = first + tl.arange(0, BLOCK_K)
        is_k = k < C
        x_mask = is_step[:, None] & is_k[None, :]
        x = tl.load(x_ptr + place[:, None] * C + k[None, :], mask=x_mask, other=0.0)
        active = active_of(x, (alpha_exp_ptr, inv_beta_ptr, bias_ptr), k, C, dtype)
        w_mask = is_k[:, None] & is_tap[None, :]
        w = tl.load(weight_ptr + tap[None, :] * C + k[:, None], mask=w_mask, other=0.0)
        total = tl.dot(factor(active), factor(w), total, input_precision="ieee")
    if HAS_GAPS:
        is_kept = tl.load(kept_ptr + row * num_spans + step // span, mask=is_step, other=0)
        total = tl.where((is_kept != 0)[:, None], total, 0.0)
    parts = parts_ptr + place[:, None] * PARTS + tap[None, :]
    tl.store(parts, total, mask=is_step[:, None] & is_tap[None, :])


@jit
def _sum_kernel(
    parts_ptr, conv_bias_ptr, out_ptr,
    steps,
    TAPS: tl.constexpr, PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1).to(tl.int64)
    step = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_step = step < steps
    total = tl.zeros((BLOCK,), tl.float32) + tl.load(conv_bias_ptr).to(tl.float32)
    for tap in tl.static_range(0, TAPS):
        source = step - (TAPS - 1) + tap
        part = parts_ptr + (row * steps + source) * PARTS + tap
        total += tl.load(part, mask=is_step & (source >= 0), other=0.0)
    tl.store(out_ptr + row * steps + step, total, mask=is_step)


@op(snake_out_ref)
def snake_out(
    x: Tensor, snake: Constants, weight: Tensor, conv_bias: Tensor, kept: Tensor | None = None
) -> Tensor:
    """SnakeBeta and a causal convolution to one channel.

    Args:
        x: (B, T, C), contiguous.
        snake: as for `snake_beta`.
        weight: (1, C, 1, taps), channels last, of x's dtype; at most 8 taps.
        conv_bias: (1,).
        kept: (B, F) bool, F a divisor of T, as for `snake_beta`.
    Returns:
        (B, T) float32.
    """
    batch, steps, channels = x.shape
    taps = weight.shape[3]
    if weight.shape != (1, channels, 1, taps) or taps > _PARTS or weight.dtype != x.dtype:
        raise ValueError(
            f"weight {tuple(weight.shape)} {weight.dtype} does not fit x {tuple(x.shape)} {x.dtype}"
        )
    check_constants(snake, channels)
    if not x.is_contiguous() or weight.stride(1) != 1 or weight.stride(3) != channels:
        raise ValueError("x must be contiguous and channels innermost in weight")
    if kept is not None and (kept.shape[0] != batch or steps % kept.shape[1]):
        raise ValueError(f"kept {tuple(kept.shape)} does not fit x {tuple(x.shape)}")
    out = torch.empty((batch, steps), dtype=torch.float32, device=x.device)
    parts = torch.empty((batch, steps, _PARTS), dtype=torch.float32, device=x.device)
    block_m, block_k = 128, min(32, max(16, next_power_of_2(channels)))
    _parts_kernel[(-(-steps // block_m), batch)](
        x, *snake, weight,
        x if kept is None else kept.contiguous(),
        parts,
        steps,
        1 if kept is None else kept.shape[1],
        1 if kept is None else steps // kept.shape[1],
        C=channels, TAPS=taps, PARTS=_PARTS,
        HAS_GAPS=kept is not None,
        BLOCK_M=block_m, BLOCK_K=block_k,
        num_warps=4, num_stages=2,
    )  # fmt: skip
    block = 1024
    _sum_kernel[(-(-steps // block), batch)](
        parts, conv_bias, out, steps, TAPS=taps, PARTS=_PARTS, BLOCK=block, num_warps=4
    )
    return out
