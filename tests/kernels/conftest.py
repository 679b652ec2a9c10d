"""Fixtures of the kernel tests: where they run, how a kernel is forced, how results are compared.

Without a GPU the kernels run interpreted on CPU tensors at tiny shapes. With one, the same tests
run compiled on the GPU, and those marked `gpu` add the shapes of the real models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from kernels.launch import dispatch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True, scope="module")
def _float32_is_float32() -> Iterator[None]:
    """Convolutions and products of references keep float32; cuDNN's default is TF32."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


@pytest.fixture
def device() -> str:
    """Where the kernels can run here."""
    return DEVICE


@pytest.fixture(params=["float32", "bfloat16"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return getattr(torch, request.param)


@pytest.fixture
def with_kernel() -> Callable[..., Any]:
    """Call an operation with its Triton kernel forced."""

    def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with dispatch.override("triton"):
            return function(*args, **kwargs)

    return call


@pytest.fixture
def with_reference() -> Callable[..., Any]:
    """Call an operation with its reference forced."""

    def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with dispatch.override("reference"):
            return function(*args, **kwargs)

    return call


@pytest.fixture
def refused(with_kernel: Callable[..., Any]) -> Callable[..., None]:
    """Check that an operation refuses arguments with a ValueError that has some words."""

    def check(words: str, function: Callable[..., Any], *args: Any, **named: Any) -> None:
        with pytest.raises(ValueError, match=words):
            with_kernel(function, *args, **named)

    return check


@pytest.fixture
def assert_close() -> Callable[..., None]:
    """rms(out - ref) / rms(ref) within 1e-5 in float32 and 5e-3 in bfloat16; NaN fails."""

    def check(out: torch.Tensor, ref: torch.Tensor, tolerance: float | None = None) -> None:
        assert out.shape == ref.shape, (out.shape, ref.shape)
        if tolerance is None:
            tolerance = 5e-3 if out.dtype == torch.bfloat16 else 1e-5
        out, ref = out.double(), ref.double()
        error = ((out - ref).square().mean().sqrt() / ref.square().mean().sqrt()).item()
        assert error <= tolerance, f"relative rms error {error:.2e}, allowed {tolerance:.0e}"

    return check


@pytest.fixture
def assert_same_rounding() -> Callable[..., None]:
    """Bits equal but for one in a hundred: what the order of a float32 sum can tip over.

    A rounding left out or put elsewhere changes about every fifth bfloat16 value.
    """

    def check(out: torch.Tensor, ref: torch.Tensor) -> None:
        if out.dtype == torch.bfloat16:
            different = int((out != ref).sum())
            assert different <= max(1, out.numel() // 100), f"{different} of {out.numel()}"

    return check
