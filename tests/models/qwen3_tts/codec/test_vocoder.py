"""The vocoder against the official decoder, and what batching, padding and loading rely on.

`golden_vocoder.safetensors` was made by tests/oracle/make_vocoder_golden.py.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import official_package as official
import official_vocoder
import pytest
import tiny_vocoder
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from models.qwen3_tts.codec import Vocoder
from models.vocoder.chunks import plan_chunks

GOLDEN = Path(__file__).parent / "golden_vocoder.safetensors"
VARIANTS = tuple(tiny_vocoder.VARIANTS)
# Two float32 programs that add in another order: measured 2e-7 at most on these decoders.
SAME = 1e-5


@pytest.fixture(params=VARIANTS)
def vocoder(request: pytest.FixtureRequest) -> Vocoder:
    """Each tiny vocoder in turn, float32 on the CPU."""
    config = tiny_vocoder.config(request.param)
    return tiny_vocoder.build(config, tiny_vocoder.random_tensors(config))


@pytest.fixture
def small() -> Vocoder:
    config = tiny_vocoder.config()
    return tiny_vocoder.build(config, tiny_vocoder.random_tensors(config))


def largest_difference(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape, (a.shape, b.shape)
    return (a - b).abs().max().item()


@pytest.fixture
def official_samples() -> dict[str, Any]:
    """The stored decoder, its codes and what the official package made of them."""
    with safe_open(GOLDEN, "pt") as file:
        notes = file.metadata()
    content = load_file(GOLDEN)
    config = tiny_vocoder.config(**json.loads(notes["config"])["decoder_config"])
    tensors = {name: value for name, value in content.items() if name.startswith("decoder.")}
    return {
        "vocoder": tiny_vocoder.build(config, tensors),
        "plan": (int(notes["chunk"]), int(notes["left_context"])),
        **{name: content[name] for name in ("codes", "samples", "chunked")},
    }


def decode_chunked(vocoder: Vocoder, codes: Tensor, chunk: int, left_context: int) -> Tensor:
    width = vocoder.samples_per_frame
    return torch.cat(
        [
            vocoder(codes[:, :, part.first : part.end])[:, part.context * width :]
            for part in plan_chunks(codes.shape[2], chunk, left_context)
        ],
        dim=1,
    )


# Parity


def test_stored_official_samples(official_samples) -> None:
    vocoder, codes = official_samples["vocoder"], official_samples["codes"]
    samples = official_samples["samples"]
    assert largest_difference(vocoder(codes), samples) <= SAME
    assert largest_difference(vocoder(codes[1:]), samples[1:]) <= SAME


@pytest.mark.oracle
@pytest.mark.skipif(not official.is_installed(), reason="needs the official qwen_tts package")
@pytest.mark.parametrize("variant", VARIANTS)
def test_official_decoder(variant) -> None:
    config = tiny_vocoder.config(variant)
    tensors = tiny_vocoder.random_tensors(config, seed=3)
    values = tiny_vocoder.tokenizer_config(variant)["decoder_config"]
    decoder = official_vocoder.build(values, tensors)
    vocoder = tiny_vocoder.build(config, tensors)
    for batch, frames in ((1, 1), (2, 2), (1, 3), (3, 7), (2, 50)):
        codes = tiny_vocoder.random_codes(config, batch, frames)
        expected = decoder(codes)[:, 0]
        assert expected.abs().max() < 1
        assert expected.square().mean().sqrt() > 0.01
        assert largest_difference(vocoder(codes), expected) <= SAME
    chunked = decoder.chunked_decode(codes, 20, 6)[:, 0]
    assert largest_difference(decode_chunked(vocoder, codes, 20, 6), chunked) <= SAME


def test_samples_per_frame(vocoder) -> None:
    config = vocoder.config
    expected = math.prod(config.upsample_rates) * math.prod(config.upsampling_ratios)
    assert vocoder.samples_per_frame == expected


def test_loud_samples_are_clamped(small) -> None:
    small.last_conv.weight *= 1e3
    samples = small(tiny_vocoder.random_codes(small.config, 1, 9))
    assert samples.max() == 1
    assert samples.min() == -1


def test_window_of_the_transformer(small) -> None:
    """A frame sees itself and window - 1 frames before it."""
    mask = small.pre_transformer.band_mask(9, torch.zeros(1))
    visible = mask == 0
    assert mask.shape == (9, 9)
    assert mask[~visible].isneginf().all()
    window = small.config.frames.window
    for frame in range(9):
        assert visible[frame].nonzero().flatten().tolist() == [*range(frame + 1)][-window:]
