"""Random weights of a released size, or of a size that a test wants."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from models.decoder.config import FamilyConfig
from models.family import MadeUp
from models.load import load
from models.registry import FAMILIES
from models.slots.model import SpeechModel


def load_synthetic(
    name: str,
    device: torch.device,
    dtype: torch.dtype,
    use_graphs: bool,
    seed: int = 0,
    main: FamilyConfig | None = None,
    **others: Any,
) -> SpeechModel:
    """Make a model of random weights up.

    Args:
        main: another configuration of talker and code predictor than the released.
        others: likewise of other networks, by the fields of the family's configuration.
    """
    family = next(entry.family for entry in FAMILIES if name in entry.synthetic)
    changes = others if main is None else {**others, "main": main}
    config = replace(family.released(name), **changes)
    return load(MadeUp(family, name, seed, config), device, dtype, use_graphs)
