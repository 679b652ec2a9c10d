"""Fixed shapes: one bucket, one prefill, one lane shape, whatever the rows; and the same speech.

That shapes are what rounding depends on, and nothing else, only a GPU can show
(`tests/e2e/test_gpu_reproducible.py`); here it is that shapes do not depend on the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_fish_speech
import tiny_qwen3_tts
import torch
from engine_harness import Harness
from fakes import FakeCapturer, in_lanes
from torch import Tensor

from models.base import SpeechRequest
from models.device.graphs import GraphRunner
from models.qwen3_tts.model import Qwen3TTS
from models.registry import load_model
from models.slots.model import SpeechModel
from tts_cli.engine.pieces import Attempt

pytestmark = pytest.mark.slow

MAX_BATCH = 4


@pytest.fixture(scope="module", params=["qwen3_tts", "fish_speech"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    if request.param == "qwen3_tts":
        return tiny_qwen3_tts.write_checkpoint(folder, tiny_qwen3_tts.THINNEST)
    return tiny_fish_speech.write_checkpoint(folder, "small", 2)


class Shapes:
    """What every operation of a model was called with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, model: SpeechModel) -> None:
        self.seen: dict[str, set[tuple[int, ...]]] = {}
        network = model.vocoder.network
        for name, owner in (
            ("prefill", model.talker.decoder),
            ("step", model.talker.decoder),
            ("logits", model.talker),
            ("start", model.predictor),
            ("latents", network),
            ("render", network),
            ("_project", model.talker),
        ):
            if hasattr(owner, name):
                monkeypatch.setattr(owner, name, self.watched(name, getattr(owner, name)))

    def watched(self, name: str, function: Any) -> Any:
        def call(x: Tensor, *rest: Any, **named: Any) -> Any:
            self.seen.setdefault(name, set()).add(tuple(x.shape))
            return function(x, *rest, **named)

        return call


def load(folder: Path) -> tuple[SpeechModel, FakeCapturer]:
    """A model as it is on a GPU: in lanes, with buckets and graphs."""
    model = load_model(str(folder))
    assert isinstance(model, SpeechModel)
    capturer = FakeCapturer()
    model.frames = GraphRunner("frame", model._frame, capturer)
    model.vocoder = in_lanes(model.vocoder, capturer)
    model.packed.has_buckets = True
    model.packed.runner.capturer = capturer
    return model, capturer


def requests(model: SpeechModel, order: list[int]) -> list[SpeechRequest]:
    voice = next(iter(model.info.voices), None)
    return [
        SpeechRequest(
            "the thing " * (1 + row % 7),
            voice,
            sampling=model.info.sampling,
            seed=row,
            max_frames=4 + 2 * (row % 5),
        )
        for row in order
    ]


def speak(model: SpeechModel, order: list[int], is_fixed: bool) -> dict[int, Attempt]:
    """Jobs by seed."""
    items = requests(model, order)
    longest = max(len(model.prompt(item).text_ids) + item.max_frames for item in items)
    frames = max(item.max_frames for item in items)
    model.allocate(MAX_BATCH, longest, frames)
    model.capture(MAX_BATCH, frames)
    harness = Harness(model, MAX_BATCH, items, is_async=True, is_fixed=is_fixed)  # type: ignore[arg-type]
    jobs = harness.run()
    assert all(runner.stats.misses == 0 for runner in model.graph_runners())
    return {items[row].seed: attempt for row, attempt in jobs.items()}


@pytest.fixture
def fixed(folder: Path) -> Iterator[SpeechModel]:
    model, _ = load(folder)
    model.fix_shapes()
    return model


def test_no_shape_depends_on_the_rows(fixed: SpeechModel, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for order in ([3], list(range(9)), [8, 1], [0, 7, 4, 2, 6]):
        shapes = Shapes(monkeypatch, fixed)
        speak(fixed, order, is_fixed=True)
        monkeypatch.undo()
        assert fixed.frames.keys == [MAX_BATCH]
        assert all(len(found) == 1 for found in shapes.seen.values()), shapes.seen
        seen.append(shapes.seen)
    assert {"prefill", "step", "logits", "start", "latents", "render"} <= seen[0].keys()
    assert seen[0]["step"] == {(MAX_BATCH, fixed.config.talker.width)}
    assert all(other == seen[0] for other in seen[1:])


def test_the_speech_is_that_of_other_shapes(folder: Path, fixed: SpeechModel) -> None:
    model, _ = load(folder)
    order = list(range(9))
    expected = speak(model, order, is_fixed=False)
    found = speak(fixed, order[::-1], is_fixed=True)
    for seed, attempt in expected.items():
        codes, samples = found[seed].codes, found[seed].samples
        assert codes is not None
        assert samples is not None
        assert attempt.codes is not None
        assert attempt.samples is not None
        assert torch.equal(codes, attempt.codes)
        assert torch.allclose(samples, attempt.samples, atol=1e-4)


def test_frames_of_fewer_slots_are_refused(fixed: SpeechModel) -> None:
    fixed.allocate(MAX_BATCH, 64, 8)
    with pytest.raises(AssertionError, match="2 slots, fixed at 4"):
        fixed.decode_frames(2, 1)


@pytest.mark.parametrize("count", [1, 5, 256, 300])
def test_texts_are_projected_in_one_shape(count: int, folder: Path) -> None:
    model, _ = load(folder)
    if not isinstance(model, Qwen3TTS):
        pytest.skip("only Qwen3-TTS projects its texts")
    ids = torch.arange(count).remainder(60).view(-1, 1)
    expected = model.talker.embed_text(ids)
    model.fix_shapes()
    found = model.talker.embed_text(ids)
    assert found.shape == expected.shape
    assert torch.allclose(found, expected, atol=1e-6)


def test_references_are_encoded_one_by_one(tmp_path: Path) -> None:
    model = load_model(str(tiny_qwen3_tts.write_checkpoint(tmp_path, "base_wide")))
    assert isinstance(model, SpeechModel)
    assert model.voices is not None
    model.voices.use_batches = True  # as on a GPU
    model.fix_shapes()
    assert not model.voices.use_batches


def test_a_prompt_longer_than_the_bucket_has_a_pass_of_its_own_length(fixed: SpeechModel) -> None:
    [item] = requests(fixed, [0])
    least = fixed.packed._buckets(MAX_BATCH, 0)[0]
    long = replace(item, text="the thing " * 80)
    fixed.allocate(MAX_BATCH, 1024, 40)
    prompts = [fixed.prompt(one) for one in (item, long, item)]
    lengths = [prompt.num_tokens for prompt in prompts]
    assert lengths[1] > least > lengths[0]
    groups = fixed.packed.groups(lengths)
    assert [1] in groups
    keys = [fixed.packed._key(sum(lengths[i] for i in rows), len(rows)) for rows in groups]
    assert set(keys) == {least, -(-lengths[1] // 128) * 128}
    assert {fixed.packed._rows(key) for key in keys} == {fixed.packed.max_rows}
