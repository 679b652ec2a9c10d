"""The vocoder of Fish Speech S2 Pro (decoder of its DAC): frames of codes to 44.1 kHz samples.

One vector per codebook summed, a transformer over frames with a sliding window, two upsampling
blocks, then decoder blocks that raise the rate and halve the channels until one channel of samples
is left, and tanh.

All of it is causal, so rows of a batch may be right-padded and trimmed, and F frames give exactly
F * samples_per_frame samples. Rows may also lie one behind the other (`positions`): attention sees
its own row only, and every convolution finds zeros in the `gap_frames` between two rows.

The convolutions reach back 10 frames, the transformer more than a thousand; and its tables of RoPE
are rounded, so that a frame's position matters a little. Chunks are exact nevertheless: latents are
made of a row from its first frame on, in `CHUNK_FRAMES` only what follows them (`ChunkedVocoder`
and `PackedVocoder` with `renders_windows`).

Source: fish-speech 0.1.0 (Fish Audio, Apache-2.0), reproduced to rounding.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernels.snake_out import snake_out
from models.blocks import Weight
from models.fish_speech.codec_config import CodecConfig
from models.fish_speech.codec_folding import fold_decoder, rounded_tables
from models.vocoder_blocks import (
    Affine,
    DecoderBlock,
    PreTransformer,
    Snake,
    UpsampleBlock,
    conv,
    pad_left,
)

# Frames whose samples are made at once; with those before them, two chunks fill a lane.
CHUNK_FRAMES = 496
LEFT_CONTEXT = 4096 - CHUNK_FRAMES  # frames before them: all, up to what RoPE tables are made for
SNAKE_BUFFERS = ("alpha_exp", "inv_beta", "bias")


class FishVocoder(nn.Module):
    """Codes to samples. Built without values: `from_state` is the way to a working one."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.config = config
        latent, sizes = config.latent_dim, config.codebook_sizes
        self.codebooks = nn.Parameter(torch.empty(sum(sizes), latent), requires_grad=False)
        self.transformer = PreTransformer(config.frames, has_projections=False)
        self.upsample = nn.ModuleList(
            UpsampleBlock(latent, ratio) for ratio in config.upsampling_ratios
        )
        self.first_conv = Weight(config.decoder_dim, latent, 1, 7)
        self.blocks = nn.ModuleList(
            DecoderBlock(config.decoder_dim >> index, rate)
            for index, rate in enumerate(config.upsample_rates)
        )
        channels = config.decoder_dim >> len(config.upsample_rates)
        self.last_snake = Snake(channels)
        self.last_conv = Affine(1, channels, 1, 7)
        for name in ("first_codes", "last_codes"):
            values = torch.empty(config.num_codebooks, 1, dtype=torch.int64)
            self.register_buffer(name, values)
        for name in ("rope_cos", "rope_sin"):
            values = torch.empty(config.frames.max_steps, config.frames.head_dim)
            self.register_buffer(name, values)
        self.first_codes: Tensor
        self.last_codes: Tensor
        self.rope_cos: Tensor
        self.rope_sin: Tensor

    @classmethod
    def from_state(
        cls,
        config: CodecConfig,
        tensors: dict[str, Tensor],
        device: torch.device | str,
        dtype: torch.dtype,
    ) -> FishVocoder:
        """Load official tensors without weight norm.

        Args:
            tensors: float32, all that `codec_weights.is_decoding` accepts; left unchanged.
            dtype: of weights and activations. Snake's constants and RoPE stay float32.
        """
        state = fold_decoder(config, tensors)
        frames = config.frames
        state["rope_cos"], state["rope_sin"] = rounded_tables(
            frames.max_steps, frames.head_dim, frames.rope_theta, device
        )
        with torch.device("meta"):
            vocoder = cls(config)
        wide = {"rope_cos", "rope_sin"} | {
            f"{name}.{buffer}"
            for name, module in vocoder.named_modules()
            if isinstance(module, Snake)
            for buffer in SNAKE_BUFFERS
        }
        cast = {
            name: tensor.to(device, torch.float32 if name in wide else dtype)
            for name, tensor in state.items()
        }
        sizes = torch.tensor(config.codebook_sizes)[:, None]
        cast["first_codes"] = (sizes.cumsum(0) - sizes).to(device)
        cast["last_codes"] = (sizes - 1).to(device)
        vocoder.load_state_dict(cast, assign=True)
        return vocoder.requires_grad_(False).eval()

    @property
    def samples_per_frame(self) -> int:
        """Samples one frame of codes becomes."""
        return self.config.samples_per_frame

    @property
    def latent_dim(self) -> int:
        """Width between `latents` and `render`."""
        return self.config.latent_dim

    @property
    def context_frames(self) -> int:
        """Latent frames before its own that `render` reads for a frame's samples."""
        return self.config.context_frames

    @property
    def gap_frames(self) -> int:
        """Frames to leave between two rows that lie one behind the other."""
        return self.config.gap_frames

    @property
    def dtype(self) -> torch.dtype:
        """Of weights and activations."""
        return self.codebooks.dtype

    @torch.no_grad()
    def forward(self, codes: Tensor, positions: Tensor | None = None) -> Tensor:
        """Decode a batch; no host sync and no branch on values, so it can be captured in a graph.

        Args:
            codes: (B, K, F) int64; shorter rows are padded on the right with any code. What is
                beyond a codebook counts as its last entry, as in the official code.
            positions: (B, F) int64, each frame's place in its row, where rows lie one behind the
                other; -1 in the gaps between them, of gap_frames at least.
        Returns:
            (B, F * samples_per_frame) float32 in [-1, 1].
        Raises:
            ValueError: another number of codebooks, no frame, or more than there are positions for.
        """
        kept = None if positions is None else positions >= 0
        return self.render(self.latents(codes, positions), kept)

    @torch.no_grad()
    def latents(self, codes: Tensor, positions: Tensor | None = None) -> Tensor:
        """(B, K, F) codes to (B, F, latent_dim): the part that looks further back than
        `context_frames`, with a thirtieth of the work. Raises as `forward` does.
        """
        config = self.config
        _, num_codebooks, frames = codes.shape
        most = config.frames.max_steps
        if num_codebooks != config.num_codebooks or not 1 <= frames <= most:
            raise ValueError(
                f"codes {tuple(codes.shape)} must be (rows, {config.num_codebooks}, "
                f"1 to {most} frames)"
            )
        rows = torch.minimum(codes, self.last_codes) + self.first_codes
        x = F.embedding(rows, self.codebooks).sum(1)  # (B, F, latent_dim)
        tables = self.rope_cos[:frames], self.rope_sin[:frames]
        return self.transformer(x, *tables, positions)

    @torch.no_grad()
    def render(self, latents: Tensor, kept: Tensor | None = None) -> Tensor:
        """(B, F, latent_dim) to (B, F * samples_per_frame) float32 samples in [-1, 1].

        Args:
            kept: (B, F) bool, false in the gaps between rows that lie one behind the other, whose
                samples mean nothing.
        """
        batch, frames, _ = latents.shape
        x = latents
        for upsample in self.upsample:
            x = upsample(x, kept)
        x = conv(pad_left(x, 6, kept), self.first_conv.weight)
        for block in self.blocks:
            x = block(x, kept)
        snake, last = self.last_snake, self.last_conv
        constants = snake.alpha_exp, snake.inv_beta, snake.bias
        samples = snake_out(x, *constants, last.weight, last.bias, kept)
        return samples.view(batch, frames * self.samples_per_frame).tanh_()
