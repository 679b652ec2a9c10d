"""Sizes of a stack of layers. No torch, for they are part of describing a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models.checkpoint.section import Section


@dataclass(frozen=True)
class TransformerConfig:
    """Grouped-query attention with RoPE, and an MLP: of talkers, code predictors and codecs."""

    width: int
    mlp_width: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_theta: float
    norm_eps: float
    max_positions: int  # that RoPE tables are made for; 0: as many as a pass has
    has_qk_norm: bool = True
    window: int = 0  # positions that one attends to, itself included; 0: all in front of it
    rounds_rope: bool = False  # RoPE tables to bfloat16, whatever the dtype of the weights

    @property
    def num_weights(self) -> int:
        """Weights of all its linear maps, with a gate in its MLP."""
        attention = self.width * self.head_dim * (2 * self.num_heads + 2 * self.num_kv_heads)
        return self.num_layers * (attention + 3 * self.width * self.mlp_width)

    @classmethod
    def read(
        cls, section: Section, names: Mapping[str, str], norm_eps: str, **others: Any
    ) -> TransformerConfig:
        """Read the sizes of a checkpoint's section.

        Args:
            names: what a size is called there, by our name. norm_eps: the same of that number.
            others: fields that are not read here.
        Raises:
            CheckpointError: a key is missing or wrong, or sizes contradict each other.
        """
        sizes: dict[str, Any] = section.counts(**names)
        config = cls(**sizes, norm_eps=section.number(norm_eps), **others)
        section.check_heads(config.num_heads, config.num_kv_heads, config.head_dim)
        section.check_table(config.max_positions, config.head_dim)
        return config


@dataclass(frozen=True)
class FamilyConfig:
    """What every family's config says; a family adds to it."""

    talker: TransformerConfig
    predictor: TransformerConfig
    num_codebooks: int
