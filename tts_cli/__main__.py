"""The command `tts-cli`, also `python -m tts_cli`: signals are handled before the imports."""

from __future__ import annotations

import sys

from tts_cli import signals
from tts_cli.errors import Interrupted


def start() -> int:
    """Import the command line and run it; returns its exit code."""
    try:
        with signals.watching():
            from tts_cli.main import main

            return main()
    except Interrupted as error:  # while it was imported, or on the way out
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(start())
