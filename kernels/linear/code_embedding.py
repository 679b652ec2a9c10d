"""A code's embedding and the norm before the first layer, in one launch.

    x = table[max(code, 0)]      y = rms_norm(x) * weight

codes is (R,), the table (V, D), x and y (R, D). Codes below 0 (a failed row) count as 0. A step of
the code predictor begins with this fifteen times per frame; PyTorch launches two kernels before the
norm. Rounding: x is a copy, y is rounded as in `kernels.linear.rms_norm`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from kernels.launch.dispatch import jit, next_power_of_2, tl
from kernels.launch.early_launch import launch_options, start_next, wait_for_previous
from kernels.launch.op import op
from kernels.linear.rms_norm import normed_row, rms_norm_ref, row_warps


class Beginning(NamedTuple):
    """Arguments and outputs of `code_embedding`, for a step whose codes are not drawn yet."""

    table: Tensor
    weight: Tensor
    eps: float
    out: Tensor
    normed: Tensor


def code_embedding_ref(
    codes: Tensor, table: Tensor, weight: Tensor, eps: float, out: Tensor
) -> Tensor:
    torch.index_select(table, 0, codes.clamp(min=0), out=out)
    return rms_norm_ref(out, weight, eps)


@jit
def embed_row(
    code, row, column, weight, table_ptr, out_ptr, normed_ptr, table_stride, width, eps
):  # fmt: skip
    """Store the embedding of a row's code, and its norm; `weight` is the norm's, in registers."""
    inside = column < width
    place = row * width + column
    x = tl.load(table_ptr + tl.maximum(code, 0) * table_stride + column, mask=inside, other=0.0)
    tl.store(out_ptr + place, x, mask=inside)
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    normed = normed_row(x.to(tl.float32), weight, width, eps, dtype)
    tl.store(normed_ptr + place, normed, mask=inside)


@jit(do_not_specialize_on_alignment=["codes_ptr"])
def _code_embedding_kernel(
    codes_ptr, table_ptr, weight_ptr, out_ptr, normed_ptr,
    codes_stride, table_stride,
    width, eps,
    IS_DEPENDENT: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    start_next(IS_DEPENDENT)
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    weight = tl.load(weight_ptr + column, mask=column < width, other=0.0)
    wait_for_previous(IS_DEPENDENT)
    code = tl.load(codes_ptr + row * codes_stride)
    embed_row(code, row, column, weight, table_ptr, out_ptr, normed_ptr, table_stride, width, eps)


def check_embedding(codes: Tensor, table: Tensor, weight: Tensor, out: Tensor) -> None:
    num_rows, width = out.shape
    is_fitting = codes.shape == (num_rows,) and codes.dtype == torch.int64
    if not is_fitting or table.shape[1:] != (width,) or weight.shape != (width,):
        raise ValueError(
            f"codes {tuple(codes.shape)} {codes.dtype}, table {tuple(table.shape)} and weight "
            f"{tuple(weight.shape)} do not fit {num_rows} rows of {width}"
        )
    if not (table.dtype == weight.dtype == out.dtype):
        raise ValueError("table, weight and out must share a dtype")
    if table.stride(1) != 1 or weight.stride(0) != 1 or not out.is_contiguous():
        raise ValueError("table, weight and out must be contiguous in their last dimension")


@op(code_embedding_ref)
def code_embedding(codes: Tensor, table: Tensor, weight: Tensor, eps: float, out: Tensor) -> Tensor:
    """Embeddings of codes, and their RMSNorm.

    Args:
        codes: (R,) int64; below 0 counts as 0.
        table: (V, D), last dimension contiguous.
        weight: (D,) of the norm, of the table's dtype.
        out: (R, D) contiguous, filled with the embeddings.
    Returns:
        (R, D), their norm.
    """
    num_rows, width = out.shape
    check_embedding(codes, table, weight, out)
    normed = torch.empty_like(out)
    block = next_power_of_2(width)
    _code_embedding_kernel[(num_rows,)](
        codes, table, weight, out, normed,
        codes.stride(0), table.stride(0),
        width, eps,
        BLOCK=block,
        num_warps=row_warps(block), **launch_options(),
    )  # fmt: skip
    return normed
