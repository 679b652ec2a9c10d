"""What all commands share: help, mistakes, the terminal, and graphs as `synth` tells of them."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from workbench import ROOT, Workbench

from tts_cli.main import COMMANDS

ROWS = [
    {"id": "a", "text": "Hello there."},
    {"id": "b", "text": "Good morning, all of you.", "voice": "emil"},
]


def test_help_is_quick_and_needs_no_torch() -> None:
    """Typically 0.1 s; the bound leaves room for a busy machine."""
    program = (
        "import sys; from tts_cli.main import main\n"
        "for name in sys.argv[1:]:\n"
        "    code = main([name, '--help'] if name else ['--help'])\n"
        "    print('imported', code, {'torch', 'transformers', 'numpy'} & set(sys.modules))"
    )
    started_s = time.perf_counter()
    names = ["", *COMMANDS]
    done = subprocess.run(
        [sys.executable, "-c", program, *names], cwd=ROOT, capture_output=True, text=True
    )
    assert time.perf_counter() - started_s < 5
    *pages, end = done.stdout.split("imported 0 set()\n")
    assert (len(pages), end) == (len(names), ""), done.stdout + done.stderr
    for name, page in zip(names, pages, strict=True):
        assert page.startswith(f"Usage: tts-cli {name}".rstrip())


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "Missing option '--out'"),  # this ended as an internal error with click 8.3
        (
            ["--out", ""],
            "Invalid value for '--out' / '-o': is empty",
        ),  # and this wrote where it stood
        (["--out", "x", "--overwrite", "--retry-failed"], "exclude each other"),
        (["--out", "x", "--max-batch", "3"], "--max-batch must be a power of two"),
    ],
)
def test_mistakes_on_the_command_line(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, flags: list[str], words: str
) -> None:
    monkeypatch.chdir(bench.folder)
    result = bench.run("synth", bench.write(ROWS), *flags)
    assert (result.code, result.out) == (2, "")
    assert words in result.err
    assert [path.name for path in bench.folder.iterdir()] == ["rows.jsonl"]


def test_waiting_threads_sleep(monkeypatch: pytest.MonkeyPatch, bench: Workbench) -> None:
    """Spinning ones made a run twenty times slower as soon as one core had other work."""
    for given, wanted in ((None, "PASSIVE"), ("ACTIVE", "ACTIVE")):
        monkeypatch.setenv("OMP_WAIT_POLICY", given or "")
        if given is None:
            monkeypatch.delenv("OMP_WAIT_POLICY")
        assert bench.run("voices").code == 0
        assert os.environ["OMP_WAIT_POLICY"] == wanted


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_on_a_terminal_messages_stand_above_the_bar(bench: Workbench) -> None:
    """They were written into its line."""
    import fcntl
    import pty
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    rows = [*ROWS, {"id": "cut", "text": "Hello.", "max_frames": 1}]
    done = subprocess.run(
        [sys.executable, "-m", "tts_cli", *bench.command(bench.write(rows), "--max-seconds", 1)],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        text=True,
    )
    os.close(theirs)
    said = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.returncode == 1
    assert done.stdout.startswith("2 of 3 rows spoken, 1 failed\n")
    assert "3/3" in said
    assert "1 failed]" in said
    assert "\rwarning: row cut failed: " in said


def test_the_module_is_the_command(bench: Workbench) -> None:
    """`python -m tts_cli` from another folder, end to end, stdout and stderr apart."""
    manifest = bench.write(ROWS)
    flags = ["--max-seconds", "0.1", "--accept-truncated", "--device", "cpu", "--json"]
    flags += ["--model", str(bench.model)]
    done = subprocess.run(
        [sys.executable, "-m", "tts_cli", "synth", manifest, "--out", "out", *flags],
        cwd=bench.folder,
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PATH": "", "HOME": str(Path.home())},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["totals"]["ok"] == 2
    assert done.stderr == f"loading {bench.model} on cpu in float32\n"
    assert sorted(bench.out().files) == ["a.wav", "b.wav"]
