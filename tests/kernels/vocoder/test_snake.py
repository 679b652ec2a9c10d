from __future__ import annotations

import pytest
import torch

from kernels.vocoder.snake import snake_beta, snake_beta_ref

pytestmark = pytest.mark.slow

SHAPES = [(1, 1, 1), (2, 3, 63), (1, 20, 100), (2, 48, 70)]
GPU_SHAPES = [(4, 1536, 500), (2, 384, 10_000), (2, 96, 240_001)]


def constants(channels: int, device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """alpha_exp, inv_beta and bias: frequencies of up to 20, as trained ones have."""
    alpha_exp, inv_beta = 20 * torch.rand(channels), torch.rand(channels)
    return alpha_exp.to(device), inv_beta.to(device), torch.randn(channels).to(device)


def channels_innermost(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def formula(x, snake) -> torch.Tensor:
    """float64, but for the phase: rounded to float32 it turns too much for a comparison."""
    alpha_exp, inv_beta, bias = snake
    y = x.float() + bias[:, None]
    phase = (y * alpha_exp[:, None]).double()
    return y.double() + inv_beta.double()[:, None] * phase.sin().square()


@pytest.mark.parametrize("left_pad", [0, 6])
@pytest.mark.parametrize("is_innermost", [False, True])
@pytest.mark.parametrize(
    "shape", [*SHAPES, *(pytest.param(shape, marks=pytest.mark.gpu) for shape in GPU_SHAPES)]
)
def test_kernel_equals_reference(
    shape, is_innermost, left_pad, dtype, device, with_kernel, with_reference, assert_close
) -> None:
    x = (3 * torch.randn(shape, device=device)).to(dtype)
    if is_innermost:
        x = channels_innermost(x)
    args = (x, constants(shape[1], device), left_pad)
    out, ref = with_kernel(snake_beta, *args), with_reference(snake_beta, *args)
    assert out.dtype == dtype
    assert out.stride() == ref.stride()
    assert not out[:, :, :left_pad].any()
    assert_close(out, ref)
    assert_close(
        out[:, :, left_pad:].double(), formula(*args[:2]), 5e-3 if dtype != torch.float32 else 1e-6
    )


@pytest.mark.parametrize("is_innermost", [False, True])
def test_views_of_wider_activations(
    is_innermost, dtype, device, with_kernel, with_reference, assert_close
) -> None:
    """A trimmed or sliced activation is read through its strides."""
    x = torch.randn(3, 40, 50, device=device).to(dtype)
    if is_innermost:
        x = channels_innermost(x)
    x = x[1:, 4:20, 3:-7]
    args = (x, constants(16, device), 2)
    assert_close(with_kernel(snake_beta, *args), with_reference(snake_beta, *args))


def test_many_turns(device, with_kernel, with_reference, assert_close) -> None:
    """Thousands of periods away from zero the reduction by pi still holds."""
    x = 2000 * torch.randn(2, 16, 64, device=device)
    alpha_exp, inv_beta, bias = constants(16, device)
    snake = alpha_exp, 1e3 * inv_beta, bias
    for function in (with_kernel, with_reference):
        out = function(snake_beta, x, snake)
        assert_close(out, formula(x, snake), 1e-6)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_what_is_not_finite_stays_where_it_is(device, with_kernel) -> None:
    x = torch.randn(1, 2, 40, device=device)
    snake = constants(2, device)
    clean = with_kernel(snake_beta, x, snake)
    x[0, 0, 3], x[0, 1, 5], x[0, 1, 6] = float("nan"), float("inf"), 1e12
    out = with_kernel(snake_beta, x, snake)
    assert out[0, 0, 3].isnan()
    assert out[0, 1, 5].isnan()
    assert out[0, 1, 6].item() == pytest.approx(1e12)
    x[0, 0, 3], x[0, 1, 5:7] = 0, 0
    is_same = out == clean
    is_same[0, 0, 3], is_same[0, 1, 5:7] = True, True
    assert is_same.all()


def test_reference_in_blocks(monkeypatch, device) -> None:
    """The CPU path works through the time axis in pieces; their size must not show."""
    x = channels_innermost(torch.randn(2, 8, 101, device=device))
    args = (x, constants(8, device), 3)
    whole = snake_beta_ref(*args)
    monkeypatch.setattr("kernels.vocoder.snake.REF_BLOCK", 100)
    assert torch.equal(snake_beta_ref(*args), whole)


def test_wrong_arguments_are_named(device, refused) -> None:
    x = torch.randn(1, 4, 8, device=device)
    alpha_exp, inv_beta, bias = constants(4, device)
    refused(r"inv_beta must be \(4,\) float32", snake_beta, x, (alpha_exp, inv_beta[:3], bias))
    refused(
        r"bias must be .* not \(4,\) torch.bfloat16",
        snake_beta,
        x,
        (alpha_exp, inv_beta, bias.bfloat16()),
    )
    refused("left_pad", snake_beta, x, (alpha_exp, inv_beta, bias), -1)


def test_no_rows_and_no_time(device, with_kernel, with_reference) -> None:
    snake = constants(4, device)
    for call in (with_kernel, with_reference):
        assert call(snake_beta, torch.empty(0, 4, 8, device=device), snake).shape == (0, 4, 8)
        out = call(snake_beta, torch.empty(1, 4, 0, device=device), snake, 3)
        assert torch.equal(out, torch.zeros(1, 4, 3, device=device))


@pytest.mark.parametrize(("span", "left_pad"), [(1, 54), (7, 1), (40, 0)])
@pytest.mark.parametrize("is_innermost", [False, True])
def test_gaps_are_zeros_and_the_rest_is_as_without(
    span, is_innermost, left_pad, dtype, device, with_kernel, with_reference, assert_close
) -> None:
    x = (3 * torch.randn(2, 20, 5 * span, device=device)).to(dtype)
    if is_innermost:
        x = channels_innermost(x)
    arguments = (x, constants(20, device), left_pad)
    kept = torch.tensor([[1, 0, 1, 1, 0], [0, 1, 1, 0, 1]], device=device) == 1
    out = with_kernel(snake_beta, *arguments, kept)
    ref = with_reference(snake_beta, *arguments, kept)
    assert out.stride() == ref.stride()
    assert_close(out, ref)
    plain = with_kernel(snake_beta, *arguments)
    is_kept = kept.repeat_interleave(span, dim=1)[:, None].expand_as(x)
    for result, whole in ((out, plain), (ref, with_reference(snake_beta, *arguments))):
        assert not result[:, :, :left_pad].any()
        behind = result[:, :, left_pad:]
        assert not behind[~is_kept].any()
        assert torch.equal(behind[is_kept], whole[:, :, left_pad:][is_kept])


def test_gaps_must_fit(device, refused) -> None:
    x = torch.randn(2, 4, 12, device=device)
    for kept in (torch.ones(2, 5), torch.ones(2, 4), torch.ones(1, 4) == 1):
        refused("F a divisor of T", snake_beta, x, constants(4, device), 0, kept.to(device))
