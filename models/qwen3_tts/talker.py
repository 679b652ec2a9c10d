"""Talker: the transformer over time that gives the first codebook (upstream:
Qwen3TTSTalkerForConditionalGeneration).

Its input is a sum of a projected text embedding and codec embeddings; its output, after the final
norm, feeds both the codec head and the code predictor.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from models.decoder.decoder import Decoder, Weight
from models.qwen3_tts.config import Qwen3TTSConfig
from models.slots.networks import BiasedLinear, CodePredictor, TalkerNetwork

TEXT_ROWS = 256


class Talker(TalkerNetwork):
    """Embeddings, decoder and codec head."""

    def __init__(self, config: Qwen3TTSConfig) -> None:
        super().__init__()
        shape = config.talker
        self.text_embedding = Weight(config.text_vocab_size, config.text_width)
        self.text_fc1 = BiasedLinear(config.text_width, config.text_width)
        self.text_fc2 = BiasedLinear(shape.width, config.text_width)
        self.codec_embedding = Weight(config.vocab_size, shape.width)
        self.head = Weight(config.vocab_size, shape.width)
        self.decoder = Decoder(shape)
        self.is_fixed = False  # texts are projected TEXT_ROWS at a time, however many there are

    def embed_text(self, ids: Tensor) -> Tensor:
        """Text ids (...) to talker inputs (..., D) through the projection."""
        if not self.is_fixed:
            return self._project(ids)
        padded = F.pad(ids.flatten(), (0, -ids.numel() % TEXT_ROWS))
        found = torch.cat([self._project(part) for part in padded.split(TEXT_ROWS)])
        return found[: ids.numel()].view(*ids.shape, -1)

    def _project(self, ids: Tensor) -> Tensor:
        x = F.embedding(ids, self.text_embedding.weight)
        return self.text_fc2(F.silu(self.text_fc1(x)))

    def embed_codec(self, ids: Tensor) -> Tensor:
        """Codec ids (...) to (..., D)."""
        return F.embedding(ids, self.codec_embedding.weight)


def code_predictor(config: Qwen3TTSConfig) -> CodePredictor:
    """The code predictor, with embeddings and a head for each of its codebooks."""
    size = config.predictor_vocab_size
    return CodePredictor(config, config.num_codebooks - 1, size, size)
