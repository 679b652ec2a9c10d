from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from warm_process import run_warm

from kernels.launch import dispatch
from kernels.launch.dispatch import Kernels
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
    before = dispatch.current()
    with dispatch.override("reference"):
        assert "switched off" in dispatch.current().describe("cuda")
    assert dispatch.current() == before
    with pytest.raises(ZeroDivisionError), dispatch.override("reference"):
        raise ZeroDivisionError
    assert dispatch.current() == before
    assert not dispatch.use_triton(x)


def test_a_mode_inside_another_is_a_bug() -> None:
    with dispatch.override("reference"):
        with dispatch.override("reference"):
            pass
        inside = pytest.raises(AssertionError, match="'triton' inside a block of mode 'reference'")
        with inside, dispatch.override("triton"):
            pass
        assert dispatch.current().mode == "reference"


def test_unknown_mode_is_refused() -> None:
    refused = pytest.raises(ValueError, match="'fast' is none of auto, triton, reference")
    with refused, dispatch.override("fast"):
        pass


def test_without_triton_auto_uses_the_reference_and_triton_raises(monkeypatch) -> None:
    monkeypatch.setattr(dispatch, "HAS_TRITON", False)
    monkeypatch.setattr(dispatch, "_is_interpreter_wanted", True)
    assert not dispatch.use_triton(torch.zeros(1))
    assert "not installed" in dispatch.AUTO.describe("cuda")
    with dispatch.override("triton"), pytest.raises(RuntimeError, match="cannot be imported"):
        dispatch.use_triton(torch.zeros(1))


def test_forcing_triton_on_cpu_needs_the_interpreter(monkeypatch) -> None:
    monkeypatch.setattr(dispatch, "_is_interpreter_wanted", False)
    with dispatch.override("triton"), pytest.raises(RuntimeError, match="TRITON_INTERPRET=1"):
        dispatch.use_triton(torch.zeros(1))


@pytest.mark.parametrize(("number", "power"), [(1, 1), (2, 2), (3, 4), (63, 64), (64, 64)])
def test_next_power_of_2(number: int, power: int) -> None:
    assert dispatch.next_power_of_2(number) == power


def break_launches(monkeypatch, kernel, error: BaseException) -> None:
    def run(*args, **options):
        raise error

    monkeypatch.setattr(type(kernel), "run", run)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("Failed to find C compiler.\nSet CC."), "Failed to find C compiler. Set CC."),
        (ImportError(), "ImportError"),
        (AssertionError("x" * 500 + "!"), f"{'x' * 150} ... {'x' * 149}!"),
    ],
)
def test_a_kernel_that_cannot_be_launched_is_named(
    device, with_kernel, monkeypatch, error, told
) -> None:
    break_launches(monkeypatch, _rms_norm_kernel, error)
    with pytest.raises(dispatch.KernelFailed) as caught:
        with_kernel(swiglu, torch.ones(1, 4, device=device))
    assert str(caught.value) == f"swiglu: {told}"
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError("Triton Error [CUDA]: out of memory"), torch.OutOfMemoryError),
        (torch.OutOfMemoryError("CUDA out of memory"), torch.OutOfMemoryError),
        (MemoryError(), MemoryError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_lack_of_memory_is_no_failure_of_a_kernel(
    device, with_kernel, monkeypatch, error, kind
) -> None:
    break_launches(monkeypatch, _rms_norm_kernel, error)
    with pytest.raises(kind):
        with_kernel(swiglu, torch.ones(1, 4, device=device))


@pytest.mark.usefixtures("falls_back")
def test_triton_that_was_given_up_says_why(monkeypatch) -> None:
    monkeypatch.setattr(dispatch, "HAS_TRITON", True)
    for name in ("auto", "portable"):
        kernels = Kernels.named(name)
        assert kernels.is_triton_on
        without = kernels.given_up("swiglu: no C compiler")
        assert not without.is_triton_on
        assert without.describe("cuda") == "PyTorch reference (swiglu: no C compiler)"
        assert without.is_portable == kernels.is_portable


def test_the_reference_can_be_chosen(monkeypatch) -> None:
    monkeypatch.setattr(dispatch, "HAS_TRITON", True)
    kernels = Kernels.named("reference")
    assert not kernels.is_triton_on
    assert "switched off" in kernels.describe("cuda")


@pytest.mark.skipif(not dispatch.IS_INTERPRETED, reason="kernels take no CPU tensors here")
def test_two_models_do_not_share_their_kernels() -> None:
    """One thread after another, one inside the other, and at the same time in threads."""
    x, triton = torch.zeros(1), Kernels("triton")
    with dispatch.using(triton):
        assert dispatch.use_triton(x)
        with dispatch.using(Kernels.named("reference")):
            assert not dispatch.use_triton(x)
        assert dispatch.use_triton(x)
        with ThreadPoolExecutor(1) as pool:  # a thread begins without the choices of others
            assert pool.submit(dispatch.current).result() == dispatch.AUTO
        with dispatch.override("reference"), dispatch.using(triton):
            assert not dispatch.use_triton(x)
    assert not dispatch.use_triton(x)


BROKEN = """
import torch
from kernels.launch import dispatch
from kernels.launch.dispatch import Kernels
from kernels.linear.swiglu import swiglu
from kernels.launch.probe import probe, remedy_for
print(swiglu(torch.ones(1, 4)).shape, dispatch.AUTO.is_triton_on)
print(dispatch.AUTO.describe("cuda"))
failure = probe(torch.device("cpu"))
print(failure, remedy_for(failure))
"""


@pytest.mark.slow
@pytest.mark.parametrize("error", ["RuntimeError('no\\nlibtriton')", "ImportError('no libtriton')"])
def test_triton_that_cannot_be_imported_is_as_none(error: str, tmp_path: Path) -> None:
    """Any error but an ImportError once ended every command."""
    (tmp_path / "triton.py").write_text(f"raise {error}")
    root = Path(dispatch.__file__).parents[2]
    path = os.pathsep.join(map(str, (tmp_path, root)))
    said = run_warm(BROKEN, PYTHONPATH=path, TRITON_INTERPRET="1")
    kind = error.partition("(")[0]
    why = f"triton cannot be imported: {kind}: no libtriton"
    assert said.splitlines() == [
        "torch.Size([1, 2]) False",
        f"PyTorch reference ({why})",
        f"{why} install the Triton that this PyTorch asks for: pip install 'triton>=3.6'",
    ]
