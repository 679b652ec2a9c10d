"""Buckets: every size fits the smallest one that holds it."""

from __future__ import annotations

import pytest

from models.device.buckets import (
    batch_buckets,
    choose_bucket,
    is_power_of_two,
    next_power_of_two,
    packed_groups,
    padded_groups,
    round_up,
)

BUCKETS = [16, 32, 64, 128, 256, 300, 325]


@pytest.mark.parametrize(
    ("count", "power"), [(-3, 1), (0, 1), (1, 1), (2, 2), (3, 4), (63, 64), (64, 64), (100, 128)]
)
def test_next_power_of_two(count: int, power: int) -> None:
    assert next_power_of_two(count) == power


def test_is_power_of_two() -> None:
    powers = [count for count in range(-4, 1025) if is_power_of_two(count)]
    assert powers == [1 << power for power in range(11)]


def test_batch_buckets_come_largest_first() -> None:
    assert batch_buckets(1) == [1]
    assert batch_buckets(64) == [64, 32, 16, 8, 4, 2, 1]


@pytest.mark.parametrize("count", [0, -2, 3, 48])
def test_batch_buckets_take_powers_of_two_only(count: int) -> None:
    with pytest.raises(ValueError, match=f"power of two, not {count}"):
        batch_buckets(count)


@pytest.mark.parametrize("frames", [1, 16, 17, 256, 257, 300, 301, 325])
def test_choose_bucket_takes_the_smallest_that_holds(frames: int) -> None:
    chosen = choose_bucket(frames, BUCKETS)
    assert chosen >= frames
    assert not [bucket for bucket in BUCKETS if frames <= bucket < chosen]
    assert choose_bucket(frames, list(reversed(BUCKETS))) == chosen


def test_choose_bucket_names_both_numbers_when_none_holds() -> None:
    with pytest.raises(ValueError, match="326 is larger than the largest bucket 325"):
        choose_bucket(326, BUCKETS)


def test_round_up() -> None:
    assert [round_up(count, 32) for count in (0, 1, 31, 32, 33)] == [0, 32, 32, 32, 64]


def test_padded_groups_hold_every_row_once_and_stay_within_their_size() -> None:
    lengths = [64, 32, 96, 32, 64, 256]
    groups = padded_groups(lengths, 192)
    assert sorted(row for group in groups for row in group) == list(range(6))
    assert groups == [[1, 3, 0], [4, 2], [5]]  # a row alone may be longer than the limit
    assert padded_groups([], 192) == []


def test_packed_groups_keep_the_order_and_stay_within_tokens_and_rows() -> None:
    assert packed_groups([50, 40, 20, 30, 300, 1], max_tokens=100, max_rows=9) == [
        [0, 1],
        [2, 3],
        [4],  # alone it may be longer than the limit
        [5],
    ]
    assert packed_groups([1] * 5, max_tokens=100, max_rows=2) == [[0, 1], [2, 3], [4]]
    assert packed_groups([], 100, 2) == []
