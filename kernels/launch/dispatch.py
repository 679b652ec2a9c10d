"""Whether an operation runs its Triton kernel or its PyTorch reference.

The choice is a value, `Kernels`, that a model owns and that `using` puts into effect inside a
`with` block. It is a context variable: neither two models of one process nor two threads share a
choice. Outside of any block it is `auto`: Triton for CUDA tensors, the reference for all others.
`triton` requires Triton; on CPU tensors it works in Triton's interpreter only (TRITON_INTERPRET=1,
set before the first kernel import), as the CPU tests run the kernels.

Triton is optional, and imported only if it can be used: on a machine with a CUDA device, or in its
interpreter. Files of operations therefore take `jit`, `tl`, `TensorDescriptor` and
`next_power_of_2` from here.

A kernel that cannot be compiled or launched raises `KernelFailed`. A caller that can start its work
again gives Triton up (`Kernels.given_up`) and does so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

# Triton reads the variable when a kernel is decorated, so the answer is fixed from here on.
_is_interpreter_wanted = os.environ.get("TRITON_INTERPRET", "0") == "1"
ABSENCE = "triton is not installed"
try:
    if not (_is_interpreter_wanted or torch.cuda.is_available()):
        raise ImportError("nothing here could use it, and it takes 0.2 s")
    import triton
    import triton.language as tl
    from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
    from triton.tools.tensor_descriptor import TensorDescriptor
except Exception as error:  # a broken one may raise anything
    triton = tl = TensorDescriptor = gdc_launch_dependents = gdc_wait = None
    if not (isinstance(error, ModuleNotFoundError) and error.name == "triton"):
        ABSENCE = f"triton cannot be imported: {type(error).__name__}: {error}".replace("\n", " ")

Mode = Literal["auto", "triton", "reference"]
KernelsName = Literal["auto", "portable", "reference"]

HAS_TRITON: bool = triton is not None
IS_INTERPRETED: bool = HAS_TRITON and _is_interpreter_wanted
# For kernels: whether they may contain inline PTX.
HAS_PTX = tl.constexpr(not IS_INTERPRETED) if tl is not None else None

HOPPER = (9, 0)
SHARED_BYTES = 200 * 2**10
_MODES = ("auto", "triton", "reference")
LONGEST_REASON = 300  # characters: some errors contain a whole kernel


@dataclass(frozen=True)
class Kernels:
    mode: Mode = "auto"
    is_portable: bool = False  # those of older and consumer GPUs, on any GPU
    failure: str | None = None  # why Triton was given up

    @staticmethod
    def named(name: KernelsName) -> Kernels:
        """Return the kernels of a name. Choose before captures: graphs do not change theirs."""
        return Kernels("reference" if name == "reference" else "auto", name == "portable")

    def given_up(self, failure: str) -> Kernels:
        """Return the references, after a failure of Triton (the text of a `KernelFailed`)."""
        return replace(self, mode="reference", failure=failure)

    @property
    def is_triton_on(self) -> bool:
        """Whether operations on CUDA tensors run their kernels."""
        return HAS_TRITON and self.mode != "reference"

    def describe(self, device: torch.device | str | None = None) -> str:
        """Return path and reason for tensors of `device` (default: CUDA if there is one)."""
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if self.mode == "auto" and torch.device(device).type != "cuda":
            return "PyTorch reference (not a CUDA device)"
        if (failure := self.failure if HAS_TRITON else ABSENCE) is not None:
            return f"PyTorch reference ({failure})"
        if self.mode == "reference":
            return "PyTorch reference (Triton switched off)"
        if IS_INTERPRETED:
            return f"Triton {triton.__version__}, interpreted (TRITON_INTERPRET=1)"
        path = "portable: no copy engine" if self.is_portable else "CUDA device"
        return f"Triton {triton.__version__} ({path})"


AUTO = Kernels()
_current: ContextVar[Kernels] = ContextVar("kernels", default=AUTO)
_override: ContextVar[Mode | None] = ContextVar("mode of kernels", default=None)


class KernelFailed(Exception):  # noqa: N818
    """A Triton kernel cannot be compiled or launched; the message is the reason. Failures of
    PyTorch are RuntimeErrors, and a lack of memory is an OutOfMemoryError instead.
    """

    operation = ""  # name of the operation that launched it; before `op` sets it, of the kernel

    def __str__(self) -> str:
        reason = super().__str__()
        return f"{self.operation}: {reason}" if self.operation else reason


def plain_name(function: str) -> str:
    return function.strip("_").removesuffix("_kernel").replace("_", " ")


def reason_of(error: Exception) -> str:
    reason = " ".join(str(error).split()) or type(error).__name__
    if len(reason) > LONGEST_REASON:  # the important part is at the beginning or the end
        half = LONGEST_REASON // 2
        reason = f"{reason[:half]} ... {reason[-half:]}"
    return reason


def jit(
    function: Callable[..., Any] | None = None, by: Callable[..., Any] | None = None, **options: Any
) -> Any:
    """`triton.jit`, or the plain function (never called) if Triton is not imported. With options
    (those of `triton.jit`) alone it returns the decorator.

    Args:
        by: the decorator of another language, in place of `triton.jit`.
    """
    if function is None:
        return lambda given: jit(given, by, **options)
    if not HAS_TRITON:
        return function
    kernel = (by or triton.jit)(function, **options)

    # Set at every launch: Triton 3.10 changes its default, and sums would round differently.
    def run(*args: Any, enable_fp_fusion: bool = True, **given: Any) -> Any:
        given["enable_fp_fusion"] = enable_fp_fusion
        try:
            return type(kernel).run(kernel, *args, **given)
        except (torch.OutOfMemoryError, MemoryError):
            raise
        except Exception as error:
            if "out of memory" in str(error):  # the driver's words
                raise torch.OutOfMemoryError(str(error)) from error
            failure = KernelFailed(reason_of(error))
            failure.operation = plain_name(function.__name__)
            raise failure from error

    kernel.run = run
    return kernel


@jit
def factor(x):
    """Prepare a block as an argument of `tl.dot`: float32 in Triton's interpreter, which would
    multiply the bits of bfloat16 instead of its values.
    """
    if HAS_PTX:
        return x
    else:
        return x.to(tl.float32)


def next_power_of_2(number: int) -> int:
    """Smallest power of two that is at least `number` (>= 1)."""
    return 1 << (number - 1).bit_length()


@contextmanager
def using(kernels: Kernels) -> Iterator[None]:
    """Run these kernels inside a `with` block, except inside an `override`."""
    token = _current.set(kernels)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def override(mode: Mode) -> Iterator[None]:
    """Set the mode inside a `with` block, whatever models ask for: for tests and measurements. A
    block inside it must have the same mode.
    """
    if mode not in _MODES:
        raise ValueError(f"kernel mode {mode!r} is none of {', '.join(_MODES)}")
    outer = _override.get()
    assert outer in (None, mode), f"kernel mode {mode!r} inside a block of mode {outer!r}"
    token = _override.set(mode)
    try:
        yield
    finally:
        _override.reset(token)


def current() -> Kernels:
    """The kernels that a call uses now, in this thread."""
    kernels, mode = _current.get(), _override.get()
    return kernels if mode is None else replace(kernels, mode=mode)


def use_triton(tensor: Tensor) -> bool:
    """Whether an operation on `tensor` runs its Triton kernel. Raises RuntimeError: mode
    `triton` without Triton.
    """
    mode = _override.get() or _current.get().mode
    if mode == "auto":
        return HAS_TRITON and tensor.is_cuda
    if mode == "reference":
        return False
    if not (tensor.is_cuda or _is_interpreter_wanted):
        raise RuntimeError(
            f"kernel mode 'triton' on a {tensor.device.type} tensor needs Triton's "
            "interpreter: set TRITON_INTERPRET=1 before the first kernel import"
        )
    if not HAS_TRITON:
        raise RuntimeError("kernel mode 'triton', but the triton package cannot be imported")
    return True


def has_copy_engine(device: torch.device) -> bool:
    """Whether kernels may use the features of Hopper GPUs: a copy engine that follows tensor
    descriptors, and the shared memory that our tiles were measured in (consumer GPUs have
    half of it).
    """
    return not _current.get().is_portable and _has_copy_engine(device)


@cache
def _has_copy_engine(device: torch.device) -> bool:
    properties: Any = torch.cuda.get_device_properties(device)  # torch's types lack a field
    is_new = (properties.major, properties.minor) >= HOPPER
    return is_new and properties.shared_memory_per_block_optin >= SHARED_BYTES
