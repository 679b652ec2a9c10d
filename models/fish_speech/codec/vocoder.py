"""The vocoder of Fish Speech S2 Pro (decoder of its DAC): frames of codes to 44.1 kHz samples.

One vector per codebook summed, a transformer over frames with a sliding window, two upsampling
blocks, then decoder blocks that raise the rate and halve the channels until one channel of samples
is left, and tanh.

All of it is causal, so rows of a batch may be right-padded and trimmed, and F frames give exactly
F * samples_per_frame samples. Rows may also lie one behind the other (`positions`): attention sees
its own row only, and every convolution finds zeros in the `gap_frames` between two rows.

The convolutions reach back 10 frames, the transformer more than a thousand; and its tables of RoPE
are rounded, so that a frame's position matters a little. Chunks are exact nevertheless: latents are
made of a row from its first frame on, in chunks only what follows them (`Cutting.renders_windows`).

Source: fish-speech 0.1.0 (Fish Audio, Apache-2.0), reproduced to rounding.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.decoder.decoder import fixed
from models.fish_speech.codec.config import CodecConfig
from models.fish_speech.codec.tensors import decoder_table
from models.vocoder.chunks import Cutting
from models.vocoder.layers import PreTransformer
from models.vocoder.network import CodecDecoder

# With the frames that samples reach back to, two chunks fill a lane. For latents all frames before
# a chunk are its context, up to what RoPE tables are made for.
CHUNK_FRAMES = 496


class FishVocoder(CodecDecoder):
    """Codes to samples. Built without values: `from_state` is the way to a working one."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(config)
        self.codebooks = fixed(sum(config.codebook_sizes), config.latent_dim)
        # A chunk and its context fill the RoPE tables.
        context = config.frames.max_positions - CHUNK_FRAMES
        self.cut = Cutting(CHUNK_FRAMES, left_context=context, renders_windows=True)
        self.transformer = PreTransformer(config.frames)

    table = staticmethod(decoder_table)

    @torch.no_grad()
    def latents(self, codes: Tensor, positions: Tensor | None = None) -> Tensor:
        """(B, K, F) codes to (B, F, latent_dim), a thirtieth of the work. What is beyond a codebook
        counts as its last entry, as in the official code.
        """
        tables = self.checked_tables(codes)
        x = self.look_up(torch.minimum(codes, self.last_codes))
        return self.transformer(x, *tables, positions)

    def bound_(self, samples: Tensor) -> Tensor:
        """Keep samples in [-1, 1], in place."""
        return samples.tanh_()
