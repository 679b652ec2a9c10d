"""The common part of the families' vocoders: the convolutions from latents to samples.

A family adds its `codebooks`, the step from codes to latents (`latents`) and the limit of samples
to [-1, 1] (`bound_`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernels.vocoder.snake_out import snake_out
from models.checkpoint.weights import Network
from models.decoder.decoder import Affine, Weight, rope_of
from models.vocoder.chunks import Cutting
from models.vocoder.fold import FOLDS, plain
from models.vocoder.layers import (
    DecoderBlock,
    Snake,
    UpsampleBlock,
    conv,
    has_unit_kernels,
    pad_left,
)
from models.vocoder.sizes import DecoderSizes

# Factor over the memory in use: pieces of many sizes, allocated and freed in turn, leave holes.
# Replaying the allocator's choices for the sizes of Qwen3-TTS and Fish gave 1.04 to 1.26.
WORK_SPARE = 1.28
ROPE = ("rope_cos", "rope_sin")


class CodecDecoder(Network):
    """Codes to samples."""

    ways = FOLDS
    prepared = staticmethod(plain)
    cut: Cutting  # how long rows are cut
    # Entries of each codebook: larger numbers are invalid. None: they count as the last entry.
    num_entries: int | None = None
    codebooks: nn.Parameter  # (codes of all codebooks, W) addends of a frame

    def __init__(self, config: DecoderSizes) -> None:
        super().__init__()
        self.config = config
        self.num_codebooks, self.samples_per_frame = config.num_codebooks, config.samples_per_frame
        self.latent_dim = config.latent_dim  # width between `latents` and `render`
        self.context_frames, self.gap_frames = config.context_frames, config.gap_frames
        table = config.frames.max_positions, config.frames.head_dim
        self.rope_cos, self.rope_sin = (nn.Buffer(torch.empty(table)) for _ in range(2))
        self.first_codes = nn.Buffer(torch.empty(self.num_codebooks, 1, dtype=torch.int64))
        self.last_codes = nn.Buffer(torch.empty(self.num_codebooks, 1, dtype=torch.int64))
        latent = config.latent_dim
        self.upsample = nn.ModuleList(
            UpsampleBlock(latent, ratio) for ratio in config.upsampling_ratios
        )
        self.first_conv = Weight(config.decoder_dim, latent, 1, 7)
        self.blocks: Sequence[DecoderBlock] = nn.ModuleList(  # type: ignore[assignment]
            DecoderBlock(config.decoder_dim >> index, rate)
            for index, rate in enumerate(config.upsample_rates)
        )
        channels = config.decoder_dim >> len(config.upsample_rates)
        self.last_snake = Snake(channels)
        self.last_conv = Affine(1, channels, 1, 7)

    def constants(self, device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
        """Return the bounds of each codebook, and RoPE tables, in the weights' dtype unless they
        are rounded separately.
        """
        frames = self.config.frames
        sizes = torch.tensor(self.config.codebook_sizes, device=device)[:, None]
        tables = rope_of(frames, frames.max_positions, device, torch.float32)
        kind = torch.float32 if frames.rounds_rope else dtype
        return {
            "first_codes": sizes.cumsum(0) - sizes,
            "last_codes": sizes - 1,
            **{name: table.to(kind) for name, table in zip(ROPE, tables, strict=True)},
        }

    @property
    def dtype(self) -> torch.dtype:
        return self.codebooks.dtype

    @property
    def device(self) -> torch.device:
        return self.codebooks.device

    @torch.no_grad()
    def forward(self, codes: Tensor, positions: Tensor | None = None) -> Tensor:
        """Decode a batch; no host sync and no branch on values, so it can be captured in a graph.

        Args:
            codes: (B, K, F) int64; shorter rows are padded on the right with any code.
            positions: (B, F) int64, each frame's index in its row, if a lane has several rows; -1
                in the gaps between them, of gap_frames at least.
        Returns:
            (B, F * samples_per_frame) float32 in [-1, 1].
        Raises:
            ValueError: another number of codebooks, no frame, or more than there are positions for.
        """
        kept = None if positions is None else positions >= 0
        return self.render(self.latents(codes, positions), kept)

    def latents(self, codes: Tensor, positions: Tensor | None = None) -> Tensor:
        """(B, K, F) codes to (B, F, latent_dim): the part that looks further back than
        `context_frames`. Raises as `forward` does.
        """
        raise NotImplementedError

    @torch.no_grad()
    def render(self, latents: Tensor, kept: Tensor | None = None) -> Tensor:
        """(B, F, latent_dim) to (B, F * samples_per_frame) float32 samples in [-1, 1].

        Args:
            kept: (B, F) bool, false in the gaps between rows of a lane, whose samples have no
                meaning.
        """
        batch, frames, _ = latents.shape
        x = latents
        for upsample in self.upsample:
            x = upsample(x, kept)
        x = conv(pad_left(x, 6, kept), self.first_conv.weight)
        for block in self.blocks:
            x = block(x, kept)
        last = self.last_conv
        samples = snake_out(x, self.last_snake.constants, last.weight, last.bias, kept)
        return self.bound_(samples.view(batch, frames * self.samples_per_frame))

    def work_bytes(self, num_frames: int) -> int:
        """Return the maximum of device memory for activations of `num_frames` frames. In float32
        it includes the workspaces of cuDNN's convolutions (9.x, H200): without memory for one
        PyTorch silently takes cuDNN's next choice, which rounds differently.
        """
        x = self.blocks[0].expand.weight.new_empty(0, self.blocks[-1].out_channels)
        has_kernels = has_unit_kernels(x)
        unfolds = x.is_cuda and x.dtype.itemsize == 2
        turns = x.is_cuda and not unfolds
        steps, most = num_frames * math.prod(self.config.upsampling_ratios), 0
        for block, rate in zip(self.blocks, self.config.upsample_rates, strict=True):
            most = max(most, block.work_elements(steps, has_kernels, unfolds, turns))
            steps *= rate
        return round(WORK_SPARE * most * x.itemsize)

    def look_up(self, codes: Tensor) -> Tensor:
        """(B, K, F) codes to (B, F, W): the addends of all of a frame together."""
        return F.embedding(codes + self.first_codes, self.codebooks).sum(1)

    def bound_(self, samples: Tensor) -> Tensor:
        """Keep samples in [-1, 1], in place."""
        raise NotImplementedError

    def checked_tables(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return RoPE's cos and sin for codes (B, K, F). Raises ValueError for another K, no
        frame, or more than there are positions for.
        """
        (_, count, frames), most = codes.shape, len(self.rope_cos)
        if count != self.num_codebooks or not 1 <= frames <= most:
            raise ValueError(
                f"codes {tuple(codes.shape)} must be (rows, {self.num_codebooks}, 1 to {most} "
                "frames)"
            )
        return self.rope_cos[:frames], self.rope_sin[:frames]
