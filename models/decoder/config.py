"""Sizes of a stack of layers. Without torch, because describing a checkpoint needs them."""

from __future__ import annotations

from dataclasses import dataclass

from models.checkpoint.config import (
    MAX_TABLE,
    Count,
    HeadDim,
    ManyCodebooks,
    Number,
    Positions,
    Size,
    Theta,
)


@dataclass(frozen=True)
class TransformerConfig:
    """Grouped-query attention with RoPE, and an MLP: of talkers, code predictors and codecs.
    Raises ValueError: the sizes contradict each other.
    """

    width: Size
    mlp_width: Size
    num_layers: Count
    num_heads: Count
    num_kv_heads: Count
    head_dim: HeadDim
    rope_theta: Theta
    norm_eps: Number
    max_positions: Positions  # of RoPE tables; 0: as many as a pass has
    has_qk_norm: bool = True
    window: Positions = 0  # positions attended to, the own one included; 0: all before it
    rounds_rope: bool = False  # RoPE tables to bfloat16, whatever the dtype of the weights
    has_qkv_bias: bool = False

    def __post_init__(self) -> None:
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"{self.num_heads} heads cannot share {self.num_kv_heads} key heads")
        if self.head_dim % 2:
            raise ValueError(f"head_dim = {self.head_dim} must be even")
        if self.max_positions * self.head_dim > MAX_TABLE:
            raise ValueError(
                f"{self.max_positions} positions of heads {self.head_dim} wide exceed the size of "
                f"RoPE tables ({MAX_TABLE} numbers)"
            )

    @property
    def num_weights(self) -> int:
        """Weights of all linear maps, with a gate in the MLP."""
        attention = self.width * self.head_dim * (2 * self.num_heads + 2 * self.num_kv_heads)
        return self.num_layers * (attention + 3 * self.width * self.mlp_width)


@dataclass(frozen=True)
class FamilyConfig:
    """The common fields of every family's config; a family adds to them."""

    talker: TransformerConfig
    predictor: TransformerConfig
    num_codebooks: ManyCodebooks

    @property
    def eos(self) -> int:
        """The id of end of speech among the talker's logits."""
        raise NotImplementedError
