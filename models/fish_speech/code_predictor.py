"""Code predictor: the small transformer over the codebooks of one frame (upstream: the fast AR).

Per frame: the talker's hidden state and the first code's embedding enter together, then one code
at a time; position i predicts codebook i. One embedding table and one head serve all codebooks,
which only their position tells apart. The layers have no QK norm. The cache holds K positions and
starts afresh every frame, so it needs no clearing.

The head keeps the rows that further codebooks have codes for (1,024 of 4,096 in the release).
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from kernels.linear.choose import linear
from models.decoder.decoder import Decoder, Weight
from models.fish_speech.config import FishSpeechConfig
from models.slots.networks import PredictorNetwork


class FishCodePredictor(PredictorNetwork):
    """Embedding, decoder and head.

    Args:
        num_rest_codes: codes of each codebook but the first.
    """

    def __init__(self, config: FishSpeechConfig, num_rest_codes: int) -> None:
        super().__init__()
        width = config.predictor.width
        self.embedding = Weight(config.codebook_size, width)
        self.head = Weight(num_rest_codes, width)
        self.decoder = Decoder(config.predictor)

    @property
    def num_codes(self) -> int:
        """Logits of each further codebook."""
        return self.head.weight.shape[0]

    def embed(self, codes: Tensor) -> Tensor:
        """(B,) codes of any codebook to (B, D). Codes below 0 (a failed row) count as 0."""
        return F.embedding(codes.clamp(min=0), self.embedding.weight)

    def logits(self, hidden: Tensor) -> Tensor:
        """(B, D) to (B, V) logits of a further codebook, in the model's dtype."""
        return linear(hidden, self.head.weight)

    def start(self, pair: Tensor, positions: Tensor) -> Tensor:
        """First pass: (2B, D) inputs, two a slot, at (2B,) positions 0 and 1 to (B, V) logits of
        codebook 1.
        """
        hidden = self.decoder.step(pair, positions, rows_per_slot=2)
        return self.logits(hidden.unflatten(0, (-1, 2))[:, 1])

    def expand(self, codes: Tensor, codebook: int, positions: Tensor) -> Tensor:
        """One step: codes (B,) of codebook - 1 in, (B, V) logits of `codebook` (2..K-1) out."""
        return self.logits(self.decoder.step(self.embed(codes), positions))
