"""What speaks nothing starts at once: no torch, and nothing else that takes long to import.

Such commands once took as long as importing torch, some seconds. No clock here: what a process has
imported says the same on a busy machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from importlib.metadata import version
from pathlib import Path

import pytest
from workbench import ROOT, MakeCheckpoint, Workbench

HEAVY = ("torch", "triton", "transformers", "soundfile", "tokenizers", "huggingface_hub", "lxml")
ROW = {"id": "a", "text": "Hello there, on 3 May 1984."}
PROGRAM = (
    "import json, sys; from tts_cli.main import main; code = main(json.loads(sys.argv[1])); "
    f"print(json.dumps([code, sorted(set({HEAVY}) & set(sys.modules))]), file=sys.stderr)"
)


def run(*args: object, **environment: str) -> tuple[int, list[str], str]:
    """Exit code, what was imported of HEAVY, and stdout."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([str(arg) for arg in args])],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    code, imported = json.loads(done.stderr.splitlines()[-1])
    return code, imported, done.stdout


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory, make_checkpoint: MakeCheckpoint) -> list[str]:
    """A `synth` command line whose one row is done."""
    folder = tmp_path_factory.mktemp("spoken")
    manifest = folder / "rows.jsonl"
    manifest.write_text(json.dumps(ROW))
    args = ["synth", str(manifest), "--out", str(folder / "out"), "--model", str(make_checkpoint())]
    args += ["--max-seconds", "1", "--accept-truncated", "--device", "cpu"]
    code, imported, _ = run(*args, TRITON_INTERPRET="0", CUDA_VISIBLE_DEVICES="")
    assert code == 0
    assert "torch" in imported, "the list would say nothing"
    assert "triton" not in imported, "it is for CUDA devices"
    return args


@pytest.mark.parametrize(
    ("flags", "answer"),
    [
        (["--device", "auto"], "nothing to do: all 1 rows are done already"),
        (["--json"], '"skipped": 1'),
        (["--dry-run"], "to speak: 0 rows"),
        (["--retry-failed", "--verify-files"], "nothing to do: no row of this manifest is recor"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_rerun_that_has_nothing_to_do(spoken: list[str], flags: list[str], answer: str) -> None:
    code, imported, out = run(*spoken, *flags)
    assert (code, imported) == (0, [])
    assert answer in out


@pytest.mark.parametrize(
    "args",
    [
        ["validate", "samples/manifest.jsonl"],
        ["validate", "samples/manifest.jsonl", "--json"],
        ["voices", "--voices", "no-such-folder"],
        ["voices", "--model", "synthetic:fish-s2-pro", "--voices", "no-such-folder"],
        ["lexicon", "test", "1984"],
        ["say", "--help"],
        ["--version"],
    ],
    ids=" ".join,
)
def test_what_only_looks(args: list[str]) -> None:
    code, imported, out = run(*args)
    assert (code, imported) == (0, [])
    assert out


@pytest.mark.parametrize("args", [["report"], ["pick"]], ids=" ".join)
def test_what_comes_after_a_run(spoken: list[str], args: list[str]) -> None:
    code, imported, out = run(*args, spoken[3])
    assert (code, imported) == (0, [])
    assert out


def test_estimates_of_time(spoken: list[str]) -> None:
    manifest, out = spoken[1], spoken[3]
    code, imported, said = run("validate", manifest, "--out", out)
    assert (code, imported) == (0, [])
    assert "\ntime: about " in said


def test_a_device_is_asked_for_when_there_is_something_to_speak(
    spoken: list[str], bench: Workbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """torch was imported first, only to hear that nothing was to do."""
    from tts_cli.commands import device

    monkeypatch.setattr(device, "DRIVERS", (str(tmp_path),))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert bench.run(*spoken, "--device", "cuda:900").out.startswith("nothing to do")
    result = bench.synth([ROW], "--device", "cuda:900")
    assert result.code == 3
    assert "--device cuda:900: " in result.err
    assert not bench.out().path.exists()


def test_another_version_of_the_tool_leaves_rows_done(
    spoken: list[str], bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """run.json has the version; no hash of a row may."""
    report = json.loads((Path(spoken[3]) / "run.json").read_text())
    assert report["versions"]["tts-cli"] == version("tts-cli")
    monkeypatch.setattr(metadata, "version", lambda _: "9.9.9")
    assert bench.run("--version").out.startswith("tts-cli 9.9.9\n")
    assert bench.run(*spoken).out == "nothing to do: all 1 rows are done already\n"
