"""How many rows fit into a device, by arithmetic, and what becomes of those that do not."""

from __future__ import annotations

import pytest
import torch

from models.device.memory import FREE_SHARE, LIBRARIES_BYTES, Room, in_halves, room_for

GIB = 2**30
MIB = 2**20


def fit(asked: int, free_gib: float, slot_mib: float, lane_gib: float = 0.0) -> Room:
    return room_for(
        asked,
        int(free_gib * GIB),
        int(slot_mib * MIB),
        [4, 2, 1],
        lambda lanes: int(lanes * lane_gib * GIB),
    )


@pytest.mark.parametrize("asked", [1, 64, 256, 512])
def test_what_was_asked_for_where_there_is_room(asked: int) -> None:
    assert fit(asked, 120, 45, 1.5) == Room(asked, 4)


def test_what_fits_is_within_what_is_free() -> None:
    """Whatever the numbers: the choice fits, twice as many rows would not, with any choice."""
    for free_gib in (2, 7.5, 13.1, 22, 45, 78):
        for slot_mib in (1, 40, 93, 700):
            for lane_gib in (0.0, 0.4, 1.3, 2.7):
                room = fit(256, free_gib, slot_mib, lane_gib)
                dealt = FREE_SHARE * free_gib * GIB - LIBRARIES_BYTES
                if room.rows:
                    taken = room.rows * slot_mib * MIB + room.choice * lane_gib * GIB
                    assert taken <= dealt
                more = max(1, 2 * room.rows)
                if more <= 256:
                    assert more * slot_mib * MIB + lane_gib * GIB > dealt - 2
                if room.rows and room.choice < 4:
                    wider = room.rows * slot_mib * MIB + 2 * room.choice * lane_gib * GIB
                    assert wider > dealt - 2


def test_rows_come_before_lanes() -> None:
    assert fit(256, 20, 48, 1.0) == Room(256, 4)
    assert fit(256, 17, 48, 1.0) == Room(256, 2)
    assert fit(256, 15, 48, 1.0) == Room(256, 1)
    assert fit(256, 14.5, 48, 1.0) == Room(128, 4)


def test_nothing_fits() -> None:
    assert fit(256, 0.5, 48).rows == 0
    assert fit(256, 2, 48, 2.0).rows == 0


def test_a_batch_without_memory_is_done_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    done: list[list[int]] = []
    lost: list[tuple[int, str]] = []

    def attempt(batch: list[int]) -> str | None:
        if len(batch) > 2 or 5 in batch:
            return "too many"
        done.append(batch)
        return None

    in_halves(list(range(8)), attempt, lambda item, reason: lost.append((item, reason)))
    assert sorted(item for batch in done for item in batch) == [0, 1, 2, 3, 4, 6, 7]
    assert lost == [(5, "too many")]
