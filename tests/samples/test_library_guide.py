"""The library's page and its examples: they run, and give what they say."""

from __future__ import annotations

import io
import os
import re
import runpy
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile
from warm_process import WarmProcess
from workbench import PATIENCE_S, Result

from tts_cli.library.speech import Speech

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "samples" / "guide" / "library.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "samples" / "library"
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a script in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run_script(script: Path, *args: str, said: str = "") -> Result:
        monkeypatch.setattr(sys, "argv", [str(script), *args])
        monkeypatch.setattr(sys, "stdin", io.StringIO(said))
        code = 0
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as end:
            code = int(str(end.code or 0))
        return Result(code, *capsys.readouterr())

    return run_script


def test_the_page(run: Run, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 2
    (tmp_path / "page.py").write_text("\n".join(blocks))
    done = run(tmp_path / "page.py").expect(0)
    first, second = done.out.splitlines()
    assert re.fullmatch(r"\d\.\d+ \(\d+,\) \(\d+, \d+\)", first)
    assert second.startswith("000003 unknown field 'voise'; did you mean 'voice'?")
    assert soundfile.info(tmp_path / "noon.wav").duration > 0.5
    assert soundfile.info(tmp_path / "intro-002.flac").duration > 0.5


def test_the_page_names_what_a_result_has() -> None:
    section = PAGE.split("## What you get")[1]
    for name in Speech.__dataclass_fields__:
        assert f"`{name}`" in section or name in ("extra", "comment"), name


def test_one_text(run: Run, tmp_path: Path) -> None:
    done = run(EXAMPLES / "say_one.py", "The ferry leaves at noon.", "noon.wav")
    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(r"noon\.wav: \d\.\d\d s, seed \d+\n", done.out)
    assert soundfile.info(tmp_path / "noon.wav").samplerate == 24_000
    done = run(EXAMPLES / "say_one.py", " ", "none.wav")
    assert (done.code, done.err) == (1, "cannot be synthesized: text: is blank\n")


def test_a_line_that_is_too_long(run: Run) -> None:
    done = run(EXAMPLES / "endless.py", "spoken", said="Good morning.\n" + "x" * 30_000).expect(1)
    assert done.out.startswith("spoken/000001.wav: ")
    assert done.err.startswith("000002: text: has 30000 characters")


@pytest.mark.skipif(sys.platform != "linux", reason="forks of Linux")
def test_lines_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is written when the first was heard; then the reader is interrupted, while a
    thread waits for a line that never comes.
    """
    os.mkfifo(tmp_path / "lines")
    program = (
        f"import runpy, sys\nsys.stdin = open({str(tmp_path / 'lines')!r})\n"
        f"runpy.run_path({str(EXAMPLES / 'endless.py')!r}, run_name='__main__')"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    # Whoever runs this behind a shell's `&` ignores the signal, and so would a child.
    program = f"import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n{program}"
    monkeypatch.chdir(tmp_path)
    process = WarmProcess(program, ["spoken"], env)
    with open(tmp_path / "lines", "w") as lines:
        for number, text in enumerate(("Good morning.", "It rains."), 1):
            print(text, file=lines, flush=True)
            line = process.stdout.readline()
            assert line.startswith(f"spoken/00000{number}.wav: ")
            assert line.endswith(f" s: {text}\n")
        assert sorted(os.listdir(tmp_path / "spoken")) == ["000001.wav", "000002.wav"]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
    assert process.communicate() == ("", "")
