"""Talker: the transformer over time that gives the first codebook (upstream: the slow AR).

A position is the embedding of its text id; one that stands for a frame of speech adds the
embeddings of its K codes and divides the sum by sqrt(K + 1). The output, after the final norm,
feeds both the head and the code predictor.

The head is tied to the text embedding, but only the rows of first codes and of end of speech can
ever be drawn (the official code masks the others), so only those are kept: logit c is first code c,
the last one is end of speech.

The code predictor (upstream: the fast AR) has one embedding table and one head for all codebooks,
and no QK norm. Its head keeps the rows that further codebooks have codes for (1,024 of 4,096 in the
release).
"""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor

from kernels.frame.frame_embedding import frame_embedding
from kernels.linear.code_embedding import Beginning
from models.decoder.decoder import Decoder, Weight
from models.fish_speech.config import FishSpeechConfig
from models.slots.networks import CodePredictor, TalkerNetwork


class FishTalker(TalkerNetwork):
    """Embeddings, decoder and head."""

    def __init__(self, config: FishSpeechConfig) -> None:
        super().__init__()
        width, codes = config.talker.width, config.codebook_size
        self.divisor = math.sqrt(config.num_codebooks + 1)
        self.text_embedding = Weight(config.text_vocab_size, width)
        self.code_embedding = Weight(config.num_codebooks, codes, width)
        self.head = Weight(codes + 1, width)  # its first rows are also the first codes' text rows
        self.decoder = Decoder(config.talker)

    def embed_text(self, ids: Tensor) -> Tensor:
        """Text ids (...) to (..., D)."""
        return F.embedding(ids, self.text_embedding.weight)

    def embed_frames(self, codes: Tensor) -> Tensor:
        """Frames of codes (R, K) int64 to (R, D). Codes below 0 (a failed row) count as 0."""
        tables = self.code_embedding.weight
        text = F.embedding(codes[:, 0].clamp(min=0), self.head.weight)
        return frame_embedding(codes, tables[0], tables[1:], text).div_(self.divisor)


class FishCodePredictor(CodePredictor):
    """Embedding, decoder and head.

    Args:
        num_rest_codes: codes of each codebook but the first.
    """

    def __init__(self, config: FishSpeechConfig, num_rest_codes: int) -> None:
        super().__init__(config, 1, config.codebook_size, num_rest_codes)

    def expand(
        self, codes: Tensor, codebook: int, positions: Tensor, begun: Beginning | None = None
    ) -> Tensor:
        """As `CodePredictor.expand`, always in operations of its own."""
        hidden = self.decoder.step(self.embed(codes, codebook - 1), positions)
        return self.logits(hidden, codebook)
