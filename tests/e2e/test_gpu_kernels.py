"""On a GPU whose Triton fails, wherever it does: every row is spoken, by the PyTorch reference, and
that is told once. Each run is a process of its own. Run with -s it prints how fast the reference
is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from workbench import Result, Store, as_jsonl

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "support" / "broken_triton.py"
WORDS = ("Rain", "Lamp", "Boat", "Noon", "Sea", "Late", "Open", "Birds")
ROWS = [
    {"id": f"row{number:02d}", "text": f"{WORDS[number % 8]} {WORDS[number // 8].lower()}."}
    for number in range(64)
]
FLAGS = ("--device", "cuda", "--max-batch", 64, "--save-codes", "--seed", 7, "--retries", 5)
FLOAT32 = ("--dtype", "float32")
TOLD = "warning: Triton does not work ("
NO_COMPILER = {"CC": "/bin/false"}  # and a cache that holds nothing


@dataclass(frozen=True)
class Done(Result):
    folder: Store

    @property
    def warnings(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("warning: ")]

    @property
    def device(self) -> dict[str, Any]:
        found: dict[str, Any] = self.folder.report["device"]
        return found

    def codes(self) -> dict[str, torch.Tensor]:
        """Every row's codes; all rows are ok."""
        assert self.code == 0, self.err
        assert self.folder.status() == {row["id"]: "ok" for row in ROWS}
        return {
            row["id"]: load_file(self.folder.path / f"{row['id']}.codes.safetensors")["codes"]
            for row in ROWS
        }


def run(folder: Path, how: str, *args: object, env: Mapping[str, str] | None = None) -> Done:
    """A command in a process of its own, see `broken_triton.py`."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, **(env or {})}
    environment.pop("TTS_CLI_KERNELS", None)
    # Where Triton cannot be imported the script cannot break it further.
    start = [sys.executable, SCRIPT, how] if how else [sys.executable, "-m", "tts_cli"]
    command = [str(part) for part in (*start, *args)]
    found = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert "Traceback" not in found.stderr, found.stderr
    return Done(found.returncode, found.stdout, found.stderr, Store(folder / "out"))


Synth = Callable[..., Done]


@pytest.fixture(scope="module")
def synth(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Synth:
    """Speak the rows into a new folder."""

    def speak(how: str, *flags: object, env: Mapping[str, str] | None = None) -> Done:
        folder = tmp_path_factory.mktemp("spoken")
        manifest = folder / "rows.jsonl"
        manifest.write_text(as_jsonl(ROWS))
        given = ("--model", checkpoint, *FLAGS, *flags)
        return run(folder, how, "synth", manifest, "--out", folder / "out", *given, env=env)

    return speak


@pytest.fixture(scope="module")
def reference(synth: Synth) -> dict[str, torch.Tensor]:
    """What the reference says, by graphs."""
    done = synth("nothing", *FLOAT32, "--kernels", "reference")
    codes = done.codes()
    assert done.warnings == []
    assert done.device["kernels"] == "PyTorch reference (Triton switched off)"
    assert done.device["graphs_failed"] == 0
    assert done.device["graphs"] > 0
    assert done.folder.report["totals"]["graph_misses"] == 0
    assert len({len(row) for row in codes.values()}) > 8
    return codes


@pytest.fixture
def broken_import(tmp_path: Path) -> dict[str, str]:
    """An environment in which Triton is there and cannot be imported."""
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text("raise ImportError('no libtriton.so here')")
    path = os.environ.get("PYTHONPATH", "")  # the packages of a machine without a venv
    return {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT), path])}


@pytest.fixture
def no_compiler(tmp_path: Path) -> dict[str, str]:
    """An environment in which no kernel can be compiled."""
    return {**NO_COMPILER, "TRITON_CACHE_DIR": str(tmp_path / "kernels")}


def different(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> list[str]:
    return [row for row in expected if not torch.equal(found[row], expected[row])]


def assert_fell_back(done: Done, reference: dict[str, torch.Tensor], why: str) -> None:
    """All rows as the reference says them; told once."""
    assert different(done.codes(), reference) == []
    assert len(done.warnings) == 1, done.err
    assert done.warnings[0].startswith(f"{TOLD}{why}"), done.err
    assert done.device["kernels"].startswith(f"PyTorch reference ({why}")


class TestFallBack:
    def test_at_import(
        self, synth: Synth, reference: dict[str, torch.Tensor], broken_import: dict[str, str]
    ) -> None:
        done = synth("", *FLOAT32, env=broken_import)
        assert_fell_back(done, reference, "triton cannot be imported: ImportError: no libtriton.so")
        assert done.device["graphs_failed"] == 0

    def test_at_the_first_compilation(
        self, synth: Synth, reference: dict[str, torch.Tensor], no_compiler: dict[str, str]
    ) -> None:
        done = synth("nothing", *FLOAT32, env=no_compiler)
        assert_fell_back(done, reference, "probe: ")
        assert "install gcc" in done.warnings[0]
        assert done.device["graphs_failed"] == 0

    @pytest.mark.parametrize("how", ["launch:40", "captured"])
    def test_while_graphs_are_recorded(
        self, synth: Synth, reference: dict[str, torch.Tensor], how: str
    ) -> None:
        done = synth(how, *FLOAT32)
        assert_fell_back(done, reference, "")
        assert "device kernel image is invalid" in done.warnings[0]
        assert done.device["graphs_failed"] == 0
        assert done.device["graphs"] > 0

    def test_while_rows_are_spoken(self, synth: Synth, reference: dict[str, torch.Tensor]) -> None:
        """Before the first has ended, so that all begin again."""
        done = synth("kernel:advance:2", *FLOAT32, "--no-graphs")
        assert_fell_back(done, reference, "advance: Triton Error")
        assert done.device["kernel_fall_backs"] == 1

    def test_in_the_vocoder(self, synth: Synth, reference: dict[str, torch.Tensor]) -> None:
        done = synth("kernel:snake:1", *FLOAT32, "--no-graphs")
        assert len(done.warnings) == 1
        assert done.device["kernel_fall_backs"] == 1
        rows = different(done.codes(), reference)
        print(f"\nvocoder failed: codes that differ from the reference's: {rows}")
        assert rows == []  # those that had ended were not spoken again

    def test_in_bfloat16(self, synth: Synth) -> None:
        """Which has kernels of its own, and graphs that hold them."""
        expected = synth("nothing", "--kernels", "reference").codes()
        done = synth("launch:40")
        assert_fell_back(done, expected, "")


class TestCapture:
    def test_a_capture_that_raises_an_error_of_triton(
        self, synth: Synth, reference: dict[str, torch.Tensor]
    ) -> None:
        """No kernel has failed, so they go on, without graphs."""
        done = synth("capture", *FLOAT32)
        codes = done.codes()
        assert [line.partition(" not captured")[2] for line in done.warnings] == [
            ", runs eagerly: no capture today"
        ]
        assert done.device["kernels"].startswith("Triton")
        assert done.device["graphs_failed"] > 1
        assert done.device["graphs"] == 0
        usual = synth("nothing", *FLOAT32)
        assert usual.warnings == []
        assert different(codes, usual.codes()) == []
        rows = different(codes, reference)
        print(f"\ncapture failed: codes that differ from the reference's: {rows}")
        assert rows == []


class TestHeld:
    """What must not be exchanged for anything else."""

    def test_portable_without_triton(self, synth: Synth, broken_import: dict[str, str]) -> None:
        done = synth("", "--kernels", "portable", env=broken_import).expect(
            3, "--kernels portable: Triton does not work (triton cannot be imported"
        )
        assert not list(done.folder.path.glob("*.wav"))

    def test_portable_without_a_compiler(self, synth: Synth, no_compiler: dict[str, str]) -> None:
        done = synth("nothing", "--kernels", "portable", env=no_compiler).expect(
            3, "--kernels portable: Triton does not work (probe: "
        )
        assert not list(done.folder.path.glob("*.wav"))

    def test_reproducible_falls_back_before_the_first_row(
        self, synth: Synth, no_compiler: dict[str, str]
    ) -> None:
        done = synth("nothing", "--reproducible", env=no_compiler)
        assert len(done.codes()) == len(ROWS)
        assert [line.startswith(f"{TOLD}probe: ") for line in done.warnings] == [True]

    def test_reproducible_stops_later(self, synth: Synth) -> None:
        done = synth("kernel:advance:30", *FLOAT32, "--no-graphs", "--reproducible").expect(
            4, "a Triton kernel failed (advance: Triton Error", "finished rows are safe"
        )
        assert TOLD not in done.err
        status = done.folder.status()
        assert 0 < len(status) < len(ROWS)
        assert set(status.values()) == {"ok"}


def test_doctor(tmp_path: Path, no_compiler: dict[str, str]) -> None:
    for env, status, words in (
        ({}, "ok", "a test kernel was compiled"),
        (
            no_compiler,
            "note",
            "using the slower PyTorch reference, because Triton does not work (probe: ",
        ),
    ):
        done = run(tmp_path, "nothing", "doctor", "--json", env=env)
        (found,) = (one for one in json.loads(done.out) if one["name"] == "kernels")
        assert found["status"] == status, done.out
        assert words in found["detail"]
        assert "C compiler " in found["detail"]
        assert "ptxas " in found["detail"]
        print(f"\n{found}")


def test_speed_of_the_reference(tmp_path: Path) -> None:
    """64 rows of 5 to 15 s at once, random weights of 0.6B; nothing else is asked of it."""
    rows = [
        {
            "id": f"{n:03d}",
            "text": "It was late, and nobody came. " * 3,
            "max_frames": 62 + 7 * n % 126,
        }
        for n in range(128)
    ]
    manifest = tmp_path / "rows.jsonl"
    manifest.write_text(as_jsonl(rows))
    flags = ("--model", "synthetic:qwen3-tts-0.6b", "--accept-truncated", "--max-batch", 64)
    for kernels in ("auto", "reference"):
        folder = tmp_path / kernels
        given = (*flags, "--device", "cuda", "--kernels", kernels)
        done = run(folder, "nothing", "synth", manifest, "--out", folder / "out", *given).expect(0)
        assert done.device["graphs_failed"] == 0
        totals = done.folder.report["totals"]
        late_s = done.device["graphs_while_speaking_ms"] / 1000
        print(
            f"\n{torch.cuda.get_device_name()}, --kernels {kernels}, 128 rows, 64 at once: "
            f"{totals['xrt']:.0f} xRT ({totals['audio_s']:.0f} s of audio in "
            f"{totals['wall_s']:.2f} s, {late_s:.2f} s of them recording graphs; "
            f"load {totals['load_s']:.1f} s, slots and graphs {totals['capture_s']:.1f} s)"
        )
