"""Arguments of the samplers, and calls with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kernels.sampling.row import RowSettings
from models.base import SpeechRequest
from models.sampling import Sampling
from models.slots.runner import SamplingSlots

DTYPES = {
    "uniform": torch.float32,
    "greedy": torch.bool,
    "temperature": torch.float32,
    "top_k": torch.int32,
    "top_p": torch.float32,
    "repetition_penalty": torch.float32,
    "window_uniform": torch.float32,
    "no_eos": torch.bool,
}


def settings(logits: Tensor, **changes: Any) -> dict[str, Any]:
    """All but the logits: temperature 1 and nothing else on, then `changes`.

    Plain numbers and lists become tensors over the rows.
    """
    rows = logits.shape[0]
    chosen = {"uniform": 0.5, "greedy": False, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
    chosen |= changes
    for name, dtype in DTYPES.items():
        value = chosen.get(name)
        if value is not None and not isinstance(value, Tensor):
            value = torch.as_tensor(value, dtype=dtype, device=logits.device)
            chosen[name] = value.expand(rows).contiguous()
    chosen.setdefault("out", torch.full((rows,), -7, dtype=torch.int64, device=logits.device))
    how = {name: chosen.pop(name, None) for name in RowSettings._fields}
    return {**chosen, "settings": RowSettings(**how)}


def drawer(sampler: Callable[..., Tensor], run: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`draw(logits, **changes)`: the ids that a sampler draws, called through `run`."""

    def draw(logits: Tensor, **changes: Any) -> Tensor:
        arguments = settings(logits, **changes)
        assert run(sampler, logits, **arguments) is arguments["out"]
        return arguments["out"]

    return draw


def assign(sampling: SamplingSlots, slots: list[int], rows: list[Sampling]) -> None:
    """Give slots the settings of rows, each with a seed of its own."""
    requests = [
        SpeechRequest("", sampling=row, seed=100 + slot)
        for slot, row in zip(slots, rows, strict=True)
    ]
    counts, numbers = sampling.settings_of(requests)
    sampling.assign(torch.tensor(slots), torch.tensor(counts), torch.tensor(numbers))
