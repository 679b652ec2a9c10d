"""A disk that is full and folders that cannot be used: the run ends, nothing half-written stays."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from workbench import Workbench

from tts_cli.audio import encode as writer
from tts_cli.audio.tags import Tags
from tts_cli.cli import messages as msg
from tts_cli.store.lock import LOCK_NAME

TEXTS = ("Hello there.", "Good morning.", "Hm.", "The rain in the street.")
ROWS = [{"id": f"row{number}", "text": TEXTS[number % 4]} for number in range(8)]
FLAGS = ("--max-seconds", 1, "--save-codes")


def fail_writes(
    monkeypatch: pytest.MonkeyPatch, is_hit: Callable[[bytes, int], bool], code: int = errno.ENOSPC
) -> None:
    """Make writes of file descriptors fail; `is_hit` sees the data and how many came before."""
    real, mutex, calls = os.write, threading.Lock(), [0]

    def write(handle: int, data: bytes) -> int:
        with mutex:
            calls[0] += 1
            if is_hit(bytes(data), calls[0] - 1):
                raise OSError(code, os.strerror(code))
        return real(handle, data)

    monkeypatch.setattr(os, "write", write)


class TestDisk:
    @pytest.mark.parametrize(
        ("where", "is_hit"),
        [
            ("everything from some point on", lambda data, calls: calls >= 10),
            ("the audio of one row", lambda data, calls: data[:4] == b"RIFF" and calls > 6),
            ("one line of the journal", lambda data, calls: b"request_hash" in data and calls > 6),
            ("the lock file", lambda data, calls: b'"pid"' in data),
        ],
    )
    def test_full(
        self,
        bench: Workbench,
        monkeypatch: pytest.MonkeyPatch,
        where: str,
        is_hit: Callable[[bytes, int], bool],
    ) -> None:
        bench.synth_once(ROWS, *FLAGS, out="clean")
        wanted = bench.out("clean").files
        with monkeypatch.context() as patched:
            fail_writes(patched, is_hit)
            result = bench.synth(ROWS, *FLAGS)
        assert result.code == 4, where
        assert "No space left on device" in result.err
        assert (
            "free some space and run the same command again: finished rows are safe" in result.err
        )
        files = bench.out().files
        files.pop(LOCK_NAME, None)
        assert all(wanted.get(name) == data for name, data in files.items())
        if where != "the lock file":
            assert len(files) < len(wanted)
            assert set(bench.out().status().values()) <= {"ok"}
        bench.synth(ROWS, *FLAGS).expect(0)
        assert bench.out().files == wanted

    def test_full_before_the_report(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:
            fail_writes(patched, lambda data, calls: b'"totals": {' in data)
            result = bench.synth(ROWS[:2], *FLAGS)
        assert result.code == 0  # every row is done
        assert "warning: run.json could not be written: " in result.err
        assert "warning: this run is missing in runs.jsonl: " in result.err
        assert bench.synth(ROWS[:2], *FLAGS).out.startswith(msg.NOTHING_TO_DO.format(reason=""))

    def test_a_folder_called_run_json(self, bench: Workbench) -> None:
        """All rows were spoken before it ended as an internal error."""
        (bench.out().path / "run.json").mkdir(parents=True)
        bench.synth(ROWS[:2], *FLAGS).expect(2, "run.json: is a folder; move it")
        assert not (bench.out().path / "timings.jsonl").exists()

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    def test_a_full_stdout(self, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
        """The rows are done all the same; only what was asked to be shown is lost: an error where
        a program is to read it.
        """
        manifest = bench.write(ROWS[:2])
        flags = ("--model", bench.model, "--device", "cpu", *FLAGS[:2])
        book = ("book", bench.write("# One\n\nHello.", "b.md"), "--out", bench.folder / "book")
        others = {
            ("validate", manifest, "--model", bench.model): 4,
            ("say", "Hi.", "--json", "-o", bench.folder / "a.wav", *flags): 4,
            ("voices", "--json"): 4,
            (*book, *flags, "--json"): 4,
            ("check", bench.out().path, "--json"): 4,
            ("encode", bench.out().path, "--format", "flac"): 0,
            ("encode", bench.out().path, "--format", "flac", "--json"): 4,
        }
        synth = tuple(bench.command(manifest, *FLAGS))
        commands = {synth: 0, (*synth, "--dry-run"): 4, (*synth, "--json"): 4, **others}
        for args, code in commands.items():
            with monkeypatch.context() as patched, open("/dev/full", "w") as full:
                patched.setattr(sys, "stdout", full)
                result = bench.run(*args)
            level = "Error" if code else "warning"
            assert result.code == code, args
            assert f"{level}: cannot write to stdout: No space left on device" in result.err
        assert bench.out().status() == {"row0": "ok", "row1": "ok"}
        assert list((bench.folder / "book").glob("*-one.wav"))

    def test_no_memory(self, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
        """It ended as an internal error."""
        real = writer.encode

        def encode(*args: Any) -> bytes:
            if any(isinstance(one, Tags) and one.title == "row1" for one in args):
                np.empty(1 << 50)  # MemoryError
            return real(*args)

        with monkeypatch.context() as patched:
            patched.setattr(writer, "encode", encode)
            result = bench.synth(ROWS[:2], *FLAGS)
        assert result.code == 4
        assert "Error: there is not enough memory: Unable to allocate 8.00 PiB" in result.err
        assert "row1" not in bench.out().status()
        bench.synth_once(ROWS[:2], *FLAGS)
