"""Commands in processes of their own that need not import torch first: forks of one that has.

A server (`warm_server.py`), one for each process of pytest, imports what is heavy and runs nothing.
For every command it forks a keeper, and that the command: a real process with its own pid, signals,
environment, standard streams and end of the interpreter. The keeper waits for it and tells its exit
code, since only a parent can. An import of torch and transformers takes 2 to 3 s of a core.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import pytest

SERVER = Path(__file__).with_name("warm_server.py")


class WarmProcess:
    """What tests use of `subprocess.Popen`, for a fork of the server.

    Args:
        program: Python, run as `python -c` would.
        args: `sys.argv` behind the program's name.
        env: the whole environment.
    """

    def __init__(self, program: str, args: Sequence[str], env: Mapping[str, str]) -> None:
        self.returncode: int | None = None
        out, self._out = os.pipe()
        err, self._err = os.pipe()
        self._news, news = os.pipe()
        self.stdout: IO[str] = open(out, encoding="utf-8")  # noqa: SIM115 (as Popen's)
        self.stderr: IO[str] = open(err, encoding="utf-8")  # noqa: SIM115
        given = {"program": program, "args": list(args), "env": dict(env), "cwd": os.getcwd()}
        text = json.dumps(given).encode()
        server, mutex = _server()
        with mutex:
            socket.send_fds(server, [len(text).to_bytes(8, "big")], [self._out, self._err, news])
            server.sendall(text)
        for fd in (self._out, self._err, news):
            os.close(fd)
        self.pid = int(self._line())

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._end(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code."""
        code = self._end(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Return the rest of stdout and stderr when the process has ended."""
        said: dict[str, str] = {}

        def read(name: str, file: IO[str]) -> None:
            with file:
                said[name] = file.read()

        pair = {"out": self.stdout, "err": self.stderr}
        readers = [
            threading.Thread(target=read, args=one, daemon=True)
            for one in pair.items()
            if not one[1].closed
        ]
        for reader in readers:
            reader.start()
        deadline_s = None if timeout is None else time.monotonic() + timeout
        self.wait(timeout)
        for reader in readers:
            reader.join(None if deadline_s is None else max(0.0, deadline_s - time.monotonic()))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return said.get("out", ""), said.get("err", "")

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process."""
        self.send_signal(signal.SIGKILL)

    def _end(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._news, selectors.EVENT_READ)
                if not selector.select(timeout):
                    return None
            self.returncode = int(self._line())
            os.close(self._news)
        return self.returncode

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            more = os.read(self._news, 1)
            assert more, "the server or a keeper is gone"
            line += more
        return line


Process = subprocess.Popen[str] | WarmProcess


def start(program: str, args: Sequence[str], env: Mapping[str, str]) -> Process:
    """Start a program as `python -c` would: as a fork of the server, and where the system has no
    such forks, and with `--workers`, whose processes Ray starts and ends, as a fresh process.
    """
    if sys.platform == "linux" and "--workers" not in args:
        return WarmProcess(program, args, env)
    pipe, command = subprocess.PIPE, [sys.executable, "-c", program, *args]
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env)


def run_warm(program: str, *args: object, **environment: str) -> str:
    """Return the stdout of a program that starts with torch imported; its exit code must be 0."""
    process = WarmProcess(program, list(map(str, args)), {**os.environ, **environment})
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out


def run_with_triton(program: str, folder: Path, *args: object) -> str:
    """Return the stdout of a program that compiles kernels, whose test is skipped without Triton.

    Args:
        folder: for the program, whose source Triton reads, and for what is compiled.
    """
    pytest.importorskip("triton", reason="triton is not installed")
    path = folder / "program.py"
    path.write_text(program)
    root = Path(__file__).parents[2]
    place = {"TRITON_CACHE_DIR": str(folder), "PYTHONPATH": f"{root}:{root / 'tests/support'}"}
    run_it = f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')"
    return run_warm(run_it, *args, **place, TRITON_INTERPRET="0")


@functools.cache
def _server() -> tuple[socket.socket, threading.Lock]:
    """The server of this process; it ends with us."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, str(SERVER), str(theirs.fileno())], pass_fds=[theirs.fileno()]
    )
    theirs.close()

    def stop() -> None:
        ours.close()
        process.wait()

    atexit.register(stop)
    return ours, threading.Lock()
