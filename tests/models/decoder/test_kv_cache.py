"""Static KV cache: what is written where; slots move and clear without touching the others."""

from __future__ import annotations

import pytest
import torch

from models.decoder.config import TransformerConfig
from models.decoder.decoder import StaticKVCache, cache_bytes

LAYERS, SLOTS, HEADS, POSITIONS, WIDTH = 2, 5, 3, 7, 4
CONFIG = TransformerConfig(12, 16, LAYERS, 2 * HEADS, HEADS, WIDTH, 1e4, 1e-6, POSITIONS)
CPU = torch.device("cpu")


@pytest.fixture
def cache() -> StaticKVCache:
    cache = StaticKVCache(CONFIG, SLOTS, POSITIONS, CPU, torch.float32)
    cache.data.copy_(torch.randn(cache.data.shape))
    return cache


def test_the_first_positions_of_a_slot_are_copied_to_others(cache: StaticKVCache) -> None:
    expected = cache.data.clone()
    expected[:, :, [4, 0], :, :3] = expected[:, :, 2:3, :, :3]
    cache.copy_first(2, torch.tensor([4, 0]), 3)
    assert torch.equal(cache.data, expected)


def test_move_copies_whole_slots_and_leaves_the_rest(cache: StaticKVCache) -> None:
    before = cache.data.clone()
    cache.move(torch.tensor([4, 3]), torch.tensor([0, 2]))
    expected = before.clone()
    expected[:, :, 0], expected[:, :, 2] = before[:, :, 4], before[:, :, 3]
    assert torch.equal(cache.data, expected)


def test_clear_zeroes_the_named_slots_alone(cache: StaticKVCache) -> None:
    cache.data[:, :, 2] = float("nan")
    before = cache.data.clone()
    cache.clear(torch.tensor([2]))
    assert not cache.data[:, :, 2].any()
    others = [slot for slot in range(SLOTS) if slot != 2]
    assert torch.equal(cache.data[:, :, others], before[:, :, others])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bytes_of_the_cache_are_slots_times_bytes_of_one(dtype: torch.dtype) -> None:
    cache = StaticKVCache(CONFIG, SLOTS, POSITIONS, CPU, dtype)
    assert cache.data.nbytes == SLOTS * cache_bytes(CONFIG, POSITIONS, dtype)
