"""Prompts in buckets, as on a GPU, against passes of their own length, with and without graphs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fakes import FakeCapturer
from speak import assert_same, speak
from tiny_qwen3_tts import THINNEST, write_checkpoint

from models.base import SpeechRequest
from models.qwen3_tts.model import Qwen3TTS
from models.registry import load_model
from models.slots.prefill import MAX_ROWS, TOKEN_BUCKETS, TOKENS_PER_ROW

pytestmark = pytest.mark.slow

FRAMES = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("voice"), THINNEST)


@pytest.fixture
def model(folder: Path) -> Qwen3TTS:
    model = load_model(str(folder))
    assert isinstance(model, Qwen3TTS)
    return model


def requests(count: int) -> list[SpeechRequest]:
    return [
        SpeechRequest("the thing " * (1 + 3 * row % 7), "dora", seed=row, max_frames=FRAMES)
        for row in range(count)
    ]


def pack(model: Qwen3TTS) -> FakeCapturer:
    """Passes filled up to buckets and recorded, as on a GPU."""
    model.packed.has_buckets = True
    model.packed.runner.capturer = capturer = FakeCapturer()
    return capturer


@pytest.mark.parametrize("max_batch", [1, 4, 8])
def test_packed_prompts_give_the_same_codes(model: Qwen3TTS, max_batch: int) -> None:
    items = requests(8)
    expected = speak(model, items, max_batch)
    pack(model)
    assert_same(speak(model, items, max_batch, has_graphs=True), expected)
    stats = model.packed.runner.stats
    assert stats.misses == 0
    assert stats.hits > 0
    assert stats.failures == {}


def test_a_bucket_that_was_not_recorded_counts_as_a_miss(model: Qwen3TTS) -> None:
    pack(model)
    model.allocate(4, max_positions=120, max_frames=FRAMES)
    model.prefill([model.prompt(item) for item in requests(2)], [0, 1])
    assert model.packed.runner.stats.misses == 1


def test_every_bucket_up_to_what_all_slots_can_hold_is_recorded(model: Qwen3TTS) -> None:
    pack(model)
    model.allocate(8, max_positions=100, max_frames=FRAMES)
    with torch.inference_mode():
        model.packed.announce()
        model.packed.runner.capture()
    assert model.packed.runner.keys == [1024, 512, 256, 128]
    model.allocate(256, max_positions=100, max_frames=FRAMES)
    assert model.packed.buckets == list(TOKEN_BUCKETS)


def test_a_prompt_longer_than_every_bucket_runs_alone(
    model: Qwen3TTS, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = requests(5)
    expected = speak(model, items, 8)
    monkeypatch.setattr("models.slots.prefill.TOKEN_BUCKETS", (16, 32))
    pack(model)
    assert_same(speak(model, items, 8, has_graphs=True), expected)
    assert model.packed.runner.stats.misses > 0
    assert model.packed.runner.stats.hits > 0


def test_a_long_pass_leaves_nothing_for_a_short_one(model: Qwen3TTS) -> None:
    pack(model)
    model.allocate(8, max_positions=120, max_frames=FRAMES)
    prompts = [model.prompt(item) for item in requests(8)]
    model.prefill(prompts, list(range(8)))
    with torch.inference_mode():
        model.packed.given.fill_(float("nan"))
    model.prefill(prompts[:1], [5])
    assert model.talker.decoder.cache.data.isfinite().all()
    assert model.status(model.poll(), [5])[0].finish_reason == ""


def test_rows_of_the_fewest_tokens_fit_their_bucket() -> None:
    assert TOKEN_BUCKETS[-1] >= MAX_ROWS * TOKENS_PER_ROW
    assert all(bucket % 64 == 0 for bucket in TOKEN_BUCKETS)


def test_a_pass_that_draws_nothing_leaves_codes_that_exist(
    model: Qwen3TTS, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As where kernels are only looked for and none is launched: the frame behind it embeds them.
    pack(model)
    model.allocate(4, max_positions=120, max_frames=FRAMES)
    monkeypatch.setattr(model.sampling, "first", lambda *_: None)
    model.prefill([model.prompt(item) for item in requests(3)], [0, 1, 3])
    assert model.slots.code.tolist() == [0, 0, 0, 0]


def test_spare_rows_write_what_the_last_row_writes(model: Qwen3TTS) -> None:
    items = requests(3)
    pack(model)
    for count in (1, 3):
        model.allocate(8, max_positions=120, max_frames=FRAMES)
        model.prefill([model.prompt(item) for item in items[:count]], [6, 2, 5][:count])
        slots = model.slots
        assert slots.is_active.nonzero()[:, 0].tolist() == sorted([6, 2, 5][:count])
        assert model.sampling.seeds[6] == items[0].seed
        assert slots.limit.tolist().count(FRAMES) == count
