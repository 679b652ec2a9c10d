from __future__ import annotations

import pytest
import torch

from kernels.snake_linear import MAX_CHANNELS, snake_linear_add_


def make(rows, channels, device, dtype):
    x, h = (torch.randn(rows, channels, device=device).to(dtype) for _ in range(2))
    alpha_exp, inv_beta = 20 * torch.rand(channels), torch.rand(channels)
    bias = torch.randn(channels)
    weight = (torch.randn(channels, channels) / channels**0.5).to(dtype)
    return x, h, *(t.to(device) for t in (alpha_exp, inv_beta, bias, weight))


CASES = [(1, 16), (63, 20), (100, 48), (130, 96)]
GPU_CASES = [
    pytest.param(*case, marks=pytest.mark.gpu)
    for case in ((100_001, 96), (50_000, 128), (4096, 48), (5000, 384))
]


@pytest.mark.parametrize(("rows", "channels"), [*CASES, *GPU_CASES])
def test_kernel_equals_the_separate_steps(
    rows, channels, dtype, device, with_kernel, with_reference, assert_close
) -> None:
    x, *rest = make(rows, channels, device, dtype)
    before, given = x.clone(), rest[0].clone()
    ref = with_reference(snake_linear_add_, before.clone(), *rest)
    out = with_kernel(snake_linear_add_, x, *rest)
    assert out.data_ptr() == x.data_ptr()
    assert torch.equal(rest[0], given)
    assert_close(out, ref)
    assert not torch.equal(out, before)


def test_reference_is_the_formula(device, with_reference, assert_close) -> None:
    x, h, alpha_exp, inv_beta, bias, weight = make(20, 12, device, torch.float32)
    y = h + bias
    active = y.double() + inv_beta.double() * (y * alpha_exp).double().sin().square()
    expected = x.double() + active @ weight.double().t()
    assert_close(
        with_reference(snake_linear_add_, x, h, alpha_exp, inv_beta, bias, weight), expected
    )


def test_many_channels_take_the_separate_steps(device, with_kernel, with_reference) -> None:
    x, *rest = make(3, 2 * MAX_CHANNELS, device, torch.float32)
    ref = with_kernel(snake_linear_add_, x.clone(), *rest)
    assert torch.equal(with_kernel(snake_linear_add_, x, *rest), ref)


def test_nan_stays_in_its_row(device, with_kernel) -> None:
    x, h, *rest = make(5, 16, device, torch.bfloat16)
    h[2, 3] = float("nan")
    out = with_kernel(snake_linear_add_, x, h, *rest)
    assert out[2].isnan().all()
    assert out[[0, 1, 3, 4]].isfinite().all()


def test_wrong_arguments_are_named(device, with_kernel) -> None:
    x, h, *rest = make(5, 16, device, torch.bfloat16)
    with pytest.raises(ValueError, match="one contiguous"):
        with_kernel(snake_linear_add_, x, h[:4], *rest)
    with pytest.raises(ValueError, match="does not fit 16"):
        with_kernel(snake_linear_add_, x, h, *rest[:3], rest[3][:8])
