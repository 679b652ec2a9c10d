"""A code's embedding and its norm against PyTorch."""

from __future__ import annotations

import pytest
import torch

from kernels.linear.code_embedding import code_embedding, code_embedding_ref
from kernels.linear.rms_norm import rms_norm_ref


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "width"), [(1, 64), (3, 1024), (5, 320)])
def test_as_the_reference(rows, width, dtype, device, with_kernel, assert_close) -> None:
    table = torch.randn(50, 2 * width, device=device).to(dtype)[:, :width]
    weight = torch.randn(width, device=device).to(dtype)
    codes = torch.randint(0, 50, (rows, 4), device=device)[:, 1]
    codes[0] = -1  # a failed row
    made, expected = (torch.empty(rows, width, device=device, dtype=dtype) for _ in range(2))
    normed = with_kernel(code_embedding, codes, table, weight, 1e-6, made)
    ref = code_embedding_ref(codes, table, weight, 1e-6, expected)
    assert torch.equal(made, expected)
    assert torch.equal(made[0], table[0])
    assert_close(normed, ref)
    assert_close(ref, rms_norm_ref(table[codes.clamp(min=0)], weight, 1e-6))


def test_what_does_not_fit_is_refused(device, with_kernel, refused) -> None:
    table, weight = torch.randn(50, 64, device=device), torch.ones(64, device=device)
    codes, out = torch.zeros(3, dtype=torch.int64, device=device), torch.empty(3, 64, device=device)
    refused("do not fit 3 rows of 64", code_embedding, codes[:2], table, weight, 1e-6, out)
    refused("share a dtype", code_embedding, codes, table.bfloat16(), weight, 1e-6, out)
    refused("contiguous", code_embedding, codes, table.t().contiguous().t(), weight, 1e-6, out)
    assert with_kernel(code_embedding, codes[:0], table, weight, 1e-6, out[:0]).shape == (0, 64)
