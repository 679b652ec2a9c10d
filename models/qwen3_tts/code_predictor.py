"""Code predictor: the small transformer over the codebooks of one frame (upstream: the talker's
code predictor, subtalker).

Per frame: the talker's hidden state and the first code's embedding enter together, then one code
at a time. Its cache holds K positions and starts afresh every frame, so it needs no clearing.
Embedding tables are as wide as the talker, because the talker's next input sums them too;
`projection` narrows them where the predictor is narrower.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from kernels.linear.choose import linear
from models.decoder.decoder import Decoder, Weight
from models.qwen3_tts.config import Qwen3TTSConfig
from models.qwen3_tts.talker import BiasedLinear
from models.slots.networks import PredictorNetwork


class CodePredictor(PredictorNetwork):
    """Embeddings, projection, decoder and one head a codebook."""

    def __init__(self, config: Qwen3TTSConfig) -> None:
        super().__init__()
        shape, num_rest = config.predictor, config.num_codebooks - 1
        self.embeddings = Weight(num_rest, config.predictor_vocab_size, config.talker.width)
        self.heads = Weight(num_rest, config.predictor_vocab_size, shape.width)
        self.projection = (
            BiasedLinear(shape.width, config.talker.width)
            if config.talker.width != shape.width
            else None
        )
        self.decoder = Decoder(shape)

    @property
    def num_codes(self) -> int:
        """Logits of each further codebook."""
        return self.heads.weight.shape[1]

    @property
    def projection_weights(self) -> int:
        """Weights between talker and code predictor."""
        return 0 if self.projection is None else self.projection.weight.numel()

    def project(self, x: Tensor) -> Tensor:
        """(R, talker width) to (R, predictor width)."""
        return x if self.projection is None else self.projection(x)

    def embed(self, codes: Tensor, codebook: int) -> Tensor:
        """(B,) codes of codebook 1..K-1 to (B, talker width). Codes below 0 (a failed row) count
        as 0.
        """
        return F.embedding(codes.clamp(min=0), self.embeddings.weight[codebook - 1])

    def logits(self, hidden: Tensor, codebook: int) -> Tensor:
        """(B, D) to (B, V) logits of codebook 1..K-1, in the model's dtype."""
        return linear(hidden, self.heads.weight[codebook - 1])

    def start(self, pair: Tensor, positions: Tensor) -> Tensor:
        """First pass: (2B, talker width) inputs, two a slot, at (2B,) positions 0 and 1 to (B, V)
        logits of codebook 1.
        """
        hidden, _ = self.decoder.run(self.project(pair), positions, rows_per_slot=2)
        return self.logits(hidden.unflatten(0, (-1, 2))[:, 1], 1)

    def expand(self, codes: Tensor, codebook: int, positions: Tensor) -> Tensor:
        """One step: codes (B,) of codebook - 1 in, (B, V) logits of `codebook` (2..K-1) out."""
        decoder, head = self.decoder, self.heads.weight[codebook - 1]
        if self.projection is None:
            table = self.embeddings.weight[codebook - 2]
            _, logits = decoder.run(table, positions, codes=codes, head=head)
        else:
            x = self.project(self.embed(codes, codebook - 1))
            _, logits = decoder.run(x, positions, head=head)
        assert logits is not None
        return logits
