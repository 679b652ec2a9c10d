from __future__ import annotations

import pytest
import torch

from kernels.linear.rms_norm import add_rms_norm_, rms_norm, rms_norm_ref

SHAPES = [(1, 1), (3, 40), (1, 63), (3, 100)]
GPU_SHAPES = [(1, 1024), (64, 1024), (256, 2048)]


def test_reference_rounds_before_the_weight() -> None:
    """Rounding once, after the weight, gives other bits; the checkpoints expect two roundings."""
    x = torch.randn(64, 64).bfloat16()
    weight = (1 + torch.rand(64)).bfloat16()
    wide = x.float()
    normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    assert torch.equal(rms_norm_ref(x, weight, 1e-6), normed.bfloat16() * weight)
    assert not torch.equal(rms_norm_ref(x, weight, 1e-6), (normed * weight.float()).bfloat16())


@pytest.mark.slow
def test_reference_equals_transformers(dtype) -> None:
    modeling = pytest.importorskip("transformers.models.qwen3.modeling_qwen3")
    norm = modeling.Qwen3RMSNorm(64, eps=1e-6).to(dtype)
    torch.nn.init.normal_(norm.weight)
    x = torch.randn(3, 64).to(dtype)
    assert torch.equal(rms_norm_ref(x, norm.weight, 1e-6), norm(x))


@pytest.mark.parametrize(
    "shape", [*SHAPES, *(pytest.param(shape, marks=pytest.mark.gpu) for shape in GPU_SHAPES)]
)
def test_kernels_equal_references(
    shape, dtype, device, with_kernel, with_reference, assert_close, assert_same_rounding
) -> None:
    x, residual = (torch.randn(shape, device=device).to(dtype) for _ in range(2))
    weight = torch.randn(shape[1], device=device).to(dtype)
    assert_close(with_kernel(rms_norm, x, weight, 1e-6), with_reference(rms_norm, x, weight, 1e-6))
    residuals = residual.clone(), residual.clone()
    out = with_kernel(add_rms_norm_, x, residuals[0], weight, 1e-6)
    ref = with_reference(add_rms_norm_, x, residuals[1], weight, 1e-6)
    assert_close(out, ref)
    assert_same_rounding(out, ref)
    assert torch.equal(residuals[0], residuals[1])
    assert torch.equal(residuals[1], residual + x)


def test_views_and_leading_dimensions(dtype, device, with_kernel, with_reference) -> None:
    """Row strides are passed, so a slice of a wider tensor needs no copy."""
    wide = torch.randn(3, 2, 100, device=device).to(dtype)
    weight = torch.randn(40, device=device).to(dtype)
    x = wide[:, :, 5:45]
    out = with_kernel(rms_norm, x, weight, 1e-6)
    torch.testing.assert_close(out, with_reference(rms_norm, x, weight, 1e-6))
    residual = torch.zeros(3, 64, device=device).to(dtype)[:, :40]
    out = with_kernel(add_rms_norm_, x[:, 1], residual, weight, 1e-6)
    torch.testing.assert_close(out, rms_norm_ref(x[:, 1], weight, 1e-6))
    assert torch.equal(residual, x[:, 1])


def test_nan_stays_in_its_row(device, with_kernel) -> None:
    x = torch.randn(3, 40, device=device)
    weight = torch.ones(40, device=device)
    clean = with_kernel(rms_norm, x, weight, 1e-6)
    x[1, 7] = float("nan")
    out = with_kernel(rms_norm, x, weight, 1e-6)
    assert out[1].isnan().all()
    assert torch.equal(out[[0, 2]], clean[[0, 2]])


def test_wrong_arguments_are_named(device, refused) -> None:
    x = torch.randn(3, 40, device=device)
    refused("does not fit x", rms_norm, x, torch.ones(41, device=device), 1e-6)
    refused("must be one", add_rms_norm_, x, x[:2].clone(), torch.ones(40, device=device), 1e-6)
