"""Reckon room on the device: how many rows fit, and half of a batch where it does not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

Item = TypeVar("Item")

FREE_SHARE = 0.92  # of the free memory that is dealt out: allocators round, and leave holes
LIBRARIES_BYTES = 600 * 2**20  # workspaces, compiled kernels and recorded graphs


@dataclass(frozen=True)
class Room:
    """What fits into a device's memory."""

    rows: int  # a power of two; 0: not even one
    choice: int  # of how much is decoded to audio at once


def room_for(
    asked: int, free: int, slot_bytes: int, choices: Sequence[int], work: Callable[[int], int]
) -> Room:
    """As many rows as asked for and as fit, and the largest choice of work that leaves them room.

    More rows at once are worth more than more audio decoded at once: a smaller choice is made
    where the larger one would leave fewer rows.

    Args:
        asked: rows, a power of two.
        free: bytes, weights already taken off.
        slot_bytes: of a row's slot.
        choices: of work, largest first.
        work: bytes that a choice takes, beside slots.
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
