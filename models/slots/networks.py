"""What a family must bring along for its slots: sizes, two networks, and what hears references."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn

from kernels.linear.choose import linear
from models.decoder.config import TransformerConfig
from models.decoder.decoder import Decoder, Weight


class FamilyConfig(Protocol):
    """What a family's config must say."""

    @property
    def talker(self) -> TransformerConfig: ...
    @property
    def predictor(self) -> TransformerConfig: ...
    @property
    def num_codebooks(self) -> int: ...


class TalkerNetwork(nn.Module):
    """A decoder and the head of the first codebook; a family adds its embeddings."""

    decoder: Decoder
    head: Weight  # (V, D)

    def logits(self, hidden: Tensor) -> Tensor:
        """(B, D) to (B, V) logits of the first codebook, in the model's dtype."""
        return linear(hidden, self.head.weight)


class PredictorNetwork(nn.Module):
    """A decoder; a family adds embeddings and heads of the further codebooks."""

    decoder: Decoder

    @property
    def num_codes(self) -> int:
        """Logits of each further codebook."""
        raise NotImplementedError

    @property
    def projection_weights(self) -> int:
        """Weights between talker and code predictor; none where they are equally wide."""
        return 0

    def start(self, pair: Tensor, positions: Tensor) -> Tensor:
        """First pass: (2B, D) inputs, two a slot, at (2B,) positions 0 and 1 to (B, V) logits of
        codebook 1.
        """
        raise NotImplementedError

    def expand(self, codes: Tensor, codebook: int, positions: Tensor) -> Tensor:
        """One step: codes (B,) of codebook - 1 in, (B, V) logits of `codebook` (2..K-1) out."""
        raise NotImplementedError


class VoiceEncoder(Protocol):
    """What turns references into what a prompt holds of them."""

    use_batches: bool  # whether several share a pass

    def encode(self, waves: list[Tensor], modes: list[str]) -> list[tuple[Tensor, Tensor | None]]:
        """As `SpeechModel.encode_voices`."""
        ...
