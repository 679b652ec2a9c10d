"""Measure how much of the time the device had work: the union of spans over the time they lie in.

The engine wraps every prefill, launch of frames and vocoder batch into a span of device events
anyway. What they cover together, held against the time from the first launch on, says whether the
device waited for the host. The vocoder's lie on a stream of their own and overlap the others, so
what both cover counts once. A gap inside a span, between two launches of one pass, counts as busy;
work outside of all spans (clearing slots, copies) as idle. The steady state ends when nothing waits
for a slot any more: after that the batch only empties.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from typing import Any

import torch

from models.device.spans import DeviceSpan

REORDERED = 1024  # spans that are kept to be put in order: those of two streams come mixed


class Cover:
    """Length of what intervals cover together, if none comes REORDERED later than in order."""

    def __init__(self) -> None:
        self._covered = 0.0
        self._reached = -math.inf
        self._waiting: list[tuple[float, float]] = []  # a heap: the first start on top

    def add(self, start: float, end: float) -> None:
        """One more interval."""
        heapq.heappush(self._waiting, (start, end))
        if len(self._waiting) > REORDERED:
            self._sweep()

    def length(self) -> float:
        """Of all intervals so far."""
        while self._waiting:
            self._sweep()
        return self._covered

    def _sweep(self) -> None:
        start, end = heapq.heappop(self._waiting)
        self._covered += max(0.0, end - max(start, self._reached))
        self._reached = max(self._reached, end)


class BusyWindow:
    """A stretch of a run and what the device did in it, in ms by kind of work."""

    def __init__(self, device: torch.device) -> None:
        self.span = DeviceSpan(device)
        self.is_open = True
        self.sums: dict[str, float] = {}
        self.cover = Cover()

    def close(self) -> None:
        """End the stretch; of what goes on later only the part before belongs to it."""
        if self.is_open:
            self.span.end()
            self.is_open = False

    def is_settled(self) -> bool:
        """Whether a span can be added without waiting for the device."""
        return self.is_open or self.span.is_over()

    def take(self, kind: str, span: DeviceSpan) -> None:
        """Add the part of a span that lies in the stretch. While it is open, a span that the device
        is through with ended before whatever is going to close it.
        """
        start_ms, end_ms = span.within(self.span)
        if not self.is_open:
            end_ms = min(end_ms, self.span.milliseconds())
        start_ms = max(0.0, start_ms)
        if end_ms > start_ms:
            self.sums[kind] = self.sums.get(kind, 0.0) + end_ms - start_ms
            self.cover.add(start_ms, end_ms)

    def summary(self) -> dict[str, Any]:
        """Seconds of the stretch and of each kind of work, and the share that all of them cover."""
        total_ms = self.span.milliseconds()
        share = min(1.0, self.cover.length() / total_ms) if total_ms else None
        found: dict[str, Any] = {"seconds": round(total_ms / 1000, 3)}
        found |= {f"{kind}_s": round(ms / 1000, 3) for kind, ms in sorted(self.sums.items())}
        return found | {"busy_share": None if share is None else round(share, 4)}


class BusyMeter:
    """Adds up spans of one device, as they end; keeps none longer than it must. Belongs to the
    engine's thread.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.whole: BusyWindow | None = None
        self.steady: BusyWindow | None = None
        self.before_s = -time.perf_counter()  # until the first launch, once that was made
        self._pending: deque[tuple[str, DeviceSpan, list[BusyWindow]]] = deque()

    def start(self) -> None:
        """The first launch: everything from here on counts."""
        if self.whole is None:
            self.before_s += time.perf_counter()
            self.whole, self.steady = BusyWindow(self.device), BusyWindow(self.device)

    def end_steady(self) -> None:
        """Nothing waits for a slot any more."""
        if self.steady is not None:
            self.steady.close()

    def end(self) -> None:
        """The run is over; whatever has run beside the current stream has been waited for."""
        for window in (self.steady, self.whole):
            if window is not None:
                window.close()

    def add(self, kind: str, span: DeviceSpan) -> None:
        """A span that has been ended; what it took is looked at when the device is through."""
        windows = [w for w in (self.whole, self.steady) if w is not None and w.is_open]
        if windows:
            self._pending.append((kind, span, windows))
        while self._pending and self._is_readable(*self._pending[0][1:]):
            self._take()

    def summary(self) -> dict[str, Any] | None:
        """Of the whole run and of its steady state, and the seconds before both; None where nothing
        ran. Waits for the device.
        """
        while self._pending:
            self._take()
        if self.whole is None or self.steady is None:
            return None
        windows = {"run": self.whole.summary(), "steady": self.steady.summary()}
        return {"before_s": round(self.before_s, 3), **windows}

    @staticmethod
    def _is_readable(span: DeviceSpan, windows: list[BusyWindow]) -> bool:
        return span.is_over() and all(window.is_settled() for window in windows)

    def _take(self) -> None:
        kind, span, windows = self._pending.popleft()
        for window in windows:
            window.take(kind, span)
