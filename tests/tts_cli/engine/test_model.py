"""The engine on a tiny real checkpoint."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from engine_harness import MODES, Harness
from fakes import FakeCapturer, in_lanes
from speak import Row, speak
from tiny_qwen3_tts import THINNEST, write_checkpoint

from models.base import SpeechRequest
from models.device.graphs import GraphRunner
from models.device.threads import limited_threads
from models.qwen3_tts.model import Qwen3TTS
from models.registry import load_model
from models.sampling import Sampling
from tts_cli.engine.pieces import Attempt

pytestmark = pytest.mark.slow


def same_audio(one: Attempt, other: Attempt) -> bool:
    assert one.samples is not None
    assert other.samples is not None
    return torch.equal(one.samples, other.samples)


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Qwen3TTS]:
    folder = write_checkpoint(tmp_path_factory.mktemp("voice"), THINNEST)

    def load() -> Qwen3TTS:
        model = load_model(str(folder))
        assert isinstance(model, Qwen3TTS)
        return model

    return load


@pytest.fixture(scope="module")
def requests() -> list[SpeechRequest]:
    greedy = Sampling(greedy=True, subtalker_greedy=True)
    rows = [
        SpeechRequest("the thing " * (1 + row % 4), "dora", seed=row, max_frames=5 + 3 * (row % 6))
        for row in range(14)
    ]
    rows[3] = replace(rows[3], sampling=greedy)
    rows[8] = replace(rows[8], sampling=Sampling(top_p=0.7, top_k=0), voice="fang")
    return rows


@pytest.fixture(scope="module")
def expected(load: Callable[[], Qwen3TTS], requests: list[SpeechRequest]) -> list[Row]:
    """Every row alone."""
    return speak(load(), requests, 1)


class TestRealModel:
    """A whole tiny checkpoint through the engine equals rows spoken one by one."""

    @staticmethod
    def prepare(model: Qwen3TTS, requests: list[SpeechRequest], max_batch: int) -> None:
        prompts = [model.prompt(item) for item in requests]
        model.allocate(
            max_batch,
            max(prompt.num_tokens + prompt.request.max_frames for prompt in prompts),
            max(item.max_frames for item in requests),
        )
        model.capture(max_batch, max(item.max_frames for item in requests))

    @MODES
    @pytest.mark.parametrize("has_graphs", [False, True], ids=["eager", "graphs"])
    def test_codes_and_samples_are_those_of_the_row_alone(
        self,
        load: Callable[[], Qwen3TTS],
        requests: list[SpeechRequest],
        expected: list[Row],
        is_async: bool,
        has_graphs: bool,
    ) -> None:
        model = load()
        if has_graphs:
            capturer = FakeCapturer()
            model.frames = GraphRunner("frame", model._frame, capturer)
            model.vocoder = in_lanes(model.vocoder, capturer)
        self.prepare(model, requests, 4)
        harness = Harness(model, 4, requests, is_async=is_async)
        jobs = harness.run()
        for row, other in enumerate(expected):
            attempt = jobs[row]
            assert attempt.finish == other.finish_reason
            assert attempt.codes is not None
            assert attempt.samples is not None
            assert torch.equal(attempt.codes, other.codes), row
            assert attempt.samples.shape == other.samples.shape
            assert torch.allclose(attempt.samples, other.samples, atol=1e-5)
        assert {attempt.bucket for attempt in jobs.values()} <= {1, 2, 4}
        for runner in model.graph_runners():
            assert runner.stats.misses == 0
            # No row has a reference in front, so the vocoder never renders a tail; and on a CPU
            # prompts are not packed.
            is_used = has_graphs and runner.name not in ("latents", "render", "prefill")
            assert (runner.stats.hits > 0) is is_used
        if has_graphs:
            assert model.frames.keys == [4, 2, 1]
            assert model.frames.stats.hits == harness.engine.steps

    def test_neither_the_vocoders_thread_nor_the_batch_changes_a_bit(
        self,
        load: Callable[[], Qwen3TTS],
        requests: list[SpeechRequest],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """With two threads a vocoder's convolutions round otherwise than with one."""
        model = load()
        decode, names = model.decode_audio, set()

        def noted(codes: list[torch.Tensor], references: Any = None) -> list[torch.Tensor]:
            names.add(threading.current_thread().name)
            return decode(codes, references)

        monkeypatch.setattr(model, "decode_audio", noted)
        with limited_threads(2):
            self.prepare(model, requests, 1)
            alone = Harness(model, 1, requests).run()
            assert "vocoder" not in names
            for max_batch in (2, 8):
                self.prepare(model, requests, max_batch)
                jobs = Harness(model, max_batch, requests).run()
                assert all(same_audio(jobs[row], alone[row]) for row in alone)
        assert "vocoder" in names

    def test_running_out_of_memory_changes_no_code(
        self, load: Callable[[], Qwen3TTS], requests: list[SpeechRequest], expected: list[Row]
    ) -> None:
        model = load()
        self.prepare(model, requests, 4)
        run, calls = model.decode_frames, 0

        def sometimes(bucket: int, count: int) -> None:
            nonlocal calls
            calls += 1
            if calls in (9, 30):
                raise torch.OutOfMemoryError("CUDA out of memory")
            run(bucket, count)

        model.decode_frames = sometimes  # type: ignore[method-assign]
        harness = Harness(model, 4, requests)
        jobs = harness.run()
        assert harness.engine.shrinks == 2
        for row, other in enumerate(expected):
            codes = jobs[row].codes
            assert codes is not None
            assert torch.equal(codes, other.codes), row
