from __future__ import annotations

from pathlib import Path

import pytest
import torch
from warm_process import run_with_triton

from kernels.linear import few_rows as module
from kernels.linear.few_rows import (
    MAX_PARTS,
    num_parts,
    part_span,
    row_linear,
    row_linear_parts,
    row_linear_parts_ref,
    row_linear_ref,
    row_swiglu,
    row_swiglu_ref,
    use_row_kernels,
)
from kernels.linear.rms_norm import add_rms_norm_
from kernels.linear.swiglu import swiglu

pytestmark = [pytest.mark.slow, pytest.mark.copy_engine]

# Rows, columns, width: columns that end inside a tile, one block of K, several parts.
SHAPES = [(1, 64, 128), (3, 40, 256), (64, 97, 384), (70, 40, 256), (130, 64, 128)]
# Fish Speech's q/k/v, o, down and head; Qwen3-TTS 1.7B's and 0.6B's down.
REAL_SHAPES = [
    (64, 6144, 2560),
    (33, 2560, 4096),
    (64, 2560, 9728),
    (16, 4097, 2560),
    (1, 2048, 6144),
    (64, 1024, 3072),
    (100, 1024, 2048),
    (256, 4096, 1024),
]
ALL_SHAPES = [*SHAPES, *(pytest.param(shape, marks=pytest.mark.gpu) for shape in REAL_SHAPES)]


def make(shape, device: str, dtype: torch.dtype = torch.bfloat16):
    rows, columns, width = shape
    x = torch.randn(rows, width, device=device).to(dtype)
    return x, (torch.randn(columns, width, device=device) * width**-0.5).to(dtype)


@pytest.mark.parametrize("shape", ALL_SHAPES)
def test_kernel_equals_reference(
    shape, device, with_kernel, assert_close, assert_same_rounding
) -> None:
    x, weight = make(shape, device)
    for bias in (None, torch.randn(len(weight), device=device).bfloat16()):
        out, ref = with_kernel(row_linear, x, weight, bias), row_linear_ref(x, weight, bias)
        assert out.dtype == torch.bfloat16
        assert_close(out, ref)
        assert_same_rounding(out, ref)


@pytest.mark.parametrize("shape", ALL_SHAPES)
def test_parts_equal_reference(shape, device, with_kernel, assert_close) -> None:
    x, weight = make(shape, device)
    out, ref = with_kernel(row_linear_parts, x, weight), row_linear_parts_ref(x, weight)
    assert out.dtype == torch.float32
    assert_close(out, ref, tolerance=2e-5)


@pytest.mark.parametrize(
    "shape",
    [
        (1, 64, 128),
        (5, 90, 256),  # tiles of gate reach into up
        (33, 64, 128),
        pytest.param((32, 19456, 2560), marks=pytest.mark.gpu),
        pytest.param((16, 6144, 1024), marks=pytest.mark.gpu),
        pytest.param((128, 6144, 1024), marks=pytest.mark.gpu),
        pytest.param((256, 6144, 1024), marks=pytest.mark.gpu),
        pytest.param((64, 19456, 2560), marks=pytest.mark.gpu),
        pytest.param((7, 12288, 2048), marks=pytest.mark.gpu),
    ],
)
def test_swiglu_equals_reference(
    shape, device, with_kernel, assert_close, assert_same_rounding
) -> None:
    x, weight = make(shape, device)
    out, ref = with_kernel(row_swiglu, x, weight), row_swiglu_ref(x, weight)
    assert_close(out, ref)
    assert_same_rounding(out, ref)


def test_swiglu_rounds_the_product_first(device, with_kernel) -> None:
    """As a linear layer and the activation behind it do, bit for bit."""
    x, weight = make((8, 128, 128), device)
    product = with_kernel(row_linear, x, weight)
    assert torch.equal(with_kernel(row_swiglu, x, weight), with_kernel(swiglu, product))


@pytest.mark.parametrize("shape", [(3, 64, 1024), (5, 200, 1152)])
def test_parts_are_added_by_the_next_norm(shape, device, with_kernel, assert_close) -> None:
    x, weight = make(shape, device)
    columns = shape[1]
    norm = (1 + torch.rand(columns, device=device)).bfloat16()
    residual = torch.randn(shape[0], columns, device=device).bfloat16()
    parts = with_kernel(row_linear_parts, x, weight)
    assert parts.shape[0] > 1
    of_parts, of_sum = residual.clone(), residual.clone()
    out = with_kernel(add_rms_norm_, parts, of_parts, norm, 1e-6)
    ref = with_kernel(add_rms_norm_, parts.sum(0).bfloat16(), of_sum, norm, 1e-6)
    assert torch.equal(of_parts, of_sum)
    assert torch.equal(out, ref)
    assert_close(out, add_rms_norm_(row_linear_parts_ref(x, weight), residual, norm, 1e-6))


@pytest.mark.parametrize("operation", [row_linear, row_linear_parts, row_swiglu])
def test_a_row_does_not_depend_on_the_others(operation, device, with_kernel) -> None:
    x, weight = make((200, 128, 512), device)
    for most, fewer in ((200, 129), (128, 65), (64, 33), (32, 17), (16, 1)):
        whole = with_kernel(operation, x[:most].contiguous(), weight)
        few = with_kernel(operation, x[:fewer].contiguous(), weight)
        assert torch.equal(few, whole[..., :fewer, :])
    whole = with_kernel(operation, x, weight)
    noisy = x.clone()
    noisy[1:] = float("nan")
    assert torch.equal(with_kernel(operation, noisy, weight)[..., :1, :], whole[..., :1, :])


def test_parts_fill_the_gpu_and_none_is_empty() -> None:
    assert num_parts(64, 6144, 2560) == 1
    assert num_parts(64, 2560, 9728) == num_parts(64, 2560, 4096) == 3
    assert num_parts(64, 1024, 2048) == 4
    assert num_parts(65, 1024, 2048) == num_parts(256, 1024, 2048) == 2  # tiles of rows as well
    for rows in (1, 64, 128, 256):
        for columns in (64, 2048, 2560, 5000, 20000):
            for width in (128, 256, 640, 1152, 4096, 9728):
                parts = num_parts(rows, columns, width)
                span = part_span(width, parts)
                assert 1 <= parts <= MAX_PARTS
                assert (parts - 1) * span < width <= parts * span


def test_what_is_served(device, monkeypatch) -> None:
    """Nothing of a CPU run changes but in the interpreter; small weights stay with the library."""
    x, weight = make((4, 64, 128), device)
    assert not use_row_kernels(x, weight)  # too small
    monkeypatch.setattr(module, "MIN_WEIGHT_BYTES", 1)
    monkeypatch.setattr(module, "use_descriptors", lambda _: True)
    assert use_row_kernels(x, weight)
    assert not use_row_kernels(x.float(), weight.float())
    assert use_row_kernels(x.repeat(64, 1), weight)
    assert not use_row_kernels(x.repeat(65, 1), weight)  # 260 rows
    monkeypatch.setattr(module, "MAX_SHARED_BYTES", 1)
    assert use_row_kernels(x.repeat(16, 1), weight)
    assert not use_row_kernels(x.repeat(17, 1), weight)  # 68 rows, a large weight
    assert not use_row_kernels(x[:, :64], weight[:, :64])
    assert not use_row_kernels(x, weight.t().contiguous().t())
    room = torch.zeros(4 * 128 + 1, device=device).bfloat16()
    assert not use_row_kernels(room[1:].view(4, 128), weight)  # the copy engine refuses the start
    assert use_row_kernels(room[:-1].view(4, 128), weight)
    monkeypatch.setattr(module, "use_descriptors", lambda _: False)
    assert not use_row_kernels(x, weight)


@pytest.mark.parametrize("operation", [row_linear, row_linear_parts, row_swiglu])
def test_no_rows_and_a_row_of_any_stride(operation, device, with_kernel) -> None:
    x, weight = make((3, 64, 256), device)
    out = with_kernel(operation, x[:0], weight)
    assert out.shape[-2] == 0
    assert out.shape[-1] == (32 if operation is row_swiglu else 64)
    row = torch.cat([x, x[:, :3]], 1)[1:2, :256]
    row = row.as_strided(row.shape, row.stride(), 0)  # its rows do not start at 16 bytes
    assert row.is_contiguous()
    assert torch.equal(with_kernel(operation, row, weight), with_kernel(operation, x[:1], weight))


@pytest.mark.parametrize(
    ("x_shape", "weight_shape"),
    [((257, 128), (64, 128)), ((4, 128), (64, 256)), ((4, 96), (64, 96))],
)
def test_what_does_not_fit_is_refused(x_shape, weight_shape, device, refused) -> None:
    x, weight = (torch.zeros(s, device=device).bfloat16() for s in (x_shape, weight_shape))
    for operation in (row_linear, row_linear_parts, row_swiglu):
        refused("are served", operation, x, weight)


def test_parts_of_another_dtype_are_refused(device, refused) -> None:
    residual = torch.zeros(2, 64, device=device).bfloat16()
    refused("float32 parts", add_rms_norm_, residual.expand(3, 2, 64), residual, residual[0], 1e-6)


PROGRAM = """
import hopper
import torch, triton
from kernels.launch import dispatch
from kernels.linear.few_rows import row_linear, row_linear_parts, row_swiglu

met = set()
triton.knobs.runtime.jit_cache_hook = lambda *_, **asked: met.add(str(asked["key"])) or True
dispatch._is_interpreter_wanted = True  # kernels take tensors on a CPU
with dispatch.override("triton"):
    for rows in (1, 2, 3, 8, 16):
        x, weight = torch.ones(rows, 2048).bfloat16(), torch.ones(64, 2048).bfloat16()
        row_linear(x, weight), row_linear_parts(x, weight), row_swiglu(x, weight)
print(len(met))
"""


def test_a_kernel_of_a_tile_serves_any_number_of_rows(tmp_path: Path) -> None:
    """Rows that 16 divides, one row and all others were three kernels, to the same instructions."""
    assert run_with_triton(PROGRAM, tmp_path) == "3\n"
