"""CPU seconds of a command's processes and of their busiest threads, over time (Linux)."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from processes import workers_of

EVERY_S = 0.25
TICKS_S = os.sysconf("SC_CLK_TCK")


@dataclass
class Sample:
    """CPU seconds so far of each thread of the processes watched."""

    at_s: float  # seconds since the epoch
    threads: dict[tuple[int, int], float] = field(default_factory=dict)  # by process and thread


class CpuWatch:
    """Watch a driver, given by its child, and its workers until it has ended."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.samples: list[Sample] = []
        self._is_over = threading.Event()
        self._workers: list[int] = []
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._is_over.set()
        self._thread.join()

    def spent(self, from_s: float, to_s: float) -> dict[str, tuple[float, list[float]]]:
        """CPU seconds in a stretch of time of the driver and of each worker, and those of their
        three busiest threads.
        """
        inside = [one for one in self.samples if from_s <= one.at_s <= to_s]
        if len(inside) < 2:
            return {}
        first, last = inside[0].threads, inside[-1].threads
        found: dict[int, list[float]] = {}
        for (pid, thread), seconds in last.items():
            found.setdefault(pid, []).append(seconds - first.get((pid, thread), 0.0))
        names = {pid: f"worker process {pid}" for pid in found} | {self.pid: "driver"}
        return {
            names[pid]: (sum(threads), sorted(threads, reverse=True)[:3])
            for pid, threads in found.items()
        }

    def _look(self) -> None:
        while not self._is_over.wait(EVERY_S):
            if len(self.samples) % 8 == 0:
                self._workers = workers_of(self.pid)
            sample = Sample(time.time())
            for pid in (self.pid, *self._workers):
                for thread in _threads(pid):
                    sample.threads[pid, thread] = _cpu_s(pid, thread)
            self.samples.append(sample)


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def _cpu_s(pid: int, thread: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/task/{thread}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS_S
