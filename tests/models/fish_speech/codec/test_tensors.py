"""What `codec.json` and `codec.safetensors` must hold, and what becomes of them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import tiny_fish_codec as tiny
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.utils.parametrizations import weight_norm

from kernels.attention.rope import apply_rope, rope_tables
from models.checkpoint.files import CheckpointError
from models.checkpoint.weights import halves
from models.dual_ar.config import CONFIG_FILE, PICKLED_FILE, WEIGHTS_FILE, CodecConfig
from models.dual_ar.tensors import official_shapes
from models.vocoder.fold import grouped_taps, plain

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A converted tiny codec."""
    tiny.write_codec(tmp_path, seed=4)
    return tmp_path


def rewrite(folder: Path, change: Any) -> None:
    """Change the tensors of a codec."""
    tensors = load_file(folder / WEIGHTS_FILE)
    change(tensors)
    save_file(tensors, folder / WEIGHTS_FILE)


def test_released_sizes() -> None:
    """Number of tensors and weights of the released file."""
    config = CodecConfig.released()
    shapes = official_shapes(config)
    assert len(shapes) == 535
    assert sum(math.prod(shape) for shape in shapes.values()) == 391_430_530
    assert (config.samples_per_frame, config.context_frames) == (2048, 10)
    assert config.codebook_sizes == (4096, *[1024] * 9)


def test_a_folder_gives_the_codec_that_was_written(folder: Path) -> None:
    tensors = tiny.random_tensors(tiny.SMALL, 4)
    vocoder, voices = tiny.load_codec(folder, CPU, torch.float32)
    codes = tiny.random_codes(tiny.SMALL, 2, 5)
    assert torch.equal(vocoder(codes), tiny.build(tiny.SMALL, tensors)(codes))
    wave = tiny.reference_wave(1, 1000)
    expected = tiny.build_encoder(tiny.SMALL, tensors).codes([wave])[0]
    assert torch.equal(voices.codes([wave])[0], expected)
    assert tiny.load_codec(folder, CPU, torch.bfloat16)[0].dtype == torch.bfloat16


def test_every_misfit_is_named_at_once(folder: Path) -> None:
    def change(tensors: dict[str, Tensor]) -> None:
        del tensors["decoder.model.1.block.0.alpha"]
        del tensors["encoder.block.0.conv.bias"]
        tensors["decoder.model.99.alpha"] = torch.zeros(1)
        tensors["quantizer.upsample.0.1.gamma"] = torch.zeros(3)

    rewrite(folder, change)
    with pytest.raises(CheckpointError) as caught:
        tiny.load_codec(folder, CPU, torch.float32)
    message = str(caught.value)
    assert "4 tensors do not match" in message
    for line in (
        "missing decoder.model.1.block.0.alpha",
        "missing encoder.block.0.conv.bias",
        "unexpected 'decoder.model.99.alpha'",
        "quantizer.upsample.0.1.gamma has shape (3,), but the config requires (32,)",
    ):
        assert line in message


def test_a_pickled_codec_is_not_read(tmp_path: Path) -> None:
    tiny.write_codec(tmp_path, as_pickle=True)
    with pytest.raises(CheckpointError, match=r"still pickled .* `tts-cli models convert "):
        tiny.load_codec(tmp_path, CPU, torch.float32)
    (tmp_path / PICKLED_FILE).unlink()
    with pytest.raises(CheckpointError, match=r"no codec\.safetensors"):
        tiny.load_codec(tmp_path, CPU, torch.float32)


def test_another_pickle_beside_it_asks_for_a_conversion(folder: Path) -> None:
    (folder / PICKLED_FILE).write_bytes(b"another one")
    with pytest.raises(CheckpointError, match=r"not made of the codec\.pth next to it"):
        tiny.load_codec(folder, CPU, torch.float32)


SECTIONS = {"frames", "steps"}
STACKS = {*SECTIONS, "encoder_frames"}


@pytest.mark.parametrize("key", sorted(tiny.SMALL.as_json()))
def test_missing_keys_are_named(folder: Path, key: str) -> None:
    values = tiny.SMALL.as_json()
    del values[key]
    (folder / CONFIG_FILE).write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match=rf"codec\.json: key '{key}' is missing"):
        CodecConfig.from_folder(folder)


@pytest.mark.parametrize("key", sorted(tiny.SMALL.as_json()["frames"]))
def test_missing_keys_of_sections_are_named(folder: Path, key: str) -> None:
    for name in SECTIONS:
        values = tiny.SMALL.as_json()
        del values[name][key]
        (folder / CONFIG_FILE).write_text(json.dumps(values))
        with pytest.raises(CheckpointError, match=f"{name}: key '{key}' is missing"):
            CodecConfig.from_folder(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_codebooks": 1}, "'num_codebooks' must be int >= 2, not 1"),
        ({"code_dim": 0}, "'code_dim' must be int >= 1, not 0"),
        ({"upsample_rates": (4, 0)}, "'upsample_rates' must be a list of int >= 1"),
        ({"upsample_rates": (4, 3)}, "the encoder takes 144 samples a frame, the decoder makes 72"),
        ({"encoder_dim": 8}, "the encoder's last width is 64, latent_dim 32"),
        ({"decoder_dim": 12}, "decoder_dim = 12 cannot be halved 3 times"),
        ({"frames": {"head_dim": 12}}, "head_dim 12 must divide the width 32"),
        ({"frames": {"num_kv_heads": 3}}, "2 heads cannot share 3 key heads"),
        ({"encoder_frames": {"width": 64}}, "the width of 'encoder_frames' is 64"),
        ({"steps": {"width": 64}}, "the width of 'steps' is 64"),
    ],
)
def test_impossible_sizes_are_refused(folder: Path, changes: Any, message: str) -> None:
    values = tiny.SMALL.as_json()
    for key, change in changes.items():
        values[key] = values.get(key, values["frames"]) | change if key in STACKS else change
    (folder / CONFIG_FILE).write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match=message):
        CodecConfig.from_folder(folder)


# What is folded


def test_weight_norm_is_that_of_pytorch() -> None:
    for layer in (torch.nn.Conv1d(5, 7, 3), torch.nn.ConvTranspose1d(5, 7, 3)):
        normed = weight_norm(layer)
        with torch.no_grad():
            normed.parametrizations.weight.original0.normal_()
            normed.parametrizations.weight.original1.normal_()
        state = {f"a.{name}": value for name, value in normed.state_dict().items()}
        folded = plain(state)
        assert sorted(folded) == ["a.bias", "a.weight"]
        assert torch.allclose(folded["a.weight"], normed.weight, atol=1e-6)
        old = {
            "a.weight_g": state["a.parametrizations.weight.original0"],
            "a.weight_v": state["a.parametrizations.weight.original1"],
        }
        assert torch.equal(plain(old)["a.weight"], folded["a.weight"])


def test_interleaved_pairs_become_halves() -> None:
    """Rotating pairs of the old rows is rotating halves of the new ones."""
    x = torch.randn(3, 8)  # positions, one head
    cos, sin = rope_tables(3, 8, 100.0, "cpu", torch.float32)
    pairs = torch.view_as_complex(x.view(3, 4, 2).contiguous())
    rotated = torch.view_as_real(pairs * torch.complex(cos[:, :4], sin[:, :4])).flatten(1)
    found = apply_rope(halves(x.t().contiguous(), 1, 8).t().contiguous(), cos, sin)
    assert torch.allclose(found, halves(rotated.t().contiguous(), 1, 8).t(), atol=1e-6)


def test_a_strided_convolution_reads_steps_side_by_side() -> None:
    x, weight = torch.randn(1, 12, 5), torch.randn(7, 5, 6)  # (B, T, C), stride 3
    padded = torch.nn.functional.pad(x, (0, 0, 3, 0))
    expected = torch.nn.functional.conv1d(padded.transpose(1, 2), weight, stride=3)
    grouped = padded.view(1, 5, 15).transpose(1, 2)
    found = torch.nn.functional.conv1d(grouped, grouped_taps(weight, 3).squeeze(2))
    assert torch.allclose(found, expected, atol=1e-5)
