"""`tts-cli report` on folders that were spoken, or never were."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from spoken_folders import record, write_folder
from workbench import Workbench

from tts_cli.cli import messages as msg

ROWS = [
    {"id": "a/one", "text": "Good morning.", "voice": "dora"},
    {"id": "two", "text": "Good evening </script>.", "voice": "emil"},
    {"text": "Good night."},
]


def data_of(page: Path) -> Any:
    """What a page holds, as a browser finds it."""
    text = page.read_text(encoding="utf-8")
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(data)


def test_all_runs_of_a_folder_are_on_the_page(bench: Workbench) -> None:
    bench.synth(ROWS[:1], "--seed", 3)
    bench.synth(ROWS, "--seed", 3, "--max-batch", 4)
    result = bench.run("report", bench.folder / "out")
    page = bench.folder / "out" / "report.html"
    assert result.code == 0
    assert re.fullmatch(
        rf"{re.escape(str(page))}: 3 rows, 0 failed, \d suspect, \d+\.\d kB, made in \d\.\d s\n",
        result.out,
    )
    data = data_of(page)
    rows = {row["id"]: row for row in data["rows"]}
    assert list(rows) == ["000003", "a/one", "two"]
    assert rows["two"]["text"] == ROWS[1]["text"]
    assert rows["a/one"]["takes"][0]["url"] == "a/one.wav"
    assert len(rows["a/one"]["takes"][0]["waveform"]) == 160
    assert data["totals"]["runs"] == 2
    # The command that speaks a row again is that of the run which spoke it.
    first, last = (data["runs"][rows[row_id]["run"]]["command"] for row_id in ("a/one", "two"))
    manifest = str(bench.folder / "rows.jsonl")
    # Which device, and how many rows at once, is for whoever types it.
    assert first == last == ["synth", manifest, "--model", str(bench.model), "--seed", "3"]


def test_a_page_is_made_anew_and_is_no_row(bench: Workbench) -> None:
    bench.synth(ROWS)
    for _ in range(2):
        assert bench.run("report", bench.folder / "out", "--json").json["totals"]["rows"] == 3
    assert msg.NOTHING_TO_DO.format(reason="") in bench.synth(ROWS).out
    assert "report" not in bench.synth(ROWS, "--dry-run").out
    assert not list((bench.folder / "out").glob(".*.part"))


def test_rows_from_a_pipe_have_no_manifest(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert bench.run(*bench.command("-")).code == 0
    assert bench.out().report["manifests"] == []
    bench.run("report", bench.folder / "out")
    assert data_of(bench.folder / "out" / "report.html")["last"][:2] == ["synth", "MANIFEST"]


def test_what_is_missing_is_told(bench: Workbench, tmp_path: Path) -> None:
    out = write_folder(tmp_path / "out", [record("a"), record("b")])
    (out / "a.wav").unlink()
    with (out / "timings.jsonl").open("a") as journal:
        journal.write("nonsense\n")
    result = bench.run("report", out)
    assert result.code == 0
    assert "timings.jsonl: lines that make no sense, left out: 1" in result.err
    assert "rows whose audio is gone: 1; the page says which" in result.err


def test_a_place_that_cannot_be_written(bench: Workbench, tmp_path: Path) -> None:
    out = write_folder(tmp_path / "out", [record("a")])
    (out / "report.html").mkdir()
    result = bench.run("report", out)
    assert result.code == 3
    assert f"cannot write {out / 'report.html'}: Is a directory" in result.err
