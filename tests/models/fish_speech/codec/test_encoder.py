"""Recordings to codes: against the official codec, and what lengths and batches must not change."""

from __future__ import annotations

import json
from pathlib import Path

import official_fish_codec as official
import pytest
import tiny_fish_codec as tiny
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from synthetic import load_synthetic

from kernels.launch import dispatch
from models.device import clips
from models.dual_ar.codec import CodecVoiceEncoder
from models.fish_speech.family import released_config

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parent / "golden_codec.safetensors"
VARIANTS = tuple(tiny.VARIANTS)


@pytest.fixture
def small() -> CodecVoiceEncoder:
    return tiny.build_encoder(tiny.SMALL, tiny.random_tensors(tiny.SMALL))


@pytest.mark.parametrize("variant", VARIANTS)
def test_stored_official_codes(variant) -> None:
    with safe_open(GOLDEN, "pt") as file:
        seed = json.loads(file.metadata()["seeds"])[variant]
    config = tiny.VARIANTS[variant]
    encoder = tiny.build_encoder(config, tiny.random_tensors(config, seed))
    prefix, compared = f"{variant}.clip.", 0
    for name, expected in load_file(GOLDEN).items():
        if not name.startswith(prefix):
            continue
        length = int(name.removeprefix(prefix))
        (codes,) = encoder.codes([tiny.reference_wave(seed, length)])
        assert codes.dtype == torch.int64
        assert codes.tolist() == expected.tolist(), name
        compared += codes.numel()
    assert compared > 80
    assert len(expected.unique()) > 4


@pytest.mark.oracle
@pytest.mark.parametrize("oracle", official.ORACLES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_official_encoder(variant, oracle) -> None:
    if not official.is_installed(oracle):
        pytest.skip(f"needs the code of {oracle} on the path")
    config = tiny.VARIANTS[variant]
    tensors = tiny.random_tensors(config, seed=5)
    dac = official.build(config, tensors, oracle)
    encoder = tiny.build_encoder(config, tensors)
    width = config.samples_per_frame
    for length in (1, width - 1, width, width + 1, 7 * width + 5, 40 * width):
        wave = tiny.reference_wave(6, length)
        expected = official.codes(dac, wave)
        (codes,) = encoder.codes([wave])
        # A choice between two entries all but equally near may fall the other way.
        assert (codes != expected).sum() <= codes.numel() // 100, length


def test_frames_are_rounded_up(small) -> None:
    width = tiny.SMALL.samples_per_frame
    lengths = (1, width, width + 1, 5 * width - 1)
    codes = small.codes([tiny.reference_wave(1, length) for length in lengths])
    assert [tuple(found.shape) for found in codes] == [(1, 4), (1, 4), (2, 4), (5, 4)]


def test_batches_equal_single_clips(small, monkeypatch) -> None:
    lengths = (1, 300, 1000, 999, 4000, 77)
    waves = [tiny.reference_wave(seed, length) for seed, length in enumerate(lengths)]
    alone = small.codes(waves)
    batched = CodecVoiceEncoder(small.encoder)
    batched.use_batches = True
    for most in (100, 2500, 10**6):
        monkeypatch.setattr(clips, "BATCH_SAMPLES", most)
        for found, expected in zip(batched.codes(waves), alone, strict=True):
            assert torch.equal(found, expected)


def test_a_frame_knows_nothing_of_what_follows(small) -> None:
    width = tiny.SMALL.samples_per_frame
    wave = tiny.reference_wave(2, 20 * width)
    changed = wave.clone()
    changed[11 * width :] = 0.3
    (before,), (after,) = small.codes([wave]), small.codes([changed])
    assert torch.equal(before[:11], after[:11])
    assert not torch.equal(before[11:], after[11:])


def test_kernels_equal_references(small) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    wave = tiny.reference_wave(2, 2 * tiny.SMALL.samples_per_frame)[None].to(device)
    encoder = small.encoder.to(device)
    with torch.backends.cudnn.flags(allow_tf32=False):
        with dispatch.override("reference"):
            expected = encoder.latents(wave)
        with dispatch.override("triton"):
            found = encoder.latents(wave)
    assert (found - expected).abs().max() <= 3e-5 * expected.abs().max()


@pytest.mark.parametrize("shape", [(0,), (2, 100), (1200 * 144 + 1,)])
def test_wrong_waves_are_refused(small, shape) -> None:
    with pytest.raises(ValueError, match="1 to 172800 samples are needed"):
        small.codes([torch.zeros(shape)])


@pytest.mark.parametrize("length", [0, 143, 145])
def test_the_encoder_itself_takes_whole_frames(small, length) -> None:
    with pytest.raises(ValueError, match="frames of 144"):
        small.encoder(torch.zeros(1, length))


@pytest.mark.gpu
def test_released_size_on_the_gpu() -> None:
    device = torch.device("cuda")
    model = load_synthetic("fish-s2-pro", device, torch.float32, False, 7, released_config(1, 1))
    encoder = model.voices
    assert isinstance(encoder, CodecVoiceEncoder)
    waves = [tiny.reference_wave(seed, 44100 * (seed + 1)) for seed in range(3)]
    with torch.backends.cudnn.flags(allow_tf32=False):
        codes = encoder.codes(waves)
        alone = encoder.codes(waves[:1])[0]
    assert [tuple(found.shape) for found in codes] == [(22, 10), (44, 10), (65, 10)]
    assert (alone == codes[0]).float().mean() > 0.95
