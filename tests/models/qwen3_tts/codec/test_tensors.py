"""What the vocoder's loader accepts, folds and refuses."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import tiny_vocoder
import torch
from safetensors.torch import load_file

from models.checkpoint.files import CheckpointError
from models.qwen3_tts.codec import Vocoder
from models.qwen3_tts.config import VocoderConfig
from models.qwen3_tts.tensors import UNUSED, vocoder_table

VOICE = Path(__file__).parents[4] / "samples" / "voice" / "checkpoint" / "speech_tokenizer"


@pytest.fixture
def small() -> Vocoder:
    config = tiny_vocoder.config()
    return tiny_vocoder.build(config, tiny_vocoder.random_tensors(config))


# Tensors


def test_released_sizes() -> None:
    """The released file has 271 tensors and 114,323,137 numbers below `decoder.`."""
    config = tiny_vocoder.config(
        "released_rates",
        codebook_size=2048,
        codebook_dim=512,
        latent_dim=1024,
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=16,
        head_dim=64,
        sliding_window=72,
        decoder_dim=1536,
    )
    shapes = vocoder_table(config).shapes
    unused = dict.fromkeys(UNUSED, (config.codebook_dim // 2, config.codebook_dim, 1))
    assert len(shapes | unused) == 271
    assert sum(math.prod(shape) for shape in (shapes | unused).values()) == 114_323_137
    assert config.samples_per_frame == 1920


def test_every_misfit_is_named_at_once(small) -> None:
    tensors = tiny_vocoder.random_tensors(small.config)
    del tensors["decoder.pre_conv.conv.bias"]
    del tensors["decoder.decoder.1.block.0.alpha"]
    tensors["decoder.decoder.99.beta"] = torch.zeros(1)
    tensors["encoder.downsample.conv.weight"] = torch.zeros(1)
    tensors["decoder.upsample.0.1.gamma"] = torch.zeros(3)
    with pytest.raises(CheckpointError) as caught:
        tiny_vocoder.build(small.config, tensors)
    message = str(caught.value)
    assert "5 tensors do not match" in message
    for line in (
        "missing decoder.decoder.1.block.0.alpha",
        "missing decoder.pre_conv.conv.bias",
        "unexpected 'decoder.decoder.99.beta'",
        "unexpected 'encoder.downsample.conv.weight'",
        "decoder.upsample.0.1.gamma has shape (3,), but the config requires (16,)",
    ):
        assert line in message


def test_a_long_list_of_misfits_is_cut(small) -> None:
    with pytest.raises(CheckpointError, match=r"and \d+ more"):
        tiny_vocoder.build(small.config, {})


def test_input_projections_may_be_there(small) -> None:
    tensors = tiny_vocoder.random_tensors(small.config)
    codes = tiny_vocoder.random_codes(small.config, 1, 4)
    more = tensors | dict.fromkeys(UNUSED, torch.full((8, 16, 1), float("nan")))
    assert torch.equal(tiny_vocoder.build(small.config, more)(codes), small(codes))


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16])
def test_stored_dtype_only_rounds_the_weights(small, stored) -> None:
    """Folded in half precision they would be rounded once more, and unused codes would overflow."""
    tensors = tiny_vocoder.random_tensors(small.config)
    halves = {name: value.to(stored) for name, value in tensors.items()}
    before = {name: value.clone() for name, value in halves.items()}
    codes = tiny_vocoder.random_codes(small.config, 2, 6)
    codes[0, :, 2] = 3  # the unused entry: its sum is divided by the bound, not by its usage
    expected = tiny_vocoder.build(
        small.config, {name: value.float() for name, value in halves.items()}
    )(codes)
    assert torch.equal(tiny_vocoder.build(small.config, halves)(codes), expected)
    assert all(torch.equal(halves[name], before[name]) for name in before)


def test_sample_voice_loads() -> None:
    config = VocoderConfig.from_folder(VOICE)
    vocoder = tiny_vocoder.build(config, load_file(VOICE / "model.safetensors"))
    samples = vocoder(tiny_vocoder.random_codes(config, 1, 5))
    assert samples.shape == (1, 5 * 1920)
    assert samples.isfinite().all()
    assert 1e-3 < samples.square().mean().sqrt() < 0.5


# Config


def test_config_is_read() -> None:
    config = tiny_vocoder.config("released_rates")
    assert (config.num_codebooks, config.semantic_codes, config.frames.window) == (16, 16, 9)
    assert config.upsample_rates == (8, 5, 4, 3)
    assert (config.sample_rate_hz, config.samples_per_frame) == (24000, 1920)


NOT_READ = {
    "hidden_act",
    "attention_bias",
    "layer_scale_initial_scale",
}  # checked if there, or for training


@pytest.mark.parametrize("key", sorted(tiny_vocoder.DECODER.keys() - NOT_READ))
def test_missing_keys_are_named(tmp_path, key) -> None:
    values = tiny_vocoder.tokenizer_config()
    del values["decoder_config"][key]
    with pytest.raises(
        CheckpointError, match=rf"config\.json: decoder_config: key '{key}' is missing"
    ):
        tiny_vocoder.read_config(tmp_path, values)


@pytest.mark.parametrize("key", ["decoder_config", "output_sample_rate", "decode_upsample_rate"])
def test_missing_top_keys_are_named(tmp_path, key) -> None:
    values = tiny_vocoder.tokenizer_config()
    del values[key]
    with pytest.raises(CheckpointError, match=rf"config\.json: key '{key}' is missing"):
        tiny_vocoder.read_config(tmp_path, values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu' is not supported"),
        ({"attention_bias": True}, "attention_bias = True is not supported"),
        ({"num_quantizers": 1}, "'num_quantizers' must be int >= 2"),
        ({"num_key_value_heads": 3}, "2 heads cannot share 3 key heads"),
        ({"head_dim": 15}, "head_dim = 15 must be even"),
        ({"decoder_dim": 18}, "decoder_dim = 18 cannot be halved 2 times"),
        ({"upsample_rates": [4, 0]}, "'upsample_rates' must be a list of int"),
        ({"upsample_rates": [4, True]}, "'upsample_rates' must be a list of int"),
        ({"sliding_window": 0}, "'sliding_window' must be int >= 1"),
        ({"codebook_size": "16"}, "'codebook_size' must be int"),
    ],
)
def test_impossible_values_are_refused(changes, message) -> None:
    with pytest.raises(CheckpointError, match=message):
        tiny_vocoder.config("small", **changes)


def test_contradicting_rates_are_refused(tmp_path) -> None:
    values = tiny_vocoder.tokenizer_config() | {"decode_upsample_rate": 1920}
    with pytest.raises(CheckpointError, match=r"is 1920, but .* multiply to 24"):
        tiny_vocoder.read_config(tmp_path, values)
