"""The map between a written and a spoken text."""

from __future__ import annotations

import pytest

from tts_cli.text.reading import Change, Reading, Span, without


def test_changes_and_spans() -> None:
    reading = Reading.of("a 5 b", [Change(2, 3, "five")])
    assert reading.spoken == "a five b"
    assert reading.spans == (
        Span(0, 2, 0, 2, False),
        Span(2, 3, 2, 6, True),
        Span(3, 5, 6, 8, False),
    )


def test_changes_come_in_any_order_but_never_over_each_other() -> None:
    changes = [Change(3, 4, "y"), Change(0, 1, "x")]
    assert Reading.of("abcd", changes).spoken == "xbcy"
    with pytest.raises(AssertionError):
        _ = Reading.of("abcd", [Change(0, 2, "x"), Change(1, 3, "y")]).spoken


def test_an_unchanged_and_an_empty_text() -> None:
    assert Reading("abc").spans == (Span(0, 3, 0, 3, False),)
    assert (Reading("").spoken, Reading("").spans) == ("", ())


def test_taken_places_may_overlap_and_keep_the_length() -> None:
    assert without("abcdef", [(3, 5), (0, 1), (4, 5)]) == "\0bc\0\0f"


def test_places_of_the_spoken_text_in_the_written_one() -> None:
    reading = Reading.of("It is $5, or 3.", [Change(6, 8, "five dollars"), Change(13, 14, "three")])
    spoken = "It is five dollars, or three."
    assert reading.spoken == spoken
    places = {
        "It": 0,
        "five": 6,
        "dollars": 8,
        ", or": 8,
        "or": 10,
        "three": 13,
        "ree": 14,
        ".": 14,
    }
    assert {text: reading.written_place(spoken.index(text)) for text in places} == places
    assert reading.written_place(len(spoken)) == 15
