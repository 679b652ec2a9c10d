"""Fish Speech on a GPU: a graph speaks what eager speaks, Triton what PyTorch speaks.

Layers of the released width, but few of them; float32 runs are greedy with TF32 off and compared
code by code, bfloat16 runs draw their codes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny_fish_speech as tiny
import torch
from on_gpu import lent, record_frames, run, run_as_eagerly, run_eagerly
from parity import check_all, check_codes
from speak import speak
from synthetic import load_synthetic
from torch import Tensor

from kernels.launch import dispatch
from models.base import Reader, SpeechRequest, Voice
from models.dual_ar.model import DualAR, DualARTalker
from models.fish_speech.family import SAMPLING, released_config
from models.registry import load_model

pytestmark = [*(pytest.mark.gpu, pytest.mark.slow), pytest.mark.usefixtures("float32_is_float32")]

GREEDY = replace(SAMPLING, greedy=True, subtalker_greedy=True)
FRAMES, MAX_BATCH = 64, 8
LAYERS, PREDICTOR_LAYERS = 4, 2


def released_width(dtype: torch.dtype) -> DualAR:
    config = released_config(LAYERS, PREDICTOR_LAYERS)
    model = load_synthetic("fish-s2-pro", torch.device("cuda"), dtype, True, main=config)
    assert isinstance(model, DualAR)
    model.allocate(MAX_BATCH, max_positions=320 + FRAMES, max_frames=FRAMES)
    return record_frames(model, [MAX_BATCH, 4, 1])


@pytest.fixture(scope="module")
def float_model() -> Iterator[DualAR]:
    yield from lent(released_width(torch.float32))


@pytest.fixture(scope="module")
def bfloat_model() -> Iterator[DualAR]:
    yield from lent(released_width(torch.bfloat16))


def requests(count: int, **fields: object) -> list[SpeechRequest]:
    """Rows of different prompts and lengths; the first is as long as any."""
    return [
        SpeechRequest(  # type: ignore[arg-type]
            "A row of its own length. " * (1 + row % 5) + str(row),
            seed=row,
            max_frames=FRAMES - 5 * row,
            **fields,
        )
        for row in range(count)
    ]


def check(model: DualAR, items: list[SpeechRequest], bucket: int) -> list[Tensor]:
    rows = run_as_eagerly(model, items, bucket)
    for row, item in zip(rows, items, strict=True):
        assert len(row) == item.max_frames  # end of speech is unlikely by construction
        assert int(row.min()) >= 0
        assert int(row[:, 0].max()) < 4096
        assert int(row[:, 1:].max()) < 1024
        assert len(row.unique()) > 50
    return rows


@pytest.mark.parametrize("batch", [1, 4, 8])
def test_float32_greedy_graph_equals_eager(float_model: DualAR, batch: int) -> None:
    check(float_model, requests(batch, sampling=GREEDY), batch)


@pytest.mark.parametrize("batch", [1, 4, 8])
def test_bfloat16_drawn_graph_equals_eager(bfloat_model: DualAR, batch: int) -> None:
    rows = check(bfloat_model, requests(batch, sampling=SAMPLING), batch)
    assert batch == 1 or not torch.equal(rows[0][:10], rows[1][:10])


def test_released_width_triton_equals_the_references(float_model: DualAR) -> None:
    items = [replace(item, max_frames=16) for item in requests(4, sampling=GREEDY)]
    with dispatch.override("triton"):
        rows = run_eagerly(float_model, items, 4)
    with dispatch.override("reference"):
        expected = run_eagerly(float_model, items, 4)
    check_all(rows, expected)


def test_bfloat16_logits_are_near_float32_ones(float_model: DualAR) -> None:
    # Behind four layers of random weights; the same weights, rounded.
    wide = float_model
    with torch.device("meta"):
        talker = DualARTalker(wide.config)
    state = {name: value.bfloat16() for name, value in wide.talker.state_dict().items()}
    talker.load_state_dict(state, assign=True)
    predictor = copy.deepcopy(wide.predictor).bfloat16()
    reader = Reader(wide.prompt, wide.tokenize, wide.config)
    parts = {
        "model": SimpleNamespace(talker=talker, predictor=predictor),
        "vocoder": wide.vocoder.network,
        "codec encoder": wide.voices.encoder,
    }
    narrow = DualAR(False, reader, wide.info, parts)
    narrow.allocate(1, max_positions=320 + FRAMES, max_frames=FRAMES)
    (item,) = requests(1, sampling=GREEDY)
    logits = []
    for model in (wide, narrow):
        model.prefill([model.prompt(item)], [0])
        with torch.inference_mode():
            logits.append(model.talker.logits(model.slots.hidden[:1]).double())
        model.release([0])
    error = (logits[0] - logits[1]).square().mean().sqrt() / logits[0].square().mean().sqrt()
    assert error < 0.03, f"relative error of logits {error:.3f}"


SLOTS, VOICE_FRAMES = 64, 96


def in_one_voice(count: int, **fields: object) -> list[SpeechRequest]:
    """Rows behind one reference."""
    generator = torch.Generator().manual_seed(5)
    codes = torch.randint(0, 1024, (VOICE_FRAMES, 10), generator=generator)
    clone = Voice(torch.zeros(1), codes, "So it is.", "icl", "random", "one")
    return [replace(item, clone=clone) for item in requests(count, **fields)]


@pytest.fixture
def cloning(request: pytest.FixtureRequest) -> Iterator[DualAR]:
    yield from lent(with_room(*request.param))


def with_room(dtype: torch.dtype, is_fixed: bool) -> DualAR:
    """Make a model with room for prompts behind a reference."""
    config = released_config(LAYERS, PREDICTOR_LAYERS)
    model = load_synthetic("fish-s2-pro", torch.device("cuda"), dtype, True, main=config)
    assert isinstance(model, DualAR)
    if is_fixed:
        model.fix_shapes()
    model.allocate(SLOTS, max_positions=512 + FRAMES, max_frames=FRAMES)
    with torch.inference_mode():
        model.frames.announce([SLOTS])
        model.packed.announce()
        for runner in (model.frames, model.packed.runner):
            runner.capture()
            assert runner.stats.failures == {}
    model.release(list(range(SLOTS)))
    return model


def whole(model: DualAR, items: list[SpeechRequest]) -> list[Tensor]:
    """The slow twin: every prompt is run whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model.packed, "shares", lambda prompt: False)
        return run(model, items, SLOTS)


@pytest.mark.parametrize("cloning", [(torch.float32, False)], indirect=True)
def test_float32_rows_behind_one_reference_are_those_of_whole_prompts(cloning: DualAR) -> None:
    items = [replace(item, max_frames=16) for item in in_one_voice(12, sampling=GREEDY)]
    prompts = [cloning.prompt(item) for item in items]
    assert all(cloning.packed.shares(prompt) for prompt in prompts)
    with dispatch.override("reference"):
        assert not cloning.packed.shares(prompts[0])
    expected = whole(cloning, items)
    before = cloning.packed.runner.stats.hits
    rows = run(cloning, items, SLOTS)
    own = sum(prompt.num_own for prompt in prompts[1:])
    assert own <= cloning.packed.buckets[-1]
    assert cloning.packed.runner.stats.hits - before == 2  # the first whole, the others behind it
    assert cloning.packed.runner.stats.misses == 0
    check_all(rows, expected)


@pytest.mark.parametrize("cloning", [(torch.bfloat16, False)], indirect=True)
def test_bfloat16_hidden_states_are_near_those_of_whole_prompts(cloning: DualAR) -> None:
    items = in_one_voice(12, sampling=SAMPLING)
    prompts = [cloning.prompt(item) for item in items]
    slots = list(range(len(items)))
    hidden = []
    for shares in (cloning.packed.shares, lambda prompt: False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cloning.packed, "shares", shares)
            cloning.prefill(prompts, slots)
        hidden.append(cloning.slots.hidden[: len(items)].double())
        cloning.release(slots)
    error = (hidden[0] - hidden[1]).square().mean().sqrt() / hidden[1].square().mean().sqrt()
    assert error < 0.03, f"relative error of hidden states {error:.3f}"


@pytest.mark.parametrize("cloning", [(torch.bfloat16, True)], indirect=True)
def test_with_fixed_shapes_a_copied_beginning_changes_no_bit(cloning: DualAR) -> None:
    items = in_one_voice(12, sampling=SAMPLING)
    assert all(cloning.packed.shares(cloning.prompt(item)) for item in items)
    rows, expected = run(cloning, items, SLOTS), whole(cloning, items)
    backwards = run(cloning, items[::-1], SLOTS)[::-1]
    for index, row in enumerate(rows):
        for other in (expected[index], backwards[index], *run(cloning, [items[index]], SLOTS)):
            assert torch.equal(row, other), f"row {index}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_checkpoint(tmp_path_factory.mktemp("fish"), "wide", 2)


@pytest.mark.parametrize("has_graphs", [False, True])
@pytest.mark.parametrize("is_greedy", [False, True])
def test_gpu_equals_cpu(folder: Path, has_graphs: bool, is_greedy: bool) -> None:
    items = [
        SpeechRequest(
            "the thing " * (1 + row % 3),
            sampling=GREEDY if is_greedy else SAMPLING,
            seed=row,
            max_frames=40 - row,
            clone=tiny.random_voice("wide", 20 + row, "So it is.", row) if row % 2 else None,
        )
        for row in range(6)
    ]
    expected = speak(load_model(str(folder), "cpu"), items, 4)
    model = load_model(str(folder), "cuda", torch.float32, use_graphs=has_graphs)
    rows = speak(model, items, 4, frames_per_poll=5, is_compact=True, has_graphs=has_graphs)
    for index, (row, other) in enumerate(zip(rows, expected, strict=True)):
        check_codes(f"row {index}", row.codes, other.codes)
        assert row.finish_reason == other.finish_reason
        error = float((row.samples - other.samples).abs().max())
        assert error < 1e-4, f"waveform differs by {error:.1e}"
