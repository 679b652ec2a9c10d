"""On a GPU: references are encoded as on a CPU, and graphs speak cloned rows as eager does.

Encoders of the released sizes with random weights; a tiny checkpoint where codes are compared.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
from clones import encode, random_voice
from on_gpu import lent
from speak import assert_same, speak
from tiny_qwen3_tts import reference_wave, write_checkpoint
from torch import Tensor

from models.base import SpeechRequest
from models.qwen3_tts.model import Qwen3TTS
from models.registry import load_model
from models.sampling import Sampling

pytestmark = [*(pytest.mark.gpu, pytest.mark.slow), pytest.mark.usefixtures("float32_is_float32")]

GREEDY = Sampling(greedy=True, subtalker_greedy=True)
FRAMES = 40
LENGTHS = (24000, 30001, 48000, 47999, 72001, 240000, 720000)


def load(source: str, dtype: torch.dtype = torch.float32, use_graphs: bool = True) -> Qwen3TTS:
    model = load_model(source, "cuda", dtype, use_graphs=use_graphs)
    assert isinstance(model, Qwen3TTS)
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_checkpoint(tmp_path_factory.mktemp("voice"), "base_wide"))


@pytest.fixture(scope="module")
def waves() -> list[Tensor]:
    return [reference_wave(seed, length) for seed, length in enumerate(LENGTHS)]


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=str)
def released(request: pytest.FixtureRequest) -> Iterator[Qwen3TTS]:
    yield from lent(load("synthetic:qwen3-tts-0.6b-base", request.param))


def relative_error(found: Tensor, expected: Tensor) -> float:
    error = (found.cpu().double() - expected.cpu().double()).square().mean().sqrt()
    return float(error / expected.double().square().mean().sqrt())


def test_the_tiny_checkpoint_encodes_as_on_a_cpu(folder: str, waves: list[Tensor]) -> None:
    on_cpu, on_gpu = load_model(folder, "cpu"), load(folder)
    modes = ["icl"] * len(waves)
    together = on_gpu.encode_voices(waves, modes)
    assert on_gpu.voices is not None
    assert on_gpu.voices.use_batches
    pairs = zip(together, on_cpu.encode_voices(waves, modes), strict=True)
    for (embedding, codes), (expected, expected_codes) in pairs:
        assert codes is not None
        assert expected_codes is not None
        assert relative_error(embedding, expected) < 1e-5
        assert codes.shape == expected_codes.shape
        # A code between two almost equally near entries may turn, and those after it in its frame.
        same = (codes.cpu() == expected_codes).all(1).double().mean()
        assert float(same) > 0.98


def test_released_encoders_agree_with_the_cpu(released: Qwen3TTS, waves: list[Tensor]) -> None:
    assert released.voices is not None
    found = released.encode_voices(waves[:4], ["icl"] * 4)
    with torch.inference_mode():  # random weights are made in it
        speaker = copy.deepcopy(released.voices.speaker).cpu()
        speech = copy.deepcopy(released.voices.speech).cpu()
        speaker.filters, speaker.window = speaker.filters.cpu(), speaker.window.cpu()
        expected = [
            (
                speaker(wave[None], torch.tensor([len(wave)]))[0].float(),
                speech(wave[None], torch.tensor([len(wave)]))[0][0],
            )
            for wave in waves[:4]
        ]
    is_float = released.dtype == torch.float32
    for (embedding, codes), (other, other_codes) in zip(found, expected, strict=True):
        assert codes is not None
        assert relative_error(embedding, other) < (1e-4 if is_float else 3e-2)
        assert codes.shape == other_codes.shape
        assert float((codes.cpu() == other_codes)[:, 0].double().mean()) > 0.95


def test_a_batch_encodes_as_single_clips_do(released: Qwen3TTS, waves: list[Tensor]) -> None:
    modes = ["icl"] * len(waves)
    for wave, (embedding, codes) in zip(waves, released.encode_voices(waves, modes), strict=True):
        ((alone, codes_alone),) = released.encode_voices([wave], ["icl"])
        assert codes is not None
        assert codes_alone is not None
        is_float = released.dtype == torch.float32
        assert relative_error(embedding, alone) < (1e-4 if is_float else 3e-2)
        assert float((codes == codes_alone)[:, 0].double().mean()) > 0.95


def requests(model: Qwen3TTS, waves: list[Tensor]) -> list[SpeechRequest]:
    voices = [
        encode(model, waves[0], "the first thing"),
        encode(model, waves[1]),
        encode(model, waves[2], "another thing to say"),
        random_voice(model, model.config.talker.width, 330, 64),
    ]
    layouts = ("auto", "non_streaming")
    return [
        SpeechRequest(
            "the thing " * (1 + row % 3),
            clone=voices[row % len(voices)],
            layout=layouts[row // 4 % 2],
            sampling=GREEDY,
            seed=row,
            max_frames=FRAMES - row,
        )
        for row in range(10)
    ]


def test_graphs_speak_cloned_rows_as_eager_does(folder: str, waves: list[Tensor]) -> None:
    model, eager = load(folder), load(folder, use_graphs=False)
    rows = requests(model, waves)
    found = speak(model, rows, 4, frames_per_poll=3, is_compact=True, has_graphs=True)
    for runner in model.graph_runners():
        assert runner.stats.failures == {}
        assert runner.stats.misses == 0, runner.name
        assert runner.stats.hits > 0, runner.name
    assert_same(found, speak(eager, rows, 4, is_compact=True), atol=1e-4)


def test_references_cost_the_vocoder_little(released: Qwen3TTS) -> None:
    # Their frames pass the transformer, but are not rendered: a window of latents is.
    codes = torch.randint(0, 2048, (100, 16), device="cuda")
    reference = torch.randint(0, 2048, (150, 16), device="cuda")
    (wave,) = released.decode_audio([codes], [reference])
    (full,) = released.decode_audio([torch.cat([reference, codes])])
    assert wave.shape == (100 * 1920,)
    limit = 1e-4 if released.dtype == torch.float32 else 0.05
    assert relative_error(wave, full[-100 * 1920 :].cpu()) < limit


def test_rows_of_the_released_size_end_well(released: Qwen3TTS, waves: list[Tensor]) -> None:
    found = speak(released, requests(released, waves), 4, frames_per_poll=4, has_graphs=True)
    for row in found:
        assert row.finish_reason in ("eos", "max_frames")
        assert int(row.codes.min()) >= 0
        assert int(row.codes.max()) < 2048
        assert bool(row.samples.isfinite().all())
