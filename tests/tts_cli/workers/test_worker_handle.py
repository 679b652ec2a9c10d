"""Which row is given out next, how many a worker takes, and in what company."""

from __future__ import annotations

import heapq
from typing import Any

from tasks import task_of

from models.base import SpeechRequest
from tts_cli.engine.session import SessionFacts
from tts_cli.voices.voice_loader import TaskWithVoice
from tts_cli.workers.messages import Ready
from tts_cli.workers.worker_handle import OpenRow, WorkerHandle


def row_of(name: str, frames: float = 1.0, **more: Any) -> OpenRow:
    return OpenRow(TaskWithVoice(task_of(name, SpeechRequest("Hello."))), frames, **more)


def in_order(*rows: OpenRow) -> list[str]:
    """Ids of rows in the order in which they are given out."""
    waiting = [(row.rank, number, row) for number, row in enumerate(rows)]
    heapq.heapify(waiting)
    return [heapq.heappop(waiting)[2].voiced.task.id for _ in rows]


def test_a_short_row_is_not_passed_over_for_ever() -> None:
    short, *long = (
        row_of("short", 1.0, turn=3),
        row_of("long", 9.0, turn=3),
        row_of("l", 9.0, turn=4),
    )
    assert in_order(*long, short) == ["long", "short", "l"]


def test_each_death_after_the_first_divides_the_company_of_a_row_by_eight() -> None:
    companies = [row_of("a", deaths=deaths).company(512) for deaths in range(6)]
    assert companies == [512, 512, 64, 8, 1, 1]


def worker(num_slots: int) -> WorkerHandle:
    """A worker that is ready."""
    ready = Ready("host", SessionFacts(), num_slots, True)
    return WorkerHandle(1, None, ready=ready)


def test_a_worker_takes_what_keeps_its_slots_busy() -> None:
    one = worker(4)
    count = 0
    while one.can_take(row := row_of(f"{count}")):
        one.give(row)
        count += 1
    assert count == one.room == 4 + 2 + 4
    assert one.frames == count
    one.ready = None
    assert not one.can_take(row_of("more"))


def test_rows_that_wait_for_the_vocoder_take_no_room() -> None:
    """With few slots it waits for more rows than a worker was given: none would have come."""
    one = worker(4)
    while one.can_take(row := row_of("any")):
        one.give(row)
    one.num_behind = 3
    more = 0
    while one.can_take(row := row_of("more")):
        one.give(row)
        more += 1
    assert more == 3
    one.lose()
    assert (one.num_behind, one.room) == (0, 0)


def test_a_row_of_more_parts_than_there_is_room_goes_alone() -> None:
    one = worker(1)
    long = row_of("long", slots=100)
    assert one.can_take(long)
    number = one.give(long)
    assert not one.can_take(row_of("short"))
    assert one.take_back(number) is long
    assert (one.slots, one.frames, one.rows) == (0, 0.0, {})
    assert one.give(long) != number


def test_a_suspect_row_keeps_others_out() -> None:
    one = worker(16)  # room for 28: three may be with a row that one worker died over
    suspect = row_of("suspect", deaths=2)
    number = one.give(suspect)
    for name in ("a", "b"):
        row = row_of(name)
        assert one.can_take(row)
        one.give(row)
    assert not one.can_take(row_of("d"))
    assert not one.can_take(row_of("e", deaths=3))
    one.take_back(number)
    assert one.can_take(row_of("d"))
