"""What all commands share: help, mistakes, the terminal, and graphs as `synth` tells of them."""

from __future__ import annotations

import importlib
import os
import shlex
import struct
import subprocess
import sys
from pathlib import Path

import click
import pytest
from workbench import ROOT, Workbench

from tts_cli.cli import messages as msg

ROWS = [
    {"id": "a", "text": "Hello there."},
    {"id": "b", "text": "Good morning, all of you.", "voice": "emil"},
]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "Missing option '--out'"),  # this ended as an internal error with click 8.3
        (
            ["--out", ""],
            "Invalid value for '--out' / '-o': is empty",
        ),  # and this wrote where it stood
        (["--out", "--prune"], "'--prune' looks like a flag; write ./--prune for such a name"),
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


def test_advice_for_a_folder_with_a_dash_was_taken_for_a_flag(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bench.folder)
    given = ("--model", bench.model, "--device", "cpu", "--max-seconds", 1)
    told = bench.run("synth", bench.write(ROWS), "--out", "./-w", *given).out.splitlines()[-1]
    *_, report, folder = shlex.split(told)
    bench.run(report, folder).expect(0)
    *_, folder = shlex.split(bench.run("again", "./-w", "--print").out)
    assert Path(folder) == bench.folder / "-w"


def test_waiting_threads_sleep(monkeypatch: pytest.MonkeyPatch, bench: Workbench) -> None:
    """Spinning ones made a run twenty times slower as soon as one core had other work."""
    for given, wanted in ((None, "PASSIVE"), ("ACTIVE", "ACTIVE")):
        monkeypatch.setenv("OMP_WAIT_POLICY", given or "")
        if given is None:
            monkeypatch.delenv("OMP_WAIT_POLICY")
        bench.run("voices").expect(0)
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
    assert done.stdout.startswith(msg.synthesized(2, 3, failed=1) + "\n")
    assert "3/3" in said
    assert "1 failed]" in said
    assert "\rwarning: row cut failed: " in said


@pytest.mark.parametrize(
    ("command", "flag", "default"),
    [
        ("book", "--language", "the book's; else auto"),
        ("synth", "--language", "auto"),
        ("encode", "--model", "the model of the rows"),
        ("encode", "--sample-rate", "as synthesized"),
        ("warmup", "--max-seconds", "30"),
        ("warmup", "--max-batch", "512 on cuda, or 256 if memory is short; 16 on a CPU"),
        ("profile", "--max-batch", "the largest of --batches"),
        ("say", "--format", "by the suffix of --out; else wav"),
        ("synth", "--max-seconds", "depends on the text"),
    ],
)
def test_defaults_are_those_of_the_command(command: str, flag: str, default: str) -> None:
    """Settings are shared; what happens without one is not always."""
    module = importlib.import_module(f"tts_cli.cli.{command}")
    (param,) = [one for one in module.command.params if flag in one.opts]
    with click.Context(module.command) as ctx:
        assert param.get_help_extra(ctx).get("default", "").strip("()") == default
