"""A residual unit of the vocoder from its dilated convolution on, in one pass.

    x += snake_beta(conv_taps(s) + bias) @ pointwise^T          x (B, T, C), s with T's padding

With few channels, one program has all channels of its steps, so that neither the convolution's
result nor its activation needs memory: the separate operations write and read at least one of them.

Rounding is that of the separate operations: the convolution's sum is rounded, then the activation;
the product is added to x in float32 and rounded once.
"""

from __future__ import annotations

from torch import Tensor

from kernels.launch.descriptors import described
from kernels.launch.dispatch import factor, jit, tl
from kernels.launch.op import op
from kernels.vocoder.conv_taps import conv_taps_ref
from kernels.vocoder.conv_tile import (
    Tile,
    checked_shape,
    described_inputs,
    has_kernel,
    parts_of,
    tap_sums,
)
from kernels.vocoder.snake import Constants, active_of, check_constants

MAX_CHANNELS = 192  # of one tile
# By channels. On an H200 with 4,096 frames and dilations 1, 3 and 9, ms: 3.44, 3.37 and 3.41 at 96
# channels (the convolution, then the rest in one pass: 4.1), and 5.06, 5.26 and 4.89 at 192
# (`conv_taps` with its activation and a library's product: 5.7).
TILES = {96: Tile(128, 64, 32, 32, 4, 4, max_registers=168), 192: Tile(256, 128, 64, 64, 8, 3)}


def residual_unit_ref_(
    x: Tensor, s: Tensor, weight: Tensor, dilation: int, snake: Constants, pointwise: Tensor
) -> Tensor:
    """The separate operations in plain PyTorch, without tiles."""
    active = conv_taps_ref(s, weight, dilation, snake)
    product = active.float() @ pointwise.float().t()
    return x.copy_(x.float() + product)


@jit
def _add_linear_(
    x, pointwise, pointwise_rest, active, active_rest, row, first_step, first_channel,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, REST_N: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """x += activations @ pointwise^T for WIDTH channels, both operands in two parts."""
    w = pointwise.load([first_channel, 0])
    total = tl.zeros((BLOCK_M, WIDTH), tl.float32)
    total = tl.dot(active, factor(w).T, total, input_precision="ieee")
    if REST_N > 0:
        w = pointwise_rest.load([first_channel, BLOCK_N])
        total = tl.dot(active_rest, factor(w).T, total, input_precision="ieee")
    before = x.load([row, first_step, first_channel]).reshape(BLOCK_M, WIDTH)
    total += before.to(tl.float32)
    x.store([row, first_step, first_channel], total.to(x.dtype)[None])


@jit(do_not_specialize=["dilation"])
def _residual_unit_kernel(
    s, weight, weight_rest, x, x_rest, pointwise, pointwise_rest, rest_pointwise,
    rest_pointwise_rest,
    alpha_exp_ptr, inv_beta_ptr, bias_ptr,
    dilation,
    TAPS: tl.constexpr, C: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, REST_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    first_step = tl.program_id(0) * BLOCK_M
    row = tl.program_id(1)
    total, rest = tap_sums(
        s, weight, weight_rest, row, first_step, 0, dilation, TAPS, C, BLOCK_M, BLOCK_N, REST_N,
        BLOCK_K,
    )  # fmt: skip
    snake = alpha_exp_ptr, inv_beta_ptr, bias_ptr
    channel = tl.arange(0, BLOCK_N)
    active = factor(active_of(total, snake, channel, C, x.dtype))
    channel = BLOCK_N + tl.arange(0, REST_N if REST_N > 0 else 16)
    active_rest = factor(active_of(rest, snake, channel, C, x.dtype))
    _add_linear_(
        x, pointwise, pointwise_rest, active, active_rest, row, first_step, 0, BLOCK_M, BLOCK_N,
        REST_N, BLOCK_N,
    )  # fmt: skip
    if REST_N > 0:
        _add_linear_(
            x_rest, rest_pointwise, rest_pointwise_rest, active, active_rest, row, first_step,
            BLOCK_N, BLOCK_M, BLOCK_N, REST_N, REST_N,
        )  # fmt: skip


def tile_of(channels: int, steps: int) -> Tile:
    """Launch settings for this number of channels; small tiles for few steps."""
    if channels in TILES and steps >= 2048:
        return TILES[channels]
    return Tile(64, *parts_of(channels), 32 if channels >= 32 else 16, 4, 3)


@op(residual_unit_ref_, has_kernel)
def residual_unit_(
    x: Tensor, s: Tensor, weight: Tensor, dilation: int, snake: Constants, pointwise: Tensor
) -> Tensor:
    """x += snake_beta(convolution of s + bias) @ pointwise^T in place; returns x.

    Args:
        x: (B, T, C), contiguous.
        s: (B, T + (taps - 1) * dilation, C) of x's dtype, last dimension contiguous.
        weight: (C, C, 1, taps), channels last, of x's dtype.
        snake: alpha_exp, inv_beta and bias, (C,) float32 each, as for `snake_beta`.
        pointwise: (C, C) of x's dtype, contiguous.
    Raises:
        ValueError: the arguments do not fit, C is above MAX_CHANNELS or not a multiple of 16 bytes.
    """
    batch, steps, channels = checked_shape(s, weight, dilation)
    if x.shape != (batch, steps, channels) or x.dtype != s.dtype or not x.is_contiguous():
        raise ValueError(
            f"x {tuple(x.shape)} {x.dtype} must be contiguous, {(batch, steps, channels)} {s.dtype}"
        )
    if pointwise.shape != (channels, channels) or pointwise.dtype != x.dtype:
        have = f"{tuple(pointwise.shape)} {pointwise.dtype}"
        raise ValueError(f"pointwise {have} does not fit {channels} channels of {x.dtype}")
    if not pointwise.is_contiguous():
        raise ValueError("pointwise must be contiguous")
    if channels > MAX_CHANNELS:
        raise ValueError(f"at most {MAX_CHANNELS} channels, not {channels}")
    check_constants(snake, channels)
    tile = tile_of(channels, steps)
    if batch == 0:
        return x
    _residual_unit_kernel[(-(-steps // tile.steps), batch)](
        *described_inputs(s, weight, tile),
        *(described(x, 1, tile.steps, part) for part in tile.parts),
        *(described(pointwise, part, summed) for part in tile.parts for summed in tile.parts),
        *snake,
        dilation,
        TAPS=weight.shape[3], C=channels,
        **tile.options(),
    )  # fmt: skip
    return x
