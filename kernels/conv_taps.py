"""A dilated convolution over time as one matrix product whose left side is read in place.

    out[b, t, n] = sum over taps k and channels c of x[b, t + k * dilation, c] * weight[n, c, k]

x is (B, T + (taps - 1) * dilation, C), its padding inside, channels innermost; weight is
(N, C, 1, taps), channels last, that is a matrix (N, taps * C) in memory; out is (B, T, N).

cuDNN has no good kernel for some of these shapes (see `models/vocoder_blocks.py`). Laying the taps
side by side first (`conv_unfolded` there) writes and reads seven times x; here a program walks
through the taps of a tile of steps and finds most of them in the cache: the same steps serve
every tap. Sums are float32 and rounded once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.dispatch import IS_INTERPRETED, jit, next_power_of_2, tl, use_triton

BLOCK_K = 64
# Steps and channels of a tile, warps, pipeline stages, by the number of channels out.
Settings = tuple[int, int, int, int]


def conv_taps_ref(x: Tensor, weight: Tensor, dilation: int) -> Tensor:
    """Plain PyTorch in float32: the CPU path, and what the kernel is tested against."""
    taps = weight.shape[3]
    steps = x.shape[1] - (taps - 1) * dilation
    total = x.new_zeros(x.shape[0], steps, weight.shape[0], dtype=torch.float32)
    for tap in range(taps):
        shifted = x[:, tap * dilation :][:, :steps].float()
        total += shifted @ weight[:, :, 0, tap].float().t()
    return total.to(x.dtype)


@jit
def _conv_taps_kernel(
    x_ptr,
    weight_ptr,
    out_ptr,
    steps,
    num_in,
    num_out,
    num_n_tiles,
    dilation,
    x_stride_b,
    x_stride_t,
    weight_stride_n,
    out_stride_b,
    TAPS: tl.constexpr,
    UPCAST: tl.constexpr,
    IS_EVEN: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    # Tiles of channels run first: they share the steps they read.
    program = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    first_step = (program // num_n_tiles) * BLOCK_M
    step = first_step + tl.arange(0, BLOCK_M)
    channel = (program % num_n_tiles) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    is_step = step < steps
    is_channel = channel < num_out
    # Steps past the end are read at the last one and not stored.
    inside = tl.minimum(step, steps - 1).to(tl.int64)
    x_base = x_ptr + row * x_stride_b + inside[:, None] * x_stride_t + k[None, :]
    w_row = tl.where(is_channel, channel, 0).to(tl.int64)
    w_base = weight_ptr + w_row[None, :] * weight_stride_n + k[:, None]
    num_k = (num_in + BLOCK_K - 1) // BLOCK_K
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for index in range(0, TAPS * num_k):
        tap = index // num_k
        first = (index - tap * num_k) * BLOCK_K
        x_at = x_base + (tap * dilation).to(tl.int64) * x_stride_t + first
        w_at = w_base + tap * num_in + first
        if IS_EVEN:
            a = tl.load(x_at)
            b = tl.load(w_at)
        else:
            a = tl.load(x_at, mask=(first + k < num_in)[None, :], other=0.0)
            b = tl.load(w_at, mask=(first + k < num_in)[:, None], other=0.0)
        if UPCAST:
            a = a.to(tl.float32)
            b = b.to(tl.float32)
        total = tl.dot(a, b, total, input_precision="ieee")
    out = out_ptr + row * out_stride_b + step[:, None].to(tl.int64) * num_out + channel[None, :]
    mask = is_step[:, None] & is_channel[None, :]
    tl.store(out, total.to(out_ptr.dtype.element_ty), mask=mask)


def launch_settings(num_out: int, steps: int) -> Settings:
    """Tile and pipeline for so many channels out; small tiles where there are few steps."""
    if steps < 2048 or num_out <= 64:
        return 64, min(64, max(16, next_power_of_2(num_out))), 4, 3
    if num_out % 256 == 0:
        return 128, 256, 8, 3
    if num_out % 128:  # 192 channels: 5.1 ms where tiles of 128 take 8.4
        return 128, 64, 4, 4
    return 128, 128, 8, 3


def conv_taps(x: Tensor, weight: Tensor, dilation: int, settings: Settings | None = None) -> Tensor:
    """Convolution over time without bias and groups.

    Args:
        x: (B, T + (taps - 1) * dilation, C), last dimension contiguous.
        weight: (N, C, 1, taps), channels last, of x's dtype.
        settings: instead of `launch_settings`, to measure others.
    Returns:
        (B, T, N), contiguous.
    """
    if not use_triton(x):
        return conv_taps_ref(x, weight, dilation)
    batch, padded, num_in = x.shape
    num_out, taps = weight.shape[0], weight.shape[3]
    steps = padded - (taps - 1) * dilation
    if weight.shape[1:3] != (num_in, 1) or weight.dtype != x.dtype or steps < 1:
        raise ValueError(
            f"weight {tuple(weight.shape)} {weight.dtype} with dilation {dilation} does not fit x "
            f"{tuple(x.shape)} {x.dtype}"
        )
    if x.stride(2) != 1 or weight.stride(1) != 1 or (taps > 1 and weight.stride(3) != num_in):
        raise ValueError("channels must be innermost in x and in weight")
    out = torch.empty((batch, steps, num_out), dtype=x.dtype, device=x.device)
    if batch == 0:
        return out
    block_m, block_n, num_warps, num_stages = settings or launch_settings(num_out, steps)
    num_n_tiles = -(-num_out // block_n)
    _conv_taps_kernel[(-(-steps // block_m) * num_n_tiles, batch)](
        x,
        weight,
        out,
        steps,
        num_in,
        num_out,
        num_n_tiles,
        dilation,
        x.stride(0),
        x.stride(1),
        weight.stride(0),
        out.stride(0),
        TAPS=taps,
        UPCAST=IS_INTERPRETED,  # the interpreter multiplies the bits of bfloat16, not its values
        IS_EVEN=num_in % BLOCK_K == 0,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=BLOCK_K,
        num_warps=num_warps,
        num_stages=num_stages,
    )
    return out
