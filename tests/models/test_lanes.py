"""Lanes: every row once, gaps kept, nothing beyond a lane, little left empty."""

from __future__ import annotations

import itertools
import random

import pytest

from models.lanes import fill_lanes, plan_lanes

BUCKETS = (64, 128, 256, 512)


def spans(sizes: list[int], lane: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return sorted((start, start + sizes[row]) for row, start in lane)


@pytest.mark.parametrize("seed", range(20))
def test_every_row_lies_in_one_lane_and_touches_no_other(seed: int) -> None:
    rng = random.Random(seed)
    lane_frames, gap = rng.choice([64, 500, 1024]), rng.choice([0, 1, 3])
    sizes = [rng.randint(1, min(lane_frames, 400)) for _ in range(rng.randint(0, 60))]
    lanes = fill_lanes(sizes, lane_frames, gap)
    assert sorted(row for lane in lanes for row, _ in lane) == list(range(len(sizes)))
    ends = []
    for lane in lanes:
        found = spans(sizes, lane)
        assert found[0][0] == 0
        assert found[-1][1] <= lane_frames
        assert all(end + gap == start for (_, end), (start, _) in itertools.pairwise(found))
        ends.append(found[-1][1])
    assert ends == sorted(ends, reverse=True)


def test_usual_rows_leave_little_empty() -> None:
    rng = random.Random(1)
    sizes = [rng.randint(62, 187) for _ in range(32)]
    batches = plan_lanes(sizes, (*BUCKETS, 1024), 4, 3)
    decoded = sum(batch.num_lanes * batch.num_frames for batch in batches)
    assert decoded < 1.12 * sum(sizes)


@pytest.mark.parametrize("seed", range(20))
def test_batches_are_buckets_filled_exactly(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.randint(1, 512) for _ in range(rng.randint(1, 40))]
    batches = plan_lanes(sizes, BUCKETS, 4, 2)
    assert sorted(place.row for batch in batches for place in batch.places) == [*range(len(sizes))]
    for batch in batches:
        assert batch.num_frames in BUCKETS
        assert batch.num_lanes in ((1, 2, 4) if batch.num_frames == 512 else (1,))
        assert {place.lane for place in batch.places} == set(range(batch.num_lanes))
        for place in batch.places:
            assert place.start + sizes[place.row] <= batch.num_frames


def test_equal_rows_fill_their_lanes() -> None:
    batches = plan_lanes([125] * 32, (*BUCKETS, 1024), 4, 3)
    assert [batch.key for batch in batches] == [(4, 1024)]


def test_lanes_that_are_not_full_take_a_shorter_bucket() -> None:
    assert [batch.key for batch in plan_lanes([100], BUCKETS, 4, 3)] == [(1, 128)]
    assert [batch.key for batch in plan_lanes([512] * 7 + [9], BUCKETS, 4, 3)] == [
        (4, 512),
        (2, 512),
        (1, 512),
        (1, 64),
    ]
    assert plan_lanes([], BUCKETS, 4, 3) == []


def test_a_row_longer_than_a_lane_is_refused() -> None:
    with pytest.raises(ValueError, match="a row of 65 frames in lanes of 64"):
        fill_lanes([3, 65], 64, 1)
