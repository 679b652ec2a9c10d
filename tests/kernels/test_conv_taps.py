from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from kernels.conv_taps import conv_taps

CASES = [
    # B, T, C, N, taps, dilation
    (1, 1, 16, 16, 1, 1),
    (2, 63, 20, 12, 3, 2),
    (1, 100, 64, 70, 7, 9),
    (2, 70, 96, 32, 7, 1),
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
    weight = torch.randn(num_out, num_in, 1, taps, device=device).to(dtype)
    return x, weight.contiguous(memory_format=torch.channels_last), dilation


@pytest.mark.parametrize("case", CASES)
def test_reference_is_the_convolution(case, device, with_reference, assert_close) -> None:
    x, weight, dilation = make(case, device, torch.float64)
    expected = F.conv1d(x.transpose(1, 2), weight[:, :, 0], dilation=dilation).transpose(1, 2)
    out = with_reference(conv_taps, x.float(), weight.float(), dilation)
    assert_close(out, expected)


@pytest.mark.parametrize("case", [*CASES, *GPU_CASES])
def test_kernel_equals_reference(
    case, dtype, device, with_kernel, with_reference, assert_close, assert_same_rounding
) -> None:
    x, weight, dilation = make(case, device, dtype)
    out = with_kernel(conv_taps, x, weight, dilation)
    ref = with_reference(conv_taps, x, weight, dilation)
    assert out.is_contiguous()
    assert_close(out, ref)


def test_a_view_of_a_longer_row(device, with_kernel, with_reference, assert_close) -> None:
    x, weight, dilation = make((2, 40, 20, 12, 3, 2), device, torch.float32)
    view = x[:, 3:-2]
    out = with_kernel(conv_taps, view, weight, dilation)
    assert_close(out, with_reference(conv_taps, view, weight, dilation))


def test_wrong_arguments_are_named(device, with_kernel) -> None:
    x, weight, dilation = make((1, 8, 16, 16, 3, 1), device, torch.float32)
    with pytest.raises(ValueError, match="does not fit x"):
        with_kernel(conv_taps, x[:, :, :8], weight, dilation)
    with pytest.raises(ValueError, match="does not fit x"):
        with_kernel(conv_taps, x, weight, 9)
    with pytest.raises(ValueError, match="innermost"):
        with_kernel(conv_taps, x, weight.contiguous(), dilation)
