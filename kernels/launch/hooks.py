"""The parts of Triton that may change between versions, and the effect if they are missing.

Known for 3.6 (in torch 2.11; run on a GPU) and 3.7 to 3.9 (compiled, without one); the
AsyncCompileMode of 3.5 does not continue after a kernel that fails to compile:

    knobs.compilation.listener                          kernels are not counted
    knobs.runtime.jit_cache_hook, AsyncCompileMode,     nothing is compiled ahead
    JITFunction.preload, the hook's arguments
    JITFunction.device_caches                           a second launch waits for the kernel
    CompiledKernel.run, _run                            a kernel is loaded at its first launch
    runtime.cache.triton_key                            the hash is made at the first launch
    backends.nvidia.compiler.get_ptxas                  `doctor` does not find ptxas

Two more are required, and used elsewhere: `run` of a kernel, which `dispatch.jit` wraps, and the
option `launch_pdl` with the functions `gdc_wait` and `gdc_launch_dependents` (`early_launch`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from inspect import signature
from typing import Any

import torch

from kernels.launch.dispatch import reason_of, triton

log = logging.getLogger(__name__)


@contextmanager
def hooked(group: str, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Inside the block, replace a hook among Triton's settings by `make` of the old one; without
    effect if Triton or the hook is missing.
    """
    knobs = _knobs(group)
    if not hasattr(knobs, name):
        yield
        return
    before = getattr(knobs, name)
    setattr(knobs, name, make(before))
    try:
        yield
    finally:
        setattr(knobs, name, before)


def _knobs(group: str) -> Any:
    return getattr(getattr(triton, "knobs", None), group, None)


def has_preload() -> bool:
    """Whether kernels can be compiled before their launch, in threads."""
    mode = getattr(triton, "AsyncCompileMode", None)
    has_mode = mode is not None and "ignore_errors" in signature(mode).parameters
    return has_mode and hasattr(_knobs("runtime"), "jit_cache_hook")


def compile_in(pool: object) -> AbstractContextManager[object]:
    """Inside the block, compile launched or preloaded kernels in the threads of a pool."""
    return triton.AsyncCompileMode(pool, ignore_errors=True)


def name_and_key(asked: dict[str, Any]) -> tuple[str, str]:
    """Return name and key of the kernel in the arguments of `jit_cache_hook`."""
    return asked["fn"].name, str(asked["key"])


class _Nothing:
    """Replaces a kernel that is being compiled: a launch does nothing and calls no hook. All of
    its attributes and results are itself.
    """

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self


NOTHING = _Nothing()


def preload(asked: dict[str, Any]) -> None:
    """Compile that kernel. Launches of it do nothing until it is compiled or released. Otherwise
    they would wait for it (from 3.7 on), or call the hook again, which takes 0.15 ms.
    """
    function = asked["fn"].jit_function
    function.preload(asked["compile"]["specialization_data"])
    for kernels, *_ in function.device_caches.values():
        kernels[asked["key"]] = NOTHING


def release(asked: dict[str, Any]) -> None:
    """Let a launch compile the kernel, if the preload did not."""
    for kernels, *_ in asked["fn"].jit_function.device_caches.values():
        if kernels.get(asked["key"]) is NOTHING:
            del kernels[asked["key"]]


def make_ready(kernel: Any) -> None:
    """Load a compiled kernel onto the current device, or leave the loading to its launch."""
    try:
        getattr(kernel, "run", None)  # the property makes the launcher and loads the kernel
    except Exception as error:  # its launch will try again, and raise it
        kernel._run = None
        log.debug("not loaded ahead: %s", error)


def make_hash() -> None:
    """Have Triton compute and cache its hash of itself."""
    with suppress(ImportError, OSError, AttributeError):
        from triton.runtime.cache import triton_key

        triton_key()


def find_ptxas(device: torch.device) -> str:
    """Return path and version of the ptxas for a device, or why it is not found."""
    try:
        from triton.backends.nvidia.compiler import get_ptxas

        major, minor = torch.cuda.get_device_capability(device)
        found: Any = get_ptxas(10 * major + minor)
        return f"{found.path} ({found.version})"
    except Exception as error:
        return f"not found: {reason_of(error)}"
