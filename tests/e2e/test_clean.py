"""`clean`: alternatives and removed rows go, when a user says so, and nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from workbench import Workbench

ROWS = [{"id": name, "text": f"This is row {name}."} for name in ("a", "b", "c")]
FLAGS = ("--max-seconds", 0.2, "--accept-truncated")


@pytest.fixture
def worn(bench: Workbench) -> Path:
    """A folder with alternatives of a, the second pinned, an edited take of b, and c removed."""
    bench.synth_once(ROWS, *FLAGS, "--save-codes")
    out = bench.out().path
    assert bench.synth(ROWS, *FLAGS, "--save-codes", "--only", "a", "--takes", 2).code == 0
    assert bench.run("pick", out, "a=2").code == 0
    edited = out / "b.wav"
    edited.write_bytes(edited.read_bytes() + bytes(200))
    changed = [ROWS[0], {"id": "b", "text": "Something else."}]
    assert bench.synth(changed, *FLAGS, "--save-codes", "--prune").code == 0
    assert (out / "takes" / "c" / "1.wav").is_file()
    return out


def files(out: Path) -> set[str]:
    return {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}


def test_alternatives_and_removed_rows_go(bench: Workbench, worn: Path) -> None:
    before, current = files(worn), (worn / "a.wav").read_bytes()
    result = bench.run("clean", worn, "--yes", "--json")
    assert result.code == 0, result.err
    assert result.json["rows_with_alternatives"] == 1
    assert result.json["removed_rows"] == 1
    assert result.json["rows_with_edited_takes"] == 1
    gone = before - files(worn)
    assert gone == {
        f"takes/{name}{suffix}"
        for name in ("a/1", "a/3", "c/1")
        for suffix in (".wav", ".codes.safetensors")
    }
    assert result.json["files"] == len(gone)
    assert (worn / "a.wav").read_bytes() == current
    listed = bench.run("pick", worn, "--json").json
    assert [(one["id"], one["take"]) for one in listed if one["id"] == "a"] == [("a", 2)]
    again = bench.run("clean", worn, "--yes")
    assert again.code == 0
    assert "nothing to delete" in again.out


def test_the_folder_still_works(bench: Workbench, worn: Path) -> None:
    """The numbers of deleted takes are not used again, and a removed row is synthesized anew."""
    assert bench.run("clean", worn, "-y").code == 0
    assert bench.synth(ROWS, *FLAGS, "--save-codes", "--only", "a", "--takes", 1).code == 0
    assert (worn / "takes" / "a" / "4.wav").is_file()
    result = bench.synth([ROWS[0], {"id": "b", "text": "Something else."}, ROWS[2]], *FLAGS)
    assert result.code == 0
    assert (worn / "c.wav").is_file()
    assert bench.out().report["folder"]["ok"] == 3


def test_it_asks_and_shows(bench: Workbench, worn: Path) -> None:
    before = files(worn)
    shown = bench.run("clean", worn, "--dry-run")
    assert shown.code == 0
    assert "alternative takes of 1 row: a" in shown.out
    assert "removed: 1 row: c" in shown.out
    refused = bench.run("clean", worn)
    assert refused.code == 2
    assert "--yes" in refused.err
    assert files(worn) == before


def test_young_files_stay(bench: Workbench, worn: Path) -> None:
    old = time.time() - 40 * 86_400
    os.utime(worn / "takes" / "a" / "1.wav", (old, old))
    result = bench.run("clean", worn, "--older-than", "30d", "--yes", "--json")
    assert result.json["files"] == 1
    assert not (worn / "takes" / "a" / "1.wav").exists()
    assert (worn / "takes" / "a" / "3.wav").exists()
    assert bench.run("clean", worn, "--older-than", "soon").code == 2


def test_a_folder_of_nothing(bench: Workbench) -> None:
    bench.folder.joinpath("empty").mkdir()
    assert bench.run("clean", bench.folder / "empty", "--yes").code == 2
