"""`speech_tokenizer/config.json`: as released, and as transformers 5 saves it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import released_files

from models.checkpoint.files import CheckpointError
from models.qwen3_tts.config import SpeechEncoderConfig, VocoderConfig

CODEC = "common/speech_tokenizer"
Read = Callable[[dict[str, Any]], tuple[SpeechEncoderConfig, VocoderConfig]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """What both readers make of a config.json of these values."""

    def read(values: dict[str, Any]) -> tuple[SpeechEncoderConfig, VocoderConfig]:
        (tmp_path / "config.json").write_text(json.dumps(values), encoding="utf-8")
        return SpeechEncoderConfig.from_folder(tmp_path), VocoderConfig.from_folder(tmp_path)

    return read


@pytest.fixture
def values() -> dict[str, Any]:
    """The released file's values, to be changed."""
    return released_files.read(f"{CODEC}/config.json")


@pytest.mark.parametrize(
    ("rates", "kernel"),
    [
        ({"_frame_rate": 12.5}, 4),
        ({"frame_rate": 12.5}, 4),
        ({"_frame_rate": 12.5, "frame_rate": 6.25}, 4),  # as transformers chooses
        ({"_frame_rate": 6.25, "frame_rate": None}, 8),
        ({"_frame_rate": None}, 4),  # derived from the strides
        ({"_frame_rate": None, "frame_rate": None}, 4),
        ({}, 4),
    ],
    ids=str,
)
def test_frame_rate_under_either_name_or_none(
    rates: dict[str, float | None], kernel: int, values: dict[str, Any], read: Read
) -> None:
    from transformers import MimiConfig

    encoder = values["encoder_config"]
    del encoder["_frame_rate"]
    encoder |= rates
    assert read(values)[0].halving_kernel == kernel
    official = MimiConfig(**encoder)
    assert 2 * int(official.encodec_frame_rate / official.frame_rate) == kernel


def test_a_null_frame_rate_is_absent(values: dict[str, Any], read: Read) -> None:
    values["encoder_config"] |= {"_frame_rate": None, "frame_rate": 6.25}
    assert read(values)[0].halving_kernel == 8


@pytest.mark.parametrize("key", ["_frame_rate", "frame_rate"])
@pytest.mark.parametrize(
    ("rate", "message"),
    [
        (99999.0, "encoder_config: by {key} the downsampling convolution has 0 taps"),
        (0, "encoder_config: '{key}' must be float >= 1e-12, not 0"),
        ("12.5", "encoder_config: '{key}' must be float, not '12.5'"),
    ],
)
def test_a_bad_frame_rate_is_named_as_the_file_names_it(
    key: str, rate: object, message: str, values: dict[str, Any], read: Read
) -> None:
    encoder = values["encoder_config"]
    del encoder["_frame_rate"]
    encoder[key] = rate
    with pytest.raises(CheckpointError) as caught:
        read(values)
    assert message.format(key=key) in str(caught.value)


def saved_again(values: dict[str, Any]) -> dict[str, Any]:
    """The same tokenizer, its encoder's section as transformers 5 writes it."""
    from transformers import MimiConfig

    section = MimiConfig(**values["encoder_config"]).to_diff_dict()
    return {**values, "encoder_config": section}


def move_rope(section: dict[str, Any]) -> None:
    """Put `rope_theta` where transformers 5 puts it."""
    section["rope_parameters"] = {"rope_theta": section.pop("rope_theta"), "rope_type": "default"}


@pytest.mark.parametrize("rate", [12.5, None])
def test_a_tokenizer_saved_again_by_transformers_5_means_the_same(
    rate: float | None, values: dict[str, Any], read: Read
) -> None:
    expected = read(values)
    values["encoder_config"]["_frame_rate"] = rate
    again = saved_again(values)
    assert again["encoder_config"]["_frame_rate"] == rate
    if "rope_parameters" not in again["encoder_config"]:
        pytest.skip("transformers before 5")
    assert "rope_theta" not in again["encoder_config"]
    move_rope(again["decoder_config"])
    assert read(again) == expected


@pytest.mark.parametrize("part", ["encoder_config", "decoder_config"])
def test_a_moved_rope_theta_counts(part: str, values: dict[str, Any], read: Read) -> None:
    values[part]["rope_theta"] = 500.0
    move_rope(values[part])
    encoder, vocoder = read(values)
    thetas = [encoder.steps.rope_theta, vocoder.frames.rope_theta]
    assert thetas == ([500, 10000] if part == "encoder_config" else [10000, 500])


@pytest.mark.parametrize("part", ["encoder_config", "decoder_config"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rope_theta": None}, "'rope_theta' must be float, not None"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope_parameters 'yarn' is not supported"),
        ({"rope_scaling": {"type": "yarn"}}, "rope_scaling 'yarn' is not supported"),
        ({"rope_parameters": {"rope_theta": 0}}, "rope_parameters: 'rope_theta' must be float"),
        ({"rope_parameters": {"rope_theta": 5}}, "'rope_theta' is 10000, but rope_parameters has"),
        ({"rope_parameters": 5}, "'rope_parameters' must be object"),
    ],
    ids=str,
)
def test_other_rope_is_refused(
    part: str, change: dict[str, Any], message: str, values: dict[str, Any], read: Read
) -> None:
    values[part] |= change
    with pytest.raises(CheckpointError, match=message) as caught:
        read(values)
    assert part in str(caught.value)


@pytest.mark.parametrize("part", ["encoder_config", "decoder_config"])
def test_a_missing_rope_theta_is_named(part: str, values: dict[str, Any], read: Read) -> None:
    del values[part]["rope_theta"]
    with pytest.raises(CheckpointError, match=rf"{part}: key 'rope_theta' is missing"):
        read(values)
