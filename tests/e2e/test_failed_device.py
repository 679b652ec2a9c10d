"""Devices that are absent, lost or too small, and errors of our own."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from workbench import Workbench

from kernels.launch.dispatch import KernelFailed
from models.qwen3_tts.model import Qwen3TTS
from tts_cli.store.lock import LOCK_NAME

TEXTS = ("Hello there.", "Good morning.", "Hm.", "The rain in the street.")
ROWS = [{"id": f"row{number}", "text": TEXTS[number % 4]} for number in range(8)]
FLAGS = ("--max-seconds", 1, "--save-codes")


@pytest.fixture
def checkpoint(longer: Path) -> Path:
    return longer


class TestDevice:
    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
    @pytest.mark.parametrize("device", ["cuda", "cuda:3"])
    def test_absent(self, bench: Workbench, device: str) -> None:
        """It was noticed only after the output folder had been made."""
        bench.synth(ROWS, "--device", device).expect(
            3, f"--device {device}: no CUDA device found; use --device cpu"
        )
        assert not bench.out().path.exists()
        for command in ("warmup", "profile"):
            bench.run(command, "--device", device).expect(3)

    def test_lost(self, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
        error = RuntimeError("CUDA error: an illegal memory access was encountered\nmore lines")
        self.break_after(monkeypatch, "decode_audio", 2, error)
        result = bench.synth(ROWS, *FLAGS, "--max-batch", 2).expect(4)
        last = result.err.splitlines()[-1]
        assert last.startswith(
            "Error: the device failed: CUDA error: an illegal memory access was "
            "encountered; finished rows are safe; check the device and run the same "
            "command again"
        )
        report = bench.out().report
        assert (report["exit_code"], report["totals"]["is_interrupted"]) == (4, True)
        kept = bench.out().files
        monkeypatch.undo()
        bench.synth(ROWS, *FLAGS).expect(0)
        assert kept.items() <= bench.out().files.items()
        bench.synth_once(ROWS, *FLAGS, out="clean")
        assert bench.out().files == bench.out("clean").files

    @pytest.mark.usefixtures("falls_back")
    def test_a_kernel_that_fails_while_codes_are_decoded(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench.synth_once(ROWS, *FLAGS)
        for row in ROWS:
            (bench.out().path / f"{row['id']}.wav").unlink()
        self.break_once(monkeypatch, "decode_audio", 2)
        bench.run(
            "encode",
            bench.out().path,
            "--format",
            "flac",
            "--model",
            bench.model,
            "--device",
            "cpu",
        ).expect(0, "warning: Triton does not work (swiglu")
        assert {f"{row['id']}.flac" for row in ROWS} <= bench.out().files.keys()

    def test_a_bug_is_an_internal_error(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No traceback unless asked for, and the helper threads end as well."""
        self.break_after(monkeypatch, "decode_audio", 2, ZeroDivisionError("oh"))
        threads = threading.active_count()
        result = bench.synth(ROWS, *FLAGS).expect(4)
        assert result.err.splitlines()[-1] == (
            "Error: internal error: ZeroDivisionError: oh; run again with --debug"
        )
        assert threading.active_count() == threads
        assert not (bench.out().path / LOCK_NAME).exists()
        bench.synth(ROWS, *FLAGS, "--debug", out="debug").expect(4, "Traceback")

    def test_a_bug_in_a_helper_thread_ends_the_run_too(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.break_after(monkeypatch, "prompt", 1, ZeroDivisionError("oh"))
        bench.synth(ROWS, *FLAGS).expect(4, "internal error: ZeroDivisionError: oh")

    @staticmethod
    def break_once(monkeypatch: pytest.MonkeyPatch, operation: str, call: int) -> None:
        """Let a kernel fail in an operation's call of that number (from 0)."""
        real, calls = getattr(Qwen3TTS, operation), itertools.count()

        def broken(self: Qwen3TTS, *args: Any) -> Any:
            if next(calls) == call:
                raise KernelFailed("swiglu: Failed to find C compiler")
            return real(self, *args)

        monkeypatch.setattr(Qwen3TTS, operation, broken)

    @staticmethod
    def break_after(
        monkeypatch: pytest.MonkeyPatch, operation: str, calls: int, error: Exception
    ) -> None:
        """Make an operation of the model raise from its call number `calls` (from 0) on."""
        real, done = getattr(Qwen3TTS, operation), [0]

        def broken(self: Qwen3TTS, *args: Any) -> Any:
            done[0] += 1
            if done[0] > calls:
                raise error
            return real(self, *args)

        monkeypatch.setattr(Qwen3TTS, operation, broken)
