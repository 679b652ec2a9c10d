"""Which row is given out next, and in what company."""

from __future__ import annotations

from tts_cli.engine.session import SessionFacts
from tts_cli.workers.hand import PATIENCE, Hand, UnansweredRow, Window
from tts_cli.workers.messages import Ready


def taken(window: Window[str]) -> list[str]:
    """All that wait, in the order in which they are given."""
    found = []
    while window:
        found.append(window.give().item)
    return found


def test_the_longest_goes_first() -> None:
    window = Window[str](10)
    for name, frames in (("a", 3.0), ("b", 9.0), ("c", 1.0), ("d", 9.0)):
        window.add(UnansweredRow(name, frames))
    assert taken(window) == ["b", "d", "a", "c"]
    assert not window


def test_a_short_row_is_not_passed_over_for_ever() -> None:
    window = Window[str](2)
    window.add(UnansweredRow("short", 1.0))
    given = []
    for number in range(20):
        window.add(UnansweredRow(f"long{number}", 100.0))
        given.append(window.give().item)
    assert given.index("short") == PATIENCE * 2 + 1


def test_rows_of_the_dead_wait_behind_all_others_the_least_suspect_first() -> None:
    window = Window[str](10)
    twice = UnansweredRow("twice", 9.0).given_back(was_alone=False).given_back(was_alone=False)
    window.add(twice)
    window.add(UnansweredRow("once", 1.0).given_back(was_alone=False))
    window.add(UnansweredRow("fresh", 1.0))
    assert taken(window) == ["fresh", "once", "twice"]


def test_a_row_that_was_given_and_comes_back_is_there_once() -> None:
    window = Window[str](10)
    for name in ("a", "b"):
        window.add(UnansweredRow(name, 5.0))
    row = window.give()
    window.add(row.given_back(was_alone=False))
    assert taken(window) == ["b", "a"]


def test_each_death_divides_the_company_of_a_row_by_eight() -> None:
    row = UnansweredRow("a", 1.0)
    companies = []
    for _ in range(5):
        companies.append(row.company(512))
        row = row.given_back(was_alone=False)
    assert companies == [512, 64, 8, 1, 1]
    assert row.lone_deaths == 0
    assert row.given_back(was_alone=True).lone_deaths == 1


def hand(num_slots: int) -> Hand:
    """A worker that is ready."""
    ready = Ready("host", SessionFacts(), num_slots, True)
    return Hand(1, None, ready=ready)


def test_a_worker_takes_what_keeps_its_slots_busy() -> None:
    one = hand(4)
    count = 0
    while one.can_take(row := UnansweredRow(f"{count}", 1.0)):
        one.give(row)
        count += 1
    assert count == one.room == 4 + 2 + 4
    assert one.frames == count
    one.ready = None
    assert not one.can_take(UnansweredRow("more", 1.0))


def test_rows_that_wait_for_the_vocoder_take_no_room() -> None:
    """With few slots it waits for more rows than a worker was given: none would have come."""
    one = hand(4)
    while one.can_take(row := UnansweredRow("any", 1.0)):
        one.give(row)
    one.num_behind = 3
    more = 0
    while one.can_take(row := UnansweredRow("more", 1.0)):
        one.give(row)
        more += 1
    assert more == 3
    one.lose()
    assert (one.num_behind, one.room) == (0, 0)


def test_a_row_of_more_parts_than_there_is_room_goes_alone() -> None:
    one = hand(1)
    long = UnansweredRow("long", 1.0, slots=100)
    assert one.can_take(long)
    number = one.give(long)
    assert not one.can_take(UnansweredRow("short", 1.0))
    assert one.take_back(number) is long
    assert (one.slots, one.frames, one.rows) == (0, 0.0, {})
    assert one.give(long) != number


def test_a_suspect_row_keeps_others_out() -> None:
    one = hand(16)  # room for 28: three may be with a row that one worker died over
    suspect = UnansweredRow("suspect", 1.0, deaths=1)
    number = one.give(suspect)
    for name in ("a", "b"):
        row = UnansweredRow(name, 1.0)
        assert one.can_take(row)
        one.give(row)
    assert not one.can_take(UnansweredRow("d", 1.0))
    assert not one.can_take(UnansweredRow("e", 1.0, deaths=2))
    one.take_back(number)
    assert one.can_take(UnansweredRow("d", 1.0))
