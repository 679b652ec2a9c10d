from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from kernels.vocoder import conv_taps as module
from kernels.vocoder.conv_taps import conv_taps
from kernels.vocoder.conv_tile import Tile
from kernels.vocoder.snake import snake_beta

pytestmark = [pytest.mark.slow, pytest.mark.copy_engine]

CASES = [
    # B, T, C, N, taps, dilation
    (1, 1, 16, 16, 1, 1),
    (2, 63, 24, 40, 3, 2),
    (1, 100, 64, 72, 7, 9),
    (2, 70, 96, 32, 7, 1),
    (2, 70, 96, 96, 7, 3),
]
GPU_CASES = [
    pytest.param(case, marks=pytest.mark.gpu)
    for case in (
        (4, 32 * 256, 768, 768, 7, 3),
        (4, 32 * 256, 768, 768, 7, 9),
        (1, 160 * 300, 384, 384, 7, 9),
        (3, 10_001, 192, 192, 7, 3),
        (2, 10_001, 96, 96, 7, 1),
    )
]


def make(case, device, dtype):
    batch, steps, num_in, num_out, taps, dilation = case
    x = torch.randn(batch, steps + (taps - 1) * dilation, num_in, device=device).to(dtype)
    weight = torch.randn(num_out, num_in, 1, taps, device=device) / (num_in * taps) ** 0.5
    return x, weight.to(dtype).contiguous(memory_format=torch.channels_last), dilation


def make_snake(channels, device):
    constants = 20 * torch.rand(channels), torch.rand(channels), torch.randn(channels)
    return tuple(t.to(device) for t in constants)


@pytest.mark.parametrize("case", CASES)
def test_reference_is_the_convolution(case, device, with_reference, assert_close) -> None:
    x, weight, dilation = make(case, device, torch.float64)
    expected = F.conv1d(x.transpose(1, 2), weight[:, :, 0], dilation=dilation).transpose(1, 2)
    out = with_reference(conv_taps, x.float(), weight.float(), dilation)
    assert_close(out, expected)


@pytest.mark.parametrize("case", [*CASES, *GPU_CASES])
def test_kernel_equals_reference(case, dtype, device, with_kernel, with_reference, assert_close):
    x, weight, dilation = make(case, device, dtype)
    out = with_kernel(conv_taps, x, weight, dilation)
    ref = with_reference(conv_taps, x, weight, dilation)
    assert out.is_contiguous()
    assert_close(out, ref)


@pytest.mark.parametrize("case", [*CASES, *GPU_CASES])
def test_snake_rides_along_with_the_rounding_of_two_steps(
    case, dtype, device, with_kernel, with_reference, assert_close, assert_same_rounding
) -> None:
    x, weight, dilation = make(case, device, dtype)
    snake = make_snake(case[3], device)
    out = with_kernel(conv_taps, x, weight, dilation, snake)
    apart = with_reference(conv_taps, x, weight, dilation)
    ref = with_reference(snake_beta, apart.transpose(1, 2), snake).transpose(1, 2)
    # The float32 sums differ in their order, and the phase is up to 100 times as large.
    assert_close(out, ref, 5e-3 if dtype == torch.bfloat16 else 3e-5)
    assert_same_rounding(out, ref)
    assert torch.equal(with_reference(conv_taps, x, weight, dilation, snake), ref)


@pytest.mark.parametrize(
    "tile", [Tile(64, 32, 16, 32, 4, 2), Tile(64, 16, 0, 16, 4, 1), Tile(64, 32, 32, 64, 4, 3)]
)
def test_tiles_of_two_parts(
    tile, device, with_kernel, with_reference, assert_close, monkeypatch
) -> None:
    monkeypatch.setattr(module, "tile_of", lambda *_: tile)
    x, weight, dilation = make((2, 40, 96, 48, 3, 2), device, torch.bfloat16)
    out = with_kernel(conv_taps, x, weight, dilation)
    assert_close(out, with_reference(conv_taps, x, weight, dilation))


def test_a_view_of_a_longer_row(device, with_kernel, with_reference, assert_close) -> None:
    x, weight, dilation = make((2, 40, 32, 48, 3, 2), device, torch.bfloat16)
    view = x[:, 3:-2]
    out = with_kernel(conv_taps, view, weight, dilation)
    assert_close(out, with_reference(conv_taps, view, weight, dilation))


def test_a_single_row_of_any_stride(device, with_kernel) -> None:
    x, weight, dilation = make((1, 20, 16, 16, 3, 2), device, torch.bfloat16)
    odd = x.as_strided(x.shape, (7, *x.stride()[1:]))
    out = with_kernel(conv_taps, odd, weight, dilation)
    assert torch.equal(out, with_kernel(conv_taps, x, weight, dilation))


def test_wrong_arguments_are_named(device, refused) -> None:
    x, weight, dilation = make((1, 8, 16, 16, 3, 1), device, torch.bfloat16)
    refused("does not fit x", conv_taps, x[:, :, :8], weight, dilation)
    refused("does not fit x", conv_taps, x, weight, 9)
    refused("innermost", conv_taps, x, weight.contiguous(), dilation)
    refused("16 bytes", conv_taps, *make((1, 8, 12, 16, 3, 1), device, torch.bfloat16))
    refused("float32", conv_taps, x, weight, dilation, make_snake(8, device))
