"""Signals at many moments of a run's first seconds, with the sample voice: none may be lost.

    python tests/tools/signal_moments.py [--moments 20] [--seconds 3] [--signals INT,TERM,HUP]

Each run is a process of its own that gets one signal; a table shows how it ended, and how many rows
are recorded, whose files must be there and whole. Before our first
line runs, the system or Python itself ends the process by the signal, which a shell shows as the
same exit code (1 where Python is interrupted among its own imports). Ends with 1 if any run took no
notice, or said anything odd.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from runs import files_of, records_of

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
NUM_ROWS = 200
ODD = ("Traceback", "internal error", "Exception ignored")


def end_of(number: int, moment_s: float, folder: Path) -> tuple[int, float, str]:
    """Exit code as a shell shows it, seconds from the signal to the end, and what was said."""
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": f"Number {n}."}) + "\n" for n in range(NUM_ROWS)))
    command = [sys.executable, "-m", "tts_cli", "synth", str(rows), "--out", str(folder / "out")]
    process = subprocess.Popen(
        [*command, "--device", "cpu"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        # A shell's background jobs ignore SIGINT, and so would their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    time.sleep(moment_s)
    process.send_signal(number)
    sent_s = time.monotonic()
    try:
        _, said = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        _, said = process.communicate()
    code = process.returncode
    return (128 - code if code < 0 else code), time.monotonic() - sent_s, said


def main() -> int:
    """Run the series."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--signals", default="INT,TERM,HUP")
    options = parser.parse_args()
    num_bad = 0
    ends: Counter[tuple[str, int]] = Counter()
    for name in options.signals.split(","):
        number = signal.Signals[f"SIG{name}"]
        for step in range(options.moments):
            moment_s = options.seconds * (step + 0.5) / options.moments
            with tempfile.TemporaryDirectory() as folder:
                code, took_s, said = end_of(number, moment_s, Path(folder))
                out = Path(folder, "out")
                rest = [path.name for path in out.rglob(".*")]
                files, records = files_of(out), records_of(out).values()
                rest += [
                    f"{record['path']} is lost"
                    for record in records
                    if files.get(record["path"]) != record["sha256"]
                ]
            ends[name, code] += 1
            is_raw = not said or "KeyboardInterrupt" in said  # ended before our first line
            is_bad = code not in (128 + number, 1 if is_raw else 128 + number) or bool(rest)
            is_bad |= moment_s > 0.3 and any(word in said for word in ODD)
            num_bad += is_bad
            last = "before our first line" if is_raw else said.strip().splitlines()[-1]
            print(
                f"SIG{name} at {moment_s:.3f} s: exit {code} after {took_s:.2f} s, "
                f"{len(records)} rows, {last}{' ' + ' '.join(rest) if rest else ''}"
                f"{'  <- WRONG' if is_bad else ''}",
                flush=True,
            )
    for (name, code), count in ends.items():
        print(f"SIG{name}: exit {code} {count} times")
    print(f"{num_bad} wrong")
    return int(num_bad > 0)


if __name__ == "__main__":
    sys.exit(main())
