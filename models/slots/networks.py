"""What a family must bring along for its slots: two networks, and what hears references.

A code predictor is a small transformer over the codebooks of one frame (upstream: the talker's code
predictor, subtalker; the fast AR). Per frame the talker's hidden state and the first code's
embedding enter together, then one code at a time; position i predicts codebook i. Its cache holds K
positions and starts afresh every frame, so it needs no clearing.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernels.linear.choose import linear
from kernels.linear.code_embedding import Beginning
from models.decoder.config import FamilyConfig
from models.decoder.decoder import Affine, Decoder, Weight


class BiasedLinear(Affine):
    """A linear map of (outputs, inputs)."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., inputs) to (..., outputs)."""
        return linear(x.flatten(0, -2), self.weight, self.bias).view(*x.shape[:-1], -1)


class TalkerNetwork(nn.Module):
    """A decoder and the head of the first codebook; a family adds its embeddings."""

    decoder: Decoder
    head: Weight  # (V, D)

    def logits(self, hidden: Tensor) -> Tensor:
        """(B, D) to (B, V) logits of the first codebook, in the model's dtype."""
        return linear(hidden, self.head.weight)


class CodePredictor(nn.Module):
    """Embeddings, projection, decoder and heads.

    Embeddings are as wide as the talker, `projection` narrows them where the predictor is narrower.

    Args:
        num_tables: embeddings and heads: one a further codebook, or one of each for all of them,
            which then only their position tells apart.
        num_entries: rows of each table. num_codes: of each head.
    """

    def __init__(
        self, config: FamilyConfig, num_tables: int, num_entries: int, num_codes: int
    ) -> None:
        super().__init__()
        width, shape = config.talker.width, config.predictor
        self.embeddings = Weight(num_tables, num_entries, width)
        self.heads = Weight(num_tables, num_codes, shape.width)
        self.projection = BiasedLinear(shape.width, width) if width != shape.width else None
        self.decoder = Decoder(shape)

    @property
    def projection_weights(self) -> int:
        """Weights between talker and code predictor."""
        return 0 if self.projection is None else self.projection.weight.numel()

    def project(self, x: Tensor) -> Tensor:
        """(R, talker width) to (R, predictor width)."""
        return x if self.projection is None else self.projection(x)

    def table(self, codebook: int) -> Tensor:
        """(V, talker width) embeddings of a codebook's codes."""
        return self.embeddings.weight[(codebook - 1) % len(self.embeddings.weight)]

    def head(self, codebook: int) -> Tensor:
        """(V, D) of codebook 1..K-1."""
        return self.heads.weight[(codebook - 1) % len(self.heads.weight)]

    def embed(self, codes: Tensor, codebook: int) -> Tensor:
        """(B,) codes of a codebook to (B, talker width); below 0 (a failed row) they count as 0."""
        return F.embedding(codes.clamp(min=0), self.table(codebook))

    def logits(self, hidden: Tensor, codebook: int) -> Tensor:
        """(B, D) to (B, V) logits of codebook 1..K-1, in the model's dtype."""
        return linear(hidden, self.head(codebook))

    def start(self, pair: Tensor, positions: Tensor) -> Tensor:
        """First pass: (2B, talker width) inputs, two a slot, at (2B,) positions 0 and 1 to (B, V)
        logits of codebook 1.
        """
        hidden, _ = self.decoder.run(self.project(pair), positions, rows_per_slot=2)
        return self.logits(hidden.unflatten(0, (-1, 2))[:, 1], 1)

    def beginning(self, num_rows: int, codebook: int) -> Beginning | None:
        """The step of a codebook's codes, for whoever draws them to begin it; None where it begins
        in another way.
        """
        if self.projection is not None or self.decoder.is_one_launch:
            return None
        decoder, table = self.decoder, self.table(codebook)
        out, normed = (table.new_empty(num_rows, table.shape[1]) for _ in range(2))
        return Beginning(table, decoder.layers[0].input_norm.weight, decoder.eps, out, normed)

    def expand(
        self, codes: Tensor, codebook: int, positions: Tensor, begun: Beginning | None = None
    ) -> Tensor:
        """One step: codes (B,) of codebook - 1 in, (B, V) logits of `codebook` (2..K-1) out.

        Args:
            begun: the step, where it was begun with the draw of the codes.
        """
        head = self.head(codebook)
        if begun is not None:
            x, normed = begun.out, begun.normed
            _, logits = self.decoder.run(x, positions, head=head, normed=normed)
        elif self.projection is None:
            table = self.table(codebook - 1)
            _, logits = self.decoder.run(table, positions, codes=codes, head=head)
        else:
            x = self.project(self.embed(codes, codebook - 1))
            _, logits = self.decoder.run(x, positions, head=head)
        assert logits is not None
        return logits


class VoiceEncoder:
    """What turns references into what a prompt holds of them."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.use_batches = device.type == "cuda"  # of several clips; on a CPU each runs alone

    def encode(self, waves: list[Tensor], modes: list[str]) -> list[tuple[Tensor, Tensor | None]]:
        """As `SpeechModel.encode_voices`."""
        raise NotImplementedError
