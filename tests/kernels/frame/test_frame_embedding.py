from __future__ import annotations

import pytest
import torch

from kernels.frame.frame_embedding import frame_embedding, frame_embedding_ref


def make(rows, codebooks, width, device, dtype, ids=9):
    codes = torch.randint(0, ids, (rows, codebooks), device=device)
    first = torch.randn(ids + 3, width, device=device).to(dtype)
    rest = torch.randn(codebooks - 1, ids, width, device=device).to(dtype)
    text = torch.randn(rows, width, device=device).to(dtype)
    return codes, first, rest, text


def test_reference_is_the_sum(dtype, device) -> None:
    codes, first, rest, text = make(3, 5, 40, device, dtype)
    for row in range(3):
        total = first[codes[row, 0]].double()
        for k in range(1, 5):
            total += rest[k - 1, codes[row, k]].double()
        expected = total.to(dtype) + text[row]
        out = frame_embedding_ref(codes, first, rest, text)[row]
        torch.testing.assert_close(out, expected)


@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 40),
        (3, 4, 63),
        (1, 16, 600),  # more than one block
        pytest.param((256, 16, 1024), marks=pytest.mark.gpu),
        pytest.param((64, 16, 2048), marks=pytest.mark.gpu),
    ],
)
def test_kernel_equals_reference(shape, dtype, device, with_kernel, assert_close) -> None:
    arguments = make(*shape, device, dtype)
    assert_close(with_kernel(frame_embedding, *arguments), frame_embedding_ref(*arguments))


def test_negative_codes_count_as_zero(device, with_kernel) -> None:
    codes, first, rest, text = make(3, 4, 40, device, torch.float32)
    codes[1] = 0
    marked = codes.clone()
    marked[1] = -1
    for function in (frame_embedding_ref, lambda *a: with_kernel(frame_embedding, *a)):
        assert torch.equal(function(marked, first, rest, text), function(codes, first, rest, text))


def test_views(device, with_kernel) -> None:
    """Codes as columns of a longer history, text as rows of a wider table."""
    codes, first, rest, text = make(3, 4, 40, device, torch.float32)
    history = torch.zeros(3, 4, 7, dtype=torch.int64, device=device)
    history[:, :, 5] = codes
    wide = torch.cat((text, text), dim=1)
    out = with_kernel(frame_embedding, history[:, :, 5], first, rest, wide[:, :40])
    torch.testing.assert_close(out, frame_embedding_ref(codes, first, rest, text))


def test_nan_stays_in_its_row(device, with_kernel) -> None:
    codes, first, rest, text = make(3, 4, 40, device, torch.float32)
    text[1] = float("nan")
    out = with_kernel(frame_embedding, codes, first, rest, text)
    assert out[1].isnan().all()
    assert not out[[0, 2]].isnan().any()


def test_wrong_arguments_are_named(device, refused) -> None:
    codes, first, rest, text = make(3, 4, 40, device, torch.float32)
    refused(
        "need 4 tables", frame_embedding, torch.cat((codes, codes[:, :1]), dim=1), first, rest, text
    )
    refused("int64", frame_embedding, codes.int(), first, rest, text)
