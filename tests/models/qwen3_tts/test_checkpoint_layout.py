"""Reading checkpoints in the released layout: every variant loads, every defect is named."""

from __future__ import annotations

import functools
import json
import operator
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import official_package as official
import pytest
import tiny_qwen3_tts as tiny
import torch
from safetensors.torch import load_file, save_file
from speak import speak

from models.base import RequestError, SpeechRequest
from models.checkpoint.files import CheckpointError
from models.registry import describe, load_model
from models.sampling import Sampling

pytestmark = pytest.mark.slow

Write = Callable[..., Path]
GREEDY = Sampling(greedy=True, subtalker_greedy=True)
REQUEST = SpeechRequest("Hello there.", "ada", sampling=GREEDY, max_frames=9)


def load(folder: Path) -> Any:
    """Our model of a checkpoint, float32 on the CPU."""
    return load_model(str(folder), "cpu", torch.float32)


def spoken_codes(folder: Path) -> torch.Tensor:
    """Codes of one request: they tell whether two checkpoints mean the same."""
    return speak(load(folder), [REQUEST], 1)[0].codes


@pytest.fixture(scope="module")
def plain(checkpoint: Write) -> Path:
    """The checkpoint the others differ from."""
    return checkpoint("custom_voice", 7)


@pytest.fixture(scope="module")
def plain_codes(plain: Path) -> torch.Tensor:
    """What it says."""
    return spoken_codes(plain)


@pytest.fixture
def copied(plain: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(plain, tmp_path / "copy")


def edit_weights(path: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Change a safetensors file in place."""
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


@pytest.mark.parametrize("name", sorted(tiny.SPECS))
def test_every_spec_loads(name: str, checkpoint: Write) -> None:
    folder = checkpoint(name)
    assert load(folder).info == describe(str(folder))


def test_base_without_a_speech_encoder_says_what_is_missing(checkpoint: Write) -> None:
    folder = checkpoint("base", has_audio_encoder=False)
    info = describe(str(folder))
    assert (info.can_clone, info.needs) == (False, "its speech tokenizer has no encoder")
    model = load(folder)
    assert model.info == info
    with pytest.raises(RequestError, match="cannot clone a voice: its speech tokenizer has no"):
        model.encode_voices([torch.zeros(24000)], ["xvec"])


def drop(part: str, name: str) -> Callable[[Path], None]:
    path = "model.safetensors" if part == "main" else "speech_tokenizer/model.safetensors"
    return lambda folder: edit_weights(folder / path, lambda tensors: tensors.pop(name))


@pytest.mark.parametrize(
    ("part", "name", "message"),
    [
        (
            "main",
            "speaker_encoder.fc.bias",
            r"speaker encoder: 1 tensors.*\n.*missing .*\.fc\.bias",
        ),
        (
            "codec",
            "encoder.downsample.conv.weight",
            r"speech encoder: 1 tensors.*\n.*missing encoder\.downsample\.conv\.weight",
        ),
        (
            "codec",
            "encoder.quantizer.acoustic_residual_vector_quantizer.layers.2.codebook.embed_sum",
            r"missing encoder\.quantizer.*\.layers\.2\.codebook\.embed_sum",
        ),
    ],
)
def test_encoders_load_strictly(part: str, name: str, message: str, checkpoint: Write) -> None:
    folder = checkpoint("base")
    drop(part, name)(folder)
    with pytest.raises(CheckpointError, match=message):
        load(folder)
    if part == "codec":  # no weight is read to see it
        with pytest.raises(CheckpointError, match=message):
            describe(str(folder))


def test_codebooks_beyond_those_kept_may_be_missing(checkpoint: Write) -> None:
    folder = checkpoint("base")
    last = tiny.SPECS["base"].num_codebooks
    prefix = "encoder.quantizer.acoustic_residual_vector_quantizer"
    for name in (
        f"{prefix}.layers.{last}.codebook.embed_sum",
        f"{prefix}.layers.{last}.codebook.cluster_usage",
        f"{prefix}.layers.{last}.codebook.initialized",
        f"{prefix}.output_proj.weight",
    ):
        drop("codec", name)(folder)
    wave = tiny.reference_wave(0, 30000)
    ((_, codes),) = load(folder).encode_voices([wave], ["icl"])
    ((_, expected),) = load(checkpoint("base")).encode_voices([wave], ["icl"])
    assert torch.equal(codes, expected)


def edit(folder: Path, path: str, keys: tuple[str, ...], change: Callable[[Any], object]) -> None:
    """Change the section of a config that has the last of some keys."""
    file = folder / ("speech_tokenizer/config.json" if path == "codec" else path)
    config = json.loads(file.read_text(encoding="utf-8"))
    change(functools.reduce(operator.getitem, keys[:-1], config))
    file.write_text(json.dumps(config), encoding="utf-8")


@pytest.mark.parametrize(
    ("path", "keys", "value", "message"),
    [
        ("config.json", ("speaker_encoder_config", "enc_dim"), 40, "embedding width is 40"),
        ("config.json", ("speaker_encoder_config", "sample_rate"), 16000, "needs 24000 Hz"),
        ("config.json", ("speaker_encoder_config", "enc_channels"), [16, 16], "equally long"),
        ("config.json", ("speaker_encoder_config", "enc_channels"), [16, 16, 16, 16, 40], "sum"),
        ("config.json", ("speaker_encoder_config", "enc_res2net_scale"), 5, "split into 5 parts"),
        ("config.json", ("speaker_encoder_config", "enc_kernel_sizes"), [4] * 5, "must be odd"),
        (
            "config.json",
            ("speaker_encoder_config", "enc_dilations"),
            [1, "2"],
            "must be a list of int",
        ),
        ("codec", ("encode_downsample_rate",), 960, "is 960, but the encoder's is 1920"),
        ("codec", ("input_sample_rate",), 16000, "is 16000, but the encoder's is 24000"),
        ("codec", ("encoder_valid_num_quantizers",), 99, "99, the encoder has 18"),
        ("codec", ("encoder_valid_num_quantizers",), 8, "number of codebooks is 8"),
        ("codec", ("encoder_config", "use_causal_conv"), False, "use_causal_conv = False"),
        ("codec", ("encoder_config", "num_residual_layers"), 2, "num_residual_layers = 2"),
        ("codec", ("encoder_config", "num_semantic_quantizers"), 2, "num_semantic_quantizers"),
        ("codec", ("encoder_config", "pad_mode"), "reflect", "pad_mode = 'reflect'"),
        ("codec", ("encoder_config", "codebook_dim"), 4, "hidden_dimension is "),
        ("codec", ("encoder_config", "codebook_size"), 32, "codebook size is 32"),
        ("codec", ("encoder_config", "upsampling_ratios"), [8, 6], "encode_downsample_rate"),
        ("codec", ("encoder_config", "upsampling_ratios"), [], "upsampling_ratios"),
        ("codec", ("encoder_config", "num_key_value_heads"), 3, "2 heads cannot share 3"),
        ("codec", ("encoder_config", "head_dim"), 7, "head_dim = 7 must be even"),
    ],
)
def test_encoder_configs_are_read_strictly(
    path: str, keys: tuple[str, ...], value: object, message: str, checkpoint: Write
) -> None:
    folder = checkpoint("base")
    edit(folder, path, keys, lambda section: section.update({keys[-1]: value}))
    with pytest.raises(CheckpointError, match=message):
        describe(str(folder))


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("config.json", ("speaker_encoder_config",)),
        ("config.json", ("speaker_encoder_config", "enc_dim")),
        ("config.json", ("speaker_encoder_config", "sample_rate")),
        ("codec", ("encoder_config",)),
        ("codec", ("encoder_config", "norm_eps")),
        ("codec", ("encoder_valid_num_quantizers",)),
    ],
)
def test_missing_encoder_keys_are_named(
    path: str, keys: tuple[str, ...], checkpoint: Write
) -> None:
    folder = checkpoint("base")
    edit(folder, path, keys, lambda section: section.pop(keys[-1]))
    with pytest.raises(CheckpointError, match=rf"key '{keys[-1]}' is missing"):
        describe(str(folder))


@pytest.mark.parametrize(
    "options",
    [
        {"num_shards": 3},
        {"has_audio_encoder": False},
        {"num_shards": 2, "has_audio_encoder": False},
    ],
    ids=str,
)
def test_files_laid_out_otherwise_mean_the_same(
    options: dict[str, Any], checkpoint: Write, plain_codes: torch.Tensor
) -> None:
    assert torch.equal(spoken_codes(checkpoint("custom_voice", 7, **options)), plain_codes)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_speech_tokenizer_may_be_stored_in_half_precision(
    dtype: torch.dtype, checkpoint: Write
) -> None:
    codes = tiny.random_codes(tiny.SPECS["voice_design"], 0, 6)
    (exact,) = load(checkpoint("voice_design", 7)).decode_audio([codes])
    (rounded,) = load(checkpoint("voice_design", 7, codec_dtype=dtype)).decode_audio([codes])
    error = (rounded - exact).square().mean().sqrt() / exact.square().mean().sqrt()
    assert 0 < float(error) < 0.1  # only the stored weights are rounded


@pytest.mark.parametrize(
    "file",
    [
        "config.json",
        "vocab.json",
        "merges.txt",
        "speech_tokenizer/config.json",
        "speech_tokenizer/model.safetensors",
    ],
)
def test_missing_file_is_an_error_of_the_checkpoint(file: str, copied: Path) -> None:
    (copied / file).unlink()
    with pytest.raises(CheckpointError):
        load(copied)


@pytest.mark.oracle
@pytest.mark.skipif(not official.is_installed(), reason="needs the official qwen_tts package")
@pytest.mark.parametrize("name", sorted(tiny.SPECS))
def test_names_and_shapes_are_the_official_ones(name: str, checkpoint: Write) -> None:
    model = official.load_model(checkpoint(name)).model
    found = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    assert found == tiny.main_shapes(tiny.SPECS[name])
    codec = model.speech_tokenizer.model
    found = {key: tuple(value.shape) for key, value in codec.state_dict().items()}
    expected = tiny.decoder_shapes(tiny.SPECS[name])
    if official.can_clone():  # else the package is loaded without the audio encoder
        expected |= tiny.audio_encoder_shapes(tiny.SPECS[name])
    assert found == expected
