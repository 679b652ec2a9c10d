"""Linear layers: which kernel serves them, and a decoder step by one and by the other."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.launch import dispatch
from kernels.linear import few_rows
from kernels.linear.choose import linear, linear_parts, linear_swiglu
from models.decoder.config import TransformerConfig
from models.decoder.decoder import Decoder

pytestmark = pytest.mark.slow

INTERPRETED = pytest.mark.skipif(
    not dispatch.IS_INTERPRETED, reason="kernels take no CPU tensors beside a GPU"
)


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.inference_mode():
        yield


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Small weights are served as well; what the row kernel was launched for, in order."""
    names: list[str] = []
    monkeypatch.setattr(few_rows, "MIN_WEIGHT_BYTES", 1)
    kernel = few_rows._row_linear_kernel

    class Watched:
        def __getitem__(self, grid: object):
            def launch(*arguments: object, **options: object) -> None:
                names.append("swiglu" if options["IS_GATED"] else "linear")
                kernel[grid](*arguments, **options)

            return launch

    monkeypatch.setattr(few_rows, "_row_linear_kernel", Watched())
    return names


def relative_error(out: Tensor, expected: Tensor) -> float:
    error = (out.double() - expected.double()).square().mean()
    return float((error / expected.double().square().mean()).sqrt())


@INTERPRETED
def test_few_rows_and_no_bias_take_the_row_kernels(served: list[str]) -> None:
    x, weight = torch.randn(5, 128).bfloat16(), (torch.randn(64, 128) / 11).bfloat16()
    bias = torch.randn(64).bfloat16()
    with dispatch.override("triton"):
        out, parts, gated = linear(x, weight), linear_parts(x, weight), linear_swiglu(x, weight)
        assert served == ["linear", "linear", "swiglu"]
        served.clear()
        assert torch.equal(linear(x, weight, bias), F.linear(x, weight, bias))
        assert linear(x.repeat(60, 1), weight).shape == (300, 64)
        pair = x[:4].view(2, 2, 128)[:, 1]  # not contiguous, as the code predictor's first step
        assert relative_error(linear(pair, weight), pair.float() @ weight.float().t()) < 5e-3
        assert served == []
    assert out.dtype == gated.dtype == torch.bfloat16
    assert parts.dtype == torch.float32
    expected = x.float() @ weight.float().t()
    assert relative_error(out, expected) < 5e-3
    assert relative_error(parts.sum(0), expected) < 1e-5
    gate, up = expected.chunk(2, 1)
    assert relative_error(gated, F.silu(gate) * up) < 1e-2


@INTERPRETED
@pytest.mark.parametrize("rows", [1, 3])
def test_a_step_by_row_kernels_equals_one_by_the_library(
    rows: int, served: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = Decoder(
        TransformerConfig(
            width=128,
            mlp_width=128,
            num_layers=2,
            num_heads=4,
            num_kv_heads=2,
            head_dim=32,
            rope_theta=1e4,
            norm_eps=1e-6,
            max_positions=1,
        )
    ).bfloat16()
    for name, weight in decoder.named_parameters():
        if "norm" in name:
            weight.uniform_(0.5, 1.5)
        else:
            weight.normal_(0, 1 / math.sqrt(weight.shape[1]))
    given = torch.randn(2, rows, 128).bfloat16()

    def steps() -> Tensor:
        decoder.allocate(rows, 8)
        places = (torch.full((rows,), position) for position in range(2))
        return torch.cat(
            [decoder.step(x.clone(), place) for x, place in zip(given, places, strict=True)]
        )

    with dispatch.override("triton"):
        out = steps()
        assert len(served) == 2 * 2 * 4  # steps, layers, products
        monkeypatch.setattr(few_rows, "MIN_WEIGHT_BYTES", 2**20)
        expected = steps()
    assert len(served) == 2 * 2 * 4
    assert relative_error(out, expected) < 1e-2
