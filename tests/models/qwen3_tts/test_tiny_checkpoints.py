"""The tiny checkpoints are the released ones but for their sizes: files, keys, tensor names.

Configs written from imagination once hid that no released Base checkpoint could clone.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import released_files
import tiny_qwen3_tts as tiny
import tiny_qwen3_tts_configs as configs
import tiny_vocoder
import torch
from safetensors import safe_open

WEIGHTS = ("model.safetensors", "speech_tokenizer/model.safetensors")
JSON_FILES = (  # of `common`, beside each checkpoint's own config.json
    "generation_config.json",
    "preprocessor_config.json",
    "tokenizer_config.json",
    "speech_tokenizer/config.json",
    "speech_tokenizer/configuration.json",
    "speech_tokenizer/preprocessor_config.json",
)
RELEASED_VOCAB = 151936


def differing_keys(ours: Any, released: Any, path: str = "") -> set[str]:
    """Paths of the keys that only one of two JSON values has, `+` before those it lacks.

    Of an object whose keys are names or ids only the values are compared, each with any released
    one.
    """
    if not isinstance(ours, dict) or not isinstance(released, dict):
        return {path} if isinstance(ours, dict) != isinstance(released, dict) else set()
    if path.rpartition(".")[2] in configs.OPEN_OBJECTS:
        example = next(iter(released.values()), None)
        pairs = [(f"{path}.*", value, example) for value in ours.values() if released]
        found = set()
    else:
        found = {f"+{path}.{key}" for key in ours.keys() - released.keys()}
        found |= {f"-{path}.{key}" for key in released.keys() - ours.keys()}
        pairs = [(f"{path}.{key}", ours[key], released[key]) for key in ours.keys() & released]
    return found.union(*(differing_keys(a, b, where) for where, a, b in pairs))


def tensor_list(path: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Name -> dtype and shape of a released safetensors file."""
    lines = (released_files.RELEASED / path).read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    return {name: (dtype, tuple(map(int, shape.split(",")))) for name, dtype, shape in rows}


def without_indices(names: Any) -> set[str]:
    """Names of tensors whatever the number of layers."""
    return {re.sub(r"\d+", "N", name) for name in names}


@pytest.mark.parametrize("name", sorted(configs.SPECS))
def test_files_and_keys_are_the_released_ones(name: str, tmp_path: Path) -> None:
    spec = configs.SPECS[name]
    folder = tiny.write_checkpoint(tmp_path, spec)
    main = f"{configs.released_name(spec)}/config.json"
    released = {"config.json": main} | {file: f"common/{file}" for file in JSON_FILES}
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == {*released, *WEIGHTS, "vocab.json", "merges.txt"}
    for file, source in released.items():
        ours = json.loads((folder / file).read_text(encoding="utf-8"))
        assert differing_keys(ours, released_files.read(source)) == set(), file


def test_variants_differ_only_as_named() -> None:
    assert set(configs.VARIANTS) == {"small speaker encoder", "words as added tokens"}
    for name, spec in configs.GOLDEN_SPECS.items():
        ours = configs.main_config(spec)
        released = released_files.read(f"{configs.released_name(spec)}/config.json")
        sizes = {f"+.speaker_encoder_config.{key}" for key in configs.SMALL_SPEAKER_ENCODER}
        assert differing_keys(ours, released) == (sizes if spec.type == "base" else set()), name
    released = released_files.read("common/tokenizer_config.json")["added_tokens_decoder"]
    contents = {token["content"]: token for token in released.values()}
    tokens = {token["content"]: token for token in configs.added_tokens().values()}
    assert tokens.keys() - contents.keys() == set(configs.WORDS)
    assert {name: tokens[name] for name in contents} == contents


@pytest.mark.parametrize("variant", sorted(tiny_vocoder.VARIANTS))
def test_keys_of_tiny_vocoders_are_the_released_ones(variant: str) -> None:
    ours = tiny_vocoder.tokenizer_config(variant)
    released = released_files.read("common/speech_tokenizer/config.json")
    assert differing_keys(ours, released) == set()


def test_an_invented_key_is_found() -> None:
    released = released_files.read("common/speech_tokenizer/config.json")
    ours = released_files.read("common/speech_tokenizer/config.json")
    ours["encoder_config"]["frame_rate"] = ours["encoder_config"].pop("_frame_rate")
    ours["decoder_config"] = 3
    assert differing_keys(ours, released) == {
        "+.encoder_config.frame_rate",
        "-.encoder_config._frame_rate",
        ".decoder_config",
    }
    tokens = released_files.read("common/tokenizer_config.json")
    tokens["added_tokens_decoder"]["7"] = {"content": "x"}
    found = differing_keys(tokens, released_files.read("common/tokenizer_config.json"))
    assert "-.added_tokens_decoder.*.special" in found


def test_a_key_no_released_file_has_cannot_be_set() -> None:
    encoder = released_files.read("common/speech_tokenizer/config.json")["encoder_config"]
    with pytest.raises(KeyError, match="frame_rate: no key of the released file"):
        released_files.put(encoder, frame_rate=12.5)
    with pytest.raises(KeyError, match="rope_scaling"):
        tiny_vocoder.config(rope_scaling=None)
    with pytest.raises(KeyError, match="min_new_tokens"):
        configs.generation_config({"min_new_tokens": 2})


@pytest.mark.parametrize("name", released_files.CHECKPOINTS)
def test_tiny_tensors_scale_up_to_the_released_ones(name: str) -> None:
    config = released_files.read(f"{name}/config.json")
    talker = config["talker_config"]
    predictor = talker["code_predictor_config"]

    def shape(section: dict[str, Any]) -> tiny.Transformer:
        return tiny.Transformer(
            section["hidden_size"],
            section["intermediate_size"],
            section["num_hidden_layers"],
            section["num_attention_heads"],
            section["num_key_value_heads"],
        )

    spec = replace(
        configs.SPECS["base"],
        type=config["tts_model_type"],
        size=config["tts_model_size"],
        num_codebooks=talker["num_code_groups"],
        codebook_size=predictor["vocab_size"],
        talker=shape(talker),
        predictor=shape(predictor),
        text_width=talker["text_hidden_size"],
        head_dim=talker["head_dim"],
    )
    assert configs.released_name(spec) == name
    shapes = tiny.main_shapes(spec)
    shapes["talker.model.text_embedding.weight"] = (RELEASED_VOCAB, spec.text_width)
    released = tensor_list(f"{name}/tensors.tsv")
    assert shapes == {tensor: shape for tensor, (_, shape) in released.items()}
    assert {dtype for dtype, _ in released.values()} == {"BF16"}


@pytest.mark.parametrize("name", ["custom_voice", "base"])
def test_tiny_files_are_stored_like_the_released_ones(name: str, tmp_path: Path) -> None:
    folder = tiny.write_checkpoint(tmp_path, name)
    with (
        safe_open(folder / WEIGHTS[0], "pt") as main,
        safe_open(folder / WEIGHTS[1], "pt") as codec,
    ):
        assert main.metadata() == ({"format": "pt"} if name == "custom_voice" else None)
        assert codec.metadata() is None
        assert {main.get_tensor(key).dtype for key in main.keys()} == {torch.bfloat16}  # noqa: SIM118
        assert {codec.get_tensor(key).dtype for key in codec.keys()} == {torch.float32}  # noqa: SIM118
        ours = without_indices(codec.keys())
    released = tensor_list("common/speech_tokenizer/tensors.tsv")
    assert len(released) == 496
    assert ours == without_indices(released)
