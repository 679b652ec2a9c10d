"""The queue of finished attempts: bounded by frames, in order, for several writer threads."""

from __future__ import annotations

import threading

from engine_harness import attempt_of, request
from fakes import FakeSpeechModel

from tts_cli.engine.pieces import Attempt
from tts_cli.engine.speech_run import FinishedQueue

WAIT_S = 10.0
FRAMES = 10  # of each attempt


def attempts(count: int) -> list[Attempt]:
    prompt = FakeSpeechModel(1).prompt(request("x"))
    return [attempt_of(number, prompt, frames=FRAMES) for number in range(count)]


def test_a_full_queue_makes_the_engine_wait() -> None:
    finished, given = FinishedQueue(2 * FRAMES, 2), attempts(3)
    for attempt in given[:2]:
        finished.put(attempt)
    thread = threading.Thread(target=finished.put, args=(given[2],), daemon=True)
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    assert finished.get() == given[:1]
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert [finished.get(), finished.get()] == [[given[1]], [given[2]]]


def test_an_attempt_is_not_delayed_by_a_writer_that_waits_for_the_disk() -> None:
    """Every idle writer is woken, however few frames wait."""
    finished, given = FinishedQueue(1000, 3), attempts(3)
    all_have_one = threading.Barrier(3, timeout=WAIT_S)
    taken: list[list[Attempt]] = []

    def write() -> None:
        taken.append(finished.get())
        all_have_one.wait()
        taken.append(finished.get())

    threads = [threading.Thread(target=write, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for attempt in given:
        finished.put(attempt)
    finished.close()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()
    assert sorted(len(group) for group in taken) == [0, 0, 0, 1, 1, 1]
    assert {one for group in taken for one in group} == set(given)


def test_writers_share_what_waits() -> None:
    """Each takes its share, at most 32, and one attempt if few wait."""
    finished, given = FinishedQueue(10_000, 4), attempts(150)
    for attempt in given:
        finished.put(attempt)
    groups = [finished.get() for _ in range(10)]
    assert [len(group) for group in groups] == [32, 30, 22, 17, 13, 9, 7, 5, 4, 3]
    while len(groups[-1]) > 0 and sum(map(len, groups)) < 150:
        groups.append(finished.get())
    assert [attempt for group in groups for attempt in group] == given
    assert len(groups[-1]) == 1


def test_a_group_of_long_attempts_is_small() -> None:
    """Thirty-two rows of five minutes would be 460 MB in each thread."""
    finished, given = FinishedQueue(100_000, 1), attempts(8)
    for attempt in given:
        attempt.frames = 3000
        finished.put(attempt)
    assert [len(finished.get()) for _ in range(4)] == [2, 2, 2, 2]
