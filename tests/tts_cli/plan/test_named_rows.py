"""Rows that a warning names."""

from __future__ import annotations

from tts_cli.core import BadRow, Row
from tts_cli.plan.notes import NamedRows


def row(number: int, row_id: str = "") -> Row:
    return Row(number, number, row_id or f"id{number}", "x")


def test_the_first_twenty_problems_then_a_count() -> None:
    rows = NamedRows("rows that do not fit")
    assert rows.lines("m") == []
    for number in range(1, 24):
        rows.add(row(number), f"has {number} characters")
    found = rows.lines("m")
    assert found[0] == "m:1: id 'id1': has 1 characters"
    assert found[19].startswith("m:20: ")
    assert found[20:] == ["m: 3 more rows that do not fit"]


def test_equal_problems_are_one_line() -> None:
    """Twenty rows with one mistake filled a screen, and another one behind them was not told."""
    rows = NamedRows("rows")
    for number in range(1, 31):
        rows.add(row(number), "is too long")
    rows.add(BadRow(31, 31, None, "is no JSON"), "is no JSON")
    rows.add(BadRow(32, 32, None, "is no JSON", file="other"), "is no JSON")
    rows.add(row(33), "a tag ('<i>')", kind="a tag")
    rows.add(row(34), "a tag ('<b>')", kind="a tag")
    others = ", ".join(f"'id{number}'" for number in range(2, 9))
    assert rows.lines("m") == [
        f"m:1: id 'id1': is too long; 29 more rows alike: {others}, ...",
        "m:31: is no JSON; 1 more row alike: line 32",
        "m:33: id 'id33': a tag ('<i>'); 1 more row alike: 'id34'",
    ]
