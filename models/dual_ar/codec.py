"""The codec of dual-AR models, a causal DAC: frames of codes to 44.1 kHz samples, and back.

Vocoder: one vector per codebook summed, a transformer over frames with a sliding window, two
upsampling blocks, then decoder blocks that raise the rate and halve the channels down to one
channel of samples, and tanh. All of it is causal, so rows of a batch may be right-padded and
trimmed, and F frames give exactly F * samples_per_frame samples. Rows may also be stored one after
the other (`positions`): attention sees its own row only, and every convolution finds zeros in the
`gap_frames` between two rows. The convolutions reach back 10 frames, the transformer more than a
thousand; and its tables of RoPE are rounded, so that a frame's position matters a little. Chunks
are exact nevertheless: latents are made from a row's first frame on, and chunks contain only the
later layers (`Cutting.renders_windows`).

Encoder: blocks lower the rate and double the channels, a transformer with a sliding window over the
steps, two more convolutions to frames, a second transformer over the frames; then each frame's
vector is quantised in a chain: the semantic codebook, then the residual ones, each on the remainder
of the one before. The nearest entry is that of the smallest angle, in the few dimensions of a
codebook; the unscaled entry is subtracted. A clip is padded with silence to whole frames.
Everything is causal, so clips in a batch do not change each other's codes. It always computes in
float32: it runs once per reference, and a code that flips changes the voice.

Source: fish-speech 0.1.0 (Fish Audio, Apache-2.0), reproduced to rounding.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.checkpoint.weights import Network
from models.decoder.config import TransformerConfig
from models.decoder.decoder import Affine, fixed, rope_of
from models.device.clips import clip_batches
from models.dual_ar.config import CodecConfig
from models.dual_ar.tensors import LAST_KERNEL, decoder_table, encoder_table
from models.slots.runner import VoiceEncoder
from models.vocoder.chunks import Cutting
from models.vocoder.fold import FOLDS, plain
from models.vocoder.layers import ConvNeXt, PreTransformer, ResidualUnit, Snake, conv, pad_left
from models.vocoder.network import CodecDecoder
from models.vocoder.sizes import DILATIONS

# With the frames that samples reach back to, two chunks fill a lane. For latents all frames before
# a chunk are its context, up to what RoPE tables are made for.
CHUNK_FRAMES = 496


class DACVocoder(CodecDecoder):
    """Codes to samples."""

    table = staticmethod(decoder_table)

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(config)
        self.codebooks = fixed(sum(config.codebook_sizes), config.latent_dim)
        # A chunk and its context fill the RoPE tables.
        context = config.frames.max_positions - CHUNK_FRAMES
        self.cut = Cutting(CHUNK_FRAMES, left_context=context, renders_windows=True)
        self.transformer = PreTransformer(config.frames)

    @torch.no_grad()
    def latents(self, codes: Tensor, positions: Tensor | None = None) -> Tensor:
        """(B, K, F) codes to (B, F, latent_dim), a thirtieth of the work. Codes beyond a
        codebook count as its last entry, as in the official code.
        """
        tables = self.checked_tables(codes)
        x = self.look_up(torch.minimum(codes, self.last_codes))
        return self.transformer(x, *tables, positions)

    def bound_(self, samples: Tensor) -> Tensor:
        return samples.tanh_()


class EncoderBlock(nn.Module):
    """Three residual units, Snake, a convolution that divides the rate and doubles the channels."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.units = nn.ModuleList(ResidualUnit(channels, dilation) for dilation in DILATIONS)
        self.snake = Snake(channels)
        self.down = Affine(2 * channels, stride * channels, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, C) to (B, T / stride, 2 C); T is a multiple of the stride. Overwrites x."""
        for unit in self.units:
            x = unit(x)
        batch, _, channels = x.shape
        # The kernel is twice the stride: `stride` steps side by side are one step of kernel 2.
        h = self.snake(x, left_pad=self.stride).view(batch, -1, self.stride * channels)
        return conv(h, self.down.weight, self.down.bias).contiguous()


class DownsampleBlock(ConvNeXt):
    """A convolution whose kernel is its stride, then a ConvNeXt block."""

    def __init__(self, channels: int, ratio: int) -> None:
        super().__init__(channels)
        self.ratio = ratio
        self.reduce = Affine(channels, ratio * channels)

    def forward(self, x: Tensor, kept: Tensor | None = None) -> Tensor:
        """(B, T, C) to (B, T / ratio, C); `kept` as in ConvNeXt."""
        batch, _, channels = x.shape
        x = x.reshape(batch, -1, self.ratio * channels)
        return super().forward(F.linear(x, self.reduce.weight, self.reduce.bias), kept)


class CodecEncoder(Network):
    """Samples to codes."""

    table = staticmethod(encoder_table)
    ways = FOLDS
    prepared = staticmethod(plain)

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.config = config
        channels, latent = config.encoder_dim, config.latent_dim
        self.first_conv = Affine(channels, 1, 1, 7)
        self.blocks = nn.ModuleList(
            EncoderBlock(channels << index, stride)
            for index, stride in enumerate(config.encoder_strides)
        )
        self.steps = PreTransformer(config.steps)
        self.last_snake = Snake(latent)
        self.last_conv = Affine(latent, latent, 1, LAST_KERNEL)
        self.downsample = nn.ModuleList(
            DownsampleBlock(latent, ratio) for ratio in reversed(config.upsampling_ratios)
        )
        self.frames = PreTransformer(config.encoded)
        num_entries = sum(config.codebook_sizes)
        self.in_weights = fixed(config.num_codebooks, config.code_dim, latent)
        self.in_biases = fixed(config.num_codebooks, config.code_dim)
        self.directions = fixed(num_entries, config.code_dim)
        self.codebooks = fixed(num_entries, latent)

    @torch.no_grad()
    def forward(self, waves: Tensor) -> Tensor:
        """(B, F * samples_per_frame) float32 samples to (B, F, K) int64 codes. Raises
        ValueError: not a whole number of frames, or more steps than there are positions for.
        """
        return self.quantise(self.latents(waves))

    def latents(self, waves: Tensor) -> Tensor:
        """(B, F * samples_per_frame) to (B, F, latent_dim). Raises as `forward` does."""
        config = self.config
        length = waves.shape[1]
        if not length or length % config.samples_per_frame or length > self.most_samples:
            raise ValueError(
                f"{length} samples are not 1 to {self.most_samples // config.samples_per_frame} "
                f"frames of {config.samples_per_frame}"
            )
        x = pad_left(waves.unsqueeze(2), 6)
        x = conv(x, self.first_conv.weight, self.first_conv.bias).contiguous()
        for block in self.blocks:
            x = block(x)
        x = self.steps(x, *self._tables(config.steps, x.shape[1]))
        h = self.last_snake(x, left_pad=LAST_KERNEL - 1)
        x = conv(h, self.last_conv.weight, self.last_conv.bias)
        for block in self.downsample:
            x = block(x)
        return self.frames(x, *self._tables(config.encoded, x.shape[1]))

    @property
    def most_samples(self) -> int:
        """The longest clip, in samples: whole frames for which both transformers have positions."""
        config = self.config
        steps_per_frame = math.prod(config.upsampling_ratios)
        frames = min(config.encoded.max_positions, config.steps.max_positions // steps_per_frame)
        return frames * config.samples_per_frame

    def _tables(self, config: TransformerConfig, steps: int) -> tuple[Tensor, Tensor]:
        return rope_of(config, steps, self.codebooks.device, torch.float32)

    def quantise(self, x: Tensor) -> Tensor:
        """(B, F, latent_dim) to (B, F, K) int64: per codebook the entry of the smallest angle."""
        rest = x.flatten(0, 1)
        codes, first = [], 0
        for index, size in enumerate(self.config.codebook_sizes):
            found = F.linear(rest, self.in_weights[index], self.in_biases[index])
            entries = self.directions[first : first + size]
            code = (found @ entries.t()).argmax(-1)  # its own length changes no order
            rest = rest - F.embedding(code + first, self.codebooks)
            codes.append(code)
            first += size
        return torch.stack(codes, dim=-1).view(*x.shape[:2], -1)


class CodecVoiceEncoder(VoiceEncoder):
    """Encodes reference recordings to the codes of a prompt."""

    def __init__(self, encoder: CodecEncoder) -> None:
        super().__init__(encoder.codebooks.device)
        self.encoder = encoder

    def encode(self, waves: list[Tensor], modes: list[str]) -> list[tuple[Tensor, Tensor | None]]:
        """Return each clip's embedding and codes (R, K) int64 (None for xvec), on the device.
        The embedding is a single zero, because the family has none. Raises as `codes` does.
        """
        spoken = [wave for wave, mode in zip(waves, modes, strict=True) if mode == "icl"]
        codes = iter(self.codes(spoken) if spoken else [])
        embedding = torch.zeros(1, device=self.device)
        return [(embedding, next(codes) if mode == "icl" else None) for mode in modes]

    @torch.inference_mode()
    def codes(self, waves: list[Tensor]) -> list[Tensor]:
        """Return the codes (R, K) int64 of each clip (n,) float32 at the codec's sample rate, on
        the device; R is n / samples_per_frame, rounded up. Raises ValueError: a clip is
        empty, not one-dimensional, or too long.
        """
        most = self.encoder.most_samples
        for wave in waves:
            if wave.dim() != 1 or not 1 <= len(wave) <= most:
                raise ValueError(
                    f"a reference of shape {tuple(wave.shape)}; 1 to {most} samples are needed"
                )
        width = self.encoder.config.samples_per_frame
        whole = [F.pad(wave, (0, -len(wave) % width)) for wave in waves]
        codes: dict[int, Tensor] = {}
        for batch, padded in clip_batches(whole, range(len(waves)), self.device, self.use_batches):
            for index, found in zip(batch, self.encoder(padded), strict=True):
                codes[index] = found[: len(whole[index]) // width].clone()
        return [codes[index] for index in range(len(waves))]
