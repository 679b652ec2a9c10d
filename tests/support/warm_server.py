"""The process that `warm_process.py` forks commands from: it imports what is heavy, and waits.

Modules of ours are not imported: a command's patches are there before them, as in a fresh process.
Harnesses whose patches need not be there first name the packages to import in TTS_TESTS_WARM.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
from contextlib import suppress

HEAVY = ("torch", "numpy", "soundfile", "soxr", "safetensors.torch", "tokenizers", "transformers")


def main() -> None:
    """Fork a command for every message, until the connection is closed."""
    server = socket.socket(fileno=int(sys.argv[1]))
    for name in HEAVY:
        importlib.import_module(name)
    importlib.import_module("transformers").AutoTokenizer  # noqa: B018 (imported when asked for)
    for package in filter(None, os.environ.get("TTS_TESTS_WARM", "").split(",")):
        import_all(package)
    gc.freeze()  # as commands do behind their imports
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers need no burial
    while True:
        head, (*fds,), _, _ = socket.recv_fds(server, 8, 3)
        if not head:
            os._exit(0)  # libraries take long to end, and report what they leak
        length = int.from_bytes(head, "big")
        text = b""
        while len(text) < length:
            text += server.recv(length - len(text))
        if os.fork() == 0:
            server.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            keep(json.loads(text), *fds)
            return
        for fd in fds:
            os.close(fd)


def import_all(package: str) -> None:
    """Import the modules of a package that can be imported, but do not run it."""
    found = importlib.import_module(package)
    for module in pkgutil.walk_packages(found.__path__, f"{package}.", lambda _: None):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):
                importlib.import_module(module.name)


def keep(given: dict[str, object], out: int, err: int, news: int) -> None:
    """Fork the command; tell its pid, and later its exit code or minus the signal that ended it.

    Returns in the command's process only, which then ends as any interpreter does.
    """
    pid = os.fork()
    if pid:
        os.close(out)
        os.close(err)
        os.write(news, b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        try:
            os.write(news, b"%d\n" % os.waitstatus_to_exitcode(status))
        finally:
            os._exit(0)
    os.close(news)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    os.environ.clear()
    os.environ.update(given["env"])
    os.chdir(given["cwd"])
    sys.argv = ["-c", *given["args"]]
    sys.path[0] = ""
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    exec(compile(given["program"], "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main()
