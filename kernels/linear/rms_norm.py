"""RMSNorm, alone and after a residual add.

    y = cast(x * rsqrt(mean(x^2) + eps)) * weight          over the last dimension, D

x is (..., D), weight (D,).

Rounding: the mean and the root are float32. The normalised value is rounded to x's dtype, and so is
its product with the weight: the checkpoints were trained with that, and float32 through the weight
gives a slightly different, and for these models worse, result. The sum with the residual is rounded
before the norm. An addend may be float32 parts of a product over a split K
(`kernels.linear.few_rows`), which are summed in their order and rounded once before the residual.

PyTorch runs five or six kernels for this and the residual add. A decode step is bound by the number
of kernels, so both are one here: one program per row, one read, one write.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.launch.dispatch import jit, next_power_of_2, tl
from kernels.launch.early_launch import launch_options, start_next, wait_for_previous
from kernels.launch.op import op


def rms_norm_ref(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    if x.dtype == torch.float32 and x.device.type == "cpu":  # the same operations, in one call
        return torch.rms_norm(x, x.shape[-1:], weight, eps)
    wide = x.float()
    scale = wide.square().mean(-1, keepdim=True).add_(eps).rsqrt_()
    return (wide * scale).to(x.dtype).mul_(weight)


def add_rms_norm_ref_(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tensor:
    """residual += x in place, then the norm of it."""
    residual.add_(x if x.ndim == 2 else x.sum(0).to(residual.dtype))
    return rms_norm_ref(residual, weight, eps)


@jit
def normed_row(x, weight, width, eps, dtype: tl.constexpr):
    """RMSNorm of one row, whose columns are all in the program as float32; rounded to dtype."""
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / width + eps)
    normed = (x * scale).to(dtype).to(tl.float32)
    return (normed * weight.to(tl.float32)).to(dtype)


@jit
def _rms_norm_kernel(
    x_ptr, residual_ptr, weight_ptr, out_ptr,
    x_stride, part_stride, residual_stride,
    width, eps,
    HAS_RESIDUAL: tl.constexpr,
    NUM_PARTS: tl.constexpr,  # of x, in float32; 0: x is whole and rounded
    IS_DEPENDENT: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    start_next(IS_DEPENDENT)
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < width
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0)
    wait_for_previous(IS_DEPENDENT)
    x = tl.load(x_ptr + row * x_stride + column, mask=inside, other=0.0).to(tl.float32)
    for part in tl.static_range(1, NUM_PARTS):
        place = part * part_stride + row * x_stride + column
        x += tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32)
    if NUM_PARTS > 0:
        x = x.to(dtype).to(tl.float32)
    if HAS_RESIDUAL:
        residual = residual_ptr + row * residual_stride + column
        # The sum is rounded before it is squared: the residual stream itself lives in the dtype.
        x = (x + tl.load(residual, mask=inside, other=0.0).to(tl.float32)).to(dtype)
        tl.store(residual, x, mask=inside)
        x = x.to(tl.float32)
    normed = normed_row(x, weight, width, eps, dtype)
    tl.store(out_ptr + row * width + column, normed, mask=inside)


def row_warps(block: int) -> int:
    """Warps of a program for a row of `block` columns, a power of two: four columns per thread,
    as many as one load of float32 parts brings. With eight, values are exchanged through
    shared memory.
    """
    return min(16, max(1, block // 128))


@op(rms_norm_ref)
def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMSNorm over the last dimension: x (..., D), weight (D,), one dtype; returns x's shape."""
    width = x.shape[-1]
    _check(x, weight)
    rows = x.reshape(-1, width)
    if rows.stride(1) != 1:
        rows = rows.contiguous()
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _launch(rows, rows, weight, out, eps, has_residual=False)
    return out


@op(add_rms_norm_ref_)
def add_rms_norm_(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tensor:
    """residual += x in place, rounded to its dtype; returns the RMSNorm of the new residual.

    Args:
        x: (R, D) of residual's dtype, last dimension contiguous; or (P, R, D) float32, parts whose
            sum, rounded to residual's dtype, is x.
        residual: (R, D), last dimension contiguous.
        weight: (D,).
    """
    _check(residual, weight)
    is_fitting = x.shape == residual.shape and x.dtype == residual.dtype
    if x.ndim == 3:
        is_fitting = x.shape[0] > 0 and x.shape[1:] == residual.shape and x.dtype == torch.float32
    if residual.ndim != 2 or not is_fitting:
        raise ValueError(
            f"x {tuple(x.shape)} {x.dtype} and residual {tuple(residual.shape)} {residual.dtype} "
            "must be one (R, D) shape and dtype, or x float32 parts (P, R, D)"
        )
    if x.stride(-1) != 1 or residual.stride(1) != 1:
        raise ValueError("x and residual must be contiguous in their last dimension")
    out = torch.empty(residual.shape, dtype=residual.dtype, device=x.device)
    _launch(x, residual, weight, out, eps, has_residual=True)
    return out


def _check(x: Tensor, weight: Tensor) -> None:
    if weight.shape != x.shape[-1:] or weight.dtype != x.dtype or weight.stride(0) != 1:
        raise ValueError(
            f"weight {tuple(weight.shape)} {weight.dtype} does not fit x {tuple(x.shape)} {x.dtype}"
        )


def _launch(
    x: Tensor, residual: Tensor, weight: Tensor, out: Tensor, eps: float, has_residual: bool
) -> None:
    num_rows, width = residual.shape
    is_parts = x.ndim == 3
    block = next_power_of_2(width)
    _rms_norm_kernel[(num_rows,)](
        x, residual, weight, out, x.stride(-2), x.stride(0) if is_parts else 0, residual.stride(0),
        width, eps, HAS_RESIDUAL=has_residual, NUM_PARTS=x.shape[0] if is_parts else 0,
        BLOCK=block, num_warps=row_warps(block), **launch_options(),
    )  # fmt: skip
