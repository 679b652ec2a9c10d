"""The harness of starts: parts are what lies between moments, and trees take turns."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def harness() -> ModuleType:
    sys.path.insert(0, str(ROOT / "samples"))
    try:
        return importlib.import_module("start")
    finally:
        sys.path.remove(str(ROOT / "samples"))
        del sys.modules["start"]
        del sys.modules["benchmark"]


def test_parts_add_up_to_the_whole(harness: ModuleType) -> None:
    moments = {"command_s": 0.5, "checked_s": 0.75, "loaded_s": 3.0, "spoken_s": 4.5}
    parts = harness.parts_of(moments, 5.0)
    assert parts == {"command": 0.5, "checks": 0.25, "weights": 2.25, "others": 1.5, "exit": 0.5}
    assert harness.parts_of({}, 5.0) == {}


def test_the_parts_are_those_of_run_json(harness: ModuleType) -> None:
    from tts_cli.startup import MOMENTS

    assert tuple(harness.PARTS.values()) == MOMENTS


@pytest.mark.long
def test_whole_processes_are_measured(tmp_path: Path) -> None:
    voice = ROOT / "samples" / "voice" / "checkpoint"
    command = [sys.executable, str(ROOT / "samples" / "start.py"), str(tmp_path), "--runs", "1"]
    command += ["--rows", "1", "--caches", "cold", "--model", str(voice), "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    header, _, line = done.stdout.splitlines()
    cells = dict(zip(header.split(" | "), line.split(" | "), strict=True))
    assert 0 < float(cells["imports"]) < float(cells["whole s"].strip("*"))
    moments = json.loads((tmp_path / "wavs" / "run.json").read_text())["start"]
    assert list(moments.values()) == sorted(moments.values())
    assert moments["first_row_s"] <= moments["spoken_s"]
