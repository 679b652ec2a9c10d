"""Rows that a warning names."""

from __future__ import annotations

from tts_cli.manifest.row import Row
from tts_cli.run.check.named_rows import NamedRows


def test_the_first_twenty_then_a_count() -> None:
    rows = NamedRows("rows that do not fit", ending="; the row will fail")
    assert rows.lines("m") == []
    for number in range(1, 24):
        rows.add(Row(number, number, f"id{number}", "x"), "too long")
    found = rows.lines("m")
    assert found[0] == "m:1: id 'id1': too long; the row will fail"
    assert found[19].startswith("m:20: ")
    assert found[20:] == ["m: 3 more rows that do not fit"]
