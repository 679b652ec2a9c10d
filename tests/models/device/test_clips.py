from __future__ import annotations

import pytest
import torch

from models.device import clips
from models.device.clips import clip_batches

CPU = torch.device("cpu")


def test_clips_of_similar_length_share_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clips, "BATCH_SAMPLES", 4 * 144)
    waves = [torch.full((n,), 1.0 + i) for i, n in enumerate([144, 144, 432, 288, 1440, 100])]
    found = list(clip_batches(waves, [0, 1, 2, 3, 4], CPU, True))
    assert [batch for batch, _ in found] == [[0, 1], [3], [2], [4]]
    found = list(clip_batches(waves, [5, 1, 0], CPU, True))
    assert [batch for batch, _ in found] == [[5, 1, 0]]
    for row, index in enumerate([5, 1, 0]):
        length = len(waves[index])
        assert torch.equal(found[0][1][row, :length], waves[index])
        assert not found[0][1][row, length:].any()


def test_a_cpu_takes_them_one_by_one_in_their_order() -> None:
    waves = [torch.ones(5), torch.ones(3), torch.ones(4)]
    found = list(clip_batches(waves, [2, 0], CPU, False))
    assert [(batch, tuple(padded.shape)) for batch, padded in found] == [
        ([2], (1, 4)),
        ([0], (1, 5)),
    ]
    assert list(clip_batches([], [], CPU, True)) == []
