"""Decide which row gets which slot, when to admit, and when to compact: Python without tensors.

Rows wait in a look-ahead window and are admitted longest estimate first, so that the batch stays
full until the end of a run. When no row waits, the live rows are moved together into a smaller
bucket, unless the batch is fixed: then every step has all slots, so that a row is always rounded
equally.

A prefill stops all rows, so freed slots are refilled in groups. On a GPU a pass costs the same
whatever its prompts, so a group fills one pass (about 13 prompts of 80 tokens), but is at most a
tenth of the slots, because its slots are idle while the group forms.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from models.device.buckets import is_power_of_two, next_power_of_two

Item = TypeVar("Item", bound=Hashable)

GROUP_SHARE = 10  # refill waits until a tenth of the slots are free ...
FULL_SHARE = 0.9  # ... or would fill so much of a pass of prefill ...
PATIENCE_TICKS = 8  # ... but no longer than this many ticks: the last rows end the run
SMALL_SHARE = 0.6  # after full passes, a pass that is less full waits for more rows


@dataclass
class BatchSize:
    """Rows at a time, shared by every part of a session. It may fall while slots are made, and
    later in the engine's thread.
    """

    rows: int  # a power of two
    is_fixed: bool = False  # never falls; every step has this many rows

    @property
    def can_fall(self) -> bool:
        return self.rows > 1 and not self.is_fixed

    def halve(self) -> None:
        """Step down after a lack of memory. Raises ValueError unless `can_fall`."""
        if not self.can_fall:
            raise ValueError(f"{self.rows} slots cannot be halved")
        self.rows //= 2


@dataclass
class WaitingRow(Generic[Item]):
    item: Item
    estimate: float  # frames it will probably take
    tokens: int  # of its prompt, without shared ones
    round: int  # number of admission rounds before it came


class Scheduler(Generic[Item]):
    """Slots of a running batch. Belongs to the engine's thread.

    Args:
        batch: number of slots; other code halves it when memory is short, once all slots are free.
        window: rows to look ahead, and the number of admission rounds a row can be passed over.
        pass_tokens: tokens of a full prefill pass, which costs the same when it is not full; None:
            the cost of a pass depends on its prompts.
    """

    def __init__(self, batch: BatchSize, window: int, pass_tokens: int | None = None) -> None:
        if not is_power_of_two(batch.rows):
            raise ValueError(f"slots must be a power of two, not {batch.rows}")
        self.batch = batch
        self.window = max(window, 1)
        self.pass_tokens = pass_tokens
        self._waiting: list[WaitingRow[Item]] = []
        self._waiting_tokens = 0
        self._slots: dict[int, Item] = {}
        self._rounds = 0
        self._ticks_with_room = 0

    @property
    def live(self) -> dict[int, Item]:
        """Return a copy of the running rows, by slot."""
        return dict(self._slots)

    @property
    def num_live(self) -> int:
        return len(self._slots)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def is_done(self) -> bool:
        return not self._waiting and not self._slots

    @property
    def bucket(self) -> int:
        """The bucket of the live rows; 0 if no row runs."""
        if not self._slots:
            return 0
        return self.batch.rows if self.batch.is_fixed else next_power_of_two(max(self._slots) + 1)

    def offer(
        self, item: Item, estimate: float, tokens: int = 0, *, is_urgent: bool = False
    ) -> None:
        """Put a row into the window. An urgent row (a retry) is admitted before all others."""
        start = self._rounds - 2 * self.window if is_urgent else self._rounds
        self._waiting.append(WaitingRow(item, estimate, tokens, start))
        self._waiting_tokens += tokens

    def admit(self) -> list[tuple[Item, int]]:
        """Return the rows to prefill now, with their slots. Call it once per turn."""
        num_free = self.batch.rows - len(self._slots)
        if not num_free or not self._waiting:
            self._ticks_with_room = 0
            return []
        self._ticks_with_room += 1
        is_worth_it = num_free >= self._group() or not self._slots
        if not is_worth_it and self._ticks_with_room < PATIENCE_TICKS:
            return []
        self._ticks_with_room = 0
        self._rounds += 1
        self._waiting.sort(key=self._rank)
        count = self._count(num_free)
        chosen, self._waiting = self._waiting[:count], self._waiting[count:]
        self._waiting_tokens -= sum(waiting.tokens for waiting in chosen)
        free = (slot for slot in range(self.batch.rows) if slot not in self._slots)
        admitted = [(waiting.item, slot) for waiting, slot in zip(chosen, free, strict=False)]
        self._slots.update({slot: item for item, slot in admitted})
        return admitted

    def finish(self, slot: int) -> Item:
        return self._slots.pop(slot)

    def compact(self, is_dry: bool) -> list[tuple[int, int]]:
        """Return moves (from, to) that bring the live rows into a smaller bucket, if no row waits.

        Only the bookkeeping is done; the caller moves the tensors.
        """
        if self.batch.is_fixed or not is_dry or self._waiting or not self._slots:
            return []
        target = next_power_of_two(len(self._slots))
        if target >= self.bucket:
            return []
        high = sorted(slot for slot in self._slots if slot >= target)
        free = [slot for slot in range(target) if slot not in self._slots]
        moves = list(zip(high, free, strict=False))
        for source, goal in moves:
            self._slots[goal] = self._slots.pop(source)
        return moves

    def evict(self) -> list[Item]:
        """Free all slots. Return the rows that had them, to be offered again."""
        evicted = list(self._slots.values())
        self._slots.clear()
        return evicted

    def _group(self) -> int:
        """Return the number of free slots that are worth a prefill."""
        group = max(1, self.batch.rows // GROUP_SHARE)
        if self.pass_tokens is not None and self._waiting_tokens:
            share = FULL_SHARE * self.pass_tokens / self._waiting_tokens
            group = min(group, max(1, round(share * len(self._waiting))))
        return min(group, len(self._waiting))

    def _count(self, num_free: int) -> int:
        """Return how many of the waiting rows, in order, to prefill."""
        count = min(num_free, len(self._waiting))
        if self.pass_tokens is None or count == len(self._waiting):
            return count
        whole = tokens = 0  # rows of full passes, and rows in the last one
        for index, waiting in enumerate(self._waiting[:count]):
            if tokens and tokens + waiting.tokens > self.pass_tokens:
                whole, tokens = index, 0
            tokens += waiting.tokens
        return whole if whole and tokens < SMALL_SHARE * self.pass_tokens else count

    def _rank(self, waiting: WaitingRow[Item]) -> tuple[int, float]:
        age = self._rounds - waiting.round
        if age > self.window:
            return 0, -age
        return 1, -waiting.estimate
