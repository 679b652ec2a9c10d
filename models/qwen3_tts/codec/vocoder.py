"""The vocoder of Qwen3-TTS (`Qwen3TTSTokenizerV2Decoder`): frames of codes to 24 kHz samples.

Code vectors summed over K codebooks, a convolution, a transformer with a sliding window, upsampling
blocks at latent width, then decoder blocks that raise the rate and halve the channels until one
channel of samples is left.

Everything is causal: a frame's samples depend on it and earlier frames only, so rows of a batch may
be right-padded and trimmed, and F frames give exactly F * samples_per_frame samples. Rows may also
lie one behind the other (`positions`): attention sees its own row only, and every convolution finds
zeros in the `gap_frames` between two rows, as it does before the first. Convolutions behind the
transformer reach back 10 frames, the transformer layers * (window - 1); long sequences are cut as
in the official code (`CUT`).

Layers are in `models/vocoder/layers.py`, weights and what becomes of them in `tensors.py`.

Source: the official `qwen-tts` 0.1.1 package (Qwen team, Apache-2.0), reproduced to rounding.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.decoder.decoder import Affine, fixed
from models.qwen3_tts.codec.config import VocoderConfig
from models.qwen3_tts.codec.tensors import vocoder_table
from models.vocoder.chunks import Cutting
from models.vocoder.layers import PreTransformer, conv, pad_left
from models.vocoder.network import CodecDecoder
from models.vocoder.sizes import PRE_KERNEL

CUT = Cutting(chunk_frames=300, left_context=25)  # of the official decoder


class Vocoder(CodecDecoder):
    """Codes to samples. Built without values: `from_state` is the way to a working one."""

    def __init__(self, config: VocoderConfig) -> None:
        super().__init__(config)
        self.num_entries = config.semantic_codes
        self.codebooks = fixed(sum(config.codebook_sizes), config.codebook_dim)
        self.pre_conv = Affine(config.latent_dim, config.codebook_dim, 1, PRE_KERNEL)
        self.pre_transformer = PreTransformer(config.frames, config.latent_dim)

    cut = CUT
    table = staticmethod(vocoder_table)

    @torch.no_grad()
    def latents(self, codes: Tensor, positions: Tensor | None = None) -> Tensor:
        """(B, K, F) codes below `num_entries` to (B, F, latent_dim), a fiftieth of the work."""
        tables = self.checked_tables(codes)
        kept = None if positions is None else positions >= 0
        x = pad_left(self.look_up(codes), PRE_KERNEL - 1, kept)
        x = conv(x, self.pre_conv.weight, self.pre_conv.bias)
        return self.pre_transformer(x, *tables, positions)

    def bound_(self, samples: Tensor) -> Tensor:
        """Keep samples in [-1, 1], in place."""
        return samples.clamp_(-1, 1)
