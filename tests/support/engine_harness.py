"""An engine on a model in plain Python, its queue filled and its jobs collected as they end."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from fakes import FakeSpeechModel, fake_codes

from models.base import SpeechRequest
from models.qwen3_tts.model import Qwen3TTS
from tts_cli.engine.attempt import Job, JobQueue
from tts_cli.engine.loop import POLL_FRAMES, Engine
from tts_cli.engine.scheduler import BatchSize

CPU = torch.device("cpu")
MODES = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


def request(text: str, seed: int = 0, max_frames: int = 100) -> SpeechRequest:
    return SpeechRequest(text, seed=seed, max_frames=max_frames)


def texts(count: int) -> list[str]:
    """Texts of many lengths, in no order."""
    return ["x" * (1 + (7 * index) % 23) for index in range(count)]


class Harness:
    """An engine with its queue filled, its ended jobs collected and a retry policy."""

    def __init__(
        self,
        model: FakeSpeechModel | Qwen3TTS,
        max_batch: int,
        requests: list[SpeechRequest],
        *,
        is_async: bool = False,
        retries: int = 0,
        window: int = 64,
        is_fixed: bool = False,
        is_int16: bool = False,
    ) -> None:
        self.retries = retries
        self.retried: list[tuple[int, str]] = []  # row and reason
        self.ended: dict[int, Job] = {}
        self.jobs = JobQueue(len(requests) + 1)
        batch = BatchSize(max_batch, is_fixed)
        device = getattr(model, "device", CPU)
        self.engine = Engine(
            model, device, batch, self.jobs, self.sink, self.retry, is_int16=is_int16
        )
        self.engine.scheduler.window = window
        if is_async:
            # What a GPU gets: several frames a launch, and the status of the launch before.
            self.engine.is_async = True
            self.engine.poll_frames = POLL_FRAMES
            self.engine.vocoder.is_patient = True
            self.engine.vocoder.beside = None
        for row, item in enumerate(requests):
            assert self.jobs.put(Job(row, model.prompt(item)), self.engine.stop)
        self.jobs.close(self.engine.stop)

    def sink(self, job: Job) -> None:
        job.wait()
        assert job.row not in self.ended, "a row ended twice"
        self.ended[job.row] = job

    def retry(self, job: Job) -> Job | None:
        if job.reason == "eos" or job.attempt > self.retries:
            return None
        self.retried.append((job.row, job.reason))
        prompt = replace(
            job.prompt, request=replace(job.prompt.request, seed=job.prompt.request.seed + 1000)
        )
        return Job(job.row, prompt, job.attempt + 1)

    def run(self) -> dict[int, Job]:
        self.engine.run()
        return self.ended


def assert_spoken(jobs: dict[int, Job], requests: list[SpeechRequest]) -> None:
    """Every row is there with its own codes and samples, up to its own end."""
    assert sorted(jobs) == list(range(len(requests)))
    for row, item in enumerate(requests):
        job = jobs[row]
        frames = min(len(item.text), item.max_frames)
        assert job.reason == ("eos" if frames == len(item.text) else "max_frames")
        assert job.frames == frames
        codes = fake_codes(item.seed, frames)
        assert job.codes is not None
        assert torch.equal(job.codes, codes)
        assert job.samples is not None
        assert torch.equal(job.samples, codes.float().flatten())
