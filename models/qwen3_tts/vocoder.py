"""The vocoder of Qwen3-TTS (`Qwen3TTSTokenizerV2Decoder`): frames of codes to 24 kHz samples.

Code vectors summed over K codebooks, a convolution, a transformer with a sliding window, upsampling
blocks at latent width, then decoder blocks that raise the rate and halve the channels until one
channel of samples is left.

Everything is causal: a frame's samples depend on it and earlier frames only, so rows of a batch may
be right-padded and trimmed, and F frames give exactly F * samples_per_frame samples. Rows may also
lie one behind the other (`positions`): attention sees its own row only, and every convolution finds
zeros in the `gap_frames` between two rows, as it does before the first. Convolutions
reach back about 12 frames, the transformer layers * (window - 1); `models/chunks.py` cuts long
sequences as the official code does.

Layers are in `models/vocoder_blocks.py`, weights and what is folded into them in
`vocoder_weights.py`.

Source: the official `qwen-tts` 0.1.1 package (Qwen team, Apache-2.0), reproduced to rounding.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernels.rope import rope_tables
from kernels.snake_out import snake_out
from models.blocks import Weight
from models.qwen3_tts.vocoder_config import VocoderConfig
from models.qwen3_tts.vocoder_weights import check_tensors, fold
from models.vocoder_blocks import (
    Affine,
    DecoderBlock,
    PreTransformer,
    Snake,
    UpsampleBlock,
    conv,
    pad_left,
)


class Vocoder(nn.Module):
    """Codes to samples. Built without values: `from_state` is the way to a working one."""

    def __init__(self, config: VocoderConfig) -> None:
        super().__init__()
        self.config = config
        latent = config.latent_dim
        rows = config.num_codebooks * config.codebook_size
        self.codebooks = nn.Parameter(torch.empty(rows, config.codebook_dim), requires_grad=False)
        self.pre_conv = Affine(latent, config.codebook_dim, 1, 3)
        self.pre_transformer = PreTransformer(config)
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
        for name in ("rope_cos", "rope_sin"):
            self.register_buffer(name, torch.empty(config.max_frames, config.head_dim))
        self.rope_cos: Tensor
        self.rope_sin: Tensor

    @classmethod
    def from_state(
        cls,
        config: VocoderConfig,
        tensors: dict[str, Tensor],
        device: torch.device | str,
        dtype: torch.dtype,
    ) -> Vocoder:
        """Load official tensors, stored in any floating dtype.

        Args:
            tensors: `decoder.*` of the speech tokenizer under their official names; left unchanged.
            dtype: of weights and activations. SnakeBeta's constants stay float32.
        Raises:
            CheckpointError: names every missing, unexpected and misshapen tensor.
        """
        check_tensors(config, tensors)
        state = fold(config, tensors)
        state["rope_cos"], state["rope_sin"] = rope_tables(
            config.max_frames, config.head_dim, config.rope_theta, device, torch.float32
        )
        with torch.device("meta"):
            vocoder = cls(config)
        wide = {
            f"{name}.{buffer}"
            for name, module in vocoder.named_modules()
            if isinstance(module, Snake)
            for buffer in ("alpha_exp", "inv_beta", "bias")
        }
        cast = {
            name: tensor.to(device, torch.float32 if name in wide else dtype)
            for name, tensor in state.items()
        }
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
            codes: (B, K, F) int64 in 0..codebook_size-1; shorter rows are padded on the right with
                any code.
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
        `context_frames`, with a fiftieth of the work. Raises as `forward` does.
        """
        kept = None if positions is None else positions >= 0
        config = self.config
        _, num_codebooks, frames = codes.shape
        if num_codebooks != config.num_codebooks or not 1 <= frames <= config.max_frames:
            raise ValueError(
                f"codes {tuple(codes.shape)} must be (rows, {config.num_codebooks}, "
                f"1 to {config.max_frames} frames)"
            )
        first_rows = torch.arange(num_codebooks, device=codes.device) * config.codebook_size
        x = F.embedding(codes + first_rows[:, None], self.codebooks).sum(1)  # (B, F, codebook_dim)
        x = conv(pad_left(x, 2, kept), self.pre_conv.weight, self.pre_conv.bias)
        tables = self.rope_cos[:frames], self.rope_sin[:frames]
        return self.pre_transformer(x, *tables, positions)

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
        return samples.view(batch, frames * self.samples_per_frame).clamp_(-1, 1)
