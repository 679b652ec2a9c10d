"""The command `tts-cli`, also `python -m tts_cli`: signals are handled before the imports."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from typing import NoReturn

from tts_cli import signals, startup
from tts_cli.errors import Interrupted


def start() -> int:
    startup.begin_process()
    try:
        with signals.watching():
            startup.begin_driver(sys.argv[1:])
            from tts_cli.main import main

            return main()
    except Interrupted as error:  # during the import, or while the process ends
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code


def run() -> NoReturn:
    """Run the command line and end the process: after the exit handlers, but without unloading
    torch and its device, which the operating system does faster.
    """
    code = start()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader is closed
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    run()
