"""Random weights of the released size: described here, and run with fewer layers."""

from __future__ import annotations

import pytest

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
