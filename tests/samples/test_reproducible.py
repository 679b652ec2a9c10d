"""The script behind the page on reproducibility, with `synth` replaced by what it would write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import soundfile
from safetensors.numpy import save_file
from scripts import load_script

SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SAMPLES))
        return load_script(SAMPLES / "reproducible.py")


class Spoken:
    """Writes codes and samples that follow from the row, and in chosen runs from its mates."""

    def __init__(self, depends: Sequence[str] = ()) -> None:
        self.depends = depends
        self.runs: list[tuple[str, list[str], tuple[str, ...]]] = []

    def __call__(self, command: Sequence[str], **_: Any) -> Any:
        manifest, out = Path(command[4]), Path(command[6])
        out.mkdir(exist_ok=True)
        rows = [json.loads(line) for line in manifest.read_text().splitlines()]
        self.runs.append((out.name, [row["id"] for row in rows], tuple(command[7:])))
        for place, row in enumerate(rows):
            number = int(row["id"].split("-")[-1]) + (place if out.name in self.depends else 0)
            codes = np.full((row["max_frames"], 2), number, dtype=np.int16)
            save_file({"codes": codes}, str(out / f"{row['id']}.codes.safetensors"))
            soundfile.write(out / f"{row['id']}.wav", codes[:, 0], 24_000, subtype="PCM_16")
        line = {"decode_ms": 2000.0, "prefill_ms": 500.0, "vocoder_ms": 1000.0}
        if "--reproducible" in command:
            line |= {"decode_ms": 3000.0, "vocoder_ms": 1100.0}
        (out / "timings.jsonl").write_text(json.dumps(line) + "\n")
        report = {
            "totals": {"xrt": 9.0, "wall_s": 4.0, "capture_s": 1.0, "peak_memory_bytes": None}
        }
        (out / "run.json").write_text(json.dumps(report))
        return type("Done", (), {"returncode": 0})


def run(script: ModuleType, spoken: Spoken, monkeypatch: pytest.MonkeyPatch, *args: str) -> int:
    monkeypatch.setattr(script.subprocess, "run", spoken)
    monkeypatch.setattr(script.sys, "argv", ["reproducible.py", *args])
    code: int = script.main()
    return code


def lines(capsys: pytest.CaptureFixture[str]) -> dict[str, list[str]]:
    """Cells of the table by their first."""
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    return {row[0]: row[1:] for row in rows}


def test_equal_rows_are_counted_and_pass(
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spoken = Spoken(depends=["control-reversed"])
    assert run(script, spoken, monkeypatch, "compare", str(tmp_path / "out"), "--rows", "12") == 0
    table = lines(capsys)
    assert table["reversed"] == table["shuffled"] == table["resumed"] == ["12", "12", "12"]
    assert table["half of them, other mates"] == ["6", "6", "6"]
    assert table["every fourth, behind other mates"] == ["3", "3", "3"]
    assert table["00006 alone"] == ["1", "1", "1"]
    assert table["without it: reversed"] == ["12", "1", "1"]
    orders = {name: ids for name, ids, _ in spoken.runs}
    assert orders["reversed"] == orders["first"][::-1]
    assert orders["shuffled"] != orders["first"]
    assert len(orders["mixed"]) == 12
    assert len(set(orders["mixed"]) - set(orders["first"])) == 6
    for name, _, flags in spoken.runs:
        assert ("--reproducible" in flags) is not name.startswith("control")


def test_one_row_that_differs_fails(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = ("compare", str(tmp_path / "out"), "--rows", "12", "--no-control")
    assert run(script, Spoken(depends=["mixed"]), monkeypatch, *args) == 1


def test_cost_prints_medians_of_both(
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spoken = Spoken()
    args = ("cost", str(tmp_path / "out"), "--rows", "4", "--repeats", "2")
    assert run(script, spoken, monkeypatch, *args) == 0
    table = lines(capsys)
    assert table["frames"] == ["2.00", "3.00", "1.500"]
    assert table["xrt"] == ["9.00", "9.00", "1.000"]
    assert "GiB" not in table
    assert [name for name, _, _ in spoken.runs] == ["cost-without", "cost-with"] * 3
