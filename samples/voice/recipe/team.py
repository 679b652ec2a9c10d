"""Several processes that train one model together, each on its own GPU and its own share of the
speech. Started by torchrun; alone without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn


class Team:
    """This process among its mates."""

    def __init__(self, device: str) -> None:
        self.rank, self.size = (
            int(os.environ.get("RANK", "0")),
            int(os.environ.get("WORLD_SIZE", "1")),
        )
        self.device = device
        if self.size > 1:
            if device == "cuda":
                torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dist.init_process_group("nccl" if device == "cuda" else "gloo")

    @property
    def is_first(self) -> bool:
        """Whether this process keeps the log and the weights."""
        return self.rank == 0

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace every gradient by the mean over the team."""
        if self.size == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        flat /= self.size
        parts = flat.split([gradient.numel() for gradient in gradients])
        torch._foreach_copy_(
            gradients, [part.view_as(own) for part, own in zip(parts, gradients, strict=True)]
        )

    def agree(self, value: float) -> float:
        """The first process's value, on all."""
        if self.size == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.broadcast(shared, 0)
        return float(shared)

    def share(self, weights: Iterable[Tensor]) -> None:
        """Give the first process's weights to all."""
        if self.size > 1:
            for weight in weights:
                dist.broadcast(weight, 0)
