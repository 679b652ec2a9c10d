"""Plan lanes: rows of different lengths one after the other in lanes of one length. Pure functions.

A batch padded to its longest row wastes work on all others, and many lengths times many batch sizes
need many graphs. Lanes are filled instead, with a gap between two rows: few shapes are enough for
every mixture, with almost no padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from models.device.buckets import choose_bucket


@dataclass(frozen=True)
class LanePlace:
    row: int  # index into the sizes
    lane: int
    start: int  # first frame in the lane


@dataclass(frozen=True)
class LaneBatch:
    num_lanes: int
    num_frames: int  # of every lane
    places: tuple[LanePlace, ...]

    @property
    def key(self) -> tuple[int, int]:
        """The bucket: lanes and frames."""
        return self.num_lanes, self.num_frames


def fill_lanes(sizes: Sequence[int], lane_frames: int, gap: int) -> list[list[tuple[int, int]]]:
    """Put rows into few lanes, greedily: the longest first, each into the fullest lane with enough
    room. Return each lane's (row, start), the fullest lane first.

    The first row is placed before all others, so that it is in a full lane. The rows of some of the
    lanes alone, in the same order, get the same places again: for each of them the other lanes were
    too full, or did not exist yet.

    Args:
        sizes: frames of each row, at most lane_frames.
        gap: frames between two rows of a lane.
    """
    lanes: list[list[tuple[int, int]]] = []
    used: list[int] = []
    for row in sorted(range(len(sizes)), key=lambda row: (row > 0, -sizes[row])):
        if sizes[row] > lane_frames:
            raise ValueError(f"a row of {sizes[row]} frames in lanes of {lane_frames}")
        fitting = [lane for lane, end in enumerate(used) if end + gap + sizes[row] <= lane_frames]
        if fitting:
            lane = max(fitting, key=lambda lane: used[lane])
            start = used[lane] + gap
        else:
            lane, start = len(lanes), 0
            lanes.append([])
            used.append(0)
        lanes[lane].append((row, start))
        used[lane] = start + sizes[row]
    order = sorted(range(len(lanes)), key=lambda lane: -used[lane])
    return [lanes[lane] for lane in order]


def plan_lanes(
    sizes: Sequence[int], buckets: Sequence[int], max_lanes: int, gap: int
) -> list[LaneBatch]:
    """Return batches of lanes for rows of these sizes.

    Lanes of one bucket are batched in powers of two that they fill exactly, so that no lane is
    padding. A lane shorter than the longest bucket takes the smallest one it fits.

    Args:
        buckets: lane lengths, ascending; lanes are filled up to the last.
        max_lanes: of a batch, a power of two; only lanes of the last bucket share one.
    """
    full: list[list[tuple[int, int]]] = []
    batches: list[LaneBatch] = []
    short: list[LaneBatch] = []
    for lane in fill_lanes(sizes, buckets[-1], gap):
        end = max(start + sizes[row] for row, start in lane)
        frames = choose_bucket(end, buckets)
        if frames == buckets[-1]:
            full.append(lane)
        else:
            short.append(_batch([lane], frames))
    while full:
        count = min(max_lanes, 1 << (len(full).bit_length() - 1))
        batches.append(_batch(full[:count], buckets[-1]))
        full = full[count:]
    return batches + short


def plan_fixed_lanes(
    sizes: Sequence[int], lane_frames: int, num_lanes: int, gap: int
) -> list[LaneBatch]:
    """Plan as `plan_lanes`, in batches of one shape; the last one is padded with empty lanes."""
    lanes = fill_lanes(sizes, lane_frames, gap)
    parts = [lanes[first : first + num_lanes] for first in range(0, len(lanes), num_lanes)]
    return [_batch(part, lane_frames, num_lanes) for part in parts]


def share_lanes(batches: Sequence[LaneBatch], shapes: Sequence[tuple[int, int]]) -> list[LaneBatch]:
    """Put each batch into a larger shape, together with following batches of that shape while
    lanes are free: a pass takes equally long with any number of empty lanes.
    """
    found: list[LaneBatch] = []
    used = 0  # lanes of the last batch
    for batch, shape in zip(batches, shapes, strict=True):
        before: tuple[LanePlace, ...] = ()
        if found and found[-1].key == shape and used + batch.num_lanes <= shape[0]:
            before = found.pop().places
        else:
            used = 0
        places = (replace(place, lane=used + place.lane) for place in batch.places)
        found.append(LaneBatch(*shape, (*before, *places)))
        used += batch.num_lanes
    return found


def plan_rows_apart(sizes: Sequence[int], shapes: Sequence[tuple[int, int]]) -> list[LaneBatch]:
    """Put every row at the first frame of a separate lane, in batches whose shape depends on its
    size alone; batches are padded with empty lanes.

    Args:
        shapes: lanes and their frames, shorter ones first; the last fits every row.
    """
    batches: list[LaneBatch] = []
    reached = 0
    for num_lanes, frames in shapes:
        rows = [row for row, size in enumerate(sizes) if reached < size <= frames]
        for first in range(0, len(rows), num_lanes):
            lanes = [[(row, 0)] for row in rows[first : first + num_lanes]]
            batches.append(_batch(lanes, frames, num_lanes))
        reached = frames
    if sizes and max(sizes) > reached:
        raise ValueError(f"a row of {max(sizes)} frames in lanes of {reached}")
    return batches


def choose_rows(sizes: Sequence[int], lane_frames: int, num_lanes: int, gap: int) -> list[int]:
    """Choose waiting rows, oldest first, that fill num_lanes lanes: indices in their order; none
    unless all rows together would fill one lane more.

    Lanes get full by choosing, so there must be rows to leave out. The oldest row is always chosen,
    so a row is left out at most as often as rows wait before it.
    """
    if sum(sizes) < (num_lanes + 1) * lane_frames:
        return []
    lanes = fill_lanes(sizes, lane_frames, gap)  # the fullest first
    lanes.sort(key=lambda lane: all(row > 0 for row, _ in lane))
    return sorted(row for lane in lanes[:num_lanes] for row, _ in lane)


def _batch(
    lanes: list[list[tuple[int, int]]], frames: int, num_lanes: int | None = None
) -> LaneBatch:
    places = [
        LanePlace(row, index, start) for index, lane in enumerate(lanes) for row, start in lane
    ]
    return LaneBatch(num_lanes or len(lanes), frames, tuple(places))
