"""Commands in a child process that outlives each of them, and is replaced when it does not."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LAST_LINES = 3  # of what a command said, in the reason why it failed


class CommandFailed(Exception):  # noqa: N818
    """A command that gave no answer, or ended with another code than 0."""


class Commands:
    """Runs commands of tts-cli in one process, see `child.py`; the next one starts a new process
    if a command took the last one along.

    Args:
        log: gets what the commands say.
    """

    def __init__(self, log: Path) -> None:
        self.log = log
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()
        self._listener = threading.Thread()

    def run(self, *args: object, timeout_s: float = 120.0) -> dict[str, Any]:
        """The answer of one command. Raises CommandFailed."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        said = self.log.stat().st_size
        asked = [str(arg) for arg in args]
        try:
            process.stdin.write(json.dumps({"args": asked}) + "\n")
            process.stdin.flush()
            line = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            self.close()
            raise CommandFailed(f"no answer within {timeout_s:.0f} s: {asked[0]}") from None
        except BrokenPipeError:
            line = ""
        if not line:
            self.close()
            raise CommandFailed(f"the process ended amid {asked[0]}: {self._last_words(said)}")
        answer: dict[str, Any] = json.loads(line)
        if answer["code"] != 0:
            reason = self._last_words(said)
            raise CommandFailed(f"{asked[0]} ended with code {answer['code']}: {reason}")
        return answer

    def close(self) -> None:
        """End the process, whatever it is at."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        self._listener.join()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()

    def _start(self) -> None:
        self.close()
        command = [sys.executable, str(HERE / "child.py")]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | {"PYTHONPATH": path},
            )
        self._answers = queue.Queue()
        self._listener = threading.Thread(target=_listen, args=(self._process, self._answers))
        self._listener.start()

    def _last_words(self, start: int) -> str:
        with self.log.open() as log:
            log.seek(start)
            return " | ".join(log.read().strip().splitlines()[-LAST_LINES:])

    def __enter__(self) -> Commands:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _listen(process: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
    """Pass on lines, and an empty one at the end of the process."""
    assert process.stdout is not None
    for line in process.stdout:
        answers.put(line)
    answers.put("")
