"""SnakeBeta, the activation between the vocoder's convolutions.

    y = x + bias,    snake_beta = y + inv_beta * sin(y * alpha_exp)^2    per channel

x is (B, C, T) in any layout; alpha_exp, inv_beta and bias are (C,) float32. In the vocoder channels
are innermost, so x is a transposed view, and the result has the same order.

PyTorch needs four passes over activations that reach 24,000 columns a second; the kernel needs one
read and one write. It includes or avoids everything that would cost more:
- the bias of the preceding convolution, which cuDNN would add in another kernel;
- the zeros that a causal convolution needs on its left (`left_pad`): padding later copies
  everything;
- the zeros between rows of a lane (`kept`), for the same reason;
- the general sine, with its slow path for large arguments. sin^2 has period pi, so the nearest
  multiple of pi is subtracted; then in bfloat16 the GPU's own sine is enough (error 5e-7, while
  bfloat16 has 4e-3 of a value), in float32 an odd polynomial (error 5e-9).

Rounding: everything is float32, and the result is rounded once.

Source: SnakeBeta of the `Qwen3TTSTokenizerV2` decoder (Qwen team, Apache-2.0); Ziyin et al.,
arXiv:2006.08195. The three parts of pi are those of the Cephes library.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.launch.dispatch import HAS_PTX, jit, tl
from kernels.launch.op import op

REF_BLOCK = 131_072  # elements per pass of the CPU path
WIDE_CHANNELS = 192  # from which a program handles more


Constants = tuple[Tensor, Tensor, Tensor]  # alpha_exp, inv_beta and bias, each (C,) float32


def snake_beta_ref(
    x: Tensor, snake: Constants, left_pad: int = 0, kept: Tensor | None = None
) -> Tensor:
    """Plain PyTorch in float32."""
    _check(x, left_pad, kept, snake)
    alpha_exp, inv_beta, bias = (values[:, None] for values in snake)
    out = _empty_result(x, left_pad)
    out[:, :, :left_pad].zero_()
    batch, channels, length = x.shape
    # On a CPU temporaries must stay in the cache: new memory for a whole activation costs more than
    # the arithmetic.
    is_cpu = x.device.type == "cpu"
    step = max(REF_BLOCK // max(batch * channels, 1), 1) if is_cpu else max(length, 1)
    for start in range(0, length, step):
        y = x[:, :, start : start + step].float() + bias
        wave = (y * alpha_exp).sin_()
        wave.mul_(wave)
        first = left_pad + start
        out[:, :, first : first + step] = torch.addcmul(y, wave, inv_beta)
    if kept is not None:
        is_gap = ~kept.repeat_interleave(length // kept.shape[1], dim=1)
        out[:, :, left_pad:].masked_fill_(is_gap[:, None], 0.0)
    return out


@jit
def sine(x):
    """sin(x) for x in [-pi/2, pi/2], to 5e-7."""
    if HAS_PTX:
        return tl.inline_asm_elementwise(
            "sin.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        return tl.sin(x)


@jit
def snake_of(y, alpha_exp, inv_beta, dtype: tl.constexpr):
    """y + inv_beta * sin(y * alpha_exp)^2 in float32, precise enough to be rounded to dtype."""
    # Adding 1.5 * 2^23 and subtracting it rounds to a whole number.
    if dtype == tl.bfloat16:
        half_turns = y * (alpha_exp * 0.3183098861837907)
        whole = (half_turns + 12582912.0) - 12582912.0
        wave = sine((half_turns - whole) * 3.141592653589793)
        return y + inv_beta * wave * wave
    # r^2 times the square of a polynomial for sin(r) / r on [-pi/2, pi/2]. The bound on r^2 only
    # matters for phases beyond 1e7, where float32 has no fraction any more.
    phase = y * alpha_exp
    turns = (phase * 0.3183098861837907 + 12582912.0) - 12582912.0
    r = phase - turns * 3.140625
    r = r - turns * 9.67502593994140625e-4
    r = r - turns * 1.509957990978376432e-7
    z = tl.minimum(r * r, 2.4674012, propagate_nan=tl.PropagateNan.ALL)
    ratio = -1.980661515e-4 + z * 2.600054647e-6
    ratio = 8.333017291e-3 + z * ratio
    ratio = -1.66666571e-1 + z * ratio
    ratio = 1.0 + z * ratio
    return y + inv_beta * (z * ratio * ratio)


@jit
def active_of(total, snake, channel, C: tl.constexpr, dtype: tl.constexpr):
    """SnakeBeta of sums (steps, channels), both rounded to dtype; zero beyond the channels.
    `snake`: addresses of its three constants.
    """
    is_channel = channel < C
    alpha_exp = tl.load(snake[0] + channel, mask=is_channel, other=0.0)[None, :]
    inv_beta = tl.load(snake[1] + channel, mask=is_channel, other=0.0)[None, :]
    bias = tl.load(snake[2] + channel, mask=is_channel, other=0.0)[None, :]
    h = total.to(dtype).to(tl.float32)
    return snake_of(h + bias, alpha_exp, inv_beta, dtype).to(dtype)


@jit
def _snake_beta_kernel(
    x_ptr, alpha_exp_ptr, inv_beta_ptr, bias_ptr, kept_ptr, out_ptr,
    num_channels, out_length, left_pad, num_spans, span, num_c_blocks, num_t_blocks,
    x_stride_b, x_stride_c, x_stride_t, out_stride_b, out_stride_c, out_stride_t,
    HAS_GAPS: tl.constexpr,
    BLOCK_C: tl.constexpr, BLOCK_T: tl.constexpr,
):  # fmt: skip
    # A flat grid: rows times channels may exceed the limit of the second grid axis. Channel blocks
    # come first, so that programs running together touch neighbouring memory.
    program = tl.program_id(0)
    c_block = program % num_c_blocks
    t_block = (program // num_c_blocks) % num_t_blocks
    row = (program // num_c_blocks // num_t_blocks).to(tl.int64)
    channels = c_block * BLOCK_C + tl.arange(0, BLOCK_C)
    times = t_block * BLOCK_T + tl.arange(0, BLOCK_T)
    is_channel = channels < num_channels
    alpha_exp = tl.load(alpha_exp_ptr + channels, mask=is_channel, other=0.0)[:, None]
    inv_beta = tl.load(inv_beta_ptr + channels, mask=is_channel, other=0.0)[:, None]

    wide_c = channels.to(tl.int64)[:, None]
    wide_t = times.to(tl.int64)[None, :]
    is_out = is_channel[:, None] & (times < out_length)[None, :]
    is_in = is_out & (times >= left_pad)[None, :]
    x_offsets = row * x_stride_b + wide_c * x_stride_c + (wide_t - left_pad) * x_stride_t
    y = tl.load(x_ptr + x_offsets, mask=is_in, other=0.0).to(tl.float32)
    y += tl.load(bias_ptr + channels, mask=is_channel, other=0.0)[:, None]

    result = snake_of(y, alpha_exp, inv_beta, out_ptr.dtype.element_ty)
    if HAS_GAPS:
        # left_pad is at most a few steps; negative places are masked by is_in below.
        place = row * num_spans + tl.maximum(times - left_pad, 0) // span
        is_kept = tl.load(kept_ptr + place, mask=times < out_length, other=0)
        result = tl.where((is_kept != 0)[None, :], result, 0.0)
    if t_block * BLOCK_T < left_pad:
        result = tl.where(is_in, result, 0.0)

    out_offsets = row * out_stride_b + wide_c * out_stride_c + wide_t * out_stride_t
    tl.store(out_ptr + out_offsets, result.to(out_ptr.dtype.element_ty), mask=is_out)


def tile_settings(num_channels: int) -> tuple[int, int]:
    """Elements per program, and its warps: the fastest of 12 settings on an H200."""
    return (8192, 2) if num_channels >= WIDE_CHANNELS else (4096, 4)


@op(snake_beta_ref)
def snake_beta(
    x: Tensor, snake: Constants, left_pad: int = 0, kept: Tensor | None = None
) -> Tensor:
    """SnakeBeta of x + bias, optionally after zeros.

    Args:
        x: (B, C, T), any strides.
        snake: alpha_exp, exp of the stored alpha; inv_beta, 1 / (exp of the stored beta + 1e-9);
            and bias.
        left_pad: zero columns put before the result.
        kept: (B, F) bool, F a divisor of T: false sets T / F columns to zero; None: no columns are
            zeroed.
    Returns:
        (B, C, left_pad + T) in x's dtype, dense; channels innermost if they are in x.
    """
    _check(x, left_pad, kept, snake)
    out = _empty_result(x, left_pad)
    if out.numel() == 0:
        return out
    out_length = out.shape[2]
    num_channels = x.shape[1]
    block_c = _channel_block(num_channels) if _is_channels_innermost(x) else 1
    tile, num_warps = tile_settings(num_channels)
    block_t = max(tile // block_c, 1)
    num_c_blocks = -(-num_channels // block_c)
    num_t_blocks = -(-out_length // block_t)
    _snake_beta_kernel[(x.shape[0] * num_c_blocks * num_t_blocks,)](
        x, *snake,
        x if kept is None else kept.contiguous(),
        out,
        num_channels, out_length, left_pad,
        1 if kept is None else kept.shape[1],
        1 if kept is None else x.shape[2] // kept.shape[1],
        num_c_blocks, num_t_blocks,
        *x.stride(), *out.stride(),
        HAS_GAPS=kept is not None,
        BLOCK_C=block_c, BLOCK_T=block_t,
        num_warps=num_warps,
    )  # fmt: skip
    return out


def check_constants(snake: Constants, num_channels: int) -> None:
    """Raise ValueError unless alpha_exp, inv_beta and bias are (num_channels,) float32."""
    for name, values in zip(("alpha_exp", "inv_beta", "bias"), snake, strict=True):
        if values.shape != (num_channels,) or values.dtype != torch.float32:
            have = f"{tuple(values.shape)} {values.dtype}"
            raise ValueError(f"{name} must be ({num_channels},) float32, not {have}")


def _check(x: Tensor, left_pad: int, kept: Tensor | None, snake: Constants) -> None:
    check_constants(snake, x.shape[1])
    if left_pad < 0:
        raise ValueError(f"left_pad must not be negative, it is {left_pad}")
    if kept is not None:
        is_fitting = kept.ndim == 2 and kept.shape[0] == x.shape[0] and kept.shape[1] > 0
        if not is_fitting or x.shape[2] % kept.shape[1] or kept.dtype != torch.bool:
            raise ValueError(
                f"kept {tuple(kept.shape)} {kept.dtype} must be (B, F) bool, F a divisor of T, for "
                f"x {tuple(x.shape)}"
            )


def _channel_block(num_channels: int) -> int:
    """The widest power of two up to 128 that divides the channels; at least 16, then masked."""
    return max(min(num_channels & -num_channels, 128), 16)


def _is_channels_innermost(x: Tensor) -> bool:
    return x.shape[1] > 1 and x.stride(1) == 1 and x.stride(2) != 1


def _empty_result(x: Tensor, left_pad: int) -> Tensor:
    batch, channels, length = x.shape
    if _is_channels_innermost(x):
        return x.new_empty(batch, left_pad + length, channels).transpose(1, 2)
    return x.new_empty(batch, channels, left_pad + length)
