from __future__ import annotations

import logging

import pytest
import torch

from kernels.launch import dispatch
from kernels.linear.rms_norm import _rms_norm_kernel
from kernels.linear.swiglu import swiglu
from kernels.sampling.sample import _sample_kernel


@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are compiled where a GPU is")
def test_kernels_are_interpreted_without_a_gpu() -> None:
    """Otherwise the CPU tests below would compare the reference with itself."""
    assert dispatch.IS_INTERPRETED
    for kernel in (_rms_norm_kernel, _sample_kernel):
        assert type(kernel).__name__ == "InterpretedFunction"


@pytest.mark.skipif(torch.cuda.is_available(), reason="counts launches of the interpreter")
def test_forced_kernel_is_launched(with_kernel, monkeypatch) -> None:
    launched = []
    executor = dispatch.triton.runtime.interpreter.GridExecutor
    plain = executor.__call__

    def spy(self, *args, **kwargs):
        launched.append(self.fn.__name__)
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(executor, "__call__", spy)
    swiglu(torch.ones(1, 4))
    assert launched == []
    with_kernel(swiglu, torch.ones(1, 4))
    assert launched == ["_swiglu_kernel"]


def test_cpu_takes_the_reference() -> None:
    assert not dispatch.use_triton(torch.zeros(1))


@pytest.mark.gpu
def test_cuda_takes_triton_unless_switched_off() -> None:
    x = torch.zeros(1, device="cuda")
    assert dispatch.use_triton(x)
    with dispatch.override("reference"):
        assert not dispatch.use_triton(x)


def test_override_is_undone_even_after_an_error() -> None:
    x = torch.zeros(1)
    before = dispatch.describe("cpu")
    with dispatch.override("reference"):
        assert "switched off" in dispatch.describe("cpu")
    assert dispatch.describe("cpu") == before
    with pytest.raises(ZeroDivisionError), dispatch.override("reference"):
        raise ZeroDivisionError
    assert dispatch.describe("cpu") == before
    assert not dispatch.use_triton(x)


def test_a_mode_inside_another_is_a_bug() -> None:
    with dispatch.override("reference"):
        with dispatch.override("reference"):
            pass
        inside = pytest.raises(AssertionError, match="'triton' inside a block of mode 'reference'")
        with inside, dispatch.override("triton"):
            pass
        assert "switched off" in dispatch.describe("cpu")


def test_unknown_mode_is_refused() -> None:
    refused = pytest.raises(ValueError, match="'fast' is none of auto, triton, reference")
    with refused, dispatch.override("fast"):
        pass


def test_without_triton_auto_uses_the_reference_and_triton_raises(monkeypatch) -> None:
    monkeypatch.setattr(dispatch, "HAS_TRITON", False)
    monkeypatch.setattr(dispatch, "_is_interpreter_wanted", True)
    assert not dispatch.use_triton(torch.zeros(1))
    assert "not installed" in dispatch.describe("cuda")
    with dispatch.override("triton"), pytest.raises(RuntimeError, match="cannot be imported"):
        dispatch.use_triton(torch.zeros(1))


def test_forcing_triton_on_cpu_needs_the_interpreter(monkeypatch) -> None:
    monkeypatch.setattr(dispatch, "_is_interpreter_wanted", False)
    with dispatch.override("triton"), pytest.raises(RuntimeError, match="TRITON_INTERPRET=1"):
        dispatch.use_triton(torch.zeros(1))


def test_path_is_logged_once_with_its_reason(monkeypatch, caplog) -> None:
    monkeypatch.setattr(dispatch, "_logged", set())
    with caplog.at_level(logging.INFO, logger="kernels.launch.dispatch"):
        for _ in range(3):
            dispatch.use_triton(torch.zeros(1))
    assert [record.getMessage() for record in caplog.records] == [
        "kernels on cpu: PyTorch reference (not a CUDA device)"
    ]


@pytest.mark.parametrize(("number", "power"), [(1, 1), (2, 2), (3, 4), (63, 64), (64, 64)])
def test_next_power_of_2(number: int, power: int) -> None:
    assert dispatch.next_power_of_2(number) == power
