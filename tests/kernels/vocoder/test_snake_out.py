from __future__ import annotations

import pytest
import torch

from kernels.vocoder.snake_out import snake_out


def make(batch, steps, channels, taps, device, dtype, spans=None):
    x = torch.randn(batch, steps, channels, device=device).to(dtype)
    alpha_exp, inv_beta = 20 * torch.rand(channels), torch.rand(channels)
    weight = (torch.randn(1, channels, 1, taps) / channels**0.5).to(dtype)
    weight = weight.contiguous(memory_format=torch.channels_last)
    bias, conv_bias = torch.randn(channels), torch.randn(1).to(dtype)
    kept = None if spans is None else (torch.rand(batch, spans, device=device) < 0.6)
    snake = tuple(t.to(device) for t in (alpha_exp, inv_beta, bias))
    return x, snake, weight.to(device), conv_bias.to(device), kept


CASES = [(1, 1, 16, 7, None), (2, 63, 20, 7, 9), (1, 200, 96, 7, 5), (2, 140, 24, 3, None)]
GPU_CASES = [
    pytest.param(case, marks=pytest.mark.gpu)
    for case in ((2, 64 * 1920, 96, 7, 64), (1, 100_001, 96, 7, None))
]


@pytest.mark.parametrize("case", [*CASES, *GPU_CASES])
def test_kernels_equal_the_separate_steps(
    case, dtype, device, with_kernel, with_reference, assert_close
) -> None:
    *shape, spans = case
    arguments = make(*shape, device, dtype, spans)
    out = with_kernel(snake_out, *arguments)
    ref = with_reference(snake_out, *arguments)
    assert out.dtype == ref.dtype == torch.float32
    # The separate steps round their sums to the dtype at the end.
    assert_close(out, ref, 5e-3 if dtype == torch.bfloat16 else None)


def test_reference_is_the_formula(device, with_reference, assert_close) -> None:
    arguments = make(2, 30, 12, 7, device, torch.float32, 5)
    x, (alpha_exp, inv_beta, bias), weight, conv_bias, kept = arguments
    y = x + bias
    active = y.double() + inv_beta.double() * (y * alpha_exp).double().sin().square()
    active = active * kept.repeat_interleave(6, dim=1)[:, :, None]
    padded = torch.cat([torch.zeros_like(active[:, :6]), active], dim=1)
    expected = torch.stack(
        [(padded[:, t : t + 7] * weight[0, :, 0].double().t()).sum((1, 2)) for t in range(30)], 1
    )
    assert_close(with_reference(snake_out, *arguments), expected + conv_bias.double(), 1e-5)


def test_wrong_arguments_are_named(device, refused) -> None:
    x, snake, weight, conv_bias, _ = make(1, 20, 16, 7, device, torch.float32)
    refused("does not fit x", snake_out, x[:, :, :8].contiguous(), snake, weight, conv_bias)
    refused("must be contiguous", snake_out, x[:, ::2], snake, weight, conv_bias)
    kept = torch.ones(1, 3, device=device) == 1
    refused("kept", snake_out, x, snake, weight, conv_bias, kept)
