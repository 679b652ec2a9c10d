"""Triton or reference: one switch for every operation of this package.

`auto` takes Triton for CUDA tensors and the PyTorch reference for all others. `reference` is the
off switch. `triton` insists, and on CPU tensors works only in Triton's interpreter
(TRITON_INTERPRET=1, set before the first kernel import), which is how the CPU tests run the
kernels. The choice and its reason are logged once.

Triton is imported only where it can be used, on a machine with a CUDA device or in its interpreter,
and it is optional: without it every operation still runs by its reference, so op files take `jit`,
`tl`, `TensorDescriptor` and `next_power_of_2` from here instead of importing it.

A kernel that cannot be compiled or launched raises `KernelFailed`; whoever can begin its work again
says `fall_back`, from when on everything in this process runs its reference.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

# Triton reads the variable when a kernel is decorated, so the answer is fixed from here on.
_is_interpreter_wanted = os.environ.get("TRITON_INTERPRET", "0") == "1"
_absence = "triton is not installed"
try:
    if not (_is_interpreter_wanted or torch.cuda.is_available()):
        raise ImportError("nothing here could use it, and it takes 0.2 s")
    import triton
    import triton.language as tl
    from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
    from triton.tools.tensor_descriptor import TensorDescriptor
except Exception as error:  # one that is broken raises whatever it likes
    triton = tl = TensorDescriptor = gdc_launch_dependents = gdc_wait = None
    if not (isinstance(error, ModuleNotFoundError) and error.name == "triton"):
        _absence = f"triton cannot be imported: {type(error).__name__}: {error}".replace("\n", " ")

Mode = Literal["auto", "triton", "reference"]
Kernels = Literal["auto", "portable", "reference"]

HAS_TRITON: bool = triton is not None
IS_INTERPRETED: bool = HAS_TRITON and _is_interpreter_wanted
# For kernels: whether instructions of the GPU can be named in them.
HAS_PTX = tl.constexpr(not IS_INTERPRETED) if tl is not None else None

_log = logging.getLogger(__name__)
HOPPER = (9, 0)
SHARED_BYTES = 200 * 2**10
_MODES = ("auto", "triton", "reference")
_mode: Mode = "auto"
_is_portable = False
_failure: str | None = None  # why Triton is given up
_logged: set[bool] = set()  # whether tensors on a GPU, on anything else, were told of
LONGEST_REASON = 300  # characters: some errors hold a whole kernel


class KernelFailed(Exception):  # noqa: N818
    """A Triton kernel that cannot be compiled or launched, with what went wrong. It is no
    RuntimeError, which PyTorch's own failures are; a lack of memory is none of these.
    """

    operation = ""  # that launched it, as `op` says; before that the kernel

    def __str__(self) -> str:
        reason = super().__str__()
        return f"{self.operation}: {reason}" if self.operation else reason


def plain_name(function: str) -> str:
    """What a function is called in a message."""
    return function.strip("_").removesuffix("_kernel").replace("_", " ")


def reason_of(error: Exception) -> str:
    """The reason, on one line."""
    reason = " ".join(str(error).split()) or type(error).__name__
    if len(reason) > LONGEST_REASON:  # what matters stands in front or at the end
        half = LONGEST_REASON // 2
        reason = f"{reason[:half]} ... {reason[-half:]}"
    return reason


def jit(
    function: Callable[..., Any] | None = None, by: Callable[..., Any] | None = None, **options: Any
) -> Any:
    """`triton.jit`, or the plain function (never called) where Triton is not imported.

    With options (those of `triton.jit`) alone it returns the decorator.

    Args:
        by: another language's in place of `triton.jit`.
    """
    if function is None:
        return lambda given: jit(given, by, **options)
    if not HAS_TRITON:
        return function
    kernel = (by or triton.jit)(function, **options)

    # Said at every launch: Triton 3.10 changes its default, and sums would round otherwise.
    def run(*args: Any, enable_fp_fusion: bool = True, **given: Any) -> Any:
        given["enable_fp_fusion"] = enable_fp_fusion
        try:
            return type(kernel).run(kernel, *args, **given)
        except (torch.OutOfMemoryError, MemoryError):
            raise
        except Exception as error:
            if "out of memory" in str(error):  # as the driver says it
                raise torch.OutOfMemoryError(str(error)) from error
            failure = KernelFailed(reason_of(error))
            failure.operation = plain_name(function.__name__)
            raise failure from error

    kernel.run = run
    return kernel


@jit
def factor(x):
    """A block as `tl.dot` multiplies it: float32 in Triton's interpreter, which multiplies the bits
    of bfloat16 and not its values.
    """
    if HAS_PTX:
        return x
    else:
        return x.to(tl.float32)


def next_power_of_2(number: int) -> int:
    """Smallest power of two that is at least `number` (>= 1)."""
    return 1 << (number - 1).bit_length()


@contextmanager
def override(mode: Mode) -> Iterator[None]:
    """Set the mode inside a `with` block; in it nobody may ask for another one."""
    global _mode
    if mode not in _MODES:
        raise ValueError(f"kernel mode {mode!r} is none of {', '.join(_MODES)}")
    assert _mode in ("auto", mode), f"kernel mode {mode!r} inside a block of mode {_mode!r}"
    before, _mode = _mode, mode
    try:
        yield
    finally:
        _mode = before


def use_triton(tensor: Tensor) -> bool:
    """Whether an operation on `tensor` runs its Triton kernel.

    Raises:
        RuntimeError: mode `triton` asks for what is not there.
    """
    is_cuda = tensor.is_cuda
    if _mode == "auto":
        answer = HAS_TRITON and is_cuda
    elif _mode == "reference":
        answer = False
    else:
        if not (is_cuda or _is_interpreter_wanted):
            raise RuntimeError(
                f"kernel mode 'triton' on a {tensor.device.type} tensor needs Triton's "
                "interpreter: set TRITON_INTERPRET=1 before the first kernel import"
            )
        if not HAS_TRITON:
            raise RuntimeError("kernel mode 'triton', but the triton package cannot be imported")
        answer = True
    if is_cuda not in _logged:  # asking for the device's name would take as long as all else here
        _logged.add(is_cuda)
        device_type = tensor.device.type
        level = logging.INFO if is_cuda else logging.DEBUG  # a CPU has one path
        _log.log(level, "kernels on %s: %s", device_type, describe(device_type))
    return answer


def use_kernels(name: Kernels) -> None:
    """From now on run the kernels of a name: `portable` are what older and consumer GPUs run, on
    any GPU; to be said before a model is loaded, because graphs stay what they are. Triton that was
    given up stays so.
    """
    global _is_portable, _mode
    _is_portable = name == "portable"
    _mode = "reference" if name == "reference" or _failure is not None else "auto"


def fall_back(failure: str, remedy: str) -> None:
    """From now on run every operation's reference, and say why, once.

    Args:
        failure: what a `KernelFailed` says.
    """
    global _failure, _mode
    if _failure is None:
        _log.warning(
            "Triton does not work (%s); %s; continuing with PyTorch's own operations, which is "
            "slower",
            failure,
            remedy,
        )
        _failure = failure
    _mode = "reference"


def triton_failure() -> str | None:
    """Why Triton was given up, or cannot be used at all; None: it has not failed so far."""
    return _failure if HAS_TRITON else _absence


def is_triton_on() -> bool:
    """Whether operations on CUDA tensors run their kernels."""
    return HAS_TRITON and _mode != "reference"


def is_portable() -> bool:
    """Whether `use_kernels` named those for any GPU."""
    return _is_portable


def has_copy_engine(device: torch.device) -> bool:
    """Whether a GPU is of Hopper's kind: with a copy engine that follows tensor descriptors, and
    with the shared memory that our tiles were measured in (consumer GPUs have half of it).
    """
    return not _is_portable and _has_copy_engine(device)


@cache
def _has_copy_engine(device: torch.device) -> bool:
    properties: Any = torch.cuda.get_device_properties(device)  # torch's types lack a field
    is_new = (properties.major, properties.minor) >= HOPPER
    return is_new and properties.shared_memory_per_block_optin >= SHARED_BYTES


def describe(device: torch.device | str | None = None) -> str:
    """Path and reason for tensors of `device` (default: CUDA if there is one)."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    is_cuda = torch.device(device).type == "cuda"
    if _mode == "auto" and not is_cuda:
        return "PyTorch reference (not a CUDA device)"
    if (failure := triton_failure()) is not None:
        return f"PyTorch reference ({failure})"
    if _mode == "reference":
        return "PyTorch reference (Triton switched off)"
    if IS_INTERPRETED:
        return f"Triton {triton.__version__}, interpreted (TRITON_INTERPRET=1)"
    path = "portable: no copy engine" if _is_portable else "CUDA device"
    return f"Triton {triton.__version__} ({path})"
