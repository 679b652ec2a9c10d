"""Whole lines of a journal by the id of their row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tts_cli.errors import SetupError
from tts_cli.output.journal import JOURNAL_NAME, Journal
from tts_cli.output.journal_lines import JournalLines, parts_of
from tts_cli.output.record import RowRecord


def test_the_last_line_of_a_row_counts(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(RowRecord("a", "ok", text="one"), RowRecord("b", "ok", text="\u96e8"))
        journal.append(RowRecord("a", "ok", text="two"), RowRecord("c", "ok", text="three"))
        journal.append(RowRecord("c", "failed", error="no"))
    with open(tmp_path / JOURNAL_NAME, "ab") as file:
        file.write(b'garbage\n[1]\n{"id": 3}\n')
        file.write(b'{"id": "b", "status": "ok", "take": 2, "role": "extra"}\n{"id": "torn')
    with JournalLines(tmp_path) as lines:
        found = {row_id: lines.get(row_id) for row_id in ("a", "b", "c", "torn", "none")}
    assert {key: line and line["text"] for key, line in found.items()} == {
        "a": "two", "b": "\u96e8", "c": None, "torn": None, "none": None,
    }  # fmt: skip


def test_no_journal(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="No such file"):
        JournalLines(tmp_path)


PART = {"text_start": 0, "text_end": 3, "start_s": 0.0, "end_s": 1.5, "boundary": "clause"}


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ({"parts": [PART, PART]}, 2),
        ({}, 0),
        ({"parts": None}, 0),
        ({"parts": "abc"}, 0),
        ({"parts": [PART, {**PART, "start_s": "soon"}]}, 0),
        ({"parts": [PART, {**PART, "text_end": 1.5}]}, 0),
        ({"parts": [PART, {"text_start": 0}]}, 0),
    ],
)
def test_parts_that_make_no_sense_are_none(line: dict[str, Any], number: int) -> None:
    assert len(parts_of(json.loads(json.dumps(line)))) == number
