"""Clips to batches: of similar length on a GPU, alone on a CPU."""

from __future__ import annotations

import pytest
import torch

from models.device import clips
from models.device.clips import clip_batches, pad_clips

LENGTHS = [144, 144, 432, 288, 1440]


def test_clips_of_similar_length_share_a_bounded_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clips, "BATCH_SAMPLES", 4 * 144)
    assert clip_batches(range(5), LENGTHS, True) == [[0, 1], [3], [2], [4]]
    assert clip_batches([4, 2, 1], LENGTHS, True) == [[1], [2], [4]]
    assert clip_batches([], LENGTHS, True) == []


def test_alone_they_keep_their_order() -> None:
    assert clip_batches([4, 0, 2], LENGTHS, False) == [[4], [0], [2]]


def test_padding_is_silence() -> None:
    padded = pad_clips([torch.ones(2), torch.ones(3)], 4)
    assert padded.tolist() == [[1, 1, 0, 0], [1, 1, 1, 0]]
