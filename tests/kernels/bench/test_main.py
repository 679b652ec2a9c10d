from __future__ import annotations

import inspect

import pytest
import torch

from kernels.bench import __main__ as bench
from kernels.bench import cases
from kernels.linear.few_rows import (
    MAX_ROWS,
    MAX_SHARED_BYTES,
    MIN_WEIGHT_BYTES,
    TILE_ROWS,
    num_parts,
)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")
def test_without_cuda_it_says_what_it_needs(capsys) -> None:
    assert bench.main([]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "needs a CUDA device" in captured.err


@pytest.mark.parametrize(
    ("batch", "shapes"),
    [
        (
            64,
            {
                ("row_swiglu", "0.6B gate/up, 64x6144x1024"),
                ("row_linear", "Fish q/k/v, 64x6144x2560"),
                ("row_linear_parts", "Fish down, 64x2560x9728"),
                ("row_swiglu", "Fish gate/up, 64x19456x2560"),
            },
        ),
        (256, {("row_swiglu", "0.6B gate/up, 256x6144x1024")}),
        (512, set()),
    ],
)
def test_products_are_those_that_the_engine_takes(batch, shapes) -> None:
    """By rows and weight; the rule is `use_row_kernels`, asked here about the same sizes."""
    found = cases._row_cases(batch, torch.bfloat16)
    assert {(case.op.__name__, case.shape) for case in found} == shapes
    assert not list(cases._row_cases(batch, torch.float32))
    for _, shape in shapes:
        columns, width = map(int, shape.split("x")[1:])
        num_bytes = 2 * columns * width
        assert batch <= (MAX_ROWS if num_bytes <= MAX_SHARED_BYTES else TILE_ROWS)
        assert num_bytes >= MIN_WEIGHT_BYTES


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_arguments_are_those_of_the_operations(dtype, monkeypatch) -> None:
    monkeypatch.setattr(cases, "DEVICE", "meta")
    every = list(cases.all_cases(3, dtype))
    for case in every:
        inputs = case.make()
        inspect.signature(case.op).bind(**inputs, **case.options)
        assert not case.writes or case.writes in inputs
    ops = {case.op.__name__ for case in every}
    assert ops >= {"sample", "decode_attention", "qk_norm_rope_store", "step_attention"}
    products = {"row_linear", "row_linear_parts", "row_swiglu"}
    assert products & ops == (products if dtype == torch.bfloat16 else set())


@pytest.mark.slow
def test_bytes_of_products(monkeypatch) -> None:
    """The weight once, rows in and out; parts are float32."""
    monkeypatch.setattr(cases, "DEVICE", "cpu")
    moved = {case.shape: case.num_bytes() for case in cases._row_cases(3, torch.bfloat16)}
    assert moved["Fish q/k/v, 3x6144x2560"] == 2 * (3 * 2560 + 6144 * 2560 + 3 * 6144)
    assert moved["0.6B gate/up, 3x6144x1024"] == 2 * (3 * 1024 + 6144 * 1024 + 3 * 3072)
    parts = num_parts(3, 2560, 9728)
    assert moved["Fish down, 3x2560x9728"] == 2 * (3 + 2560) * 9728 + 4 * parts * 3 * 2560


def test_products_agree_with_their_references(device, monkeypatch) -> None:
    """The cases themselves, on narrower weights where the kernels are interpreted."""
    if device == "cpu":
        monkeypatch.setattr(cases, "_WIDTH", 256)
        monkeypatch.setattr(cases, "_INNER", 96)
        monkeypatch.setattr(cases, "DEVICE", device)
    case = next(cases._row_cases(3, torch.bfloat16))
    worst, allowed = bench.error(case, torch.bfloat16)
    assert worst <= allowed


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_case_agrees_with_its_reference(dtype) -> None:
    """Batch 3 on the GPU: the gate itself, without the timing."""
    for case in cases.all_cases(3, dtype):
        worst, allowed = bench.error(case, dtype)
        assert worst <= allowed, (case.op.__name__, case.shape)


@pytest.mark.gpu
def test_disagreement_prints_no_number(monkeypatch, capsys) -> None:
    monkeypatch.setattr(bench, "error", lambda case, dtype: (1.0, 0.1))
    monkeypatch.setattr(bench, "copy_rate", lambda: 1.0)
    monkeypatch.setattr(bench, "time_us", lambda *arguments: pytest.fail("timed all the same"))
    assert bench.main(["--op", "swiglu", "--batch", "1"]) == 1
    assert "disagrees with its reference" in capsys.readouterr().out
