"""`--only`: which rows are named, and what is said of names that no row has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from spoken_folders import record, write_folder

from tts_cli.checks.verdicts import OK, SUSPECT, TakeVerdict, write_verdicts
from tts_cli.core import Kind, Remark
from tts_cli.errors import UsageError
from tts_cli.plan.checks import RowFilter, suspects_of

WRONG = (Remark(Kind.WORDS, "9 of 9 words", 3.0),)
IDS = ["line1", "line7", "line70", "intro/003", "Ümlaut"]


def named(*values: str, out: Path | None = None) -> list[str]:
    only = RowFilter(values, out)
    found = [row_id for row_id in IDS if only.selects(row_id)]
    only.require_rows("rows.csv", IDS)
    return found


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ((), IDS),
        (("line7",), ["line7"]),
        (("LINE7, line1,", "ümlaut"), ["line1", "line7", "Ümlaut"]),
        (("line7*",), ["line7", "line70"]),
        (("line[17]",), ["line1", "line7"]),
        (("intro/*", "line?"), ["line1", "line7", "intro/003"]),
    ],
)
def test_names(values: tuple[str, ...], found: list[str]) -> None:
    assert named(*values) == found


def test_a_file_of_names(tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    path.write_text("\ufeff# retakes\n line7 \n\nintro/*\n", encoding="utf-8")
    assert named(f"@{path}", "line1") == ["line1", "line7", "intro/003"]
    path.write_text("# nothing\n")
    with pytest.raises(UsageError, match="contains no id; write one id per line"):
        named(f"@{path}")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read"):
        named(f"@{path}")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (("lin7",), r"'lin7' \(nearest: 'line7', 'line70', 'line1'\)$"),
        (("003",), r"'003' \(nearest: 'intro/003'\)$"),
        (("zzzzzzz",), "has no row 'zzzzzzz'$"),
        (("outro/*", "line7"), r"has no row 'outro/\*'"),
        (tuple("abcdefg"), "and 2 more$"),
        ((" , ",), "--only is empty; give the id of a row"),
    ],
)
def test_names_that_no_row_has(values: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        named(*values)


def test_suspects(tmp_path: Path) -> None:
    lines = [
        {"id": "line1", "status": "ok", "request_hash": "h", "suspect": ["near-silence for 3.0 s"]},
        {"id": "line7", "status": "failed", "request_hash": "h"},
        {"id": "line70", "status": "failed", "request_hash": "h"},
        {"id": "line70", "status": "ok", "request_hash": "h", "suspect": []},
        {"id": "intro/003", "status": "ok", "request_hash": "h"},
        {"id": "intro/003", "status": "failed", "request_hash": "h", "take": 2, "role": "extra"},
        ["no line"],
        {"id": 7, "status": "ok", "request_hash": "h"},
    ]
    path = tmp_path / "timings.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"id": "torn')
    assert named("suspects", out=tmp_path) == ["line1", "line7"]
    assert named("suspects", "Ümlaut", out=tmp_path) == ["line1", "line7", "Ümlaut"]
    assert len(suspects_of(tmp_path)) == 2
    for out in (None, tmp_path / "none"):
        with pytest.raises(UsageError, match="has no journal with such rows"):
            suspects_of(out)


def test_suspects_by_their_voice_and_by_what_was_heard(tmp_path: Path) -> None:
    """As `report` and `check` show them; a verdict on audio that was replaced says nothing."""
    rows = [record(f"r{number:02d}", sha256=f"{number:02d}") for number in range(12)]
    rows[3]["level_dbfs"] = -2.0
    rows[4]["role"] = "held"
    write_folder(tmp_path, rows)
    write_verdicts(
        tmp_path,
        [
            TakeVerdict("r04", 1, "04", SUSPECT, WRONG),
            TakeVerdict("r05", 1, "old", SUSPECT, WRONG),
            TakeVerdict("r06", 2, "06", SUSPECT, WRONG),
            TakeVerdict("r07", 1, "07", OK),
        ],
    )
    ids = [row["id"] for row in rows]
    only = RowFilter(["suspects"], tmp_path)
    assert [row_id for row_id in ids if only.selects(row_id)] == ["r03", "r04"]
