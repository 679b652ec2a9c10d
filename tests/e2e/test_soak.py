"""Ten thousand rows in one run: memory, file descriptors and threads stay where they are.

TTS_TESTS_TIMES=10 speaks ten times as many.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from properties import TIMES
from workbench import Workbench

from tts_cli.cli import messages as msg

pytestmark = [pytest.mark.long, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]

NUM_ROWS = 10_000 * TIMES
TEXTS = ("Hello there.", "Good morning to all of you.", "Hm.", "The rain in the street.")
WARM = 0.2  # share of the rows until caches and pools have their size
MAX_GROWTH_BYTES = 24 * 2**20
PATIENCE_S = 1800.0 * TIMES


@dataclass(frozen=True)
class Sample:
    """A process at one moment."""

    rows: int  # recorded so far
    memory_bytes: int  # resident
    files: int
    threads: int


def sample(pid: int, journal: Path) -> Sample | None:
    """How the process is; None once it has ended."""
    try:
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        )
        files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        memory_bytes = int(status["VmRSS"].split()[0]) * 1024
    except (OSError, KeyError):  # a process that has ended has no memory
        return None
    rows = journal.read_bytes().count(b"\n") if journal.exists() else 0
    return Sample(rows, memory_bytes, files, int(status["Threads"]))


def test_ten_thousand_rows(bench: Workbench) -> None:
    rows = [{"id": f"part{n % 100}/{n}", "text": TEXTS[n % 4]} for n in range(NUM_ROWS)]
    args = bench.command(bench.write(rows), "--max-seconds", 0.1, "--accept-truncated")
    process = bench.start(args)
    samples, deadline_s = [], time.monotonic() + PATIENCE_S
    while process.poll() is None:
        assert time.monotonic() < deadline_s, samples[-1:]
        found = sample(process.pid, bench.out().path / "timings.jsonl")
        samples += [found] if found is not None else []
        time.sleep(0.5)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert out.startswith(msg.synthesized(NUM_ROWS, NUM_ROWS))
    assert set(bench.out().status().values()) == {"ok"}
    assert len(bench.out().status()) == NUM_ROWS
    warm = [found for found in samples if WARM * NUM_ROWS < found.rows < NUM_ROWS]
    assert len(warm) >= 20, "too quick to be looked at"
    half = len(warm) // 2
    print(f"{len(samples)} samples; warm from {warm[0]} to {warm[-1]}")
    growth = max(found.memory_bytes for found in warm) - warm[0].memory_bytes
    assert growth < MAX_GROWTH_BYTES, (warm[0], warm[half], warm[-1])
    for name in ("files", "threads"):
        early = max(getattr(found, name) for found in warm[:half])
        late = max(getattr(found, name) for found in warm[half:])
        assert late <= early + 2, (name, early, late)  # each writer has a file open now and then
