"""The talker's input for one frame: its K code embeddings summed, plus the text of that step.

    y = cast(sum over k of table_k[codes_k]) + text

codes is (B, K), text and y (B, D). Codebook 0 has its own table (V0, D), the others share one
tensor (K-1, V, D). Codes below 0, of finished or padded rows, count as 0.

Rounding: the sum of embeddings is float32 and rounded once; its sum with the text is rounded again.

PyTorch needs one gather per table, a stack and a sum. Here each program owns a piece of one row and
adds K table rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.launch.dispatch import jit, next_power_of_2, tl
from kernels.launch.op import op

_MAX_BLOCK = 512


def frame_embedding_ref(
    codes: Tensor, first_table: Tensor, rest_tables: Tensor, text: Tensor
) -> Tensor:
    codes = codes.clamp(min=0)
    codebook = torch.arange(rest_tables.shape[0], device=codes.device)
    first = first_table[codes[:, :1]]  # (B, 1, D)
    rest = rest_tables[codebook, codes[:, 1:]]  # (B, K-1, D)
    total = torch.cat((first, rest), dim=1).sum(dim=1, dtype=torch.float32)
    return total.to(text.dtype) + text


@jit
def _frame_embedding_kernel(
    codes_ptr, first_ptr, rest_ptr, text_ptr, out_ptr,
    codes_row_stride, codes_column_stride, first_stride, rest_codebook_stride, rest_stride,
    text_stride,
    width,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    dtype = out_ptr.dtype.element_ty
    code_ptr = codes_ptr + row * codes_row_stride
    code = tl.maximum(tl.load(code_ptr), 0)
    total = tl.load(first_ptr + code * first_stride + column, mask=inside, other=0.0).to(tl.float32)
    for k in tl.static_range(1, K):
        code = tl.maximum(tl.load(code_ptr + k * codes_column_stride), 0)
        table = rest_ptr + (k - 1) * rest_codebook_stride + code * rest_stride
        total += tl.load(table + column, mask=inside, other=0.0).to(tl.float32)
    text = tl.load(text_ptr + row * text_stride + column, mask=inside, other=0.0).to(tl.float32)
    total = total.to(dtype).to(tl.float32) + text
    tl.store(out_ptr + row * width + column, total.to(dtype), mask=inside)


@op(frame_embedding_ref)
def frame_embedding(
    codes: Tensor, first_table: Tensor, rest_tables: Tensor, text: Tensor
) -> Tensor:
    """Sum of a frame's code embeddings plus text.

    Args:
        codes: (B, K) int64; below 0 counts as 0.
        first_table: (V0, D), codebook 0.
        rest_tables: (K-1, V, D), codebooks 1..K-1.
        text: (B, D), of the tables' dtype.
    Returns:
        (B, D), contiguous.
    """
    num_rows, width = text.shape
    num_codebooks = codes.shape[1]
    if codes.dtype != torch.int64 or codes.shape[0] != num_rows:
        raise ValueError(
            f"codes {tuple(codes.shape)} {codes.dtype} must be int64 with {num_rows} rows"
        )
    if rest_tables.shape[0] != num_codebooks - 1:
        raise ValueError(
            f"{num_codebooks} codebooks need {num_codebooks - 1} tables besides the first"
        )
    for table in (first_table, rest_tables, text):
        if table.shape[-1] != width or table.stride(-1) != 1 or table.dtype != text.dtype:
            raise ValueError("tables and text must share width and dtype, rows contiguous")
    out = torch.empty((num_rows, width), dtype=text.dtype, device=text.device)
    block = min(_MAX_BLOCK, next_power_of_2(width))
    grid = (num_rows, -(-width // block))
    _frame_embedding_kernel[grid](
        codes, first_table, rest_tables, text, out,
        codes.stride(0), codes.stride(1), first_table.stride(0), rest_tables.stride(0),
        rest_tables.stride(1), text.stride(0),
        width,
        K=num_codebooks,
        BLOCK=block,
        num_warps=max(1, block // 128),
    )  # fmt: skip
    return out
