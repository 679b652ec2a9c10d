from __future__ import annotations

import pytest
import torch

from kernels.linear.swiglu import swiglu, swiglu_ref


def test_reference_rounds_silu_before_the_product(dtype) -> None:
    gate, up = torch.randn(2, 16, 64).to(dtype)
    expected = torch.nn.functional.silu(gate) * up
    assert torch.equal(swiglu_ref(torch.cat((gate, up), dim=1)), expected)


@pytest.mark.parametrize(
    "shape",
    [
        (1, 1),
        (3, 63),
        (1, 1500),  # more than one block
        pytest.param((64, 3072), marks=pytest.mark.gpu),
        pytest.param((256, 6144), marks=pytest.mark.gpu),
    ],
)
def test_kernel_equals_reference(
    shape, dtype, device, with_kernel, assert_close, assert_same_rounding
) -> None:
    rows, width = shape
    gate_up = (torch.randn(rows, 2 * width, device=device) * 3).to(dtype)
    out, ref = with_kernel(swiglu, gate_up), swiglu_ref(gate_up)
    assert_close(out, ref)
    assert_same_rounding(out, ref)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # exp to inf, as meant
def test_extreme_gates_and_row_views(device, with_kernel) -> None:
    wide = torch.randn(3, 20, device=device)
    wide[0, 0], wide[1, 1], wide[2, 2] = -200.0, 200.0, float("nan")
    view = wide[:, :12]
    out, ref = with_kernel(swiglu, view), swiglu_ref(view)
    torch.testing.assert_close(out, ref, equal_nan=True)
    assert out.isnan().sum() == 1
    assert out[0, 0] == 0


def test_odd_width_is_refused(device, refused) -> None:
    refused("must be", swiglu, torch.ones(1, 3, device=device))
