"""Sizes that all vocoders have in common, and the reach of their convolutions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from models.checkpoint.config import Factors, ManyCodebooks, RateHz, Size, check_frame
from models.decoder.config import TransformerConfig

KERNEL = 7  # of every convolution after the transformer but the transposed and the pointwise ones
PRE_KERNEL = 3  # of the convolution before the transformer
LANE_FRAMES = 1024  # of the longest pass on a GPU: RoPE tables must not be shorter
DILATIONS = (1, 3, 9)  # of the residual units in a decoder block


@dataclass(frozen=True)
class DecoderSizes:
    """The sizes in a family's config, and those that follow from them. Frames are of codes."""

    sample_rate_hz: RateHz
    num_codebooks: ManyCodebooks
    semantic_codes: Size  # entries of the first codebook
    residual_codes: Size  # entries of each other one
    latent_dim: Size  # width between `latents` and `render`
    frames: TransformerConfig  # over frames
    upsampling_ratios: Factors  # of the blocks at latent width
    decoder_dim: Size  # channels of the first convolution; every block halves them
    upsample_rates: Factors  # of the decoder blocks

    def __post_init__(self) -> None:
        check_frame(self.samples_per_frame)
        if self.frames.window < 1:
            raise ValueError("the window of the transformer over frames must be at least 1")
        if self.decoder_dim % 2 ** len(self.upsample_rates):
            raise ValueError(
                f"decoder_dim = {self.decoder_dim} cannot be halved {len(self.upsample_rates)} "
                "times"
            )

    @property
    def codebook_sizes(self) -> tuple[int, ...]:
        return (self.semantic_codes, *[self.residual_codes] * (self.num_codebooks - 1))

    @property
    def samples_per_frame(self) -> int:
        return math.prod(self.upsampling_ratios) * math.prod(self.upsample_rates)

    def _reaches(self) -> Iterator[Fraction]:
        """Yield the reach of each convolution after the transformer, in frames."""
        rate = 1  # steps per frame
        for ratio in self.upsampling_ratios:
            rate *= ratio
            yield Fraction(KERNEL - 1, rate)
        yield Fraction(KERNEL - 1, rate)
        for factor in self.upsample_rates:
            yield Fraction(1, rate)  # a transposed convolution's overlap
            rate *= factor
            yield from (Fraction((KERNEL - 1) * dilation, rate) for dilation in DILATIONS)
        yield Fraction(KERNEL - 1, rate)

    @property
    def context_frames(self) -> int:
        """Earlier latent frames that a frame's samples depend on after the transformer."""
        return math.ceil(sum(self._reaches(), Fraction()))

    @property
    def gap_frames(self) -> int:
        """Frames of zeros between two rows that are stored one after the other: the reach of the
        convolution that looks back furthest. Less than `context_frames`, because every layer
        finds zeros there anew.
        """
        return math.ceil(max(Fraction(PRE_KERNEL - 1), *self._reaches()))
