"""Kernels compiled before their first launch, several at once.

A kernel is compiled where it is first launched, so that an empty cache makes a first run wait for
one after another: 61 of them took 69 s on one of 16 cores (H200, 2026-11-22). `compile_ahead` runs
the work once without launching any, which tells what there is to compile, and compiles all of it in
threads: most of a compilation is LLVM and ptxas, outside of Python. What is in Triton's cache is
only read from there.

Triton's own means: a hook that is asked before a compilation and may refuse it, descriptions of
kernels that can be preloaded (`JITFunction.preload`), and its mode of compiling in an executor.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kernels.launch.compilation import watch
from kernels.launch.dispatch import HAS_TRITON, IS_INTERPRETED, triton

log = logging.getLogger(__name__)

MAX_THREADS = 32

Found = dict[tuple[int, str], tuple[Any, str]]  # kernel and key -> kernel and its description


def compile_ahead(*works: Callable[[], None]) -> int:
    """Compile what some works launch, and launch none of it. The number compiled.

    The first work is a sample: where all of its kernels are in the cache, the others are not asked.
    Whatever cannot be compiled so is compiled at its first launch.

    Args:
        works: run on the current device; what they compute means nothing, as no kernel runs.
    """
    if not can_compile_ahead():
        return 0
    total = 0
    for number, work in enumerate(works):
        started = time.perf_counter()
        found = _launched(work)
        looked = time.perf_counter()
        compiled = _compile(list(found.values()))
        total += compiled
        log.debug(
            "compiled ahead: %d of %d kernels in %.1f s, found in %.1f s",
            compiled,
            len(found),
            time.perf_counter() - looked,
            looked - started,
        )
        if number == 0 and not compiled:
            break
    return total


def can_compile_ahead() -> bool:
    """Whether this Triton has what it takes."""
    if not HAS_TRITON or IS_INTERPRETED:
        return False
    runtime = getattr(getattr(triton, "knobs", None), "runtime", None)
    return hasattr(runtime, "jit_cache_hook") and hasattr(triton, "AsyncCompileMode")


def _launched(work: Callable[[], None]) -> Found:
    """The kernels that a work would launch and this process has not loaded."""
    found: Found = {}

    def refuse(*_: Any, **asked: Any) -> bool:
        kernel = asked["fn"].jit_function
        found[id(kernel), str(asked["key"])] = kernel, asked["compile"]["specialization_data"]
        return True  # neither compiled nor launched

    runtime = triton.knobs.runtime
    before, runtime.jit_cache_hook = runtime.jit_cache_hook, refuse
    try:
        work()
    finally:
        runtime.jit_cache_hook = before
    return found


def _compile(found: list[tuple[Any, str]]) -> int:
    """Compile or read from the cache, in threads; how many were compiled."""
    threads = min(MAX_THREADS, len(os.sched_getaffinity(0)), max(1, len(found)))
    with watch() as met, ThreadPoolExecutor(threads) as pool:
        with triton.AsyncCompileMode(pool, ignore_errors=True):
            for kernel, description in found:
                try:
                    kernel.preload(description)
                except Exception as error:  # it is compiled at its launch, which then tells
                    log.debug("not compiled ahead: %s: %s", kernel, error)
    return met.compiled
