"""Linear layers with norm, SwiGLU, residual and sums of squares, against separate operations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from kernels.row_linear import (
    NUM_TICKETS,
    RowSettings,
    default_settings,
    enable,
    linear_add_,
    norm_linear,
    use_rows,
)
from models.blocks import Decoder

EPS = 1e-6
TINY = RowSettings(block_m=16, block_n=16, block_k=16)


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.inference_mode():
        yield


def tolerance(dtype: torch.dtype) -> float | None:
    """bf16: one rounding of a norm's input more or less moves a whole product."""
    return 1e-2 if dtype == torch.bfloat16 else None


@pytest.mark.parametrize("is_mlp", [False, True])
@pytest.mark.parametrize("rows", [1, 5, 33])
@pytest.mark.parametrize("parts", [0, 1, 3])
def test_norm_linear(
    rows, parts, is_mlp, dtype, device, with_kernel, with_reference, assert_close
) -> None:
    width, count = 64, 48
    x = torch.randn(rows, 2 * width, device=device).to(dtype)[:, :width]
    weight = (torch.randn(count * (2 if is_mlp else 1), width, device=device) / 8).to(dtype)
    norm, sums = None, None
    if parts:
        norm = (torch.rand(width, device=device) + 0.5).to(dtype)
        squares = x.float().square().sum(1, keepdim=True)
        sums = (squares / parts).repeat(1, parts)
    arguments = (x, sums, norm, weight, EPS, TINY, is_mlp)
    out = with_kernel(norm_linear, *arguments)
    assert_close(out, with_reference(norm_linear, *arguments), tolerance(dtype))


@pytest.mark.parametrize("rows", [1, 5, 33])
@pytest.mark.parametrize("splits", [1, 2, 4])
def test_linear_add(rows, splits, dtype, device, with_kernel, with_reference, assert_close) -> None:
    width, count = 64, 48
    x = torch.randn(rows, width, device=device).to(dtype)
    weight = (torch.randn(count, width, device=device) / 8).to(dtype)
    residual = torch.randn(rows, count, device=device).to(dtype)
    before = residual.clone()
    tickets = torch.zeros(NUM_TICKETS, dtype=torch.int32, device=device)
    settings = replace(TINY, splits=splits)
    sums = with_kernel(linear_add_, x, weight, residual, tickets, settings)
    assert not tickets.any()
    assert_close(sums.sum(1), residual.float().square().sum(1))
    expected_sums = with_reference(linear_add_, x, weight, before, tickets, settings)
    assert_close(residual, before, tolerance(dtype))
    assert_close(sums.sum(1, keepdim=True), expected_sums, tolerance(dtype))


def test_a_row_does_not_depend_on_its_batch(device, with_kernel) -> None:
    x = torch.randn(20, 64, device=device).bfloat16()
    weight = torch.randn(48, 64, device=device).bfloat16()
    residual = torch.randn(20, 48, device=device).bfloat16()
    tickets = torch.zeros(NUM_TICKETS, dtype=torch.int32, device=device)
    alone, settings = residual[17:18].clone(), replace(TINY, splits=2)
    with_kernel(linear_add_, x, weight, residual, tickets, settings)
    x[:17] = float("nan")
    with_kernel(linear_add_, x[17:18], weight, alone, tickets, settings)
    assert torch.equal(alone[0], residual[17])


def test_wrong_arguments_are_named(device, with_kernel) -> None:
    x = torch.randn(2, 64, device=device)
    weight = torch.randn(40, 64, device=device)
    tickets = torch.zeros(1, dtype=torch.int32, device=device)
    with pytest.raises(ValueError, match="do not fit"):
        with_kernel(norm_linear, x, None, None, weight, EPS, TINY)
    with pytest.raises(ValueError, match="sums come with norm"):
        with_kernel(norm_linear, x, None, x[0], weight[:32], EPS, TINY)
    with pytest.raises(ValueError, match="does not fit"):
        with_kernel(linear_add_, x, weight, x[:, :40], tickets, TINY)
    with pytest.raises(ValueError, match="only 1 tickets"):
        with_kernel(linear_add_, x, weight[:32], x[:, :32].contiguous(), tickets, TINY)


def make_decoder(shape: tuple[int, ...], slots: int, positions: int, device: str) -> Decoder:
    width, inner, layers, heads, kv_heads, head_dim = shape
    decoder = Decoder(
        width=width,
        mlp_width=inner,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        rope_theta=1e4,
        norm_eps=EPS,
    ).to(device, torch.bfloat16)
    for name, weight in decoder.named_parameters():
        if "norm" in name:
            weight.uniform_(0.5, 1.5)
        else:
            weight.normal_(0, 1 / math.sqrt(weight.shape[1]))
    decoder.allocate(slots, positions)
    decoder.stack()
    decoder.cache.data.normal_()
    return decoder


@pytest.mark.parametrize("rows_per_slot", [1, 2])
def test_a_step_of_a_decoder(rows_per_slot, device, with_kernel, assert_close) -> None:
    """`Decoder.step` with these launches and without."""
    # Four rows: splits of 4 and tiles of 128 along K.
    decoder = make_decoder((512, 512, 2, 8, 2, 64), 4, 12, device)
    positions = torch.tensor([4, 5, 0, 1], device=device)
    x = torch.randn(4, 512, device=device).bfloat16()
    cache = decoder.cache.data.clone()
    expected = with_kernel(decoder.step, x.clone(), positions, rows_per_slot)
    assert not use_rows(x, 4)
    decoder.cache.data.copy_(cache)
    with enable():
        out = with_kernel(decoder.step, x.clone(), positions, rows_per_slot)
    assert_close(out, expected, 2e-2)
    assert not decoder.tickets.any()


REAL = (1024, 3072, 5, 16, 8, 128)


@pytest.mark.gpu
@pytest.mark.parametrize("use_dependent", [False, True])
@pytest.mark.parametrize("rows", [3, 16, 32, 64, 128, 256])
def test_real_shapes(rows, use_dependent, assert_close) -> None:
    """Against the separate operations, and 200 replays of a graph against each other."""
    decoder = make_decoder(REAL, rows, 16, "cuda")
    positions = torch.arange(rows, device="cuda") % 16
    x = torch.randn(rows, REAL[0], device="cuda").bfloat16()
    expected = decoder.step(x.clone(), positions)
    with enable(use_dependent):
        first = decoder.step(x.clone(), positions).clone()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = decoder.step(x.clone(), positions)
    assert_close(first, expected, 3e-2)
    for _ in range(200):
        out.zero_()
        graph.replay()
        assert torch.equal(out, first)
    assert not decoder.tickets.any()


@pytest.mark.parametrize("rows", [3, 16, 17, 32, 64, 128, 256])
def test_default_settings_fit_the_released_models(rows) -> None:
    settings = default_settings(rows)
    for width, inner in ((1024, 3072), (2048, 6144)):
        for depth, count, one in (
            (width, 4096, settings.qkv),
            (2048, width, settings.o),
            (width, inner, settings.gate_up),
            (inner, width, settings.down),
        ):
            assert depth % (one.splits * one.block_k) == 0
            assert count % one.block_n == 0
            assert -(-rows // one.block_m) * (count // one.block_n) <= NUM_TICKETS
