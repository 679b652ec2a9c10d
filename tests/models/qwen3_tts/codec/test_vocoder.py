"""The vocoder against the official decoder, and what batching, padding and loading rely on.

`golden_vocoder.safetensors` was made by tests/oracle/make_vocoder_golden.py.
"""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import official_package as official
import official_vocoder
import pytest
import tiny_vocoder
import torch
from fakes import lanes_runner
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from kernels.launch import dispatch
from models.qwen3_tts.codec import Vocoder
from models.vocoder.chunks import plan_chunks
from models.vocoder.runner import vocoder_runner

GOLDEN = Path(__file__).parent / "golden_vocoder.safetensors"
VOICE = Path(__file__).parents[4] / "samples" / "voice" / "checkpoint" / "speech_tokenizer"
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


def test_stored_official_chunks(official_samples) -> None:
    """Chunks with too little context differ from one shot, officially too."""
    vocoder, codes = official_samples["vocoder"], official_samples["codes"]
    chunked = decode_chunked(vocoder, codes, *official_samples["plan"])
    assert largest_difference(chunked, official_samples["chunked"]) <= SAME
    assert largest_difference(chunked, official_samples["samples"]) > 100 * SAME


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


# Shapes and causality


@pytest.mark.parametrize("frames", [1, 2, 3, 7, 50])
def test_length_is_exact(vocoder, frames) -> None:
    samples = vocoder(tiny_vocoder.random_codes(vocoder.config, 2, frames))
    assert samples.shape == (2, frames * vocoder.samples_per_frame)
    assert samples.dtype == torch.float32
    assert samples.abs().max() <= 1


def test_samples_per_frame(vocoder) -> None:
    config = vocoder.config
    expected = math.prod(config.upsample_rates) * math.prod(config.upsampling_ratios)
    assert vocoder.samples_per_frame == expected


def test_loud_samples_are_clamped(small) -> None:
    small.last_conv.weight *= 1e3
    samples = small(tiny_vocoder.random_codes(small.config, 1, 9))
    assert samples.max() == 1
    assert samples.min() == -1


@pytest.mark.parametrize("frame", [1, 4, 11])
def test_a_frame_leaves_earlier_samples_alone(vocoder, frame) -> None:
    codes = tiny_vocoder.random_codes(vocoder.config, 1, 12)
    changed = codes.clone()
    changed[:, :, frame] = (changed[:, :, frame] + 1) % vocoder.config.semantic_codes
    before, after = vocoder(codes), vocoder(changed)
    border = frame * vocoder.samples_per_frame
    assert torch.equal(before[:, :border], after[:, :border])
    assert not torch.equal(before[:, border:], after[:, border:])


def test_right_padding_is_harmless(vocoder) -> None:
    codes = tiny_vocoder.random_codes(vocoder.config, 1, 13)
    padded = torch.nn.functional.pad(codes, (0, 19))
    kept = 13 * vocoder.samples_per_frame
    assert largest_difference(vocoder(padded)[:, :kept], vocoder(codes)) <= 1e-6


def test_batch_equals_single_rows(vocoder) -> None:
    codes = tiny_vocoder.random_codes(vocoder.config, 3, 21)
    batch = vocoder(codes)
    for row in range(3):
        assert largest_difference(batch[row : row + 1], vocoder(codes[row : row + 1])) <= 1e-6


def test_codes_are_left_alone_and_calls_repeat(small) -> None:
    codes = tiny_vocoder.random_codes(small.config, 2, 8)
    kept = codes.clone()
    assert torch.equal(small(codes), small(codes))
    assert torch.equal(codes, kept)


def test_window_of_the_transformer(small) -> None:
    """A frame sees itself and window - 1 frames before it."""
    mask = small.pre_transformer.band_mask(9, torch.zeros(1))
    visible = mask == 0
    assert mask.shape == (9, 9)
    assert mask[~visible].isneginf().all()
    window = small.config.frames.window
    for frame in range(9):
        assert visible[frame].nonzero().flatten().tolist() == [*range(frame + 1)][-window:]


@pytest.mark.parametrize("make", [vocoder_runner, lanes_runner], ids=["alone", "lanes"])
def test_the_window_counts_when_codes_are_decoded(make) -> None:
    """With other windows the first frames sound alike, and the first one that no longer sees all
    of those before it does not.
    """
    config = tiny_vocoder.config()
    tensors = tiny_vocoder.random_tensors(config)
    wide = replace(config, frames=replace(config.frames, window=400))
    codes = tiny_vocoder.random_codes(config, 1, 20)[0].t().contiguous()
    (near,) = make(tiny_vocoder.build(config, tensors), None).decode([codes])
    (far,) = make(tiny_vocoder.build(wide, tensors), None).decode([codes])
    frame = tiny_vocoder.build(config, tensors).samples_per_frame
    border = config.frames.window * frame
    assert largest_difference(near[:border], far[:border]) <= SAME
    there = slice(border, border + frame)
    assert largest_difference(near[there], far[there]) > 10 * SAME


@pytest.mark.parametrize("shape", [(1, 3, 5), (1, 4, 0), (1, 4, 401)])
def test_wrong_codes_are_refused(small, shape) -> None:
    with pytest.raises(ValueError, match=r"must be \(rows, 4, 1 to 400 frames\)"):
        small(torch.zeros(shape, dtype=torch.int64))


# Twins: kernel and reference, dtypes, graph and eager


def test_kernels_equal_references(small) -> None:
    codes = tiny_vocoder.random_codes(small.config, 2, 3)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    small, codes = small.to(device), codes.to(device)
    with dispatch.override("reference"):
        expected = small(codes)
    with dispatch.override("triton"):
        assert largest_difference(small(codes), expected) <= SAME


def test_bfloat16_is_close() -> None:
    """Rounding every activation to 8 bits costs about a percent; wrong constants cost far more."""
    config = tiny_vocoder.config()
    tensors = tiny_vocoder.random_tensors(config)
    codes = tiny_vocoder.random_codes(config, 2, 20)
    expected = tiny_vocoder.build(config, tensors)(codes)
    rounded = tiny_vocoder.build(config, tensors, dtype=torch.bfloat16)
    samples = rounded(codes)
    assert samples.dtype == torch.float32
    error = ((samples - expected).square().mean() / expected.square().mean()).sqrt()
    assert error <= 0.05
    for name, value in rounded.state_dict().items():
        if not value.is_floating_point():
            continue  # where codebooks begin and end
        is_wide = name.rpartition(".")[2] in ("alpha_exp", "inv_beta") or "snake" in name
        assert value.dtype == (torch.float32 if is_wide else torch.bfloat16), name


@pytest.mark.gpu
def test_graph_equals_eager() -> None:
    """Nothing inside waits for the device or looks at values: a capture replays on other codes."""
    config = tiny_vocoder.config("released_rates")
    vocoder = tiny_vocoder.build(config, tiny_vocoder.random_tensors(config), device="cuda")
    first, second = (tiny_vocoder.random_codes(config, 2, 30, seed).cuda() for seed in (1, 2))
    expected = vocoder(first), vocoder(second)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that this mode is a prototype
            torch.cuda.set_sync_debug_mode("error")
        vocoder(first)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    codes = first.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        samples = vocoder(codes)
    for values, reference in zip((first, second), expected, strict=True):
        codes.copy_(values)
        graph.replay()
        assert largest_difference(samples, reference) <= SAME
