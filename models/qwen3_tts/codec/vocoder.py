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

Layers are in `models/vocoder/layers.py`, weights and what is folded into them in
`vocoder_weights.py`.

Source: the official `qwen-tts` 0.1.1 package (Qwen team, Apache-2.0), reproduced to rounding.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernels.attention.rope import rope_tables
from models.checkpoint.weights import shapes_of
from models.qwen3_tts.codec.vocoder_config import VocoderConfig
from models.qwen3_tts.codec.vocoder_folding import fold
from models.qwen3_tts.codec.vocoder_weights import check_tensors
from models.vocoder.chunks import Cutting
from models.vocoder.layers import Affine, PreTransformer, conv, pad_left
from models.vocoder.network import CodecDecoder

CUT = Cutting(chunk_frames=300, left_context=25)  # of the official decoder


class Vocoder(CodecDecoder):
    """Codes to samples. Built without values: `from_state` is the way to a working one."""

    def __init__(self, config: VocoderConfig) -> None:
        super().__init__(config)
        self.config: VocoderConfig = config
        rows = config.num_codebooks * config.codebook_size
        self.codebooks = nn.Parameter(torch.empty(rows, config.codebook_dim), requires_grad=False)
        self.pre_conv = Affine(config.latent_dim, config.codebook_dim, 1, 3)
        self.pre_transformer = PreTransformer(config)
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
        check_tensors(config, shapes_of(tensors))
        state = fold(config, tensors)
        state["rope_cos"], state["rope_sin"] = rope_tables(
            config.max_frames, config.head_dim, config.rope_theta, device, torch.float32
        )
        with torch.device("meta"):
            vocoder = cls(config)
        vocoder.take(state, device, dtype)
        return vocoder

    @property
    def cut(self) -> Cutting:
        """How long rows are cut."""
        return CUT

    @property
    def num_entries(self) -> int:
        """Entries of each codebook."""
        return self.config.codebook_size

    @torch.no_grad()
    def latents(self, codes: Tensor, positions: Tensor | None = None) -> Tensor:
        """(B, K, F) codes in 0..codebook_size-1 to (B, F, latent_dim), a fiftieth of the work."""
        config = self.config
        self.check_codes(codes, config.max_frames)
        _, num_codebooks, frames = codes.shape
        kept = None if positions is None else positions >= 0
        first_rows = torch.arange(num_codebooks, device=codes.device) * config.codebook_size
        x = F.embedding(codes + first_rows[:, None], self.codebooks).sum(1)  # (B, F, codebook_dim)
        x = conv(pad_left(x, 2, kept), self.pre_conv.weight, self.pre_conv.bias)
        tables = self.rope_cos[:frames], self.rope_sin[:frames]
        found: Tensor = self.pre_transformer(x, *tables, positions)
        return found

    def bound_(self, samples: Tensor) -> Tensor:
        """Keep samples in [-1, 1], in place."""
        return samples.clamp_(-1, 1)
