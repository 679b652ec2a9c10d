"""Lanes: every row once, gaps kept, nothing beyond a lane, little left empty."""

from __future__ import annotations

import itertools
import random

import pytest

from models.vocoder.lane_plan import (
    choose_rows,
    fill_lanes,
    plan_fixed_lanes,
    plan_lanes,
    plan_rows_apart,
    share_lanes,
)

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


def test_lanes_that_are_not_full_take_a_shorter_bucket() -> None:
    assert [batch.key for batch in plan_lanes([100], BUCKETS, 4, 3)] == [(1, 128)]
    assert [batch.key for batch in plan_lanes([512] * 7 + [9], BUCKETS, 4, 3)] == [
        (4, 512),
        (2, 512),
        (1, 512),
        (1, 64),
    ]
    assert plan_lanes([], BUCKETS, 4, 3) == []


def test_batches_in_one_larger_shape_share_its_lanes() -> None:
    # A run's last rows, of which the largest shape alone is recorded: three passes before.
    rows = [500, 510, 490, 200]
    planned = plan_lanes(rows, BUCKETS, 4, 3)
    assert [batch.key for batch in planned] == [(2, 512), (1, 512), (1, 256)]
    (shared,) = share_lanes(planned, [(4, 512)] * 3)
    assert shared.key == (4, 512)
    assert sorted((place.row, place.lane) for place in shared.places) == [
        (0, 1),
        (1, 0),
        (2, 2),
        (3, 3),
    ]


def test_a_row_longer_than_a_lane_is_refused() -> None:
    with pytest.raises(ValueError, match="a row of 65 frames in lanes of 64"):
        fill_lanes([3, 65], 64, 1)


class TestChoice:
    """Rows for the vocoder, out of those that wait."""

    @pytest.mark.parametrize(
        ("shortest", "longest", "used", "most"), [(108, 323, 0.96, 40), (62, 187, 0.95, 60)]
    )
    def test_the_largest_graph_runs_and_is_full(
        self, shortest: int, longest: int, used: float, most: int
    ) -> None:
        # 32 rows at a time as they came: 0.945 used, and 0.58 and 0.85 of it in four lanes.
        rng = random.Random(0)
        buckets = (64, 128, 192, 256, 384, 512, 768, 1024)
        waiting: list[tuple[int, int]] = []  # when it came, frames
        run, frames, four = 0, 0, 0
        for now in range(1024):
            waiting.append((now, rng.randint(shortest, longest)))
            while chosen := choose_rows([size for _, size in waiting], 1024, 4, 3):
                assert chosen[0] == 0  # the oldest is never left
                assert chosen == sorted(chosen)
                sizes = [waiting[index][1] for index in chosen]
                for batch in plan_lanes(sizes, buckets, 4, 3):
                    run += batch.num_lanes * batch.num_frames
                    four += batch.num_lanes * batch.num_frames * (batch.key == (4, 1024))
                frames += sum(sizes)
                waiting = [row for index, row in enumerate(waiting) if index not in set(chosen)]
            assert len(waiting) < most
            assert sum(size for _, size in waiting) < 5 * 1024
        assert frames > used * run
        assert four == run

    def test_it_waits_for_rows_to_leave_behind(self) -> None:
        assert choose_rows([], 1024, 4, 3) == []
        assert choose_rows([125] * 40, 1024, 4, 3) == []
        assert choose_rows([125] * 41, 1024, 4, 3) == list(range(32))

    def test_rows_that_fill_no_lane_go_all_the_same(self) -> None:
        # Two of these are too short for the longest lane, three too long.
        assert choose_rows([350] * 15, 1024, 4, 3) == list(range(8))


@pytest.mark.parametrize("seed", range(10))
def test_fixed_lanes_hold_the_same_in_batches_of_one_shape(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.randint(1, 400) for _ in range(rng.randint(0, 60))]
    batches = plan_fixed_lanes(sizes, 512, 4, 3)
    assert {batch.key for batch in batches} <= {(4, 512)}
    lanes = fill_lanes(sizes, 512, 3)
    assert len(batches) == -(-len(lanes) // 4)
    found = [
        [(place.row, place.start) for place in batch.places if place.lane == lane]
        for batch in batches
        for lane in range(4)
    ]
    assert [lane for lane in found if lane] == lanes


def test_rows_apart_each_begin_a_lane_of_their_own() -> None:
    shapes = [(3, 10), (2, 25)]
    batches = plan_rows_apart([10, 11, 1, 25, 4, 9, 12], shapes)
    assert [batch.key for batch in batches] == [(3, 10), (3, 10), (2, 25), (2, 25)]
    rows = [[place.row for place in batch.places] for batch in batches]
    assert rows == [[0, 2, 4], [5], [1, 3], [6]]
    for batch in batches:
        assert [place.lane for place in batch.places] == list(range(len(batch.places)))
        assert {place.start for place in batch.places} == {0}
    assert plan_rows_apart([], shapes) == []
    with pytest.raises(ValueError, match="a row of 26 frames in lanes of 25"):
        plan_rows_apart([3, 26], shapes)
