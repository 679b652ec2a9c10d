"""Batch recordings of different lengths for an encoder.

On a GPU clips of similar length share a batch; on a CPU each clip runs alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from models.device.buckets import padded_groups

# Padded samples of one batch, 44 s at 24 kHz and 24 s at 44.1: bounds the activations of an
# encoder's first convolutions to 1 GiB.
BATCH_SAMPLES = 2**20


def clip_batches(
    waves: Sequence[Tensor], wanted: Iterable[int], device: torch.device, use_batches: bool
) -> Iterator[tuple[list[int], Tensor]]:
    """Yield the `wanted` of the clips (n,) in order of length, in batches limited by their padded
    samples: their indices, and (B, N) on the device, shorter ones padded with silence.

    Args:
        use_batches: encode several clips in one batch.
    """
    indices = list(wanted)
    groups = [[place] for place in range(len(indices))]
    if use_batches:
        groups = padded_groups([len(waves[index]) for index in indices], BATCH_SAMPLES)
    for group in groups:
        batch = [indices[place] for place in group]
        padded = torch.zeros(len(batch), max(len(waves[index]) for index in batch))
        for row, index in enumerate(batch):
            padded[row, : len(waves[index])] = waves[index]
        yield batch, padded.to(device)
