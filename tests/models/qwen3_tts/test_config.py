"""Configuration: every value comes from the checkpoint, every error names file and key."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import released_files
import torch
from cases import cases
from synthetic import load_synthetic
from tiny_qwen3_tts import LANGUAGES, write_checkpoint

from models.checkpoint.files import CheckpointError
from models.decoder.config import TransformerConfig
from models.pace import Pace
from models.qwen3_tts.config import PACE, Qwen3TTSConfig, VocoderConfig
from models.qwen3_tts.model import Qwen3TTSNetworks
from models.registry import describe
from models.sampling import Sampling

CASES = cases(__file__)["config"]

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "voice", "custom_voice_wide")


def change(folder: Path, edit: Change, name: str = "config.json") -> None:
    """Edit one JSON file of a checkpoint."""
    path = folder / name
    values = json.loads(path.read_text())
    edit(values)
    path.write_text(json.dumps(values))


def test_a_checkpoint_is_read_as_it_is(folder: Path) -> None:
    config = Qwen3TTSConfig.from_folder(folder)
    assert (config.model_type, config.model_size) == ("custom_voice", "1b7")
    assert (config.talker.width, config.talker.num_layers, config.talker.num_heads) == (64, 3, 4)
    assert (config.predictor.width, config.predictor.num_kv_heads) == (32, 1)
    assert (config.vocab_size, config.predictor_vocab_size, config.num_codebooks) == (1152, 128, 4)
    assert (config.codec.eos, config.codec.think_eos, config.text.pad) == (230, 237, 271)
    assert config.speakers == {"dora": 1028, "emil": 1029, "fang": 1030}
    assert config.dialects == {"fang": "beijing_dialect"}
    assert config.language_names == ("auto", *LANGUAGES)
    assert config.sampling == Sampling()
    assert config.max_frames == 8191


KEYS: list[tuple[tuple[str, ...], str]] = [
    ((), "tts_model_type"),
    ((), "tts_model_size"),
    ((), "tts_pad_token_id"),
    ((), "talker_config"),
    (("talker_config",), "hidden_size"),
    (("talker_config",), "head_dim"),
    (("talker_config",), "rope_theta"),
    (("talker_config",), "codec_eos_token_id"),
    (("talker_config",), "num_code_groups"),
    (("talker_config",), "code_predictor_config"),
    (("talker_config", "code_predictor_config"), "vocab_size"),
    (("talker_config", "code_predictor_config"), "num_hidden_layers"),
]


@pytest.mark.parametrize(("path", "key"), KEYS, ids=[key for _, key in KEYS])
@pytest.mark.parametrize("value", ["missing", None, {"a": "b"}, True, [1]])
def test_a_missing_or_mistyped_key_is_named_with_its_file(
    folder: Path, path: tuple[str, ...], key: str, value: object
) -> None:
    if isinstance(value, dict) and key.endswith("_config"):
        value = "text"  # where an object belongs

    def edit(values: dict[str, Any]) -> None:
        for part in path:
            values = values[part]
        if value == "missing":
            del values[key]
        else:
            values[key] = value

    change(folder, edit)
    with pytest.raises(CheckpointError) as caught:
        Qwen3TTSConfig.from_folder(folder)
    message = str(caught.value)
    assert message.startswith(str(folder / "config.json"))
    assert f"'{key}'" in message
    assert ("is missing" in message) is (value == "missing")


TALKER = "talker_config"
BROKEN: list[tuple[Change, str]] = [
    (lambda c: c.update(tts_model_type="singer"), "'tts_model_type' must be"),
    (lambda c: c[TALKER].update(hidden_size=0), "'hidden_size' must be int >= 1, not 0"),
    (lambda c: c[TALKER].update(num_hidden_layers=-1), "'num_hidden_layers' must be int >= 1"),
    (lambda c: c[TALKER].update(num_key_value_heads=0), "'num_key_value_heads' must be int >= 1"),
    (lambda c: c[TALKER].update(num_key_value_heads=3), "4 heads cannot share 3 key heads"),
    (lambda c: c[TALKER].update(rope_theta=0), "'rope_theta' must be float"),
    (lambda c: c[TALKER].update(rms_norm_eps=float("nan")), "'rms_norm_eps' must be float >="),
    (lambda c: c[TALKER].update(rope_theta=float("inf")), "'rope_theta' must be float"),
    (
        lambda c: c[TALKER].update(codec_bos_id=1152),
        "'codec_bos_id' is 1152, but the vocabulary has",
    ),
    (
        lambda c: c.update(tts_eos_token_id=320),
        "'tts_eos_token_id' is 320, but the vocabulary has 320",
    ),
    (lambda c: c[TALKER].update(num_code_groups=5), "num_code_groups differs from the talker's"),
    (lambda c: c[TALKER].update(hidden_act="gelu"), "hidden_act = 'gelu' is not supported"),
    (lambda c: c[TALKER].update(attention_bias=True), "attention_bias = True is not supported"),
    (lambda c: c[TALKER].update(use_sliding_window=True), "use_sliding_window = True"),
    (lambda c: c[TALKER].update(tie_word_embeddings=True), "tie_word_embeddings = True"),
    (lambda c: c[TALKER].update(rope_scaling={"rope_type": "yarn"}), "rope_scaling 'yarn'"),
    (lambda c: c[TALKER].update(rope_scaling="yarn"), "'rope_scaling' must be object"),
    (lambda c: c[TALKER].update(spk_id=["dora"]), "'spk_id' must be object"),
    (lambda c: c[TALKER].update(spk_id={"dora": "1028"}), "'dora' must be int"),
    (lambda c: c[TALKER].update(spk_id={"dora": 99999}), "'dora' is 99999, but the vocabulary has"),
    (lambda c: c[TALKER].update(codec_language_id={"x": -1}), "'x' must be int >= 0"),
    (lambda c: c[TALKER].update(spk_is_dialect={"fang": "klingon"}), "'fang' speaks 'klingon'"),
    (lambda c: c[TALKER].update(spk_is_dialect=["fang"]), "'spk_is_dialect' must be object"),
    (lambda c: c[TALKER].update(spk_is_dialect={"fang": 3}), "'fang' must be bool | str"),
]


@pytest.mark.parametrize(("edit", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_what_this_code_cannot_run_is_refused(folder: Path, edit: Change, message: str) -> None:
    change(folder, edit)
    with pytest.raises(CheckpointError) as caught:
        Qwen3TTSConfig.from_folder(folder)
    assert str(caught.value).startswith(str(folder / "config.json"))
    assert message in str(caught.value)


def test_maps_may_be_absent_and_names_lose_their_case(folder: Path) -> None:
    change(folder, lambda c: c[TALKER].update(spk_id={"DORA": 5}, spk_is_dialect=None))
    change(folder, lambda c: c[TALKER].pop("codec_language_id"))
    config = Qwen3TTSConfig.from_folder(folder)
    assert config.speakers == {"dora": 5}
    assert config.dialects == {}
    assert config.language_names == ("auto",)


def test_codes_the_vocoder_does_not_have_are_refused(folder: Path) -> None:
    # On a GPU an index beyond its table takes the whole process down.
    for edit in (
        lambda c: c[TALKER].update(vocab_size=1153),
        lambda c: c[TALKER]["code_predictor_config"].update(vocab_size=200),
    ):
        write_checkpoint(folder, "custom_voice_wide")
        change(folder, edit)
        with pytest.raises(CheckpointError, match="the vocoder's codebooks have 128"):
            describe(str(folder))


@pytest.mark.parametrize("text", ["", "[]", "3", "{", "null", "\xff", "[" * 99999])
@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_a_file_that_holds_no_object_is_named(folder: Path, name: str, text: str) -> None:
    (folder / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(CheckpointError, match=name):
        Qwen3TTSConfig.from_folder(folder)


def test_a_missing_config_asks_whether_the_checkpoint_is_complete(folder: Path) -> None:
    (folder / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"config\.json: not found; is this a complete"):
        Qwen3TTSConfig.from_folder(folder)


class TestGeneration:
    """generation_config.json: the checkpoint's own sampling settings."""

    def test_every_setting_is_read(self, tmp_path: Path) -> None:
        generation = {
            "do_sample": False,
            "temperature": 0.5,
            "top_k": 7,
            "top_p": 0.8,
            "repetition_penalty": 1.5,
            "subtalker_dosample": False,
            "subtalker_temperature": 2,
            "subtalker_top_k": 0,
            "subtalker_top_p": 0.25,
            "max_new_tokens": 100,
        }
        folder = write_checkpoint(tmp_path, "voice_design", generation=generation)
        info = describe(str(folder))
        assert info.sampling == Sampling(0.5, 7, 0.8, 1.5, True, 2.0, 0, 0.25, True)
        assert info.max_frames == 99  # the last drawn first code is never expanded

    def test_without_the_file_the_official_defaults_hold(self, folder: Path) -> None:
        (folder / "generation_config.json").unlink()
        config = Qwen3TTSConfig.from_folder(folder)
        assert config.sampling == Sampling()
        assert config.max_new_tokens == 2048

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            *CASES["a_setting_out_of_range_is_named"],
            ("temperature", float("nan")),
            ("max_new_tokens", 10**9),
            ("top_k", 2**31),
        ],
    )
    def test_a_setting_out_of_range_is_named(self, folder: Path, key: str, value: object) -> None:
        change(folder, lambda c: c.update({key: value}), "generation_config.json")
        with pytest.raises(CheckpointError) as caught:
            Qwen3TTSConfig.from_folder(folder)
        assert f"generation_config.json: '{key}'" in str(caught.value)


# Parameters of the released CustomVoice checkpoints, speech tokenizer apart.
RELEASED = {"qwen3-tts-0.6b": 905_788_672, "qwen3-tts-1.7b": 1_916_676_352}


class TestSynthetic:
    """Random weights in the released sizes."""

    DECODER_UNUSED = 2 * 256 * 512  # the quantizer's input projections serve encoding only
    DECODER = 114_323_137

    @pytest.mark.parametrize("name", RELEASED)
    def test_talker_and_predictor_have_the_released_sizes(self, name: str) -> None:
        config = Qwen3TTSConfig.released(name)
        with torch.device("meta"):
            networks = Qwen3TTSNetworks(config)
        count = sum(p.numel() for p in networks.parameters())
        assert count == RELEASED[name]

    @pytest.mark.slow
    def test_the_same_seed_gives_the_same_weights(self) -> None:
        full, small = (
            Qwen3TTSConfig.released("qwen3-tts-0.6b"),
            TransformerConfig(8, 8, 1, 2, 1, 4, 1e4, 1e-6, 64),
        )
        tiny = replace(
            full,
            talker=small,
            predictor=small,
            text_vocab_size=9,
            text_width=8,
            predictor_vocab_size=9,
        )
        codec = VocoderConfig.released()
        frames = replace(codec.frames, width=64, mlp_width=64, num_layers=1)
        codec = replace(codec, latent_dim=64, frames=frames, decoder_dim=16)
        cpu = torch.device("cpu")
        one, same, other = (
            load_synthetic("qwen3-tts-0.6b", cpu, torch.float32, False, seed, tiny, codec=codec)
            for seed in (1, 1, 2)
        )
        weight = one.talker.decoder.layers[0].qkv.weight
        assert torch.equal(weight, same.talker.decoder.layers[0].qkv.weight)
        assert not torch.equal(weight, other.talker.decoder.layers[0].qkv.weight)
        assert not one.talker.head.weight[2150].any()  # end of speech stays unlikely


@pytest.mark.parametrize("name", released_files.CHECKPOINTS)
def test_a_checkpoint_saved_again_by_transformers_5_means_the_same(
    name: str, tmp_path: Path
) -> None:
    # What the official classes then write: RoPE's settings together, the talker's `rope_theta` left
    # where it was as well.
    expected = Qwen3TTSConfig.from_folder(released_files.RELEASED / name)
    values = released_files.read(f"{name}/config.json")
    for section in (values[TALKER], values[TALKER]["code_predictor_config"]):
        settings = section.pop("rope_scaling") or {"rope_type": "default"}
        section["rope_parameters"] = {**settings, "rope_theta": section["rope_theta"]}
    (tmp_path / "config.json").write_text(json.dumps(values), encoding="utf-8")
    assert Qwen3TTSConfig.from_folder(tmp_path) == expected


@pytest.mark.parametrize("spec", ["custom_voice_wide", "voice_design", "base"])
@pytest.mark.parametrize("says", [True, False])
def test_a_checkpoint_may_say_whether_it_takes_an_instruction(
    tmp_path: Path, spec: str, says: bool
) -> None:
    folder = write_checkpoint(tmp_path, spec)
    change(folder, lambda values: values.update(takes_instruct=says))
    assert describe(str(folder)).takes_instruct is says


def test_a_checkpoint_may_say_how_fast_it_speaks(folder: Path) -> None:
    assert describe(str(folder)).pace == PACE
    change(folder, lambda values: values.update(longest_chars=80))
    assert describe(str(folder)).pace == replace(PACE, longest_chars=80)
    change(folder, lambda values: values.update(least_frames_per_letter=0.25))
    assert describe(str(folder)).pace == Pace(letter=0.25, longest_chars=80)


@pytest.mark.parametrize(
    ("key", "value"),
    [("least_frames_per_letter", 0), ("least_frames_per_letter", "1"), ("longest_chars", 0)],
)
def test_what_it_says_of_its_pace_is_above_0(folder: Path, key: str, value: object) -> None:
    change(folder, lambda values: values.update({key: value}))
    with pytest.raises(CheckpointError, match=rf"config\.json: '{key}' must be"):
        Qwen3TTSConfig.from_folder(folder)


def test_a_checkpoint_may_want_its_texts_in_words(folder: Path) -> None:
    assert not describe(str(folder)).normalizes
    change(folder, lambda values: values.update(normalizes=True))
    assert describe(str(folder)).normalizes


@pytest.mark.parametrize("key", ["takes_instruct", "normalizes"])
@pytest.mark.parametrize("value", ["false", 0, None, []])
def test_what_it_says_is_true_or_false(folder: Path, key: str, value: object) -> None:
    change(folder, lambda values: values.update({key: value}))
    with pytest.raises(CheckpointError, match=rf"config\.json: '{key}' must be bool"):
        Qwen3TTSConfig.from_folder(folder)
