"""A process that runs commands of tts-cli one after the other, so that later ones find what a
process has to load once: lines of JSON in, a line of JSON out for each.

    {"args": ["synth", "rows.jsonl", ...]}  ->  {"code": 0, "out": "...", "seconds": 4.2}

What commands print to stdout is part of the answer; stderr is left as it is.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import sys
import time
from typing import Any


def run(args: list[str]) -> dict[str, Any]:
    """One command, in an otherwise empty process as far as memory goes."""
    from tts_cli.main import main

    forget()
    printed = io.StringIO()
    started_s = time.perf_counter()
    with contextlib.redirect_stdout(printed):
        code = main(args)
    seconds = time.perf_counter() - started_s
    return {"code": code, "out": printed.getvalue(), "seconds": round(seconds, 3)}


def forget() -> None:
    """Let go of the last command's model, and count peaks from here."""
    if (torch := sys.modules.get("torch")) is None or not torch.cuda.is_available():
        return
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def main() -> None:
    """Answer until nobody asks any more."""
    answers = sys.stdout
    for line in sys.stdin:
        answers.write(json.dumps(run(json.loads(line)["args"])) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
