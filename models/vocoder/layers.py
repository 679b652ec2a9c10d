"""The layers of vocoders, all on (B, T, C) activations: channels innermost.

Linear layers, LayerNorm and attention need this layout, and convolutions are fastest on it: a 1-D
convolution here is a 2-D one of height 1 on a channels-last view, without a copy. On a CPU it is up
to five times as fast as the usual (B, C, T) at the narrow, long end.

In the decoder blocks the biases of convolutions and the padding on their left are part of the
SnakeBeta that touches the same memory anyway, and a residual unit adds onto its input in place. So
the residual stream `x` of a block lacks a constant per channel, which is the `bias` of every Snake
that reads it (see `tensors.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernels.attention.rope import apply_rope
from kernels.linear.layers import PLAIN, run_layers
from kernels.vocoder.conv_taps import conv_taps
from kernels.vocoder.conv_tile import has_kernel
from kernels.vocoder.residual_unit import MAX_CHANNELS, residual_unit_
from kernels.vocoder.snake import Constants, snake_beta
from models.decoder.config import TransformerConfig
from models.decoder.decoder import Affine, DecoderLayer, Weight
from models.vocoder.sizes import DILATIONS, KERNEL

# Channels times dilation from which a convolution in half precision that none of our kernels serves
# is one product over taps laid side by side: cuDNN (9.x, H200, bf16) computes some of those, for
# some lengths, with a direct kernel at 0.5 TFLOP/s, where their neighbours reach 250 to 790. The
# vocoder of Qwen3-TTS 0.6B on an H200, 32 rows of 125 frames, eager, with and without it:
# - bfloat16 without Hopper's copy engine, as on older and consumer GPUs: 78 ms and 2,827 ms;
# - bfloat16 with our kernels: 54.0 and 54.4 ms, they serve all of it;
# - float32: 261 and 203 ms, so cuDNN computes that.
UNFOLD_FROM = 2048
LAYER_NORM_EPS = 1e-6  # of the ConvNeXt blocks; not in the config


def conv(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, dilation: int = 1, groups: int = 1
) -> Tensor:
    """Convolution over time of x (B, T, C), which includes its padding. The weight is (C_out,
    C_in / groups, 1, kernel), channels last.
    """
    is_half = x.is_cuda and x.dtype.itemsize == 2
    if is_half and groups == 1 and dilation > 1 and dilation * x.shape[-1] >= UNFOLD_FROM:
        return conv_unfolded(x, weight, dilation)
    columns = x.transpose(1, 2).unsqueeze(2)
    out = F.conv2d(columns, weight, bias, dilation=(1, dilation), groups=groups)
    return out.squeeze(2).transpose(1, 2)


def has_unit_kernels(x: Tensor) -> bool:
    """Whether residual units on x (B, T, C) run our kernels from their dilated convolution on;
    otherwise the convolution is a library's. On a Hopper GPU in bfloat16 ours is as fast or
    up to twice as fast, also because the following activation needs no pass over memory.
    """
    is_fitting = x.dtype == torch.bfloat16 and x.shape[-1] % 8 == 0  # 8 fill the 16 bytes asked for
    return x.is_cuda and is_fitting and has_kernel(x)


def conv_unfolded(x: Tensor, weight: Tensor, dilation: int) -> Tensor:
    """The same convolution as one matrix product over the taps side by side; no bias, no groups."""
    _, padded, channels = x.shape
    taps = weight.shape[3]
    steps = padded - (taps - 1) * dilation
    columns = torch.cat([x[:, tap * dilation :][:, :steps] for tap in range(taps)], dim=-1)
    matrix = weight.permute(0, 3, 2, 1).reshape(weight.shape[0], taps * channels)
    return F.linear(columns, matrix)


def pad_left(x: Tensor, count: int, kept: Tensor | None = None) -> Tensor:
    """`count` zero steps before x (B, T, C), and zeros where `kept` (B, F) is false."""
    padded = F.pad(x, (0, 0, count, 0))
    if kept is not None:
        batch, num_frames = kept.shape
        frames = padded[:, count:].view(batch, num_frames, -1, x.shape[2])  # (B, F, T / F, C)
        frames.masked_fill_(~kept[:, :, None, None], 0.0)
    return padded


class Snake(nn.Module):
    """SnakeBeta of x + bias; its constants are float32 with any dtype of the weights."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha_exp = nn.Buffer(torch.empty(channels))
        self.inv_beta = nn.Buffer(torch.empty(channels))
        self.bias = nn.Buffer(torch.empty(channels))

    def forward(self, x: Tensor, left_pad: int = 0, kept: Tensor | None = None) -> Tensor:
        """(B, T, C) to (B, left_pad + T, C), zeros where `kept` (B, F) is false."""
        return snake_beta(x.transpose(1, 2), self.constants, left_pad, kept).transpose(1, 2)

    @property
    def constants(self) -> Constants:
        return self.alpha_exp, self.inv_beta, self.bias


class PreTransformer(nn.Module):
    """Causal transformer over frames with a sliding window.

    Args:
        latent_dim: width of inputs and outputs, with a linear map and biases before and after the
            layers; None: the layers' own, without maps.
    """

    def __init__(self, config: TransformerConfig, latent_dim: int | None = None) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.input_proj = None if latent_dim is None else Affine(width, latent_dim)
        # Layer scales are folded into `o` and `down`.
        self.layers: Sequence[DecoderLayer] = nn.ModuleList(  # type: ignore[assignment]
            DecoderLayer(config) for _ in range(config.num_layers)
        )
        self.norm = Weight(width)
        self.output_proj = None if latent_dim is None else Affine(latent_dim, width)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None = None
    ) -> Tensor:
        """(B, F, latent_dim) to the same; cos and sin (F, D_h) count frames from 0. Queries and
        keys are rotated in the tables' dtype. Without projections x may be overwritten.

        Args:
            positions: (B, F) each frame's index in its row, -1 in the gaps, if a lane has several
                rows.
        """
        batch, frames, latent_dim = x.shape
        mask = self.band_mask(frames, x)
        if positions is not None:
            places = positions.clamp(min=0)  # a frame of a gap attends to itself: softmax needs one
            mask = self.row_mask(mask, places)
            cos, sin = cos[places].unsqueeze(1), sin[places].unsqueeze(1)  # (B, 1, F, D_h)
        if self.input_proj is not None:
            x = F.linear(x, self.input_proj.weight, self.input_proj.bias)
        hidden = run_layers(
            x.reshape(batch * frames, -1),
            [layer.weights for layer in self.layers],
            self.norm.weight,
            self.config.norm_eps,
            lambda qkv, _: self.attend(qkv, batch, frames, cos, sin, mask),
            products=PLAIN,
        )
        if self.output_proj is not None:
            hidden = F.linear(hidden, self.output_proj.weight, self.output_proj.bias)
        return hidden.view(batch, frames, latent_dim)

    def attend(
        self, qkv: Tensor, batch: int, frames: int, cos: Tensor, sin: Tensor, mask: Tensor
    ) -> Tensor:
        """Attention of (B * F, (H + 2 * H_kv) * D_h) projections; returns (B * F, H * D_h)."""
        num_q, num_kv = self.config.num_heads, self.config.num_kv_heads
        heads = qkv.view(batch, frames, num_q + 2 * num_kv, -1).transpose(1, 2)
        rotated = apply_rope(heads[:, : num_q + num_kv].to(cos.dtype), cos, sin).to(qkv.dtype)
        q, k = rotated.split([num_q, num_kv], dim=1)
        v = heads[:, num_q + num_kv :].contiguous()
        attended = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, enable_gqa=num_q != num_kv
        )
        return attended.transpose(1, 2).reshape(batch * frames, -1)

    def band_mask(self, frames: int, like: Tensor) -> Tensor:
        """(F, F) additive mask: 0 for the frame itself and the window - 1 before it, else -inf.

        Made inside the forward pass, so that it is part of a captured graph. Its rows start at
        multiples of 16 elements, which attention kernels ask of a mask.
        """
        age = _ages(frames, like)
        is_hidden = (age < 0) | (age >= self.config.window)
        mask = torch.zeros(age.shape, dtype=like.dtype, device=like.device)
        return mask.masked_fill_(is_hidden, float("-inf"))[:, :frames]

    def row_mask(self, band: Tensor, places: Tensor) -> Tensor:
        """(B, 1, F, F) of a band mask (F, F) that also masks frames before a row's first one.

        Args:
            places: (B, F) each frame's index in its row.
        """
        frames = band.shape[0]
        is_foreign = _ages(frames, band) > places[:, :, None]  # (B, F, width)
        mask = torch.zeros(is_foreign.shape, dtype=band.dtype, device=band.device)
        mask[:, :, :frames] = band
        return mask.masked_fill_(is_foreign, float("-inf"))[:, None, :, :frames]


def _ages(frames: int, like: Tensor) -> Tensor:
    """(F, width) distance from each frame back to each other; width is F up to a multiple of 16."""
    rows = torch.arange(frames, device=like.device)
    columns = torch.arange(-(-frames // 16) * 16, device=like.device)
    return rows[:, None] - columns


class ConvNeXt(nn.Module):
    """Depthwise convolution, LayerNorm, GELU between two linear maps, residual. Its gamma is
    folded into `narrow`.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = Affine(channels, 1, 1, 7)
        self.norm = Affine(channels)
        self.widen = Affine(4 * channels, channels)
        self.narrow = Affine(channels, 4 * channels)

    def forward(self, x: Tensor, kept: Tensor | None = None) -> Tensor:
        """(B, T, C) to the same; the convolution finds zeros where `kept` (B, F) is false."""
        channels = x.shape[-1]
        h = conv(pad_left(x, 6, kept), self.depthwise.weight, self.depthwise.bias, groups=channels)
        h = F.layer_norm(h, (channels,), self.norm.weight, self.norm.bias, LAYER_NORM_EPS)
        h = F.gelu(F.linear(h, self.widen.weight, self.widen.bias))
        return F.linear(h, self.narrow.weight, self.narrow.bias).add_(x)


class UpsampleBlock(ConvNeXt):
    """A transposed convolution whose kernel is its stride, then a ConvNeXt block."""

    def __init__(self, channels: int, ratio: int) -> None:
        super().__init__(channels)
        self.expand = Affine(ratio * channels, channels)

    def forward(self, x: Tensor, kept: Tensor | None = None) -> Tensor:
        """(B, T, C) to (B, ratio * T, C); `kept` as in ConvNeXt."""
        batch, _, channels = x.shape
        # Kernel and stride being equal, each step makes its own `ratio` steps: a linear layer.
        x = F.linear(x, self.expand.weight, self.expand.bias).view(batch, -1, channels)
        return super().forward(x, kept)


class ResidualUnit(nn.Module):
    """Snake, dilated convolution, Snake, pointwise convolution, residual."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.dilation = dilation
        self.snake1 = Snake(channels)
        self.conv1 = Weight(channels, channels, 1, KERNEL)
        self.snake2 = Snake(channels)
        self.conv2 = Weight(channels, channels)

    def forward(self, x: Tensor, kept: Tensor | None = None) -> Tensor:
        """Add the unit's output to x (B, T, C) in place; `kept` (B, F) as in Snake."""
        h = self.snake1(x, (KERNEL - 1) * self.dilation, kept)
        channels, constants = x.shape[-1], self.snake2.constants
        taps, pointwise = self.conv1.weight, self.conv2.weight
        if not has_unit_kernels(h):
            h = conv(h, taps, dilation=self.dilation)  # one name: each one frees the previous
            h = self.snake2(h)
        elif channels <= MAX_CHANNELS:
            return residual_unit_(x, h, taps, self.dilation, constants, pointwise)
        else:
            h = conv_taps(h, taps, self.dilation, constants)
        x.view(-1, channels).addmm_(h.reshape(-1, channels), pointwise.t())
        return x


class DecoderBlock(nn.Module):
    """Snake, transposed convolution that halves the channels, three residual units."""

    def __init__(self, channels: int, rate: int) -> None:
        super().__init__()
        self.out_channels = channels // 2
        self.snake = Snake(channels)
        self.expand = Weight(rate * self.out_channels, channels, 1, 2)
        self.units = nn.ModuleList(
            ResidualUnit(self.out_channels, dilation) for dilation in DILATIONS
        )

    def forward(self, x: Tensor, kept: Tensor | None = None) -> Tensor:
        """(B, T, C) to (B, rate * T, C / 2); `kept` (B, F) as in Snake."""
        # The kernel is twice the stride: the `rate` new steps of t are a function of steps t - 1
        # and t, that is a convolution of kernel 2 with rate * C / 2 channels, whose result only
        # has to be read as more, narrower steps.
        h = self.snake(x, 1, kept)
        weight = self.expand.weight
        is_ours = has_unit_kernels(h) and x.shape[-1] <= MAX_CHANNELS and not len(weight) % 8
        h = conv_taps(h, weight, 1) if is_ours else conv(h, weight)
        h = h.reshape(x.shape[0], -1, self.out_channels)
        for unit in self.units:
            h = unit(h, kept)
        return h

    def work_elements(self, steps: int, has_kernels: bool, unfolds: bool, turns: bool) -> int:
        """Return the maximum of elements in memory at a time while `forward` turns `steps` into
        more steps.

        Args:
            has_kernels: whether units run our kernels. unfolds: whether a library's convolutions
                may be products over taps side by side. turns: whether a library's convolutions copy
                inputs and outputs with channels outermost.
        """
        rate = self.expand.weight.shape[0] // self.out_channels
        given, made = 2 * steps * self.out_channels, steps * rate * self.out_channels
        expansion = given  # its activation
        unit = made  # its first activation, without inputs and outputs
        if turns:
            expansion += given + made
            unit += 2 * made
        if not has_kernels or self.out_channels > MAX_CHANNELS:
            unit += made  # the convolution's result
        widest = max(dilation for dilation in DILATIONS)
        if unfolds and not has_kernels and widest * self.out_channels >= UNFOLD_FROM:
            unit += KERNEL * made
        return given + made + max(expansion, unit)
