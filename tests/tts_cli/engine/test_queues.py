"""The queue behind the engine: one taker where it keeps up, more of them where it does not."""

from __future__ import annotations

import threading
import time

import pytest
from engine_harness import attempt_of, request, row_of
from fakes import FakeSpeechModel

from tts_cli.engine import attempt as module
from tts_cli.engine.attempt import STEP, Attempt, EndedAttempts

WAIT_S = 10.0
BATCH = 8  # attempts that have STEP frames


@pytest.fixture
def jobs() -> list[Attempt]:
    prompt = FakeSpeechModel(1).prompt(request("x"))
    frames = STEP // BATCH
    return [attempt_of(number, prompt, frames=frames) for number in range(4 * BATCH)]


class Takers:
    """Threads that take jobs until the queue is closed; none goes on before `go` is set."""

    def __init__(self, ended: EndedAttempts, count: int) -> None:
        self.go = threading.Event()
        self.taken: list[list[int]] = [[] for _ in range(count)]
        self.threads = [
            threading.Thread(target=self._take, args=(ended, number), daemon=True)
            for number in range(count)
        ]
        for thread in self.threads:
            thread.start()

    def _take(self, ended: EndedAttempts, number: int) -> None:
        while (attempt := ended.get(number)) is not None:
            self.taken[number].append(row_of(attempt))
            assert self.go.wait(WAIT_S)

    def join(self) -> None:
        for thread in self.threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()


def until(is_true: object, what: str) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not is_true():  # type: ignore[operator]
        assert time.monotonic() < deadline_s, what
        time.sleep(0.001)


@pytest.mark.parametrize(("count", "frames"), [(BATCH, STEP // BATCH), (STEP // 25, 25)])
def test_one_taker_gets_a_batch_in_its_order(
    jobs: list[Attempt], monkeypatch: pytest.MonkeyPatch, count: int, frames: int
) -> None:
    """Also of short lines: their number alone calls no others, who would take Python from it."""
    monkeypatch.setattr(module, "PATIENCE_S", 60.0)
    ended = EndedAttempts(8 * STEP, 3)
    takers = Takers(ended, 3)
    takers.go.set()
    for number in range(count):
        ended.put(attempt_of(number, jobs[0].prompt, frames=frames))
    until(lambda: not len(ended), "the first taker is not woken")
    assert takers.taken == [list(range(count)), [], []]
    ended.close()
    takers.join()


def test_others_help_where_one_is_held_up(
    jobs: list[Attempt], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that does not answer: no more than a batch waits behind it."""
    monkeypatch.setattr(module, "PATIENCE_S", 60.0)
    ended = EndedAttempts(8 * STEP, 3)
    takers = Takers(ended, 3)
    ended.put(jobs[0])
    until(lambda: takers.taken[0] == [0], "the first taker is not woken")
    for attempt in jobs[1 : BATCH + 1]:
        ended.put(attempt)
    time.sleep(0.05)
    assert takers.taken == [[0], [], []]
    ended.put(jobs[BATCH + 1])
    until(lambda: takers.taken[1] == [1], "the second taker is not woken")
    for attempt in jobs[BATCH + 2 : 3 * BATCH]:
        ended.put(attempt)
    until(lambda: takers.taken[2] == [2], "the third taker is not woken")
    takers.go.set()
    ended.close()
    takers.join()
    assert sorted(row for rows in takers.taken for row in rows) == list(range(3 * BATCH))


def test_a_job_is_not_left_behind_a_taker_that_is_held_up(
    jobs: list[Attempt], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last rows of a run, fewer than call for another taker."""
    monkeypatch.setattr(module, "PATIENCE_S", 0.1)
    ended = EndedAttempts(8 * STEP, 3)
    takers = Takers(ended, 3)
    for attempt in jobs[:3]:
        ended.put(attempt)
    until(lambda: takers.taken[0] == [0], "the first taker is not woken")
    assert takers.taken[1:] == [[], []]
    until(lambda: sorted(takers.taken) == [[0], [1], [2]], "nobody came to help")
    takers.go.set()
    ended.close()
    takers.join()


def test_a_full_queue_holds_the_engine_up(jobs: list[Attempt]) -> None:
    ended = EndedAttempts(2 * STEP // BATCH, 1)
    for attempt in jobs[:2]:
        ended.put(attempt)
    thread = threading.Thread(target=ended.put, args=(jobs[2],), daemon=True)
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    assert len(ended) == 2
    assert ended.get(0) is jobs[0]
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert [ended.get(0), ended.get(0)] == jobs[1:3]


def test_what_is_left_at_the_end_is_for_all(jobs: list[Attempt]) -> None:
    ended = EndedAttempts(STEP, 2)
    ended.put(jobs[0])
    ended.put(jobs[1])
    ended.close()
    assert ended.get(1) is jobs[0]
    assert ended.get(0) is jobs[1]
    assert ended.get(0) is None
    assert ended.get(1) is None
