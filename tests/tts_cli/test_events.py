"""Events: counts, first names, sums, and the lines about rows with one problem."""

from __future__ import annotations

import threading

from tts_cli.cli.messages import row_lines
from tts_cli.events import MAX_GROUPS, Count, Event, Events


def note(events: Events, line: int, problem: str, *, group: str = "", has_id: bool = True) -> None:
    row_id = f"id{line}" if has_id else None
    facts = {"file": "", "line": line, "id": row_id, "text": problem, "what": ""}
    name = f"'{row_id}'" if has_id else f"line {line}"
    events.add(Event.CUE, name, group=group or problem, facts=facts)


def test_the_first_twenty_problems_then_a_count() -> None:
    events = Events()
    assert list(row_lines(events, Event.CUE, "m")) == []
    for line in range(1, MAX_GROUPS + 4):
        note(events, line, f"takes {line} s")
    found = list(row_lines(events, Event.CUE, "m"))
    assert found[0] == "m:1: id 'id1': takes 1 s"
    assert found[19].startswith("m:20: ")
    assert found[20:] == ["m: 3 more rows that take longer than their cues"]


def test_equal_problems_are_one_line() -> None:
    """Twenty rows with one mistake filled a screen, and another mistake after them was hidden."""
    events = Events()
    for line in range(1, 31):
        note(events, line, "is too long")
    note(events, 31, "is not JSON", has_id=False)
    note(events, 32, "is not JSON", has_id=False)
    note(events, 33, "a tag ('<i>')", group="a tag")
    note(events, 34, "a tag ('<b>')", group="a tag")
    others = ", ".join(f"'id{line}'" for line in range(2, 9))
    assert list(row_lines(events, Event.CUE, "m")) == [
        f"m:1: id 'id1': is too long; 29 more rows alike: {others}, ...",
        "m:31: is not JSON; 1 more row alike: line 32",
        "m:33: id 'id33': a tag ('<i>'); 1 more row alike: 'id34'",
    ]


def test_numbers_are_added_up_and_the_largest_is_named() -> None:
    events = Events()
    for name, chars in (("a", 3), ("b", 7), ("c", 7), ("d", 1)):
        events.add(Event.SELECTED, name, group=name, chars=chars)
        events.add(Event.SPLIT, name, pieces=chars)
    assert events.of(Event.SPLIT).largest["pieces"] == (7, "b")
    found = events.of(Event.SELECTED)
    assert (found.count, found.sums, found.largest["chars"]) == (4, {"chars": 18}, (7, "b"))
    assert found.first == ["a", "b", "c", "d"]
    assert events.num(Event.SELECTED, "b") == 1
    assert (events.num(Event.DONE), events.total(Event.DONE, "chars")) == (0, 0)


def test_no_event_of_concurrent_threads_is_lost() -> None:
    events = Events()

    def add(number: int) -> None:
        for row in range(200):
            events.add(Event.PENDING, f"r{row}", group=f"group {number % 3}", audio_s=0.5)
            events.add(Event.DONE, f"r{row}")
            assert events.of(Event.PENDING).count >= row

    threads = [threading.Thread(target=add, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert events.num(Event.PENDING) == events.num(Event.DONE) == 1200
    assert events.num(Event.PENDING, "group 1") == 400
    assert events.total(Event.PENDING, "audio_s") == 600
    assert str(events) == "pending 1200, done 1200"


def test_names_in_the_order_of_a_file_system_are_sorted() -> None:
    count = Count(is_sorted=True, most=2)
    for name in ("c", "a", "b"):
        count.add(name)
    assert (str(count), count.and_more()) == ("a, b, ...", "a, b and 1 more")
