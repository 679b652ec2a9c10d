"""Choose the number of CPU threads for a piece of work.

Small layers end before a second thread has woken up: with the sample voice's (0.85 M weights a
layer) two threads cost twice the processor time of one for the same frames. Its vocoder (4.7 M
weights) gains a third from the second thread on an idle machine, but takes twenty times as long
when another process needs that core.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

SMALL_LAYER_WEIGHTS = 4_000_000
SMALL_BATCH = 16
SMALL_VOCODER_WEIGHTS = 8_000_000


def decode_threads(layer_weights: int, batch: int) -> int:
    is_small = layer_weights < SMALL_LAYER_WEIGHTS and batch <= SMALL_BATCH
    return 1 if is_small else torch.get_num_threads()


def vocoder_threads(weights: int) -> int:
    return 1 if weights < SMALL_VOCODER_WEIGHTS else torch.get_num_threads()


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    if count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
