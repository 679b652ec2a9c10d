"""The codec of Qwen3-TTS: frames of codes to 24 kHz samples, and back.

Vocoder (`Qwen3TTSTokenizerV2Decoder`): code vectors summed over K codebooks, a convolution, a
transformer with a sliding window, upsampling blocks at latent width, then decoder blocks that raise
the rate and halve the channels down to one channel of samples. Everything is causal: a frame's
samples depend on it and earlier frames only, so rows of a batch may be right-padded and trimmed,
and F frames give exactly F * samples_per_frame samples. Rows may also be stored one after the other
(`positions`): attention sees its own row only, and every convolution finds zeros in the
`gap_frames` between two rows, as it does before the first. Convolutions after the transformer reach
back 10 frames, the transformer layers * (window - 1); long sequences are cut as in the official
code (`CUT`).

Speech encoder (`Qwen3TTSTokenizerV2Encoder`, a Mimi encoder): convolutions with strides reduce the
rate to two steps per frame, a causal transformer over the steps, one more convolution that halves
the rate; then each frame's vector is quantised: by the first codebook and by a chain of the others
(each on the remainder of the one before). Everything is causal, but a clip's last frame is not
whole: each convolution with a stride pads its own input, with zeros, or with the last step before
the rate is halved. Padding the samples instead would give other codes there. So clips in a batch
have lengths, each input is padded where its clip ends, and results in the padding are dropped. It
always computes in float32: it runs once per reference, and a code that flips changes the voice.

Source: the official `qwen-tts` 0.1.1 package (Qwen team, Apache-2.0) and the Mimi model of
transformers 4.57 (Apache-2.0), reproduced to rounding; Défossez et al. 2024, "Moshi".
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernels.attention.rope import apply_rope
from models.checkpoint.weights import Network
from models.decoder.config import TransformerConfig
from models.decoder.decoder import Affine, Weight, fixed, rope_of
from models.qwen3_tts.config import HALVING, SpeechEncoderConfig, VocoderConfig
from models.qwen3_tts.tensors import encoder_table, vocoder_table
from models.vocoder.chunks import Cutting
from models.vocoder.fold import FOLDS, plain
from models.vocoder.layers import PreTransformer, conv, pad_left
from models.vocoder.network import CodecDecoder
from models.vocoder.sizes import PRE_KERNEL

CUT = Cutting(chunk_frames=300, left_context=25)  # of the official decoder


class Vocoder(CodecDecoder):
    """Codes to samples."""

    cut = CUT
    table = staticmethod(vocoder_table)

    def __init__(self, config: VocoderConfig) -> None:
        super().__init__(config)
        self.num_entries = config.semantic_codes
        self.codebooks = fixed(sum(config.codebook_sizes), config.codebook_dim)
        self.pre_conv = Affine(config.latent_dim, config.codebook_dim, 1, PRE_KERNEL)
        self.pre_transformer = PreTransformer(config.frames, config.latent_dim)

    @torch.no_grad()
    def latents(self, codes: Tensor, positions: Tensor | None = None) -> Tensor:
        """(B, K, F) codes below `num_entries` to (B, F, latent_dim), a fiftieth of the work."""
        tables = self.checked_tables(codes)
        kept = None if positions is None else positions >= 0
        x = pad_left(self.look_up(codes), PRE_KERNEL - 1, kept)
        x = conv(x, self.pre_conv.weight, self.pre_conv.bias)
        return self.pre_transformer(x, *tables, positions)

    def bound_(self, samples: Tensor) -> Tensor:
        return samples.clamp_(-1, 1)


class EncoderStage(nn.Module):
    """A residual block, then a convolution that divides the rate and doubles the channels."""

    def __init__(self, channels: int, config: SpeechEncoderConfig, stride: int) -> None:
        super().__init__()
        inner = channels // config.compress
        self.stride = stride
        self.inner1 = Affine(inner, channels, config.residual_kernel)
        self.inner2 = Affine(channels, inner, 1)
        self.down = Affine(2 * channels, channels, 2 * stride)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, C, T) to (B, 2 C, T / stride, rounded up), and the new lengths."""
        h = causal_conv(F.elu(x), self.inner1.weight, self.inner1.bias)
        h = causal_conv(F.elu(h), self.inner2.weight, self.inner2.bias)
        x = F.elu(x + h)
        x = x.masked_fill(torch.arange(x.shape[2], device=x.device) >= lengths[:, None, None], 0)
        x = F.pad(x, (0, -x.shape[2] % self.stride))
        return (
            causal_conv(x, self.down.weight, self.down.bias, self.stride),
            divide_up(lengths, self.stride),
        )


class TransformerLayer(nn.Module):
    """LayerNorm, causal attention, residual; LayerNorm, GELU between two linear maps, residual."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width = config.width
        queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        self.heads = (config.num_heads, config.num_kv_heads, config.num_kv_heads)
        self.eps = config.norm_eps
        self.input_norm = Affine(width)
        self.q = Weight(queries, width)
        self.k = Weight(keys, width)
        self.v = Weight(keys, width)
        self.o = Weight(width, queries)
        self.attention_scale = Weight(width)
        self.post_norm = Affine(width)
        self.widen = Weight(config.mlp_width, width)
        self.narrow = Weight(width, config.mlp_width)
        self.mlp_scale = Weight(width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """(B, T, D) to the same; cos and sin (T, D_h)."""
        batch, steps, width = x.shape
        h = F.layer_norm(x, (width,), self.input_norm.weight, self.input_norm.bias, self.eps)
        q, k, v = (
            F.linear(h, part.weight).view(batch, steps, heads, -1).transpose(1, 2)
            for part, heads in zip((self.q, self.k, self.v), self.heads, strict=True)
        )
        attended = F.scaled_dot_product_attention(
            apply_rope(q, cos, sin),
            apply_rope(k, cos, sin),
            v,
            is_causal=True,
            enable_gqa=self.heads[0] != self.heads[1],
        )
        h = F.linear(attended.transpose(1, 2).flatten(2), self.o.weight)
        x = x + self.attention_scale.weight * h
        h = F.layer_norm(x, (width,), self.post_norm.weight, self.post_norm.bias, self.eps)
        h = F.linear(F.gelu(F.linear(h, self.widen.weight)), self.narrow.weight)
        return x + self.mlp_scale.weight * h


class SpeechEncoder(Network):
    """Samples to codes."""

    table = staticmethod(encoder_table)
    ways = FOLDS
    prepared = staticmethod(plain)

    def __init__(self, config: SpeechEncoderConfig) -> None:
        super().__init__()
        self.config = config
        channels = [config.num_filters << index for index in range(len(config.strides) + 1)]
        self.first = Affine(channels[0], 1, config.kernel)
        self.stages = nn.ModuleList(
            EncoderStage(width, config, stride)
            for width, stride in zip(channels[:-1], config.strides, strict=True)
        )
        width, steps = config.steps.width, config.steps
        self.last = Affine(width, channels[-1], config.last_kernel)
        self.layers = nn.ModuleList(TransformerLayer(steps) for _ in range(steps.num_layers))
        self.halve = Weight(width, width, config.halving_kernel)
        self.semantic = Weight(config.codebook_dim, width, 1)
        self.acoustic = Weight(config.codebook_dim, width, 1)
        self.codebooks = Weight(config.num_codebooks, config.codebook_size, config.codebook_dim)

    @torch.no_grad()
    def forward(self, waves: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encode clips.

        Args:
            waves: (B, N) float32 at `config.sample_rate_hz`, padded on the right with any finite
                values.
            lengths: (B,) int64 samples of each, at least 1.
        Returns:
            (B, F, K) int64 codes, and (B,) frames of each clip; codes after a clip's last frame are
                meaningless.
        """
        x = causal_conv(waves.unsqueeze(1), self.first.weight, self.first.bias)
        for stage in self.stages:
            x, lengths = stage(x, lengths)
        x = causal_conv(F.elu(x), self.last.weight, self.last.bias).transpose(1, 2)
        cos, sin = rope_of(self.config.steps, x.shape[1], x.device, x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.quantise(self.halved(x, lengths)), divide_up(lengths, HALVING)

    def halved(self, x: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, D) at two steps per frame to (B, F, D); edges are repeated, not zero."""
        steps = torch.arange(
            HALVING - self.halve.weight.shape[2], x.shape[1] + x.shape[1] % HALVING, device=x.device
        )
        source = torch.minimum(steps, lengths[:, None] - 1).clamp(min=0)
        x = x.gather(1, source.unsqueeze(2).expand(-1, -1, x.shape[2]))
        return F.conv1d(x.transpose(1, 2), self.halve.weight, stride=HALVING).transpose(1, 2)

    def quantise(self, x: Tensor) -> Tensor:
        """(B, F, D) to (B, F, K) int64: per codebook the nearest entry, the first of equals."""
        codes = []
        for index, codebook in enumerate(self.codebooks.weight):
            if index < 2:
                projection = self.semantic if index == 0 else self.acoustic
                rest = F.conv1d(x.transpose(1, 2), projection.weight).transpose(1, 2).flatten(0, 1)
            code = torch.cdist(rest.unsqueeze(0), codebook.unsqueeze(0))[0].argmin(-1)
            rest = rest - F.embedding(code, codebook)
            codes.append(code)
        return torch.stack(codes, dim=-1).view(*x.shape[:2], -1)


def causal_conv(x: Tensor, weight: Tensor, bias: Tensor, stride: int = 1) -> Tensor:
    """(B, C_in, T) to (B, C_out, T / stride), with zeros before the first step."""
    return F.conv1d(F.pad(x, (weight.shape[2] - stride, 0)), weight, bias, stride)


def divide_up(lengths: Tensor, divisor: int) -> Tensor:
    return (lengths + divisor - 1) // divisor
