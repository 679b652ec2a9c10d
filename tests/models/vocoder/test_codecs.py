"""The networks of both codecs: lengths, causality, padding, windows, and their fast paths."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import tiny_fish_codec
import tiny_vocoder
import torch
from fakes import lanes_runner
from torch import Tensor

from kernels.launch import dispatch
from models.vocoder.runner import vocoder_runner

pytestmark = pytest.mark.slow

# Two float32 programs that add in another order: measured 5e-6 at most on these codecs.
SAME = 3e-5


@dataclass(frozen=True)
class Codec:
    """A tiny codec of random weights.

    Args:
        wide: parts of the names of weights that stay float32 in a bfloat16 codec.
    """

    tiny: Any
    config: Callable[[str], Any]
    max_frames: int
    wide: tuple[str, ...]

    def build(self, variant: str = "small", **how: Any) -> Any:
        config = self.config(variant)
        return self.tiny.build(config, self.tiny.random_tensors(config), **how)


CODECS = {
    "qwen3_tts": Codec(
        tiny_vocoder,
        lambda name: tiny_vocoder.config(*(() if name == "small" else (name,))),
        400,
        ("snake", "alpha_exp", "inv_beta"),
    ),
    "fish_speech": Codec(
        tiny_fish_codec,
        lambda name: tiny_fish_codec.SMALL if name == "small" else tiny_fish_codec.VARIANTS[name],
        1200,
        ("snake", "rope"),
    ),
}
EACH = [(codec, variant) for codec in CODECS.values() for variant in codec.tiny.VARIANTS]


@pytest.fixture(params=CODECS.values(), ids=CODECS)
def codec(request: pytest.FixtureRequest) -> Codec:
    return request.param


@pytest.fixture(params=EACH, ids=[variant for _, variant in EACH])
def each(request: pytest.FixtureRequest) -> tuple[Codec, Any]:
    """A codec, and the network of one of its variants, float32 on the CPU."""
    codec, variant = request.param
    return codec, codec.build(variant)


def largest_difference(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape, (a.shape, b.shape)
    return (a - b).abs().max().item()


@pytest.mark.parametrize("frames", [1, 7, 50])
def test_length_is_exact(each: tuple[Codec, Any], frames: int) -> None:
    codec, network = each
    samples = network(codec.tiny.random_codes(network.config, 2, frames))
    assert samples.shape == (2, frames * network.samples_per_frame)
    assert samples.dtype == torch.float32
    assert samples.abs().max() <= 1


@pytest.mark.parametrize("frame", [1, 11])
def test_a_frame_leaves_earlier_samples_alone(each: tuple[Codec, Any], frame: int) -> None:
    codec, network = each
    codes = codec.tiny.random_codes(network.config, 1, 12)
    changed = codes.clone()
    changed[:, :, frame] = (changed[:, :, frame] + 1) % int(codes.max())
    before, after = network(codes), network(changed)
    border = frame * network.samples_per_frame
    assert torch.equal(before[:, :border], after[:, :border])
    assert not torch.equal(before[:, border:], after[:, border:])


def test_right_padding_and_batch_mates_are_harmless(each: tuple[Codec, Any]) -> None:
    codec, network = each
    codes = codec.tiny.random_codes(network.config, 3, 13)
    padded = torch.nn.functional.pad(codes, (0, 19))
    batch = network(padded)[:, : 13 * network.samples_per_frame]
    for row in range(3):
        assert largest_difference(batch[row : row + 1], network(codes[row : row + 1])) <= SAME


@pytest.mark.parametrize("make", [vocoder_runner, lanes_runner], ids=["alone", "lanes"])
def test_the_window_counts_when_codes_are_decoded(codec: Codec, make: Any) -> None:
    """With other windows the first frames sound alike, and the first one that no longer sees all
    of those before it does not.
    """
    config, tiny = codec.config("small"), codec.tiny
    tensors = tiny.random_tensors(config)
    wide = replace(config, frames=replace(config.frames, window=codec.max_frames))
    codes = tiny.random_codes(config, 1, 20)[0].t().contiguous()
    (near,) = make(tiny.build(config, tensors), None).decode([codes])
    (far,) = make(tiny.build(wide, tensors), None).decode([codes])
    frame = tiny.build(config, tensors).samples_per_frame
    border = config.frames.window * frame
    assert largest_difference(near[:border], far[:border]) <= SAME
    there = slice(border, border + frame)
    assert largest_difference(near[there], far[there]) > 10 * SAME


def test_wrong_codes_are_refused(codec: Codec) -> None:
    network = codec.build()
    for shape in ((1, 3, 5), (1, 4, 0), (1, 4, codec.max_frames + 1)):
        with pytest.raises(ValueError, match=rf"\(rows, 4, 1 to {codec.max_frames} frames\)"):
            network(torch.zeros(shape, dtype=torch.int64))


def test_kernels_equal_references(codec: Codec) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = codec.build().to(device)
    codes = codec.tiny.random_codes(network.config, 2, 3).to(device)
    with dispatch.override("reference"):
        expected = network(codes)
    with dispatch.override("triton"):
        assert largest_difference(network(codes), expected) <= SAME


def test_bfloat16_is_close(codec: Codec) -> None:
    """Rounding every activation to 8 bits costs a few percent; wrong constants cost far more."""
    codes = codec.tiny.random_codes(codec.config("small"), 2, 20)
    expected, rounded = codec.build()(codes), codec.build(dtype=torch.bfloat16)
    samples = rounded(codes)
    assert samples.dtype == torch.float32
    error = ((samples - expected).square().mean() / expected.square().mean()).sqrt()
    assert error <= 0.05
    for name, value in rounded.state_dict().items():
        if value.is_floating_point() and not name.endswith("_codes"):
            is_wide = any(part in name for part in codec.wide)
            assert value.dtype == (torch.float32 if is_wide else torch.bfloat16), name


@pytest.mark.gpu
def test_graph_equals_eager(codec: Codec) -> None:
    """Nothing inside waits for the device or looks at values: a capture replays on other codes."""
    network = codec.build("released_rates", device="cuda")
    first, second = (codec.tiny.random_codes(network.config, 2, 30, seed).cuda() for seed in (1, 2))
    expected = network(first), network(second)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that this mode is a prototype
            torch.cuda.set_sync_debug_mode("error")
        network(first)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    codes = first.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        samples = network(codes)
    for values, reference in zip((first, second), expected, strict=True):
        codes.copy_(values)
        graph.replay()
        assert largest_difference(samples, reference) <= SAME
