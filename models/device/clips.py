"""Clips of different lengths as batches for an encoder.

On a GPU clips of similar length share a batch; a clip's result must not depend on its mates beyond
rounding. On a CPU each clip runs alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

# Padded samples of one batch, 44 s at 24 kHz: bounds the first convolutions' activations to 1 GiB.
BATCH_SAMPLES = 2**20


def clip_batches(
    indices: Iterable[int], lengths: Sequence[int], use_batches: bool
) -> list[list[int]]:
    """The clips of `indices` in order of length, as many to a batch as its padded samples allow.

    Args:
        lengths: samples of every clip, whether in `indices` or not.
        use_batches: False: one clip a batch, in their own order.
    """
    if not use_batches:
        return [[index] for index in indices]
    batches: list[list[int]] = []
    for index in sorted(indices, key=lambda index: lengths[index]):
        if not batches or (len(batches[-1]) + 1) * lengths[index] > BATCH_SAMPLES:
            batches.append([])
        batches[-1].append(index)
    return batches


def pad_clips(clips: Sequence[Tensor], length: int) -> Tensor:
    """Clips (n,) of at most `length` samples as (B, length) on the CPU, filled up with zeros."""
    padded = torch.zeros(len(clips), length)
    for row, clip in zip(padded, clips, strict=True):
        row[: len(clip)] = clip
    return padded
