"""Small host values to the device without stopping it.

A copy from ordinary memory waits for everything queued on the stream before it; from pinned memory
it is just one more entry in the queue. PyTorch's pinned allocator reuses a block only when its copy
is over.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def to_device(
    values: Sequence[int] | Sequence[float] | Sequence[Sequence[float]] | Tensor,
    device: torch.device,
    dtype: torch.dtype = torch.int64,
) -> Tensor:
    """A tensor of `values` on the device; the copy is queued, not waited for."""
    host = torch.as_tensor(values, dtype=dtype)
    if device.type != "cuda":
        return host.to(device)
    return host.pin_memory().to(device, non_blocking=True)
