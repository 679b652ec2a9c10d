"""The library's page and its examples: they run, and give what they say."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile
from workbench import PATIENCE_S

from tts_cli.library.speech import Speech

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "samples" / "guide" / "library.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "samples" / "library"


def run(folder: Path, *args: str, said: str = "") -> subprocess.CompletedProcess[str]:
    """A script in a folder of its own, on the CPU."""
    return subprocess.run(
        [sys.executable, *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
        input=said,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def test_the_page(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 2
    (tmp_path / "page.py").write_text("\n".join(blocks))
    done = run(tmp_path, "page.py")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert re.fullmatch(r"\d\.\d+ \(\d+,\) \(\d+, \d+\)", first)
    assert second.startswith("000003 unknown field 'voise'; did you mean 'voice'?")
    assert soundfile.info(tmp_path / "noon.wav").duration > 0.5
    assert soundfile.info(tmp_path / "intro-002.flac").duration > 0.5


def test_the_page_names_what_a_result_has() -> None:
    section = PAGE.split("## What you get")[1]
    for name in Speech.__dataclass_fields__:
        assert f"`{name}`" in section or name in ("extra", "comment"), name


def test_one_text(tmp_path: Path) -> None:
    done = run(tmp_path, str(EXAMPLES / "say_one.py"), "The ferry leaves at noon.", "noon.wav")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"noon\.wav: \d\.\d\d s, seed \d+\n", done.stdout)
    assert soundfile.info(tmp_path / "noon.wav").samplerate == 24_000
    done = run(tmp_path, str(EXAMPLES / "say_one.py"), " ", "none.wav")
    assert (done.returncode, done.stderr) == (1, "cannot be spoken: text: is blank\n")


def start_endless(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(EXAMPLES / "endless.py"), "spoken"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever runs this behind a shell's `&` ignores the signal, and so would a child.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_lines_as_they_come(tmp_path: Path) -> None:
    """The second is written when the first was heard."""
    process = start_endless(tmp_path)
    assert process.stdin is not None
    assert process.stdout is not None
    for number, text in enumerate(("Good morning.", "It rains."), 1):
        process.stdin.write(f"{text}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line.startswith(f"spoken/00000{number}.wav: ")
        assert line.endswith(f" s: {text}\n")
    out, err = process.communicate("x" * 30_000, timeout=PATIENCE_S)
    assert (process.returncode, out) == (1, "")
    assert err.startswith("000003: text: has 30000 characters")
    assert sorted(os.listdir(tmp_path / "spoken")) == ["000001.wav", "000002.wav"]


def test_an_interrupted_reader_of_lines(tmp_path: Path) -> None:
    """While a thread waits for a line that never comes."""
    process = start_endless(tmp_path)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("Good morning.\n")
    process.stdin.flush()
    assert process.stdout.readline().startswith("spoken/000001.wav")
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130
    out, err = process.communicate()
    assert (out, err) == ("", "")
