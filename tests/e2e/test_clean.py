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
    bench.synth(ROWS, *FLAGS, "--save-codes", "--only", "a", "--takes", 2).expect(0)
    bench.run("pick", out, "a=2").expect(0)
    edited = out / "b.wav"
    edited.write_bytes(edited.read_bytes() + bytes(200))
    changed = [ROWS[0], {"id": "b", "text": "Something else."}]
    bench.synth(changed, *FLAGS, "--save-codes", "--prune").expect(0)
    assert (out / "takes" / "c" / "1.wav").is_file()
    return out


def files(out: Path) -> set[str]:
    return {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}


def test_alternatives_and_removed_rows_go(bench: Workbench, worn: Path) -> None:
    before, current = files(worn), (worn / "a.wav").read_bytes()
    result = bench.run("clean", worn, "--yes", "--json").expect(0)
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
    bench.run("clean", worn, "--yes").expect(0, out="nothing to delete")


def test_the_folder_still_works(bench: Workbench, worn: Path) -> None:
    """The numbers of deleted takes are not used again, and a removed row is synthesized anew."""
    bench.run("clean", worn, "-y").expect(0)
    bench.synth(ROWS, *FLAGS, "--save-codes", "--only", "a", "--takes", 1).expect(0)
    assert (worn / "takes" / "a" / "4.wav").is_file()
    bench.synth([ROWS[0], {"id": "b", "text": "Something else."}, ROWS[2]], *FLAGS).expect(0)
    assert (worn / "c.wav").is_file()
    assert bench.out().report["folder"]["ok"] == 3


def test_it_asks_and_shows(bench: Workbench, worn: Path) -> None:
    before = files(worn)
    bench.run("clean", worn, "--dry-run").expect(
        0, out=["alternative takes of 1 row: a", "removed: 1 row: c"]
    )
    bench.run("clean", worn).expect(2, "--yes")
    assert files(worn) == before


def test_young_files_stay(bench: Workbench, worn: Path) -> None:
    old = time.time() - 40 * 86_400
    os.utime(worn / "takes" / "a" / "1.wav", (old, old))
    result = bench.run("clean", worn, "--older-than", "30d", "--yes", "--json")
    assert result.json["files"] == 1
    assert not (worn / "takes" / "a" / "1.wav").exists()
    assert (worn / "takes" / "a" / "3.wav").exists()
    bench.run("clean", worn, "--older-than", "soon").expect(2)


def test_takes_that_are_too_young_did_not_exist(bench: Workbench, worn: Path) -> None:
    told = "has no alternative takes and no removed rows older than 500w that may go"
    bench.run("clean", worn, "--older-than", "500w", "--yes").expect(0, out=told)


def test_a_folder_of_nothing(bench: Workbench) -> None:
    bench.folder.joinpath("empty").mkdir()
    bench.run("clean", bench.folder / "empty", "--yes").expect(2)
