"""What an Audio8-TTS checkpoint holds and offers, and what is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_audio8 as tiny
import tiny_fish_codec
import tiny_fish_speech as fish
import torch
from safetensors.torch import load_file, save_file
from speak import speak
from synthetic import load_synthetic

from models.audio8_tts.family import (
    FAMILY,
    clean,
    codec_of,
    read_config,
    released_codec,
    released_config,
)
from models.base import RequestError, SpeechRequest
from models.checkpoint.files import CheckpointError
from models.checkpoint.weights import halves
from models.decoder.config import TransformerConfig
from models.dual_ar.config import CONFIG_FILE, PICKLED_FILE, CodecConfig, RecentCodes
from models.dual_ar.model import DualAR
from models.dual_ar.tensors import network_table, official_shapes
from models.registry import convert, describe, family_of, licences, load_model
from models.sampling import Sampling

NAME = "synthetic:audio8-tts-0.6b"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny.write_checkpoint(tmp_path / "audio8", 1)


def test_released_sizes() -> None:
    """Number of tensors and weights that others recorded of the released files."""
    table = network_table(released_config())
    assert (len(table.shapes), table.num_weights) == (226, 601_159_424)
    assert table.shapes["layers.23.attention.wqkv.bias"] == (1152,)
    assert "fast_layers.0.attention.wqkv.bias" not in table.shapes
    shapes = official_shapes(released_codec())
    assert (len(shapes), sum(map(math.prod, shapes.values()))) == (535, 337_428_866)
    fish_shapes = official_shapes(CodecConfig.released())
    assert shapes.keys() == fish_shapes.keys()
    different = {name for name in shapes if shapes[name] != fish_shapes[name]}
    assert len(different) == 32
    assert all(name.startswith("quantizer.post_module.layers.") for name in different)


def test_it_is_described_without_weights() -> None:
    info = describe(NAME)
    assert (info.family, info.size, info.can_clone) == ("audio8_tts", "0.6b", True)
    assert (info.num_codebooks, info.sample_rate_hz, info.samples_per_frame) == (10, 44100, 2048)
    assert (info.max_positions, info.max_frames) == (2048, 1024)
    assert (info.clone_modes, info.needs_reference, info.voices) == (("icl",), False, ())


def test_it_needs_no_consent(folder: Path) -> None:
    assert family_of(folder) == ("audio8_tts", None)
    assert describe(str(folder)).licence is None
    assert [licence.name for licence in licences()] == ["Fish Audio Research License"]


def test_a_loaded_model_has_the_official_tensors(folder: Path) -> None:
    model = load_model(str(folder), "cpu", torch.float32)
    assert isinstance(model, DualAR)
    weights = load_file(folder / "model.safetensors")
    spec = tiny.SPEC
    heads = spec.num_heads + spec.num_kv_heads
    for part in ("weight", "bias"):
        official = weights[f"layers.1.attention.wqkv.{part}"].float()
        expected = halves(official, heads, spec.head_dim)
        assert torch.equal(getattr(model.talker.decoder.layers[1].qkv, part), expected)
    assert not hasattr(model.predictor.decoder.layers[0].qkv, "bias")
    assert model.predictor.heads.weight.shape == (1, spec.codebook_size, spec.width)
    assert model.talker.divisor == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("layers.0.attention.wqkv.bias", "missing layers.0.attention.wqkv.bias"),
        ("fast_output.weight", "missing fast_output.weight"),
        ("codebook_embeddings.weight", "missing codebook_embeddings.weight"),
    ],
)
def test_missing_tensors_are_named(folder: Path, name: str, message: str) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    del weights[name]
    save_file(weights, path)
    with pytest.raises(CheckpointError, match=message):
        describe(str(folder))


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(slow_backbone="falcon_h1"), "this is Audio8-TTS-Preview-0.1b"),
        (lambda c: c.pop("dim"), "key 'dim' is missing"),
        (lambda c: c.pop("fast_rope_base"), "key 'fast_rope_base' is missing"),
        (lambda c: c.update(n_layer="3"), "'n_layer' must be int, not '3'"),
        (lambda c: c.update(n_fast_layer=10**9), "'n_fast_layer' must be int <= 1024"),
        (lambda c: c.update(n_local_heads=3), "7 heads cannot share 3 key heads"),
        (lambda c: c.update(attention_qkv_bias=False), "attention_qkv_bias = False"),
        (lambda c: c.update(fast_attention_qkv_bias=True), "fast_attention_qkv_bias = True"),
        (lambda c: c.update(attention_qk_norm=True), "attention_qk_norm = True"),
        (lambda c: c.update(norm_fastlayer_input=False), "norm_fastlayer_input = False"),
        (lambda c: c.update(tie_word_embeddings=False), "tie_word_embeddings = False"),
        (lambda c: c.update(fast_dim=32), "width 32 differs from the talker's 64"),
        (lambda c: c.update(semantic_end_id=fish.SEMANTIC_START), "are not as many as"),
        (lambda c: c.update(eos_token_id=fish.SEMANTIC_START + 1), "is a semantic id"),
        (lambda c: c.update(ras_top_p=0), "'ras_top_p' must be over 0"),
        (lambda c: c.update(ras_window_size=0), "'ras_window_size' must be int >= 1"),
        (lambda c: c.update(num_codebooks=1), "'num_codebooks' must be int >= 2"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, change: Change, message: str) -> None:
    config = tiny.main_config()
    change(config)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=message) as caught:
        read_config(tmp_path)
    assert "config.json" in str(caught.value)


def test_settings_are_the_checkpoints(tmp_path: Path) -> None:
    generation = {"do_sample": True, "temperature": 0.6, "top_k": 7, "top_p": 0.5}
    changes = {"ras_window_size": 4, "ras_temperature": 0.9, "ras_top_p": 0.8}
    folder = tiny.write_checkpoint(tmp_path, generation=generation, **changes)
    config = read_config(folder)
    assert config.recent == RecentCodes(4, 0.9, 0.8)
    assert config.sampling == Sampling(0.6, 7, 0.5, 1.0, False, 0.6, 7, 0.5, False)
    model = load_model(str(folder))
    assert isinstance(model, DualAR)
    model.allocate(2, 64, 8)
    assert model.sampling.window.shape == (2, 4)
    (folder / "generation_config.json").unlink()
    released = Sampling(0.7, 50, 0.9, 1.0, False, 0.7, 50, 0.9, False)
    assert read_config(folder).sampling == released


def test_sizes_of_a_pickled_codec_are_in_the_config(tmp_path: Path) -> None:
    folder = tiny.write_checkpoint(tmp_path, has_codec=False)
    assert codec_of(folder) == released_codec()
    named = {"codec_post_n_local_heads": 8, "codec_post_intermediate_size": 1216}
    tiny.write_checkpoint(tmp_path, has_codec=False, **named)
    assert codec_of(folder) == released_codec()
    tiny.write_checkpoint(tmp_path, has_codec=False, codec_post_n_local_heads=5)
    with pytest.raises(CheckpointError, match="codec_post_n_local_heads = 5 is not supported"):
        codec_of(folder)


def test_a_pickled_codec_is_converted_once(tmp_path: Path) -> None:
    folder = tiny.write_checkpoint(tmp_path, has_codec=False)
    tiny_fish_codec.write_codec(folder, tiny.CODEC, as_pickle=True)
    assert (folder / PICKLED_FILE).is_file()
    with pytest.raises(CheckpointError, match="tts-cli models convert"):
        describe(str(folder))
    done = convert(str(folder))
    assert done is not None
    assert done.is_new
    assert CodecConfig.from_file(folder / CONFIG_FILE) == tiny.CODEC
    assert describe(str(folder)).family == "audio8_tts"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("  Hello\n\nthere.\t", "Hello there."),
        ("你好\uff0c\n世界\r\n今天", "你好\uff0c 世界今天"),
        ("그것은\n시험", "그것은시험"),
        ("a\x00b\x07c", "abc"),
        ("<|speaker:1|>  Me", "<|speaker:1|> Me"),
    ],
)
def test_texts_are_cleaned(text: str, cleaned: str) -> None:
    """A poem with line breaks came out as ten seconds of wrong words (Edge0-AI/Audio8_TTS#14)."""
    assert clean(text, "the text") == cleaned


@pytest.mark.parametrize("token", ["<|im_end|>", "<|phoneme_start|>", "<|semantic:3|>"])
def test_control_tokens_are_refused(folder: Path, token: str) -> None:
    model = load_model(str(folder))
    sampling = replace(model.info.sampling)
    with pytest.raises(RequestError, match="only <\\|speaker:N\\|> may be in it"):
        model.prompt(SpeechRequest(f"Hello {token}", sampling=sampling))


def test_a_voice_needs_its_transcript(folder: Path) -> None:
    model = load_model(str(folder))
    clone = fish.random_voice(tiny.SPEC, 5, " \n ")
    request = SpeechRequest("Hello", sampling=model.info.sampling, clone=clone)
    with pytest.raises(RequestError, match="transcript is empty"):
        model.prompt(request)


def test_a_recording_becomes_a_voice(folder: Path) -> None:
    model = load_model(str(folder), "cpu", torch.float32)
    wave = tiny_fish_codec.reference_wave(1, 3000)
    ((_, codes),) = model.encode_voices([wave], ["icl"])
    assert codes is not None
    assert codes.shape == (math.ceil(3000 / model.info.samples_per_frame), 4)


def test_shared_key_heads_of_the_codec_are_each_of_its_queries() -> None:
    """A transformer with fewer key heads is the one that has each of them once per query head."""
    tensors = tiny_fish_codec.random_tensors(tiny.CODEC, 2)
    heads, width = tiny.CODEC.frames.num_heads, tiny.CODEC.frames.head_dim
    whole = dict(tensors)
    for index in range(tiny.CODEC.frames.num_layers):
        name = f"quantizer.post_module.layers.{index}.attention.wqkv.weight"
        q, k, v = tensors[name].split([heads * width, width, width])
        whole[name] = torch.cat([q, k.repeat(heads, 1), v.repeat(heads, 1)])
    frames = replace(tiny.CODEC.frames, num_kv_heads=heads)
    codes = tiny_fish_codec.random_codes(tiny.CODEC, 2, 9)
    found = tiny_fish_codec.build(tiny.CODEC, tensors)(codes)
    expected = tiny_fish_codec.build(replace(tiny.CODEC, frames=frames), whole)(codes)
    assert (found - expected).abs().max() <= 1e-5


@pytest.mark.slow
def test_random_weights_speak_to_the_cap() -> None:
    codec = replace(
        tiny_fish_codec.VARIANTS["released_rates"], residual_codes=1024, semantic_codes=4096
    )
    narrow = TransformerConfig(64, 96, 2, 7, 1, 16, 1e6, 1e-6, 2048, False, rounds_rope=True)
    main = replace(released_config(), talker=replace(narrow, has_qkv_bias=True), predictor=narrow)
    cpu = torch.device("cpu")
    one, other = (
        load_synthetic("audio8-tts-0.6b", cpu, torch.float32, False, seed, main, codec=codec)
        for seed in (0, 1)
    )
    request = SpeechRequest("Any text.", sampling=one.info.sampling, max_frames=8)
    rows = [speak(model, [request], 1)[0] for model in (one, other)]
    assert all(row.finish_reason == "max_frames" for row in rows)
    assert not torch.equal(rows[0].codes, rows[1].codes)
    assert FAMILY.licence is None
