"""Where a batch finds no room on the device: half of it at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

Item = TypeVar("Item")


def in_halves(
    batch: list[Item],
    attempt: Callable[[list[Item]], str | None],
    give_up: Callable[[Item, str], None],
) -> None:
    """Do the work of a batch at once; where that fails on its halves, and so on to single items.

    Args:
        attempt: does the work and returns None, or catches what goes wrong and returns the reason.
            Once it has returned nothing may hold the error, which holds what had been allocated.
        give_up: takes each item that fails alone, with the reason.
    """
    reason = attempt(batch)
    if reason is None:
        return
    # Waits for whatever any stream still does, and takes nothing that is in use.
    torch.cuda.empty_cache()
    if len(batch) == 1:
        give_up(batch[0], reason)
        return
    half = len(batch) // 2
    in_halves(batch[:half], attempt, give_up)
    in_halves(batch[half:], attempt, give_up)
