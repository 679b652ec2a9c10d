"""How much of the time the device had work: the sum of spans over the time they lie in.

The engine wraps every prefill, launch of frames and vocoder batch into a span of device events
anyway. Their sum, held against the time from the first launch on, says whether the device waited
for the host. A gap inside a span, between two launches of one pass, counts as busy; work outside of
all spans (clearing slots, copies) as idle. The steady state ends when nothing waits for a slot any
more: after that the batch only empties.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import torch

from models.timing import Span


class BusyWindow:
    """A stretch of a run and what the device did in it, in ms by kind of work."""

    def __init__(self, device: torch.device) -> None:
        self.span = Span(device)
        self.is_open = True
        self.sums: dict[str, float] = {}

    def close(self) -> None:
        """End the stretch; what is added later does not belong to it."""
        if self.is_open:
            self.span.end()
            self.is_open = False

    def summary(self) -> dict[str, Any]:
        """Seconds of the stretch, of each kind of work, and the share of all of them."""
        total_ms = self.span.milliseconds()
        share = sum(self.sums.values()) / total_ms if total_ms else None
        found: dict[str, Any] = {"seconds": round(total_ms / 1000, 3)}
        found |= {f"{kind}_s": round(ms / 1000, 3) for kind, ms in sorted(self.sums.items())}
        return found | {"busy_share": None if share is None else round(share, 4)}


class BusyMeter:
    """Adds up spans of one device, as they end; keeps none longer than it must."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.whole: BusyWindow | None = None
        self.steady: BusyWindow | None = None
        self._pending: deque[tuple[str, Span, list[BusyWindow]]] = deque()

    def start(self) -> None:
        """The first launch: everything from here on counts."""
        if self.whole is None:
            self.whole, self.steady = BusyWindow(self.device), BusyWindow(self.device)

    def end_steady(self) -> None:
        """Nothing waits for a slot any more."""
        if self.steady is not None:
            self.steady.close()

    def end(self) -> None:
        """The run is over."""
        for window in (self.steady, self.whole):
            if window is not None:
                window.close()

    def add(self, kind: str, span: Span) -> None:
        """A span that has been ended; what it took is looked at when the device is through."""
        windows = [w for w in (self.whole, self.steady) if w is not None and w.is_open]
        if windows:
            self._pending.append((kind, span, windows))
        while self._pending and self._pending[0][1].is_over():
            self._take()

    def summary(self) -> dict[str, Any] | None:
        """Of the whole run and of its steady state; None where nothing ran.

        Waits for the device.
        """
        while self._pending:
            self._take()
        if self.whole is None or self.steady is None:
            return None
        return {"run": self.whole.summary(), "steady": self.steady.summary()}

    def _take(self) -> None:
        kind, span, windows = self._pending.popleft()
        taken_ms = span.milliseconds()
        for window in windows:
            window.sums[kind] = window.sums.get(kind, 0.0) + taken_ms
