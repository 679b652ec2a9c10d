"""The engine on a tiny real checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from engine_harness import MODES, Harness
from fakes import FakeCapturer
from speak import Row, speak
from tiny_qwen3_tts import write_checkpoint

from models.base import Sampling, SpeechRequest
from models.chunked_vocoder import ChunkedVocoder
from models.graphs import GraphRunner
from models.qwen3_tts.model import CHUNK_FRAMES, LEFT_CONTEXT, Qwen3TTS
from models.registry import load_model

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Qwen3TTS]:
    folder = write_checkpoint(tmp_path_factory.mktemp("voice"), "custom_voice_wide")

    def load() -> Qwen3TTS:
        model = load_model(str(folder))
        assert isinstance(model, Qwen3TTS)
        return model

    return load


@pytest.fixture(scope="module")
def requests() -> list[SpeechRequest]:
    greedy = Sampling(greedy=True, subtalker_greedy=True)
    rows = [
        SpeechRequest("the thing " * (1 + row % 4), "dora", seed=row, max_frames=8 + 5 * (row % 6))
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
        prompts = [model.plan(item) for item in requests]
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
            model.vocoder = ChunkedVocoder(
                model.vocoder.vocoder,
                4,
                CHUNK_FRAMES,
                LEFT_CONTEXT,
                torch.device("cpu"),
                capturer,
                True,
            )
        self.prepare(model, requests, 4)
        harness = Harness(model, 4, requests, is_async=is_async)
        outcomes = harness.run()
        for row, other in enumerate(expected):
            outcome = outcomes[row]
            assert outcome.reason == other.finish_reason
            assert outcome.codes is not None
            assert outcome.samples is not None
            assert torch.equal(outcome.codes, other.codes), row
            assert outcome.samples.shape == other.samples.shape
            assert torch.allclose(outcome.samples, other.samples, atol=1e-5)
        assert {outcome.job.bucket for outcome in outcomes.values()} <= {1, 2, 4}
        for runner in model.graph_runners():
            assert runner.stats.misses == 0
            # No row has a reference in front, so the vocoder never renders a tail; and on a CPU
            # prompts are not packed.
            is_used = has_graphs and runner.name not in ("latents", "render", "prefill")
            assert (runner.stats.hits > 0) is is_used
        if has_graphs:
            assert model.frames.keys == [4, 2, 1]
            assert model.frames.stats.hits == harness.engine.steps

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
        outcomes = harness.run()
        assert harness.engine.shrinks == 2
        for row, other in enumerate(expected):
            codes = outcomes[row].codes
            assert codes is not None
            assert torch.equal(codes, other.codes), row
