"""The persistent step against `Decoder.step`, which runs the separate operations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from kernels import dispatch
from kernels.persistent_decoder import (
    DecoderWeights,
    Settings,
    default_settings,
    fits,
    num_processors,
    persistent_step,
)
from models.blocks import Decoder

EPS, THETA = 1e-6, 1e4
TINY = Settings(
    qkv_n=16,
    o_n=16,
    mlp_n=16,
    down_n=16,
    head_n=16,
    o_splits=2,
    down_splits=2,
    block_k=16,
    block_s=4,
)
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
) -> Decoder:
    """Random weights that keep activations near 1; the cache is full of numbers."""
    width, inner, layers, heads, kv_heads, head_dim = shape
    decoder = Decoder(
        width=width,
        mlp_width=inner,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        rope_theta=THETA,
        norm_eps=EPS,
    ).to(device, dtype)
    for name, weight in decoder.named_parameters():
        if "norm" in name:
            weight.uniform_(0.5, 1.5)
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
    )  # fmt: skip


def run(decoder: Decoder, x: Tensor, positions: Tensor, **options) -> tuple[Tensor, Tensor | None]:
    """The persistent step on a decoder's weights and cache."""
    counters = options.pop("counters", None)
    if counters is None:
        counters = torch.zeros(2, dtype=torch.int32, device=x.device)
    out = persistent_step(
        stack(decoder),
        x,
        positions,
        decoder.cache.data,
        decoder.cos,
        decoder.sin,
        counters,
        decoder.num_heads,
        decoder.scale,
        EPS,
        **options,
    )
    assert counters.tolist() == [0, 0]
    return out


def relative(out: Tensor, expected: Tensor) -> float:
    out, expected = out.double(), expected.double()
    return float((out - expected).square().mean().sqrt() / expected.square().mean().sqrt())


CASES = [
    # width, inner, layers, H, H_kv, D_h; positions; rows_per_slot; settings
    ((32, 64, 2, 4, 2, 16), [5], 1, replace(TINY, is_redundant=True)),
    ((32, 64, 3, 2, 2, 16), [0, 9], 1, replace(TINY, is_redundant=True, norm_rows=2)),
    ((32, 64, 2, 4, 2, 16), [3, 0, 8], 1, replace(TINY, tasks=4)),
    ((64, 32, 2, 4, 1, 16), [7, 2, 9, 1, 4], 1, replace(TINY, norm_rows=2, block_k=8, block_m=2)),
    ((32, 64, 2, 4, 2, 16), [0, 1, 0, 1], 2, replace(TINY, tasks=2)),
    ((32, 64, 1, 2, 1, 32), [4, 5, 8, 9, 0, 1], 2, replace(TINY, use_atomic_poll=True)),
    ((64, 64, 2, 4, 2, 16), [1] * 4, 1, replace(TINY, block_m=4, qkv_n=32, norm_rows=4)),
]


@pytest.mark.parametrize("case", CASES)
def test_step_equals_the_separate_operations(
    case, dtype, device, with_kernel, with_reference, assert_close
) -> None:
    shape, at, per_slot, settings = case
    decoder = make_decoder(shape, len(at) // per_slot + 1, 12, device, dtype)
    positions = torch.tensor(at, device=device)
    x = torch.randn(len(at), shape[0], device=device).to(dtype)
    head = torch.randn(VOCAB, shape[0], device=device).to(dtype)
    before = decoder.cache.data.clone()
    expected = with_reference(decoder.step, x.clone(), positions, rows_per_slot=per_slot)
    cache = decoder.cache.data.clone()
    decoder.cache.data.copy_(before)
    given = x.clone()
    hidden, logits = with_kernel(
        run, decoder, x, positions, rows_per_slot=per_slot, head=head, settings=settings
    )
    assert torch.equal(x, given)
    assert_close(hidden, expected, 2e-2 if dtype == torch.bfloat16 else 1e-5)
    assert_close(decoder.cache.data, cache, 2e-2 if dtype == torch.bfloat16 else 1e-5)
    assert logits is not None
    assert_close(logits, hidden.float() @ head.float().T)
