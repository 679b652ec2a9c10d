"""Measure the share of time in which the device had work.

The share is the union of the device spans (prefills, launches of frames, vocoder batches) over the
time from the first launch to the end of the run. Time that two streams cover counts once. A gap
inside a span counts as busy, and work outside of all spans (clearing slots, copies) as idle.
"""

from __future__ import annotations

import heapq
import math
from collections import deque

import torch

from models.device.spans import DeviceSpan

REORDERED = 1024  # intervals that are stored to sort those of two streams


class Cover:
    """Length of a union of intervals, if none comes more than REORDERED later than in order."""

    def __init__(self) -> None:
        self._covered = 0.0
        self._reached = -math.inf
        self._waiting: list[tuple[float, float]] = []  # a heap: the first start on top

    def add(self, start: float, end: float) -> None:
        heapq.heappush(self._waiting, (start, end))
        if len(self._waiting) > REORDERED:
            self._sweep()

    def length(self) -> float:
        while self._waiting:
            self._sweep()
        return self._covered

    def _sweep(self) -> None:
        start, end = heapq.heappop(self._waiting)
        self._covered += max(0.0, end - max(start, self._reached))
        self._reached = max(self._reached, end)


class BusyMeter:
    """Spans of one run on one device, read as they end. Only the engine's thread uses it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._run: DeviceSpan | None = None  # from the first launch on
        self._cover = Cover()
        self._pending: deque[DeviceSpan] = deque()

    def start(self) -> None:
        """Begin to count. Only the first call has an effect."""
        if self._run is None:
            self._run = DeviceSpan(self.device)

    def add(self, span: DeviceSpan) -> None:
        """Add a span after its `end`; it is read when the device has reached its end."""
        if self._run is None:
            return
        self._pending.append(span)
        while self._pending and self._pending[0].is_over():
            self._cover.add(*self._pending.popleft().within(self._run))

    def end(self) -> None:
        """End the run. The current stream must have waited for all others."""
        if self._run is not None:
            self._run.end()

    def share(self) -> float | None:
        """Return the busy share, 0 to 1, or None if nothing ran. Waits for the device."""
        if self._run is None:
            return None
        while self._pending:
            self._cover.add(*self._pending.popleft().within(self._run))
        total_ms = self._run.milliseconds()
        return round(min(1.0, self._cover.length() / total_ms), 4) if total_ms else None
