"""The queue in front of the engine, and the estimates rows are ordered by."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from engine_harness import attempt_of, request
from fakes import FakeSpeechModel

from tts_cli.core import Finish
from tts_cli.engine.attempt import Attempt, AttemptQueue
from tts_cli.seeds import attempt_seed


class TestJobQueue:
    """Bounded, closed once."""

    @pytest.fixture
    def attempt(self) -> Attempt:
        return attempt_of(0, FakeSpeechModel(1).prompt(request("x")))

    def test_open_and_empty_is_not_dry(self) -> None:
        jobs = AttemptQueue(2)
        assert jobs.take() is None
        assert jobs.take(timeout_s=0.01) is None
        assert not jobs.is_dry

    def test_closed_and_empty_is_dry_for_good(self, attempt: Attempt) -> None:
        jobs, stop = AttemptQueue(3), threading.Event()
        jobs.put(attempt, stop)
        jobs.close(stop)
        assert not jobs.is_dry
        assert jobs.take() is attempt
        assert jobs.take() is None
        assert jobs.is_dry
        assert jobs.take(timeout_s=9) is None  # does not wait

    def test_a_lent_job_may_come_back(self, attempt: Attempt) -> None:
        jobs = AttemptQueue(2)
        jobs.close(threading.Event())
        assert jobs.take() is None
        assert jobs.is_dry
        jobs.lend()
        jobs.lend()
        assert not jobs.is_over
        assert jobs.take_again() is None
        jobs.settle([attempt])
        assert not jobs.is_over
        assert jobs.take_again(timeout_s=9) is attempt
        threading.Timer(0.05, jobs.settle, ([],)).start()
        assert jobs.take_again(timeout_s=9) is None  # waits no longer than that
        assert jobs.is_over


def test_estimates_follow_the_text_up_to_the_cap() -> None:
    model = FakeSpeechModel(1)

    def frames(text: str, cap: int = 1000) -> float:
        return attempt_of(0, model.prompt(request(text, max_frames=cap))).estimated_frames

    assert frames("x" * 100) == pytest.approx(94)
    assert frames("早" * 100) == pytest.approx(282)
    assert frames("x" * 100, cap=20) == 20


def test_the_next_one_changes_nothing_but_the_seed() -> None:
    asked = request("Hello.", seed=7)
    first = attempt_of(0, FakeSpeechModel(1).prompt(asked))
    first.finish, first.frames = Finish.MAX_FRAMES, 9
    second = first.next()
    assert second.prompt.request == replace(asked, seed=attempt_seed(7, 2))
    assert (second.number, second.first, second.frames_dropped) == (2, 1, 9)
    second.finish, second.frames, second.made = None, 3, 3
    third = second.next()
    assert third.prompt.request.seed == attempt_seed(7, 4)
    assert (third.was_nan, third.frames_dropped) == (True, 9)
