"""The five released checkpoints at full size: configs, names and shapes are read as they are.

No weight is there: files are sparse, and most loads go to the meta device, through the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import released_checkpoint as released
import torch
from released_files import CHECKPOINTS
from tiny_qwen3_tts import LANGUAGES
from torch import Tensor

from models.checkpoint.files import CheckpointError
from models.checkpoint.weights import META, read_tensors
from models.qwen3_tts.model import Qwen3TTS
from models.registry import describe, load_model

pytestmark = pytest.mark.slow

BASE, CUSTOM_VOICE = "Qwen3-TTS-12Hz-0.6B-Base", "Qwen3-TTS-12Hz-0.6B-CustomVoice"
SPEAKERS = {"serena", "vivian", "uncle_fu", "ryan", "aiden", "ono_anna", "sohee", "eric", "dylan"}
Release = Callable[..., Path]


@pytest.fixture
def release(tmp_path: Path) -> Release:
    """`released_checkpoint.write_checkpoint` into a folder of the test's own."""
    return lambda name, **options: released.write_checkpoint(tmp_path / name, name, **options)


def load_meta(folder: Path) -> Qwen3TTS:
    """What the folder holds, mapped to our networks without a value."""
    model = load_model(str(folder), META, torch.bfloat16)
    assert isinstance(model, Qwen3TTS)
    return model


def num_values(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors)


def main_networks(model: Qwen3TTS) -> list[Tensor]:
    """All weights that come from the main file."""
    networks: list[Any] = [model.talker, model.predictor]
    if model.voices is not None:
        networks.append(model.voices.speaker)
    return [tensor for network in networks for tensor in network.parameters()]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_released_checkpoint_is_read_as_it_is(name: str, release: Release) -> None:
    folder = release(name)
    codec = folder / "speech_tokenizer" / "model.safetensors"
    assert (folder / "model.safetensors").stat().st_size == released.WEIGHT_BYTES[name]
    assert codec.stat().st_size == released.SPEECH_TOKENIZER_BYTES
    assert released.disk_bytes(folder) < 2**22, "a vocabulary and headers"
    *_, size, kind = name.split("-")
    info = describe(str(folder))
    types = {"Base": "base", "CustomVoice": "custom_voice", "VoiceDesign": "voice_design"}
    assert (info.family, info.type) == ("qwen3_tts", types[kind])
    assert info.size == size.replace(".", "b").removesuffix("B")
    assert set(info.voices) == (SPEAKERS if kind == "CustomVoice" else set())
    assert info.languages == ("auto", *LANGUAGES)
    assert info.can_clone == (kind == "Base")
    assert info.needs is None
    assert info.takes_instruct == (name.endswith(("1.7B-CustomVoice", "1.7B-VoiceDesign")))
    assert (info.num_codebooks, info.sample_rate_hz, info.samples_per_frame) == (16, 24000, 1920)
    model = load_meta(folder)
    assert model.info == info
    assert (model.voices is not None) == name.endswith("Base")
    # Nothing of the main file is left over, and the networks have nothing but its weights.
    assert num_values(main_networks(model)) == num_values(read_tensors(folder, META).values())


@pytest.mark.parametrize(
    ("part", "name", "defect"),
    [
        *(
            (part, name, defect)
            for part, name in (
                ("main", "talker.codec_head.weight"),
                ("codec", "decoder.decoder.4.block.4.conv2.conv.weight"),
            )
            for defect in ("missing", "unexpected", "has shape")
        ),
        ("main", "talker.model.layers.27.mlp.up_proj.weight", "has shape"),
        ("main", "talker.code_predictor.model.layers.4.mlp.down_proj.weight", "missing"),
        ("main", "speaker_encoder.blocks.3.res2net_block.blocks.6.conv.weight", "unexpected"),
        ("codec", "encoder.encoder_transformer.layers.7.mlp.fc2.weight", "has shape"),
    ],
)
def test_one_wrong_tensor_is_refused(part: str, name: str, defect: str, release: Release) -> None:
    folder = release(BASE)
    tensors = released.read_tensor_list(BASE if part == "main" else released.SPEECH_TOKENIZER)
    kind, shape = tensors[name]
    if defect == "missing":
        del tensors[name]
    elif defect == "unexpected":
        tensors[f"{name}.more"] = kind, shape
    else:
        tensors[name] = kind, (shape[0] + 1, *shape[1:])
    where = folder if part == "main" else folder / "speech_tokenizer"
    released.write_sparse(where / "model.safetensors", tensors)
    with pytest.raises(CheckpointError, match=rf"tensors do not match:\s+.*{defect}"):
        load_meta(folder)
    if name.startswith("decoder."):  # seen by `voices` and `validate` already
        with pytest.raises(CheckpointError, match=rf"1 tensors do not match:\s+.*{defect}"):
            describe(str(folder))


@pytest.mark.parametrize("part", ["model.safetensors", "speech_tokenizer/model.safetensors"])
def test_a_download_cut_short_is_seen_without_reading_it(part: str, release: Release) -> None:
    path = release(CUSTOM_VOICE) / part
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)
    with pytest.raises(CheckpointError, match=rf"{path.name}: not a readable safetensors file"):
        describe(str(path.parents[part.count("/")]))
