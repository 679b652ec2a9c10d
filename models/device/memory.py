"""Device memory: the number of rows that fit, and halving a batch that does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

Item = TypeVar("Item")

FREE_SHARE = 0.92  # of the free memory that is used: allocators round, and leave holes
LIBRARIES_BYTES = 600 * 2**20  # workspaces, compiled kernels and captured graphs


@dataclass(frozen=True)
class Room:
    rows: int  # a power of two; 0: not even one
    choice: int  # of how much audio is decoded at a time


def room_for(
    asked: int, free: int, slot_bytes: int, choices: Sequence[int], work: Callable[[int], int]
) -> Room:
    """Return the number of rows, up to `asked`, that fit, and the largest choice of work with them.

    More concurrent rows are worth more than more audio decoded at a time: a smaller choice is taken
    if the larger one would leave fewer rows.

    Args:
        asked: rows, a power of two.
        free: bytes, without the weights.
        slot_bytes: of a row's slot.
        choices: of work, largest first.
        work: bytes of a choice, without slots.
    """
    best = Room(0, choices[-1])
    for choice in choices:
        left = int(FREE_SHARE * free) - LIBRARIES_BYTES - work(choice)
        fitting = max(0, left) // max(1, slot_bytes)
        rows = min(asked, 1 << (fitting.bit_length() - 1) if fitting else 0)
        if rows > best.rows:
            best = Room(rows, choice)
    return best


def in_halves(
    batch: list[Item],
    attempt: Callable[[list[Item]], str | None],
    give_up: Callable[[Item, str], None],
) -> None:
    """Do the work of a batch; if that fails, of its halves, and so on down to single items.

    Args:
        attempt: does the work and returns None, or catches an error and returns the reason. After
            its return nothing may refer to the error, which refers to allocated tensors.
        give_up: takes each item that fails alone, with the reason.
    """
    reason = attempt(batch)
    if reason is None:
        return
    # Waits for all streams, and frees only unused memory.
    torch.cuda.empty_cache()
    if len(batch) == 1:
        give_up(batch[0], reason)
        return
    half = len(batch) // 2
    in_halves(batch[:half], attempt, give_up)
    in_halves(batch[half:], attempt, give_up)
