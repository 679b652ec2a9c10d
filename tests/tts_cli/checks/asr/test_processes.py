"""The processes that transcribe: they end with the process that started them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tts_cli.checks.asr.processes import Processes
from tts_cli.checks.asr.recognizer import Identity


def wait_long(number: int) -> None:
    print("started", number, flush=True)
    time.sleep(600)


def main() -> None:
    processes = Processes(wait_long, Identity("none"), count=2)
    list(processes.run([1, 2]))


@pytest.mark.slow
def test_they_end_with_a_killed_parent() -> None:
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    code += "import test_processes; test_processes.main()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as main:
        assert main.stdout is not None
        assert main.stdout.readline().startswith("started")
        main.kill()
        # Whoever has inherited stdout keeps it open: it ends only with the last process.
        main.communicate(timeout=60)
