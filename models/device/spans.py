"""Measure durations on the device's clock: CUDA events on a GPU, otherwise the wall clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


class DeviceSpan:
    """A span of work: starts when constructed, ends at `end`, is read later by `milliseconds`.

    Args:
        sleeps: waiting for its end sleeps instead of polling the device, which would occupy a core.
    """

    def __init__(self, device: torch.device, sleeps: bool = False) -> None:
        self._is_cuda = device.type == "cuda"
        self._start_s = time.perf_counter()
        self._end_s = self._start_s
        if self._is_cuda:
            self._start = torch.cuda.Event(enable_timing=True)
            self._end = torch.cuda.Event(enable_timing=True, blocking=sleeps)
            self._start.record()
        self._milliseconds: float | None = None

    def end(self) -> DeviceSpan:
        """Mark the end; does not wait."""
        if self._is_cuda:
            self._end.record()
        else:
            self._end_s = time.perf_counter()
        return self

    def wait(self) -> None:
        if self._is_cuda:
            self._end.synchronize()

    def is_over(self) -> bool:
        """Whether the device has reached the marked end; does not wait."""
        return not self._is_cuda or bool(self._end.query())

    def milliseconds(self) -> float:
        """Duration; waits for the device if necessary. The rows of a batch share a span, so the
        driver is asked once.
        """
        if not self._is_cuda:
            return 1000 * (self._end_s - self._start_s)
        if self._milliseconds is None:
            self._end.synchronize()
            self._milliseconds = float(self._start.elapsed_time(self._end))
        return self._milliseconds

    def within(self, origin: DeviceSpan) -> tuple[float, float]:
        """Return milliseconds from the start of `origin` to the start and to the end of this
        span, which may be on another stream; waits for the device if necessary. The driver
        counts in float32: hours after the origin both are rounded.
        """
        if not self._is_cuda:
            return 1000 * (self._start_s - origin._start_s), 1000 * (self._end_s - origin._start_s)
        origin._start.synchronize()
        self._end.synchronize()
        start, end = (origin._start.elapsed_time(event) for event in (self._start, self._end))
        return float(start), float(end)


@dataclass
class Stage:
    name: str
    run: Callable[[], Any]


def time_stage(
    run: Callable[[], Any], device: torch.device, repeats: int, warmup: int = 3
) -> list[float]:
    """Return the milliseconds of each of `repeats` runs after `warmup` untimed ones."""
    for _ in range(warmup):
        run()
    spans = []
    for _ in range(repeats):
        span = DeviceSpan(device)
        run()
        spans.append(span.end())
    return [span.milliseconds() for span in spans]
