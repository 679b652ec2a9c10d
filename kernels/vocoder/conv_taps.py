"""A dilated convolution over time as one matrix product whose left side is read in place.

    out[b, t, n] = sum over taps k and channels c of x[b, t + k * dilation, c] * weight[n, c, k]

x is (B, T + (taps - 1) * dilation, C), its padding inside, channels innermost; weight is (N, C, 1,
taps), channels last, that is a matrix (N, taps * C) in memory; out is (B, T, N). With `snake` out
is SnakeBeta of that sum, which saves a pass over it.

cuDNN has no good kernel for some of these shapes (see `models/vocoder/layers.py`). Placing the taps
side by side first (`conv_unfolded` there) writes and reads seven times x; here a program reads the
same steps for every tap, mostly from the cache.

Rounding: sums are float32 and rounded once. SnakeBeta takes the rounded sum, and is rounded.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.launch.descriptors import described
from kernels.launch.dispatch import jit, next_power_of_2, tl
from kernels.launch.op import op
from kernels.vocoder.conv_tile import Tile, checked_shape, described_inputs, has_kernel, tap_sums
from kernels.vocoder.snake import Constants, active_of, check_constants, snake_beta

# By channels in and out. On an H200 with 4 * 1,024 frames of Qwen3-TTS, dilations 1 and 9 and the
# activation, ms: 1.86 and 1.9 at 384 channels, 1.40 at 768. From 192 to 288 without it 1.32, cuDNN
# 1.67; wider transposed convolutions are a library's, which is 3 to 8 % faster there.
TILES = {
    (96, 96): Tile(256, 64, 32, 32, 8, 4),
    (192, 192): Tile(128, 128, 64, 64, 8, 2, max_registers=128),
    (192, 288): Tile(256, 64, 32, 32, 8, 4),
    (384, 384): Tile(256, 128, 0, 64, 8, 4),
    (768, 768): Tile(256, 128, 0, 64, 8, 4),
}


def conv_taps_ref(
    x: Tensor, weight: Tensor, dilation: int, snake: Constants | None = None
) -> Tensor:
    """Plain PyTorch in float32."""
    taps = weight.shape[3]
    steps = x.shape[1] - (taps - 1) * dilation
    total = x.new_zeros(x.shape[0], steps, weight.shape[0], dtype=torch.float32)
    for tap in range(taps):
        shifted = x[:, tap * dilation :][:, :steps].float()
        total += shifted @ weight[:, :, 0, tap].float().t()
    out = total.to(x.dtype)
    return out if snake is None else snake_beta(out.transpose(1, 2), snake).transpose(1, 2)


@jit(do_not_specialize=["dilation"])
def _conv_taps_kernel(
    x, weight, weight_rest, out, out_rest,
    alpha_exp_ptr, inv_beta_ptr, bias_ptr,
    dilation,
    TAPS: tl.constexpr, C: tl.constexpr, N: tl.constexpr,
    HAS_SNAKE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, REST_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # Tiles of channels run first: they share the steps they read.
    num_n_tiles: tl.constexpr = (N + BLOCK_N + REST_N - 1) // (BLOCK_N + REST_N)
    program = tl.program_id(0)
    row = tl.program_id(1)
    first_step = program // num_n_tiles * BLOCK_M
    first_channel = program % num_n_tiles * (BLOCK_N + REST_N)
    total, rest = tap_sums(
        x, weight, weight_rest, row, first_step, first_channel, dilation, TAPS, C, BLOCK_M, BLOCK_N,
        REST_N, BLOCK_K,
    )  # fmt: skip
    snake = alpha_exp_ptr, inv_beta_ptr, bias_ptr
    channel = first_channel + tl.arange(0, BLOCK_N)
    if HAS_SNAKE:
        total = active_of(total, snake, channel, N, out.dtype)
    out.store([row, first_step, first_channel], total.to(out.dtype)[None])
    if REST_N > 0:
        channel = first_channel + BLOCK_N + tl.arange(0, REST_N)
        if HAS_SNAKE:
            rest = active_of(rest, snake, channel, N, out.dtype)
        out_rest.store([row, first_step, first_channel + BLOCK_N], rest.to(out.dtype)[None])


def tile_of(num_out: int, num_in: int, steps: int) -> Tile:
    """Launch settings for these numbers of channels; small tiles for few steps."""
    summed = 64 if num_in % 64 == 0 else 32 if num_in % 32 == 0 else 16
    if steps < 2048 or num_out <= 64:
        return Tile(64, min(64, max(16, next_power_of_2(num_out))), 0, summed, 4, 3)
    if (num_in, num_out) in TILES:
        return TILES[num_in, num_out]
    return Tile(128, 128, 0, summed, 8, 3)


@op(conv_taps_ref, has_kernel)
def conv_taps(x: Tensor, weight: Tensor, dilation: int, snake: Constants | None = None) -> Tensor:
    """Convolution over time without bias and groups, and SnakeBeta of it.

    Args:
        x: (B, T + (taps - 1) * dilation, C), last dimension contiguous.
        weight: (N, C, 1, taps), channels last, of x's dtype.
        snake: alpha_exp, inv_beta and bias, (N,) float32 each, as for `snake_beta`; None: no
            activation.
    Returns:
        (B, T, N), contiguous.
    Raises:
        ValueError: the arguments do not fit, or C or N is not a multiple of 16 bytes.
    """
    batch, steps, num_out = checked_shape(x, weight, dilation)
    if snake is not None:
        check_constants(snake, num_out)
    out = torch.empty((batch, steps, num_out), dtype=x.dtype, device=x.device)
    if batch == 0:
        return out
    num_in = x.shape[2]
    tile = tile_of(num_out, num_in, steps)
    num_n_tiles = -(-num_out // (tile.out + tile.out_rest))
    _conv_taps_kernel[(-(-steps // tile.steps) * num_n_tiles, batch)](
        *described_inputs(x, weight, tile),
        *(described(out, 1, tile.steps, part) for part in tile.parts), *(snake or (x, x, x)),
        dilation,
        TAPS=weight.shape[3], C=num_in, N=num_out,
        HAS_SNAKE=snake is not None,
        **tile.options(),
    )  # fmt: skip
    return out
