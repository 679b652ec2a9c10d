"""The sample manifests are what `make demo` speaks: valid, and the same in both formats."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tts_cli.core import Row
from tts_cli.main import main
from tts_cli.sources.open import open_source, read_rows

SAMPLES = Path(__file__).parents[2] / "samples"


def rows_of(name: str) -> list[Row]:
    with open_source(str(SAMPLES / name)) as source:
        rows = list(read_rows(source))
    assert all(isinstance(row, Row) for row in rows), rows
    return [replace(row, line=0) for row in rows]


def test_both_formats_hold_the_same_rows() -> None:
    assert rows_of("manifest.jsonl") == rows_of("manifest.csv")


def test_rows_for_any_model() -> None:
    """The README speaks them with a released model, which has other speakers."""
    rows = rows_of("lines.jsonl")
    assert [row.id for row in rows] == ["intro/001", "intro/002", "intro/003"]
    assert not any(row.voice or row.language or row.sampling for row in rows)


def test_rows_show_what_the_readme_says() -> None:
    rows = {row.id: row for row in rows_of("manifest.jsonl")}
    assert len(rows) == 12
    assert {row.voice for row in rows.values()} == {"arthur", "clara", "ewan"}
    assert not any(row.instruct for row in rows.values())  # the sample voice takes none
    first, second = rows["seeds/first"], rows["seeds/second"]
    assert first.text == second.text
    assert first.seed != second.seed
    assert rows["greedy"].sampling == {"greedy": True}
    assert rows["capped"].max_seconds == 6
    assert rows["warmer"].sampling == {"temperature": 0.9, "subtalker_temperature": 0.5}
    assert 190 <= len(rows["long"].text) <= 210
    assert all("greedy" in row.sampling or row.seed is not None for row in rows.values())


def test_the_voices_page_names_every_file_of_the_recipe() -> None:
    text = (SAMPLES / "voice" / "README.md").read_text()
    for path in (SAMPLES / "voice" / "recipe").iterdir():
        if path.suffix in (".py", ".c", ".sh") and path.name not in ("config.py", "train.py"):
            assert f"`{path.name}`" in text or f"recipe/{path.name}" in text, path.name


def test_benchmark_rows_are_a_manifest(tmp_path: Path) -> None:
    """The README's whole-run benchmark: rows of 5 to 15 s, the same at every call."""
    command = [sys.executable, str(SAMPLES / "benchmark.py"), "rows", "300"]
    made = [subprocess.run(command, capture_output=True, text=True).stdout for _ in range(2)]
    assert made[0] == made[1]
    path = tmp_path / "rows.jsonl"
    path.write_text(made[0])
    rows = rows_of(str(path))
    frames = [row.max_frames or 0 for row in rows]
    assert len({row.id for row in rows}) == 300
    assert set(frames) == set(range(62, 188))
    assert all(30 <= len(row.text) <= 110 for row in rows)


@pytest.mark.long
def test_benchmark_prints_what_a_run_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two rows with the sample voice, then none, nor with a model that is not there; its processes
    are this one.
    """
    voice = str(SAMPLES / "voice" / "checkpoint")
    command = ["benchmark.py", "run", str(tmp_path / "out"), "--rows", "2", "--batches", "2"]
    monkeypatch.setattr(sys, "argv", [*command, "--models", voice])
    monkeypatch.setattr(
        subprocess, "run", lambda args, **_: SimpleNamespace(returncode=main(args[3:]))
    )
    with pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(SAMPLES / "benchmark.py"), run_name="__main__")
    head, _, spoken = capsys.readouterr().out.splitlines()
    assert spoken.count("|") == head.count("|")
    cells = [cell.strip() for cell in spoken.strip("|").split("|")]
    report = json.loads(next((tmp_path / "out").glob("*-2/run.json")).read_text())
    assert cells[:2] == [voice, "2"]
    assert float(cells[2]) == pytest.approx(report["totals"]["xrt"], abs=0.06)
    assert cells[7] == "0"
    command += ["--models", f"{voice},{tmp_path / 'none'}", "--frames", "2-2"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit, match="1"):
        runpy.run_path(str(SAMPLES / "benchmark.py"), run_name="__main__")
    _, _, spoken, missing = capsys.readouterr().out.splitlines()
    assert "| failed: no row was spoken, 2 failed |" in spoken
    assert "failed: exit code 3" in missing


def test_readme_describes_every_row() -> None:
    text = (SAMPLES / "README.md").read_text()
    assert all(f"| `{row.id}` |" in text for row in rows_of("manifest.jsonl"))
