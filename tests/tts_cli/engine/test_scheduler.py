"""The scheduler's promises on seeded random workloads.

None starves, no slot is given twice, every row ends.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from tts_cli.engine.loop import WINDOW
from tts_cli.engine.scheduler import GROUP_SHARE, PATIENCE_TICKS, BatchSize, Scheduler


@dataclass
class Run:
    """Drives a scheduler like the engine does, and checks its invariants at every turn."""

    scheduler: Scheduler[int]
    lengths: dict[int, int]  # row -> frames until it ends
    pending: list[int]  # rows not offered yet
    place: dict[int, int] = field(default_factory=dict)  # row -> slot
    left: dict[int, int] = field(default_factory=dict)  # row -> frames to go
    ended: list[int] = field(default_factory=list)
    admitted: list[int] = field(default_factory=list)
    buckets: list[int] = field(default_factory=list)
    turns: int = 0

    def turn(self, num_offered: int) -> None:
        """Offer some rows, admit, compact, step once, take out what ended."""
        scheduler = self.scheduler
        for _ in range(num_offered):
            if self.pending and scheduler.num_waiting < scheduler.window:
                row = self.pending.pop(0)
                scheduler.offer(row, self.lengths[row], 1 + row * 7 % 40)
        is_dry = not self.pending
        for row, slot in scheduler.admit():
            assert 0 <= slot < scheduler.batch.rows
            assert slot not in self.place.values(), f"slot {slot} is taken"
            assert row not in self.place
            self.place[row] = slot
            self.left.setdefault(row, self.lengths[row])
            self.admitted.append(row)
        self._compact(is_dry)
        assert scheduler.live == {slot: row for row, slot in self.place.items()}
        assert scheduler.num_live == len(self.place)
        if self.place:
            bucket = scheduler.bucket
            assert max(self.place.values()) < bucket <= scheduler.batch.rows
            assert bucket & (bucket - 1) == 0
            self.buckets.append(bucket)
        else:
            assert scheduler.bucket == 0
        for row in list(self.place):
            self.left[row] -= 1
            if self.left[row] == 0:
                assert scheduler.finish(self.place.pop(row)) == row
                self.ended.append(row)
        self.turns += 1

    def _compact(self, is_dry: bool) -> None:
        before = dict(self.place)
        moves = self.scheduler.compact(is_dry)
        if not moves:
            return
        assert is_dry, "compacted while rows were to come"
        assert self.scheduler.num_waiting == 0
        taken = set(before.values())
        for source, target in moves:
            assert target < source
            assert target not in taken, f"moved onto a live row in slot {target}"
            row = next(row for row, slot in self.place.items() if slot == source)
            self.place[row] = target
        assert len({target for _, target in moves}) == len(moves)
        count = len(self.place)
        assert self.scheduler.bucket == 1 << (count - 1).bit_length()

    def evict(self) -> None:
        """Lack of memory: everybody starts again."""
        self.scheduler.batch.halve()
        rows = self.scheduler.evict()
        assert sorted(rows) == sorted(self.place)
        self.place.clear()
        self.left.clear()
        for row in rows:
            self.scheduler.offer(row, self.lengths[row], is_urgent=True)


def random_run(seed: int, num_rows: int = 120) -> tuple[Run, random.Random]:
    rng = random.Random(seed)
    max_batch = 1 << rng.randrange(7)
    window = rng.choice([1, 2, 7, 32, 200])
    spread = rng.choice([1, 5, 60])
    lengths = {row: rng.randint(1, spread) for row in range(num_rows)}
    pass_tokens = rng.choice([None, 1, 30, 100, 1000])
    scheduler: Scheduler[int] = Scheduler(BatchSize(max_batch), window, pass_tokens)
    return Run(scheduler, lengths, list(range(num_rows))), rng


@pytest.mark.parametrize("seed", range(8))
def test_every_row_ends_once_whatever_the_workload(seed: int) -> None:
    run, rng = random_run(seed)
    is_slow = rng.random() < 0.5  # rows trickle in, or are all there
    while not run.scheduler.is_done or run.pending:
        run.turn(rng.randint(0, 3) if is_slow else 1000)
        assert run.turns < 20_000, "stuck"
    assert sorted(run.ended) == sorted(run.lengths)
    assert sorted(run.admitted) == sorted(run.lengths)


@pytest.mark.parametrize("seed", range(4))
def test_shrinking_loses_no_row(seed: int) -> None:
    run, rng = random_run(seed, num_rows=60)
    while not run.scheduler.is_done or run.pending:
        run.turn(1000)
        if run.scheduler.batch.rows > 1 and rng.random() < 0.05:
            before = run.scheduler.batch.rows
            run.evict()
            assert run.scheduler.batch.rows == before // 2
        assert run.turns < 50_000, "stuck"
    assert sorted(run.ended) == sorted(run.lengths)


@pytest.mark.parametrize("max_batch", [1, 4, 16])
@pytest.mark.parametrize("window", [1, 8, 50])
def test_a_short_row_is_not_starved_by_an_endless_stream_of_longer_ones(
    max_batch: int, window: int
) -> None:
    scheduler: Scheduler[int] = Scheduler(BatchSize(max_batch), window)
    scheduler.offer(-1, 1.0)
    next_row, waited = 0, 0
    while -1 not in scheduler.live.values():
        while scheduler.num_waiting < scheduler.window:
            scheduler.offer(next_row, 1000.0 + next_row)
            next_row += 1
        if scheduler.admit():
            waited += 1
        if -1 in scheduler.live.values():
            break
        if scheduler.num_live == scheduler.batch.rows:
            scheduler.finish(min(scheduler.live))
        assert waited <= 2 * window + 2, "passed over for ever"
    assert waited > 1 or window == 1 or max_batch > window


@pytest.mark.parametrize("seed", range(3))
def test_every_row_of_an_endless_stream_is_admitted_within_a_bound(seed: int) -> None:
    rng = random.Random(seed)
    max_batch, window = 1 << rng.randrange(5), rng.choice([3, 12, 40])
    scheduler: Scheduler[int] = Scheduler(BatchSize(max_batch), window)
    offered_at: dict[int, int] = {}
    rounds = 0
    for turn in range(3000):
        while scheduler.num_waiting < scheduler.window:
            row = len(offered_at)
            offered_at[row] = rounds
            scheduler.offer(row, rng.choice([1.0, 500.0, 500.0 + turn]))
        admitted = scheduler.admit()
        rounds += bool(admitted)
        for row, _ in admitted:
            assert rounds - offered_at[row] <= 2 * window + 2
        for slot in list(scheduler.live):
            if rng.random() < 0.3:
                scheduler.finish(slot)


def test_the_longest_estimate_of_the_window_goes_first() -> None:
    scheduler: Scheduler[str] = Scheduler(BatchSize(2), 10)
    for row, estimate in (("b", 20.0), ("d", 5.0), ("a", 30.0), ("c", 10.0)):
        scheduler.offer(row, estimate)
    assert scheduler.admit() == [("a", 0), ("b", 1)]
    scheduler.finish(0)
    assert scheduler.admit() == [("c", 0)]


@pytest.mark.parametrize(("rows", "slots"), [(1024, 256), (512, 64), (2048, 512)])
def test_a_run_takes_few_more_steps_than_its_rows_fill(rows: int, slots: int) -> None:
    """The rows of the benchmark. A turn is two frames, and a slot is free a turn after its row."""
    lengths = {row: (62 + row * 7919 % 126 + 1) // 2 + 1 for row in range(rows)}
    scheduler: Scheduler[int] = Scheduler(BatchSize(slots), WINDOW, pass_tokens=1024)
    run = Run(scheduler, lengths, list(range(rows)))
    while not scheduler.is_done or run.pending:
        run.turn(rows)
    assert run.turns < 1.06 * sum(lengths.values()) / slots


def test_equal_estimates_keep_the_order_of_arrival() -> None:
    scheduler: Scheduler[int] = Scheduler(BatchSize(4), 10)
    for row in range(4):
        scheduler.offer(row, 7.0)
    assert [row for row, _ in scheduler.admit()] == [0, 1, 2, 3]


def test_an_urgent_row_goes_before_all_others() -> None:
    scheduler: Scheduler[str] = Scheduler(BatchSize(1), 4)
    scheduler.offer("long", 1000.0)
    scheduler.offer("retry", 1.0, is_urgent=True)
    assert scheduler.admit() == [("retry", 0)]


class TestGroups:
    """A prefill stops everybody, so slots are refilled in groups, but not for ever."""

    @pytest.fixture
    def full(self) -> Scheduler[int]:
        """64 rows running, 40 waiting."""
        scheduler: Scheduler[int] = Scheduler(BatchSize(64), 200)
        for row in range(104):
            scheduler.offer(row, 1.0)
        assert len(scheduler.admit()) == 64
        return scheduler

    def test_one_free_slot_waits_for_more(self, full: Scheduler[int]) -> None:
        group = 64 // GROUP_SHARE
        slots = [5, 60, 9, 1, 30, 31, 2, 44, 17][:group]
        assert group == 6
        for slot in slots[:-1]:
            full.finish(slot)
        assert full.admit() == []
        full.finish(slots[-1])
        assert [slot for _, slot in full.admit()] == sorted(slots)

    def test_patience_ends(self, full: Scheduler[int]) -> None:
        full.finish(5)
        ticks = [len(full.admit()) for _ in range(PATIENCE_TICKS)]
        assert ticks == [0] * (PATIENCE_TICKS - 1) + [1]
        full.finish(6)
        assert full.admit() == []  # and starts again

    def test_patience_starts_with_the_free_slot(self, full: Scheduler[int]) -> None:
        for _ in range(20):
            assert full.admit() == []
        full.finish(5)
        assert full.admit() == []

    def test_the_last_waiting_rows_are_a_group_of_their_own(self) -> None:
        scheduler: Scheduler[int] = Scheduler(BatchSize(64), 200)
        for row in range(66):
            scheduler.offer(row, 1.0)
        scheduler.admit()
        scheduler.finish(3)
        assert scheduler.admit() == []
        scheduler.finish(4)
        assert len(scheduler.admit()) == 2


class TestPasses:
    """A pass of prefill costs as much when it is not full, so groups are what fills passes."""

    TOKENS = 100  # of each prompt; ten of them fill a pass

    @pytest.fixture
    def full(self) -> Scheduler[int]:
        """256 rows running, 60 waiting."""
        scheduler: Scheduler[int] = Scheduler(BatchSize(256), 400, 10 * self.TOKENS)
        for row in range(316):
            scheduler.offer(row, 1.0, self.TOKENS)
        while scheduler.num_live < 256:
            assert scheduler.admit()
        return scheduler

    @staticmethod
    def finish(scheduler: Scheduler[int], count: int) -> None:
        for slot in sorted(scheduler.live)[:count]:
            scheduler.finish(slot)

    def test_as_many_free_slots_as_nearly_fill_a_pass_are_enough(
        self, full: Scheduler[int]
    ) -> None:
        self.finish(full, 8)
        assert full.admit() == []
        self.finish(full, 1)
        assert len(full.admit()) == 9

    @pytest.mark.parametrize(
        ("free", "admitted"), [(10, 10), (13, 10), (15, 10), (16, 16), (25, 20)]
    )
    def test_rows_that_would_not_fill_half_a_pass_wait(
        self, full: Scheduler[int], free: int, admitted: int
    ) -> None:
        self.finish(full, free)
        assert len(full.admit()) == admitted
        assert full.num_waiting == 60 - admitted
        assert full.admit() == []

    def test_the_last_ones_wait_for_nobody(self, full: Scheduler[int]) -> None:
        self.finish(full, 50)
        assert len(full.admit()) == 50
        self.finish(full, 10)
        assert len(full.admit()) == 10
        assert full.num_waiting == 0

    def test_short_prompts_are_a_tenth_of_the_slots(self) -> None:
        scheduler: Scheduler[int] = Scheduler(BatchSize(64), 400, 1000)
        for row in range(104):
            scheduler.offer(row, 1.0, 10)
        assert len(scheduler.admit()) == 64
        self.finish(scheduler, 64 // GROUP_SHARE - 1)
        assert scheduler.admit() == []
        self.finish(scheduler, 1)
        assert len(scheduler.admit()) == 64 // GROUP_SHARE

    def test_a_prompt_longer_than_a_pass_goes_as_it_is(self) -> None:
        scheduler: Scheduler[int] = Scheduler(BatchSize(4), 9, 100)
        for row in range(6):
            scheduler.offer(row, 1.0, 250)
        assert len(scheduler.admit()) == 4
        scheduler.finish(2)
        assert len(scheduler.admit()) == 1


class TestCompaction:
    """Live rows move together only when nothing else is coming."""

    @staticmethod
    def running(slots: list[int], max_batch: int = 16) -> Scheduler[int]:
        scheduler: Scheduler[int] = Scheduler(BatchSize(max_batch), 99)
        for row in range(max_batch):
            scheduler.offer(row, 1.0)
        scheduler.admit()
        for slot in range(max_batch):
            if slot not in slots:
                scheduler.finish(slot)
        return scheduler

    def test_live_rows_move_into_the_smaller_bucket(self) -> None:
        scheduler = self.running([1, 6, 12])
        assert scheduler.bucket == 16
        assert scheduler.compact(is_dry=True) == [(6, 0), (12, 2)]
        assert scheduler.live == {0: 6, 1: 1, 2: 12}
        assert scheduler.bucket == 4
        assert scheduler.compact(is_dry=True) == []

    def test_the_batch_shrinks_with_its_rows_at_the_end_of_a_run(self) -> None:
        lengths = {row: 5 * (row + 1) for row in range(16)}
        run = Run(Scheduler(BatchSize(16), 99), lengths, list(lengths))
        while not run.scheduler.is_done or run.pending:
            run.turn(99)
        assert run.buckets == sorted(run.buckets, reverse=True)
        assert set(run.buckets) == {16, 8, 4, 2, 1}
        assert run.buckets.count(1) == 5


class TestFixedBatch:
    """A batch that is to be of one size to the end, so that no row is rounded otherwise."""

    def test_every_step_is_of_all_slots(self) -> None:
        scheduler: Scheduler[int] = Scheduler(BatchSize(8, is_fixed=True), 99)
        assert scheduler.bucket == 0
        for row in range(3):
            scheduler.offer(row, 10.0)
        scheduler.admit()
        assert scheduler.bucket == 8
        scheduler.finish(0)
        scheduler.finish(1)
        assert scheduler.compact(is_dry=True) == []
        assert scheduler.bucket == 8
        assert scheduler.live == {2: 2}

    def test_it_does_not_fall(self) -> None:
        with pytest.raises(ValueError, match="8 slots cannot be halved"):
            BatchSize(8, is_fixed=True).halve()


@pytest.mark.parametrize("max_batch", [0, -1, 3, 48])
def test_slots_come_in_powers_of_two(max_batch: int) -> None:
    with pytest.raises(ValueError, match=f"power of two, not {max_batch}"):
        Scheduler[int](BatchSize(max_batch), 4)
