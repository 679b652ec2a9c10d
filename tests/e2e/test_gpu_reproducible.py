"""On a GPU with fixed shapes: a row has the same codes and 16-bit samples in any company, whatever
its place in it, and whatever longest row the buffers were made for.

`samples/reproducible.py` shows the same of whole commands.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from clones import cloned
from engine_harness import Harness
from on_gpu import lent
from synthetic import load_synthetic
from tiny_qwen3_tts import write_checkpoint
from torch import Tensor

from models.base import SpeechRequest
from models.fish_speech.family import released_config
from models.registry import load_model

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

MAX_BATCH, FRAMES, REFERENCE_FRAMES, ROWS = 16, 340, 40, 60
LONG_ROW = 7  # longer than a chunk of the vocoder, and its prompt than a pass
Spoken = dict[int, tuple[Tensor, Tensor]]  # by seed: codes, samples


@pytest.fixture(scope="module", autouse=True)
def _float32_is_float32() -> Iterator[None]:
    """As in runs; of the module, so that graphs are recorded so as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)
        patch.setattr(torch.backends.cudnn, "allow_tf32", False)
        yield


def load(name: str, folder: str, use_graphs: bool = True) -> Any:
    device = torch.device("cuda")
    if name == "fish":
        config = released_config(4, 2)
        model: Any = load_synthetic("fish-s2-pro", device, torch.bfloat16, use_graphs, 0, config)
    elif name.startswith("qwen"):
        dtype = torch.float32 if name == "qwen float32" else torch.bfloat16
        model = load_model("synthetic:qwen3-tts-0.6b", device, dtype, use_graphs=use_graphs)
    else:
        model = load_model(folder, device, torch.float32, use_graphs=use_graphs)
    model.fix_shapes()
    return model


def prepare(model: Any, more: int = 0) -> Any:
    """Make slots and graphs for the rows, or for some that are longer."""
    model.allocate(MAX_BATCH, 1024 + more, FRAMES + more, max_trailing=512 + more)
    references = REFERENCE_FRAMES + more if model.info.can_clone else 0
    model.capture(MAX_BATCH, FRAMES + more, references)
    for runner in model.graph_runners():
        assert runner.stats.failures == {}
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_checkpoint(tmp_path_factory.mktemp("voice"), "base_wide"))


@pytest.fixture(scope="module", params=["qwen", "qwen float32", "fish", "clones"])
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def model(name: str, folder: str, _float32_is_float32: None) -> Iterator[Any]:
    yield from lent(prepare(load(name, folder)))


@pytest.fixture(scope="module")
def rows(model: Any) -> list[SpeechRequest]:
    """Of many lengths; those of a model that clones stand behind references or not."""
    found = [
        SpeechRequest(
            "the thing " * (1 + row % 6),
            voice=next(iter(model.info.voices), None),
            sampling=model.info.sampling,
            seed=row,
            max_frames=5 + row * 7 % 50,
        )
        for row in range(ROWS)
    ]
    found[LONG_ROW] = replace(found[LONG_ROW], text="the thing " * 45, max_frames=FRAMES)
    if not (model.info.family == "qwen3_tts" and model.info.type == "base"):
        return found
    torch.manual_seed(0)
    return cloned(model, found, REFERENCE_FRAMES)


def speak(model: Any, items: list[SpeechRequest]) -> Spoken:
    harness = Harness(model, MAX_BATCH, items, is_fixed=True, is_int16=True)
    found = {}
    for row, job in harness.run().items():
        assert job.codes is not None
        assert job.samples is not None
        assert job.samples.dtype == torch.int16
        found[items[row].seed] = job.codes, job.samples
    return found


@pytest.fixture(scope="module")
def expected(model: Any, rows: list[SpeechRequest]) -> Spoken:
    spoken = speak(model, rows)
    assert len({codes.numpy().tobytes() for codes, _ in spoken.values()}) == ROWS
    return spoken


def assert_same(found: Spoken, expected: Spoken, chosen: list[SpeechRequest]) -> None:
    for seed in (row.seed for row in chosen):
        for what, one, other in zip(("codes", "samples"), found[seed], expected[seed], strict=True):
            assert torch.equal(one, other), f"{what} of row {seed}"


@pytest.mark.parametrize("seed", [0, 1])
def test_order_counts_for_nothing(
    seed: int, model: Any, rows: list[SpeechRequest], expected: Spoken
) -> None:
    shuffled = random.Random(seed).sample(rows, len(rows))
    assert_same(speak(model, shuffled), expected, rows)


def test_mates_count_for_nothing(model: Any, rows: list[SpeechRequest], expected: Spoken) -> None:
    mates = [
        replace(row, text=row.text[::-1], seed=1000 + row.seed, max_frames=3 + row.seed)
        for row in rows
    ]
    chosen = rows[::3]
    mixed = random.Random(2).sample(mates + chosen, len(mates) + len(chosen))
    assert_same(speak(model, mixed), expected, chosen)


@pytest.mark.parametrize("row", [0, LONG_ROW, 41])
def test_a_row_alone_is_the_same(
    row: int, model: Any, rows: list[SpeechRequest], expected: Spoken
) -> None:
    assert_same(speak(model, [rows[row]]), expected, [rows[row]])


def test_without_graphs_it_is_the_same(
    name: str, folder: str, rows: list[SpeechRequest], expected: Spoken
) -> None:
    eager = load(name, folder, use_graphs=False)
    prepare(eager)
    chosen = rows[8:20]
    assert_same(speak(eager, chosen), expected, chosen)


def test_a_reference_is_encoded_the_same_in_any_company(model: Any) -> None:
    if not model.info.can_clone:
        pytest.skip("only what clones encodes references")
    rate = model.info.sample_rate_hz
    generator = torch.Generator().manual_seed(1)
    waves = [torch.randn(int(rate * s), generator=generator) / 9 for s in (1.3, 0.7, 2.1, 1.3)]
    together = model.encode_voices(waves, ["icl"] * len(waves))
    for index in (2, 0):
        ((embedding, codes),) = model.encode_voices([waves[index]], ["icl"])
        assert torch.equal(embedding, together[index][0])
        assert torch.equal(codes, together[index][1])


# The last: it leaves the model with other buffers.
def test_buffers_for_longer_rows_count_for_nothing(
    model: Any, rows: list[SpeechRequest], expected: Spoken
) -> None:
    prepare(model, more=600)
    assert_same(speak(model, rows[:20]), expected, rows[:20])
