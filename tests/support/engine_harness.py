"""An engine on a model in plain Python, its queue filled and its jobs collected as they end."""

from __future__ import annotations

import queue
from dataclasses import replace
from typing import Any

import pytest
import torch
from fakes import FakeSpeechModel, fake_codes
from tasks import task_of

from models.base import Prompt, SpeechRequest
from models.qwen3_tts.model import Qwen3TTS
from tts_cli.engine.loop import POLL_FRAMES, Engine
from tts_cli.engine.pieces import Attempt
from tts_cli.engine.scheduler import BatchSize

CPU = torch.device("cpu")
MODES = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


def request(text: str, seed: int = 0, max_frames: int = 100) -> SpeechRequest:
    return SpeechRequest(text, seed=seed, max_frames=max_frames)


def texts(count: int) -> list[str]:
    """Texts of many lengths, in no order."""
    return ["x" * (1 + (7 * index) % 23) for index in range(count)]


def attempt_of(row: int, prompt: Prompt, number: int = 1, **more: Any) -> Attempt:
    """An attempt at a task of one piece, whose id is a number."""
    return Attempt(task_of(str(row), prompt.request), 0, prompt, number, **more)


def row_of(attempt: Attempt) -> int:
    return int(attempt.task.id)


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
        self.ended: dict[int, Attempt] = {}
        self.jobs: queue.Queue[Attempt | None] = queue.Queue()
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
            self.jobs.put(attempt_of(row, model.prompt(item)))
        self.jobs.put(None)

    def reopen(self) -> None:
        """Replace the queue, which has ended, by an open and empty one."""
        self.jobs = self.engine.input = queue.Queue()

    def sink(self, attempt: Attempt) -> None:
        attempt.wait()
        self.engine.retries.put([])
        assert row_of(attempt) not in self.ended, "a row ended twice"
        self.ended[row_of(attempt)] = attempt

    def retry(self, attempt: Attempt) -> Attempt | None:
        if attempt.finish == "eos" or attempt.number > self.retries:
            return None
        self.retried.append((row_of(attempt), attempt.finish or "nan"))
        prompt = replace(
            attempt.prompt,
            request=replace(attempt.prompt.request, seed=attempt.prompt.request.seed + 1000),
        )
        return Attempt(attempt.task, 0, prompt, attempt.number + 1)

    def run(self) -> dict[int, Attempt]:
        self.engine.run()
        return self.ended


def assert_spoken(jobs: dict[int, Attempt], requests: list[SpeechRequest]) -> None:
    """Every row is there with its own codes and samples, up to its own end."""
    assert sorted(jobs) == list(range(len(requests)))
    for row, item in enumerate(requests):
        attempt = jobs[row]
        frames = min(len(item.text), item.max_frames)
        assert attempt.finish == ("eos" if frames == len(item.text) else "max_frames")
        assert attempt.frames == frames
        codes = fake_codes(item.seed, frames)
        assert attempt.codes is not None
        assert torch.equal(attempt.codes, codes)
        assert attempt.samples is not None
        assert torch.equal(attempt.samples, codes.float().flatten())
