"""The queue in front of the engine, and the estimates rows are ordered by."""

from __future__ import annotations

import threading

import pytest
from engine_harness import request
from fakes import FakeSpeechModel

from tts_cli.engine.attempt import Job, JobQueue


class TestJobQueue:
    """Bounded, closed once."""

    @pytest.fixture
    def job(self) -> Job:
        return Job(0, FakeSpeechModel(1).prompt(request("x")))

    def test_open_and_empty_is_not_dry(self) -> None:
        jobs = JobQueue(2)
        assert jobs.take() is None
        assert jobs.take(timeout_s=0.01) is None
        assert not jobs.is_dry

    def test_closed_and_empty_is_dry_for_good(self, job: Job) -> None:
        jobs, stop = JobQueue(3), threading.Event()
        jobs.put(job, stop)
        jobs.close(stop)
        assert not jobs.is_dry
        assert jobs.take() is job
        assert jobs.take() is None
        assert jobs.is_dry
        assert jobs.take(timeout_s=9) is None  # does not wait

    def test_a_lent_job_may_come_back(self, job: Job) -> None:
        jobs = JobQueue(2)
        jobs.close(threading.Event())
        assert jobs.take() is None
        assert jobs.is_dry
        jobs.lend()
        jobs.lend()
        assert not jobs.is_over
        assert jobs.take_again() is None
        jobs.settle([job])
        assert not jobs.is_over
        assert jobs.take_again(timeout_s=9) is job
        threading.Timer(0.05, jobs.settle, ([],)).start()
        assert jobs.take_again(timeout_s=9) is None  # waits no longer than that
        assert jobs.is_over


def test_estimates_follow_the_text_up_to_the_cap() -> None:
    model = FakeSpeechModel(1)

    def frames(text: str, cap: int = 1000) -> float:
        return Job(0, model.prompt(request(text, max_frames=cap))).estimated_frames

    assert frames("x" * 100) == pytest.approx(94)
    assert frames("早" * 100) == pytest.approx(282)
    assert frames("x" * 100, cap=20) == 20
