"""Single lines of a journal, looked up; lines that anybody wrote, as records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tts_cli.output.journal import Journal
from tts_cli.output.last_lines import LastLines
from tts_cli.output.record import RowRecord


def test_the_last_line_counts(tmp_path: Path) -> None:
    assert list(LastLines(tmp_path)) == []
    with Journal(tmp_path) as journal:
        journal.append(RowRecord("a", "failed"), RowRecord("b", "ok", text="Größe"))
        journal.append(RowRecord("a", "ok", take=2), RowRecord("a", "ok", frames=7))
    with open(tmp_path / "timings.jsonl", "a") as file:
        file.write("nonsense\n[]\n" + '{"id": "torn", "status": "ok"')
    lines = LastLines(tmp_path)
    found = lines.get("a")
    assert found is not None
    assert (found["frames"], found["take"]) == (7, 1)
    assert lines.get("a", 2) is not None
    assert (lines.get("torn"), lines.get("c")) == (None, None)
    assert [(line["id"], line["take"]) for line in lines] == [("b", 1), ("a", 2), ("a", 1)]


def test_later_lines_are_not_seen(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(RowRecord("a", "ok", frames=1))
        lines = LastLines(tmp_path)
        journal.append(RowRecord("a", "ok", frames=2))
    found = lines.get("a")
    assert found is not None
    assert found["frames"] == 1


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
