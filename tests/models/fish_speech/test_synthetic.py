"""Random weights of the released size: described here, and run with fewer layers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny_fish_codec as codec
import torch
from speak import speak
from synthetic import load_synthetic

from models.base import SpeechRequest
from models.dual_ar.config import CodecConfig
from models.dual_ar.family import RELEASED_MARKERS
from models.family import byte_tokenizer
from models.fish_speech.family import released_config
from models.registry import describe

NAME = "fish-s2-pro"


def test_it_is_described_without_weights_and_without_a_licence() -> None:
    info = describe(f"synthetic:{NAME}")
    assert (info.family, info.size, info.licence) == ("fish_speech", "4.6b", None)
    assert (info.num_codebooks, info.sample_rate_hz, info.samples_per_frame) == (10, 44100, 2048)
    assert info.frame_s == pytest.approx(0.04644, abs=1e-5)
    assert info.max_positions == 32768


def test_markers_are_single_ids_and_no_control_id_comes_from_text() -> None:
    assert byte_tokenizer(RELEASED_MARKERS)("<|im_start|>user\n") == [151644, 872, 1010]
    assert max(byte_tokenizer(RELEASED_MARKERS)("any text \u00fc")) < 1256


def test_the_layers_of_the_talker_are_all_that_is_made_up() -> None:
    config = released_config()
    assert config.talker.num_weights == 36 * (100_930_816 - 2 * 2560 - 2 * 128)
    assert config.predictor.num_weights == 4 * (100_930_560 - 2 * 2560)
    assert CodecConfig.released().codebook_sizes == (4096, *[1024] * 9)


def test_random_weights_speak_to_the_cap() -> None:
    tiny = replace(codec.VARIANTS["released_rates"], residual_codes=1024, semantic_codes=4096)
    config = released_config(2, 2)
    narrow = {"width": 64, "mlp_width": 96, "num_heads": 4, "num_kv_heads": 2, "head_dim": 16}
    talker, predictor = (replace(c, **narrow) for c in (config.talker, config.predictor))
    config = replace(config, talker=talker, predictor=predictor)
    cpu = torch.device("cpu")
    models = [
        load_synthetic(NAME, cpu, torch.float32, False, seed, config, codec=tiny)
        for seed in (0, 0, 1)
    ]
    request = SpeechRequest("Any text.", sampling=models[0].info.sampling, max_frames=12)
    rows = [speak(model, [request], 1)[0] for model in models]
    assert all(row.finish_reason == "max_frames" for row in rows)
    assert rows[0].codes.shape == (12, 10)
    assert int(rows[0].codes[:, 1:].max()) < 1024
    assert torch.equal(rows[0].codes, rows[1].codes)
    assert not torch.equal(rows[0].codes, rows[2].codes)
