"""The lines of rows' files, read back; lines that anybody wrote, as records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tts_cli.folder.journal import Journal
from tts_cli.folder.record import RowRecord, parts_of


def test_the_last_line_of_each_rows_file(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        assert list(journal.file_lines()) == []
        journal.append(RowRecord("a", "failed"), RowRecord("b", "ok", text="Größe"))
        journal.append(RowRecord("a", "ok", 2, "extra"), RowRecord("a", "ok", frames=7))
        journal.append(RowRecord("c", "ok"), RowRecord("c", "ok", 2, "held"))
        journal.append(RowRecord("d", "ok"), RowRecord("d", "failed", 2))
    with open(tmp_path / "timings.jsonl", "a") as file:
        file.write("nonsense\n[]\n" + '{"id": "torn", "status": "ok"')
    lines = list(Journal(tmp_path, is_read_only=True).file_lines())
    found = [(line["id"], line["take"]) for line in lines]
    assert found == [("b", 1), ("a", 1), ("c", 2), ("d", 1)]
    assert (lines[0]["text"], lines[1]["frames"]) == ("Größe", 7)


def test_the_last_line_of_a_row_counts(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(RowRecord("a", "ok", text="one"), RowRecord("b", "ok", text="\u96e8"))
        journal.append(RowRecord("a", "ok", text="two"), RowRecord("c", "ok", text="three"))
        journal.append(RowRecord("c", "failed", error="no"))
    with open(journal.path, "ab") as file:
        file.write(b'garbage\n[1]\n{"id": 3}\n')
        line = '{"id": "b", "status": "ok", "take": 2, "role": "extra", "request_hash": ""}'
        file.write(f'{line}\n{{"id": "torn'.encode())
    lines = Journal(tmp_path, is_read_only=True)
    found = {row_id: lines.ok_line(row_id) for row_id in ("a", "b", "c", "torn", "none")}
    assert {key: line and line["text"] for key, line in found.items()} == {
        "a": "two", "b": "\u96e8", "c": None, "torn": None, "none": None,
    }  # fmt: skip


def test_lines_of_another_journal_are_not_seen(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(RowRecord("a", "ok", frames=1))
        lines = Journal(tmp_path, is_read_only=True)
        journal.append(RowRecord("a", "ok", frames=2))
    assert [line["frames"] for line in lines.file_lines()] == [1]


def test_a_line_comes_back_as_it_was_written() -> None:
    record = RowRecord(
        "a", "ok", request_hash="r", suspect=["x"], parts=[{"frames": 1}], applied={"gain_db": 1.0},
        source={"kind": "codes"}, audio_s=1.5, seed=7, level_dbfs=-20.0,
    )  # fmt: skip
    assert RowRecord.from_line(json.loads(record.to_line())) == record


@pytest.mark.parametrize("value", [None, True, -1.5, "x", [], {}, float("nan"), float("inf")])
def test_what_is_of_another_kind_is_left_out(value: Any) -> None:
    names = vars(RowRecord("", ""))
    found = RowRecord.from_line({**dict.fromkeys(names, value), "id": "a", "status": "ok"})
    assert json.loads(found.to_line())["id"] == "a"
    assert isinstance(found.frames, int)
    assert isinstance(found.parts, list)
    assert found.text is None or isinstance(found.text, str)


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
