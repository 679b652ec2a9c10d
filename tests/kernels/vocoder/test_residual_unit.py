from __future__ import annotations

import pytest
import torch

from kernels.vocoder.conv_taps import conv_taps
from kernels.vocoder.residual_unit import MAX_CHANNELS, residual_unit_
from kernels.vocoder.snake import snake_beta

pytestmark = pytest.mark.copy_engine

CASES = [
    # B, T, C, taps, dilation
    (1, 1, 16, 1, 1),
    (2, 63, 24, 3, 2),
    (2, 70, 96, 7, 3),
    (1, 100, 64, 7, 9),
]
GPU_CASES = [
    pytest.param(case, marks=pytest.mark.gpu)
    for case in (
        (2, 100_001, 96, 7, 1),
        (4, 50_000, 96, 7, 9),
        (3, 10_001, 128, 7, 3),
        (1, 1001, 96, 7, 9),
    )
]


def make(case, device, dtype):
    batch, steps, channels, taps, dilation = case
    x = torch.randn(batch, steps, channels, device=device).to(dtype)
    s = torch.randn(batch, steps + (taps - 1) * dilation, channels, device=device).to(dtype)
    weight = torch.randn(channels, channels, 1, taps, device=device) / (channels * taps) ** 0.5
    weight = weight.to(dtype).contiguous(memory_format=torch.channels_last)
    constants = 20 * torch.rand(channels), torch.rand(channels), torch.randn(channels)
    snake = tuple(t.to(device) for t in constants)
    pointwise = (torch.randn(channels, channels, device=device) / channels**0.5).to(dtype)
    return x, s, weight, dilation, snake, pointwise


@pytest.mark.parametrize("case", [*CASES, *GPU_CASES])
def test_kernel_equals_the_separate_steps(
    case, dtype, device, with_kernel, with_reference, assert_close, assert_same_rounding
) -> None:
    x, s, weight, dilation, snake, pointwise = make(case, device, dtype)
    before, given = x.clone(), s.clone()
    h = with_reference(conv_taps, s, weight, dilation)
    active = with_reference(snake_beta, h.transpose(1, 2), snake).transpose(1, 2)
    apart = (x.float() + active.float() @ pointwise.float().t()).to(dtype)
    out = with_kernel(residual_unit_, x, s, weight, dilation, snake, pointwise)
    assert out.data_ptr() == x.data_ptr()
    assert torch.equal(s, given)
    # The float32 sums differ in their order, and the phase is up to 100 times as large.
    assert_close(out, apart, 5e-3 if dtype == torch.bfloat16 else 3e-5)
    assert_same_rounding(out, apart)
    ref = with_reference(residual_unit_, before, s, weight, dilation, snake, pointwise)
    assert_close(ref, apart)


def test_what_is_left_of_the_steps_is_not_touched(device, with_kernel) -> None:
    x, *rest = make((2, 10, 32, 3, 2), device, torch.bfloat16)
    room = torch.full((3, 10, 32), 7.0, device=device, dtype=torch.bfloat16)
    room[:2] = x
    with_kernel(residual_unit_, room[:2], *rest)
    assert (room[2] == 7.0).all()


def test_nan_reaches_only_the_steps_that_read_it(device, with_kernel) -> None:
    x, s, *rest = make((1, 12, 16, 3, 2), device, torch.bfloat16)
    s[0, 6, 5] = float("nan")
    out = with_kernel(residual_unit_, x, s, *rest)
    is_nan = out[0].isnan().all(-1)
    assert is_nan.nonzero().flatten().tolist() == [2, 4, 6]
    assert out[0, ~is_nan].isfinite().all()


def test_wrong_arguments_are_named(device, refused) -> None:
    x, s, weight, dilation, snake, pointwise = make((1, 8, 16, 3, 1), device, torch.bfloat16)
    refused("must be contiguous", residual_unit_, x[:, :4], s, weight, dilation, snake, pointwise)
    refused("does not fit x", residual_unit_, x, s, weight, 9, snake, pointwise)
    refused("does not fit 16", residual_unit_, x, s, weight, dilation, snake, pointwise[:8])
    wide = make((1, 4, 2 * MAX_CHANNELS, 1, 1), device, torch.bfloat16)
    refused("at most", residual_unit_, *wide)
