"""Speaker and speech encoder: released sizes, batches, edges of clips, half precision."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_qwen3_tts as tiny
import tiny_qwen3_tts_shapes as shapes
import torch
from torch import Tensor

from models.device.clips import BATCH_SAMPLES
from models.qwen3_tts.codec import SpeechEncoder
from models.qwen3_tts.config import (
    SAMPLE_RATE_HZ,
    Qwen3TTSConfig,
    SpeakerConfig,
    SpeechEncoderConfig,
)
from models.qwen3_tts.model import Qwen3TTS
from models.qwen3_tts.speaker import QwenVoiceEncoder, SpeakerEncoder, mel_filters, mirror
from models.registry import load_model
from models.slots.model import SpeechModel

pytestmark = pytest.mark.slow

SPEC = "base"
CPU = torch.device("cpu")
LENGTHS = (30000, 24960, 48000, 24961, 50001, 24959, 26000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_checkpoint(tmp_path_factory.mktemp("voice"), SPEC)


@pytest.fixture(scope="module")
def encoder(folder: Path) -> QwenVoiceEncoder:
    model = load_model(str(folder))
    assert isinstance(model, Qwen3TTS)
    assert isinstance(model, SpeechModel)
    assert model.voices is not None
    return model.voices


@pytest.fixture(scope="module")
def waves() -> list[Tensor]:
    return [tiny.reference_wave(seed, length) for seed, length in enumerate(LENGTHS)]


def padded(waves: list[Tensor], filling: float = 0.0) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(wave) for wave in waves])
    batch = torch.full((len(waves), int(lengths.max())), filling)
    for row, wave in enumerate(waves):
        batch[row, : len(wave)] = wave
    return batch, lengths


RELEASED = replace(
    tiny.SPECS[SPEC],
    codebook_size=2048,
    talker=tiny.Transformer(1024, 3072, layers=28, heads=16, kv_heads=8),
)


@pytest.mark.parametrize(("name", "parameters"), [("0.6b", 8_854_336), ("1.7b", 12_001_088)])
def test_released_speaker_encoders_have_the_released_size(name: str, parameters: int) -> None:
    config = SpeakerConfig(Qwen3TTSConfig.released(f"qwen3-tts-{name}-base").talker.width)
    with torch.device("meta"):
        state = dict(SpeakerEncoder(config).named_parameters())
    assert len(state) == 76
    assert sum(tensor.numel() for tensor in state.values()) == parameters


def test_released_speech_encoder_loads_the_released_tensors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released = {
        "codebook_dim": 256,
        "codebook_size": 2048,
        "head_dim": 64,
        "hidden_size": 512,
        "intermediate_size": 2048,
        "kernel_size": 7,
        "last_kernel_size": 3,
        "num_filters": 64,
        "num_hidden_layers": 8,
        "num_quantizers": 32,
        "residual_kernel_size": 3,
        "upsampling_ratios": [8, 6, 5, 4],
        "vector_quantization_hidden_dimension": 256,
    }
    monkeypatch.setattr(shapes, "codec_config", lambda spec: {"encoder_config": released})
    names = shapes.audio_encoder_shapes(RELEASED)
    assert len(names) == 225
    assert sum(math.prod(shape) for shape in names.values()) == 56_234_304
    tensors = {name: torch.empty(shape, device="meta") for name, shape in names.items()}
    encoder = SpeechEncoder.from_tensors(
        SpeechEncoderConfig.released(), tensors, torch.float32, "speech encoder"
    )
    assert encoder.codebooks.weight.shape == (16, 2048, 256)
    assert not tensors


def test_mel_filters_follow_slaneys_scale() -> None:
    filters = mel_filters(128)
    assert filters.shape == (128, 513)
    assert filters.dtype == torch.float32
    peaks = filters.argmax(1) * SAMPLE_RATE_HZ / 1024
    assert bool((peaks[1:] >= peaks[:-1]).all())
    # The highest mel is 15 + 27 ln 12 / ln 6.4; below 1000 Hz a mel is 200 / 3 Hz.
    step = (15 + 27 * math.log(12) / math.log(6.4)) / 129
    assert abs(float(peaks[20]) - 21 * step * 200 / 3) < 12
    # Every triangle has the area of one hertz, as far as bins of 23 Hz show it.
    area = filters[60:].double().sum(1) * SAMPLE_RATE_HZ / 1024
    assert bool(((area - 1).abs() < 0.05).all())


def test_mirror_reflects_each_row_at_its_own_ends() -> None:
    x = torch.arange(12.0).view(2, 1, 6)
    out = mirror(x, torch.tensor([6, 4]), 2)
    assert out[0, 0].tolist() == [2, 1, 0, 1, 2, 3, 4, 5, 4, 3]
    assert out[1, 0, :8].tolist() == [8, 7, 6, 7, 8, 9, 8, 7]


@pytest.mark.parametrize("filling", [0.0, 0.5])
def test_batches_equal_single_clips(
    encoder: QwenVoiceEncoder, waves: list[Tensor], filling: float
) -> None:
    batch, lengths = padded(waves, filling)
    embeddings = encoder.speaker(batch, lengths)
    codes, frames = encoder.speech(batch, lengths)
    for row, wave in enumerate(waves):
        alone = wave[None], lengths[row : row + 1]
        torch.testing.assert_close(embeddings[row], encoder.speaker(*alone)[0], rtol=0, atol=1e-5)
        expected, (count,) = encoder.speech(*alone)
        assert count == frames[row] == encoder.speech.config.num_frames(len(wave))
        assert expected.shape == (1, int(count), 16)
        assert torch.equal(codes[row, : int(count)], expected[0])


def test_codes_do_not_look_ahead(encoder: QwenVoiceEncoder) -> None:
    wave = tiny.reference_wave(3, 20 * 1920)
    other = wave.clone()
    other[10 * 1920 :] = tiny.reference_wave(4, 10 * 1920)
    first, _ = encoder.speech(wave[None], torch.tensor([len(wave)]))
    second, _ = encoder.speech(other[None], torch.tensor([len(wave)]))
    assert torch.equal(first[:, :10], second[:, :10])
    assert not torch.equal(first[:, 10:], second[:, 10:])


def test_nearest_code_is_exact_and_the_first_of_equals(encoder: QwenVoiceEncoder) -> None:
    config = encoder.speech.config
    x = torch.randn(2, 9, config.steps.width)
    codes = encoder.speech.quantise(x)
    for index in range(2):
        projection = (encoder.speech.semantic, encoder.speech.acoustic)[index].weight[:, :, 0]
        vectors = x.double() @ projection.double().t()
        books = encoder.speech.codebooks.weight[index].double()
        distances = (vectors[:, :, None] - books).square().sum(-1)
        assert torch.equal(codes[:, :, index], distances.argmin(-1))


def test_encode_voices_batches_by_length(
    encoder: QwenVoiceEncoder, waves: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    class Watched(SpeechEncoder):
        def forward(self, waves: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
            seen.append(tuple(waves.shape))
            return super().forward(waves, lengths)

    monkeypatch.setattr(encoder.speech, "__class__", Watched)
    monkeypatch.setattr(encoder, "use_batches", True)
    modes = ["icl", "xvec", "icl", "icl", "xvec", "icl", "icl"]
    found = encoder.encode(waves, modes)
    assert seen == [(5, 48000)]
    monkeypatch.setattr("models.device.clips.BATCH_SAMPLES", 60000)
    seen.clear()
    again = encoder.encode(waves, modes)
    assert [shape[0] for shape in seen] == [2, 2, 1]
    assert all(batch * samples <= 60000 for batch, samples in seen)
    for mode, (embedding, codes), (other, other_codes) in zip(modes, found, again, strict=True):
        torch.testing.assert_close(embedding, other, rtol=0, atol=1e-5)
        assert (codes is None) == (other_codes is None) == (mode == "xvec")
        if codes is not None and other_codes is not None:
            assert torch.equal(codes, other_codes)
    assert BATCH_SAMPLES > 30 * SAMPLE_RATE_HZ  # the longest reference fits


@pytest.mark.parametrize(
    ("wave", "mode", "message"),
    [
        (torch.zeros(24000), "both", "a mode is icl or xvec"),
        (torch.zeros(100), "xvec", "at least 1280 samples"),
        (torch.zeros(2, 24000), "icl", r"shape \(2, 24000\)"),
    ],
)
def test_what_cannot_be_encoded_is_refused(
    encoder: QwenVoiceEncoder, wave: Tensor, mode: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        encoder.encode([wave], [mode])


def test_the_shortest_clip_is_encoded(encoder: QwenVoiceEncoder) -> None:
    wave = tiny.reference_wave(0, encoder.speaker.config.shortest_samples)
    ((embedding, codes),) = encoder.encode([wave], ["icl"])
    assert codes is not None
    assert codes.shape == (1, 16)
    assert bool(embedding.isfinite().all())
