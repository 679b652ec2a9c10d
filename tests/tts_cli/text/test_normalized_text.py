"""The map between a written and a spoken text."""

from __future__ import annotations

import pytest

from tts_cli.text.normalized_text import Edit, NormalizedText, Span, mask


def test_changes_and_spans() -> None:
    reading = NormalizedText.of("a 5 b", [Edit(2, 3, "five")])
    assert reading.spoken == "a five b"
    assert reading.spans == (
        Span(0, 2, 0, 2, False),
        Span(2, 3, 2, 6, True),
        Span(3, 5, 6, 8, False),
    )


def test_changes_come_in_any_order_but_never_over_each_other() -> None:
    edits = [Edit(3, 4, "y"), Edit(0, 1, "x")]
    assert NormalizedText.of("abcd", edits).spoken == "xbcy"
    with pytest.raises(AssertionError):
        _ = NormalizedText.of("abcd", [Edit(0, 2, "x"), Edit(1, 3, "y")]).spoken


def test_an_unchanged_and_an_empty_text() -> None:
    assert NormalizedText("abc").spans == (Span(0, 3, 0, 3, False),)
    assert (NormalizedText("").spoken, NormalizedText("").spans) == ("", ())


def test_taken_places_may_overlap_and_keep_the_length() -> None:
    assert mask("abcdef", [(3, 5), (0, 1), (4, 5)]) == "\0bc\0\0f"


def test_places_of_the_spoken_text_in_the_written_one() -> None:
    reading = NormalizedText.of(
        "It is $5, or 3.", [Edit(6, 8, "five dollars"), Edit(13, 14, "three")]
    )
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
