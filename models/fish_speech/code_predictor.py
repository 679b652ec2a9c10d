"""Code predictor (upstream: the fast AR).

One embedding table and one head serve all codebooks, which only their position tells apart. The
layers have no QK norm. The head keeps the rows that further codebooks have codes for (1,024 of
4,096 in the release).
"""

from __future__ import annotations

from torch import Tensor

from models.fish_speech.config import FishSpeechConfig
from models.slots.networks import CodePredictor


class FishCodePredictor(CodePredictor):
    """Embedding, decoder and head.

    Args:
        num_rest_codes: codes of each codebook but the first.
    """

    def __init__(self, config: FishSpeechConfig, num_rest_codes: int) -> None:
        super().__init__(config, 1, config.codebook_size, num_rest_codes)

    def expand(self, codes: Tensor, codebook: int, positions: Tensor) -> Tensor:
        """As `CodePredictor.expand`, always in operations of its own."""
        hidden = self.decoder.step(self.embed(codes, codebook - 1), positions)
        return self.logits(hidden, codebook)
