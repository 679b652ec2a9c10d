"""Takes: more of a row, chosen ones, and that nothing is lost by speaking again."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from workbench import Result, Workbench

ROWS = [
    {"id": "a", "text": "Hello there."},
    {"id": "sub/b", "text": "Good morning."},
    {"id": "c", "text": "Hm."},
]
FLAGS = ("--max-seconds", 1)


@pytest.fixture
def done(bench: Workbench) -> Workbench:
    """A bench on which ROWS are spoken."""
    assert bench.synth(ROWS, *FLAGS).code == 0
    return bench


def pick(bench: Workbench, *choices: str) -> Result:
    return bench.run("pick", bench.out().path, *choices)


def choices(bench: Workbench) -> dict[str, Any]:
    found = json.loads((bench.out().path / "takes.json").read_text())
    assert found["schema"] == 1
    return dict(found["choices"])


def audio(bench: Workbench, name: str) -> bytes:
    return (bench.out().path / name).read_bytes()


class TestMoreTakes:
    def test_of_one_row(self, done: Workbench) -> None:
        before = done.out().files
        result = done.synth(ROWS, *FLAGS, "--only", "a", "--takes", 3)
        assert result.code == 0
        assert result.summary == "0 of 1 rows spoken, 1 were done already"
        assert "3 more takes of 1 row in " in result.out
        after = done.out().files
        assert {name: after[name] for name in before} == before
        takes = [after[f"takes/a/{n}.wav"] for n in (1, 2, 3, 4)]
        assert takes[0] == before["a.wav"]
        assert len(set(takes)) == 4
        assert os.path.samefile(done.out().path / "a.wav", done.out().path / "takes/a/1.wav")
        assert choices(done)["a"]["take"] == 1
        assert done.synth(ROWS, *FLAGS).out == "nothing to do: all 3 rows are done already\n"
        folder = done.out().report["folder"]
        assert (folder["ok"], folder["failed"]) == (3, 0)

    def test_pick_lasts(self, done: Workbench) -> None:
        assert done.synth(ROWS, *FLAGS, "--only", "a", "--takes", 2).code == 0
        assert pick(done, "a=3").out.startswith("a: take 3 (seed ")
        chosen = audio(done, "takes/a/3.wav")
        assert audio(done, "a.wav") == chosen
        assert choices(done)["a"]["held"] is True
        # Neither another seed nor a plain run replaces it.
        for flags in ((), ("--temperature", 0.4)):
            done.synth([ROWS[0]], *FLAGS, *flags)
            assert audio(done, "a.wav") == chosen
        assert "chosen takes: 1 hold, 0 do not fit" in done.synth(ROWS, *FLAGS, "--dry-run").out
        # Another text does.
        changed = [{**ROWS[0], "text": "Hello you."}, *ROWS[1:]]
        dry = done.synth(changed, *FLAGS, "--dry-run")
        assert "chosen takes: 0 hold, 1 do not fit any more" in dry.out
        result = done.synth(changed, *FLAGS)
        assert "since a take was chosen; spoken again, and the old take kept" in result.err
        assert audio(done, "a.wav") == audio(done, "takes/a/4.wav") != chosen
        assert audio(done, "takes/a/3.wav") == chosen
        assert done.synth(changed, *FLAGS).out.startswith("nothing to do: all 3")
        assert choices(done)["a"] == {**choices(done)["a"], "take": 4, "held": False}
