"""The persistent step against `Decoder.step`, which runs the separate operations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from kernels.launch import dispatch
from kernels.linear.layers import LayerWeights
from kernels.persistent import step as module
from kernels.persistent.step import (
    NUM_COUNTERS,
    DecoderWeights,
    StepSettings,
    choose_settings,
    default_settings,
    fits,
    num_processors,
    persistent_step,
)
from models.decoder.config import TransformerConfig
from models.decoder.decoder import Decoder

EPS, THETA = 1e-6, 1e4
TINY = StepSettings(block_s=4)
VOCAB = 48


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.inference_mode():
        yield


def make_decoder(
    shape: tuple[int, int, int, int, int, int],
    slots: int,
    positions: int,
    device: str,
    dtype: torch.dtype,
    has_bias: bool = False,
) -> Decoder:
    """Random weights that keep activations near 1; the cache is full of numbers."""
    width, inner, layers, heads, kv_heads, head_dim = shape
    decoder = Decoder(
        TransformerConfig(
            width=width,
            mlp_width=inner,
            num_layers=layers,
            num_heads=heads,
            num_kv_heads=kv_heads,
            head_dim=head_dim,
            rope_theta=THETA,
            norm_eps=EPS,
            max_positions=1,
            has_qkv_bias=has_bias,
        )
    ).to(device, dtype)
    for name, weight in decoder.named_parameters():
        if "norm" in name:
            weight.uniform_(0.5, 1.5)
        elif name.endswith("bias"):
            weight.normal_()
        else:
            weight.normal_(0, 1 / math.sqrt(weight.shape[1]))
    decoder.allocate(slots, positions)
    decoder.cache.data.normal_()
    return decoder


def stack(decoder: Decoder) -> DecoderWeights:
    def one(name: str) -> Tensor:
        return torch.stack([getattr(layer, name).weight for layer in decoder.layers])

    norms = torch.cat([one("input_norm"), decoder.norm.weight[None]])
    return DecoderWeights(
        one("qkv"), one("o"), one("gate_up"), one("down"), norms, one("post_norm"),
        one("q_norm"), one("k_norm"),
        torch.stack([layer.qkv.bias for layer in decoder.layers])
        if decoder.config.has_qkv_bias else None,
    )  # fmt: skip


def run(decoder: Decoder, x: Tensor, positions: Tensor, **options) -> tuple[Tensor, Tensor | None]:
    """The persistent step on a decoder's weights and cache."""
    counters = options.pop("counters", None)
    if counters is None:
        counters = torch.zeros(NUM_COUNTERS, dtype=torch.int32, device=x.device)
    out = persistent_step(
        stack(decoder),
        x,
        positions,
        decoder.cache.data,
        (decoder.cos, decoder.sin),
        counters,
        EPS,
        **options,
    )
    assert not counters.any()
    return out


CASES = [
    # width, inner, layers, H, H_kv, D_h; positions of the slot's rows; settings.
    # Columns that are no power of two, a cache in one and in several spans.
    ((32, 64, 2, 4, 2, 16), [5], TINY),
    ((32, 64, 3, 2, 2, 16), [9], TINY),
    ((32, 48, 2, 4, 2, 16), [11], replace(TINY, attention_splits=2)),
    ((48, 80, 2, 6, 2, 16), [9], replace(TINY, attention_splits=4, block_s=2)),
    ((32, 64, 2, 2, 2, 16), [0, 1], TINY),
    ((32, 64, 2, 4, 1, 32), [3, 10], replace(TINY, attention_splits=2)),
    # A cache that is one block of each span, as a code predictor's.
    ((32, 64, 2, 4, 2, 16), [11], replace(TINY, block_s=16)),
    ((32, 64, 2, 4, 2, 16), [0, 1], replace(TINY, block_s=16)),
    ((32, 64, 2, 2, 2, 16), [9], replace(TINY, attention_splits=4)),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "has_bias"), [*((case, False) for case in CASES), (CASES[3], True), (CASES[4], True)]
)
def test_step_equals_the_separate_operations(
    case, has_bias, dtype, device, with_kernel, with_reference, assert_close
) -> None:
    shape, at, settings = case
    decoder = make_decoder(shape, 2, 12, device, dtype, has_bias)
    positions = torch.tensor(at, device=device)
    x = torch.randn(len(at), shape[0], device=device).to(dtype)
    head = torch.randn(VOCAB, shape[0], device=device).to(dtype)
    before = decoder.cache.data.clone()
    expected = with_reference(decoder.step, x.clone(), positions, rows_per_slot=len(at))
    cache = decoder.cache.data.clone()
    decoder.cache.data.copy_(before)
    given = x.clone()
    hidden, logits = with_kernel(run, decoder, x, positions, head=head, settings=settings)
    assert torch.equal(x, given)
    assert_close(hidden, expected, 2e-2 if dtype == torch.bfloat16 else 1e-5)
    assert_close(decoder.cache.data, cache, 2e-2 if dtype == torch.bfloat16 else 1e-5)
    assert logits is not None
    assert_close(logits, hidden.float() @ head.float().T)


@pytest.mark.slow
def test_step_starts_from_codes(dtype, device, with_kernel) -> None:
    """Gathered rows of a table, a strided column of codes, -1 counting as 0."""
    decoder = make_decoder((32, 64, 2, 4, 2, 16), 3, 8, device, dtype)
    table = torch.randn(20, 32, device=device).to(dtype)
    work = torch.tensor([[7, 3], [0, -1]], device=device)
    positions = torch.tensor([2, 5], device=device)
    x = table[work[:, 1].clamp(min=0)]
    expected, _ = with_kernel(run, decoder, x, positions, settings=TINY)
    codes = work[:, 1]
    hidden, logits = with_kernel(run, decoder, table, positions, codes=codes, settings=TINY)
    assert torch.equal(hidden, expected)
    assert logits is None


@pytest.mark.slow
@pytest.mark.parametrize("at", [[3], [3, 8]])
def test_nothing_beyond_a_slot_is_read_or_written(at, dtype, device, with_kernel) -> None:
    decoder = make_decoder((32, 64, 2, 4, 2, 16), 3, 12, device, dtype)
    positions = torch.tensor(at, device=device)
    x = torch.randn(len(at), 32, device=device).to(dtype)
    cache, last = decoder.cache.data, at[-1]
    before = cache.clone()
    clean, _ = with_kernel(run, decoder, x, positions, settings=TINY)
    after = cache.clone()
    cache.copy_(before)
    cache[:, :, 1:] = float("nan")
    cache[:, :, 0, :, last:] = float("nan")
    stale, _ = with_kernel(run, decoder, x, positions, settings=TINY)
    assert torch.equal(stale, clean)
    assert torch.equal(cache[:, :, 0, :, : last + 1], after[:, :, 0, :, : last + 1])
    assert cache[:, :, 0, :, last + 1 :].isnan().all()
    assert cache[:, :, 1:].isnan().all()


@pytest.mark.slow
def test_decoder_takes_the_launch_or_the_operations(device, assert_close, monkeypatch) -> None:
    """`Decoder.run` both ways, over stacked weights that are still the parameters."""
    decoder = make_decoder((32, 64, 2, 4, 2, 16), 1, 40, device, torch.bfloat16)
    decoder.is_one_launch = False
    decoder.stack()
    stacked = decoder.stacked
    assert stacked is not None
    assert decoder.layers[1].o.weight.data_ptr() == stacked.o[1].data_ptr()
    assert decoder.norm.weight.data_ptr() == stacked.norms[2].data_ptr()
    decoder.stack()
    assert decoder.stacked is stacked
    table = torch.randn(20, 32, device=device).bfloat16()
    head = torch.randn(VOCAB, 32, device=device).bfloat16()
    codes, positions = torch.tensor([4, -1], device=device), torch.tensor([3, 7], device=device)
    one_launch = []

    def count(*arguments: Any) -> tuple[Tensor, Tensor | None]:
        one_launch.append(True)
        return persistent_step(*arguments)

    monkeypatch.setattr("models.decoder.decoder.persistent_step", count)
    results = []
    with dispatch.override("triton"):
        results.append(decoder.run(table, positions, 2, codes, head))
        assert not one_launch
        decoder.is_one_launch = True
        results.append(decoder.run(table, positions, 2, codes, head))
    assert one_launch == [True]
    for out, expected in zip(*results, strict=True):
        assert_close(out, expected, 2e-2)


@pytest.mark.gpu
def test_only_a_decoder_of_one_slot_takes_the_launch() -> None:
    """A run of more slots also records steps of one row, and must not compile this for them."""
    decoder = make_decoder(REAL, 1, 40, "cuda", torch.bfloat16)
    assert decoder.is_one_launch
    decoder.allocate(2, 40)
    assert not decoder.is_one_launch
    with dispatch.override("reference"):
        decoder.allocate(1, 40)
        out, _ = decoder.run(
            torch.ones(1, 1024, device="cuda").bfloat16(), torch.zeros(1).long().cuda()
        )
    assert out.isfinite().all()


def test_wrong_arguments_are_named(device, refused) -> None:
    decoder = make_decoder((32, 64, 1, 4, 2, 16), 2, 12, device, torch.float32)
    positions = torch.tensor([3, 8], device=device)
    x = torch.randn(2, 32, device=device)
    refused("must be", run, decoder, x[:1], positions, settings=TINY)
    refused("too many", run, decoder, x.repeat(2, 1), positions.repeat(2), settings=TINY)
    refused(
        "must be contiguous", run, decoder, x, positions, settings=TINY, head=x.new_zeros(32, 20).T
    )
    decoder.cache.data = decoder.cache.data[..., :12].contiguous()
    refused("heads of 12 do not fit", run, decoder, x, positions, settings=TINY)


REAL = (1024, 3072, 5, 16, 8, 128)


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("at", [1, 15, 150, 511])
def test_real_shapes(rows, at, assert_close) -> None:
    """The predictor's and the talker's cache; one new position or two."""
    decoder = make_decoder(REAL, 1, 16 if at < 16 else 512, "cuda", torch.bfloat16)
    positions = torch.tensor([at - 1, at][-rows:], device="cuda")
    x = torch.randn(rows, REAL[0], device="cuda").bfloat16()
    before = decoder.cache.data.clone()
    expected = decoder.step(x.clone(), positions, rows)
    cache = decoder.cache.data.clone()
    decoder.cache.data.copy_(before)
    out, _ = run(decoder, x, positions)
    assert_close(out, expected, 3e-2)
    assert_close(decoder.cache.data, cache, 3e-2)


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize(("length", "at"), [(16, 9), (512, 150)])
def test_graph_replays_are_equal(rows, length, at) -> None:
    """A race or a counter left behind would show as different bits or a hang."""
    decoder = make_decoder(REAL, 1, length, "cuda", torch.bfloat16)
    weights = stack(decoder)
    counters = torch.zeros(NUM_COUNTERS, dtype=torch.int32, device="cuda")
    positions = torch.arange(at, at + rows, device="cuda")
    x = torch.randn(rows, REAL[0], device="cuda").bfloat16()

    def call() -> Tensor:
        return persistent_step(
            weights, x, positions, decoder.cache.data, (decoder.cos, decoder.sin), counters,
            EPS,
        )[0]  # fmt: skip

    expected = call().clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()
    for _ in range(200):
        out.zero_()
        graph.replay()
        assert torch.equal(out, expected)
    assert not counters.any()


@pytest.mark.parametrize("length", [16, 1024])
@pytest.mark.parametrize("processors", [108, 114, 132])
def test_weights_of_the_small_models_fit(processors, length, monkeypatch) -> None:
    """The 0.6B models, not those twice as wide, nor 17 KV heads."""
    monkeypatch.setattr(module, "num_processors", lambda device: processors)
    default = default_settings(length)
    for width, inner, qkv in ((1024, 3072, 4096), (2048, 6144, 4096), (1024, 3072, 6400)):
        shapes = {
            "input_norm": (width,),
            "qkv": (qkv, width),
            "o": (width, 2048),
            "post_norm": (width,),
            "gate_up": (2 * inner, width),
            "down": (width, inner),
        }
        empty = {
            name: torch.empty(shape, device="meta", dtype=torch.bfloat16)
            for name, shape in shapes.items()
        }
        layer = LayerWeights(**empty)
        settings = choose_settings(layer, 128, length)
        if width != 1024 or qkv != 4096:
            assert settings is None
            continue
        assert settings is not None
        assert fits(layer, 128, settings)
        # Fewer programs hold more columns each: 32 of gate and of up would be 256 registers.
        assert settings.num_warps == (default.num_warps if processors == 132 else 8)


def test_grid_is_one_program_without_a_gpu(device) -> None:
    assert (num_processors(torch.device(device)) == 1) == (device == "cpu")


@pytest.mark.parametrize(
    ("width", "inner", "dtype", "expected"),
    [
        (1024, 3072, torch.bfloat16, True),
        (1024, 3072, torch.float32, False),
        (2048, 6144, torch.bfloat16, False),
    ],
)
def test_only_what_can_be_one_launch_is_stacked(width, inner, dtype, expected, monkeypatch) -> None:
    monkeypatch.setattr(module, "num_processors", lambda device: 132)
    decoder = make_decoder((width, inner, 1, 16, 8, 128), 1, 600, "meta", dtype)
    assert decoder._fits_one_launch() == expected
