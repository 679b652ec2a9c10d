"""Rows that wait for a worker: longest first within a look-ahead window, as in the engine's own
scheduler, so that the last rows of a run are short ones and the workers end together. Plain Python,
no Ray.

A row whose worker died waits behind all fresh ones, because it may have been what killed it, and
each such death divides by eight the company that it may be spoken in: innocent rows lose little,
and the guilty one is soon alone with the blame.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)

COMPANY_SHIFT = 3
PATIENCE = 4  # windows of rows that may go before one that waits


@dataclass(eq=False)
class Waiting(Generic[Item]):
    """A row on the driver's side, until it is recorded."""

    item: Item
    frames: float  # it will probably take
    slots: int = 1  # it fills at once: its parts
    deaths: int = 0  # of workers that had it
    lone_deaths: int = 0  # of those, that had nothing else
    is_gone: bool = False  # given to a worker
    arrived: int = 0  # rows that were given before it came

    def company(self, room: int) -> int:
        """Most slots in use of a worker that speaks it, itself included."""
        return max(1, room >> (COMPANY_SHIFT * self.deaths))

    def given_back(self, *, was_alone: bool) -> Waiting[Item]:
        """The row once more, after the death of a worker that had it."""
        deaths, lone_deaths = self.deaths + 1, self.lone_deaths + was_alone
        return replace(self, deaths=deaths, lone_deaths=lone_deaths, is_gone=False)


class Window(Generic[Item]):
    """The rows that wait. One thread at a time.

    Args:
        size: rows to look ahead.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._fresh: list[tuple[float, int, Waiting[Item]]] = []  # a heap, the longest on top
        self._by_age: deque[Waiting[Item]] = deque()
        self._suspects: list[tuple[int, int, Waiting[Item]]] = []  # a heap, the least suspect first
        self._counter = itertools.count()
        self._given = 0

    def __len__(self) -> int:
        return len(self._suspects) + sum(1 for row in self._by_age if not row.is_gone)

    def __bool__(self) -> bool:
        return self.next() is not None

    def add(self, row: Waiting[Item]) -> None:
        """Take a row that was never given, as `given_back` makes one of a row that was."""
        assert not row.is_gone, row.item
        number = next(self._counter)
        if row.deaths:
            heapq.heappush(self._suspects, (row.deaths + row.lone_deaths, number, row))
            return
        row.arrived = self._given
        heapq.heappush(self._fresh, (-row.frames, number, row))
        self._by_age.append(row)

    def next(self) -> Waiting[Item] | None:
        """The row to be given next; None: there is none."""
        while self._by_age and self._by_age[0].is_gone:
            self._by_age.popleft()
        while self._fresh and self._fresh[0][2].is_gone:
            heapq.heappop(self._fresh)
        if self._by_age:
            oldest = self._by_age[0]
            has_waited = self._given - oldest.arrived > PATIENCE * self.size
            return oldest if has_waited else self._fresh[0][2]
        return self._suspects[0][2] if self._suspects else None

    def give(self) -> Waiting[Item]:
        """Take out the next row."""
        row = self.next()
        assert row is not None, "nothing waits"
        row.is_gone = True
        if row.deaths:
            heapq.heappop(self._suspects)
        self._given += 1
        return row
