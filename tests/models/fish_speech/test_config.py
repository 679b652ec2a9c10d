"""Configuration: every value comes from the checkpoint, every error names file and key."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_fish_speech as tiny

from models.checkpoint.files import CheckpointError
from models.dual_ar.family import size_of
from models.fish_speech.family import read_config, released_config

Change = Callable[[dict[str, Any]], object]


def written(folder: Path, config: dict[str, Any]) -> Path:
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def test_every_value_is_the_checkpoints(tmp_path: Path) -> None:
    spec = tiny.SPECS["wide"]
    config = read_config(written(tmp_path, tiny.main_config(spec)))
    talker, predictor = config.talker, config.predictor
    assert (talker.width, talker.mlp_width, talker.num_layers) == (48, 96, 2)
    assert (talker.num_heads, talker.num_kv_heads, talker.head_dim) == (8, 2, 32)
    assert (talker.rope_theta, talker.norm_eps, talker.max_positions) == (1e4, 1e-5, 2048)
    assert talker.has_qk_norm
    assert (predictor.width, predictor.mlp_width, predictor.num_layers) == (48, 80, 2)
    assert (predictor.num_heads, predictor.num_kv_heads, predictor.head_dim) == (8, 4, 8)
    assert not predictor.has_qk_norm
    assert (config.num_codebooks, config.codebook_size, config.eos) == (10, 96, 96)
    assert (config.semantic_start, config.end) == (tiny.SEMANTIC_START, tiny.END)
    assert config.text_vocab_size == spec.text_vocab_size
    assert config.max_frames == 1024


def test_the_released_size_has_the_released_number_of_weights() -> None:
    config = released_config()
    rows = config.text_vocab_size + config.num_codebooks * config.codebook_size
    tables = rows * 2560 + 2 * config.codebook_size * 2560
    norms = 36 * (2 * 2560 + 2 * 128) + 4 * 2 * 2560 + 2 * 2560
    total = config.talker.num_weights + config.predictor.num_weights + tables + norms
    assert total == 4_561_852_416
    assert size_of(config) == "4.6b"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("text_config"), "key 'text_config' is missing"),
        (lambda c: c["text_config"].pop("norm_eps"), "text_config: key 'norm_eps' is missing"),
        (lambda c: c["text_config"].update(n_layer="3"), "'n_layer' must be int"),
        (lambda c: c["text_config"].update(attention_qk_norm=False), "attention_qk_norm = False"),
        (lambda c: c["text_config"].update(use_moe=True), "use_moe = True is not supported"),
        (lambda c: c["text_config"].update(tie_word_embeddings=False), "tie_word_embeddings"),
        (lambda c: c["text_config"].update(n_local_heads=3), "4 heads cannot share 3"),
        (lambda c: c["text_config"].update(head_dim=15), "head_dim = 15 must be even"),
        (lambda c: c["audio_decoder_config"].update(attention_qk_norm=True), "qk_norm = True"),
        (
            lambda c: c["audio_decoder_config"].update(dim=32),
            "width 32 differs from the talker's 64",
        ),
        (lambda c: c["audio_decoder_config"].update(text_dim=32), "text_dim is not"),
        (
            lambda c: c["audio_decoder_config"].update(max_seq_len=3),
            "fewer positions than codebooks",
        ),
        (lambda c: c["audio_decoder_config"].update(num_codebooks=1), "'num_codebooks' must be"),
        (lambda c: c.update(semantic_end_token_id=tiny.SEMANTIC_START), "are not as many as"),
        (lambda c: c.update(eos_token_id=tiny.SEMANTIC_START + 1), "is a semantic id"),
        (lambda c: c.update(eos_token_id=9999), "but the vocabulary has"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, change: Change, message: str) -> None:
    config = tiny.main_config(tiny.SPECS["small"])
    change(config)
    with pytest.raises(CheckpointError, match=message) as caught:
        read_config(written(tmp_path, config))
    assert "config.json" in str(caught.value)
