"""Compile kernels before their first launch, several concurrently.

Triton compiles a kernel at its first launch, so with an empty cache a first run would wait for one
compilation after another (61 kernels: 69 s). `compile_ahead` runs work without launching any
kernel, which finds the kernels to compile, and compiles them in threads meanwhile: most of a
compilation is LLVM and ptxas, outside of Python. So is the C compiler, which Triton calls for the
launcher of each kernel. Kernels in Triton's cache are only read from there. A mark next to them
spares the next process the search.

The parts of Triton used (`kernels.launch.hooks`) are a hook that is asked before a compilation and
may refuse it, descriptions of kernels that can be preloaded, and a mode that compiles in an
executor.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch

from kernels.launch.compilation import cache_folder, watch
from kernels.launch.dispatch import IS_INTERPRETED, current
from kernels.launch.hooks import (
    compile_in,
    has_preload,
    hooked,
    make_ready,
    name_and_key,
    preload,
    release,
)
from kernels.launch.own_hash import wait_for_hash

log = logging.getLogger(__name__)

MAX_THREADS = 32
MARKS = "tts-cli"  # folder of marks in Triton's cache
SOURCES = Path(__file__).parent.parent  # compiled kernels depend on them, and on Triton itself


def compile_ahead(works: Sequence[Callable[[], object]], name: str) -> int:
    """Compile the kernels that `works` launch on the current device, without launching them. Return
    the number of compiled kernels.

    Does nothing if a mark shows that it was done before. Kernels that cannot be compiled this way
    are compiled at their first launch.

    Args:
        works: functions whose results have no meaning, as no kernel runs.
        name: everything that the kernels depend on, such as the model's shapes.
    """
    if not can_compile_ahead():
        return 0
    wait_for_hash()  # or the first launch would compute it again
    mark = cache_folder() / MARKS / _digest(name)
    if mark.exists():
        return 0
    started = time.perf_counter()
    with watch() as met, _compiling() as kernels:
        for work in works:
            work()
    log.debug(
        "compiled ahead: %d of %d kernels in %.1f s",
        met.compiled,
        len(kernels),
        time.perf_counter() - started,
    )
    with suppress(OSError):  # then the next process searches again
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    return met.compiled


def can_compile_ahead() -> bool:
    """Whether Triton is used, and has the required parts."""
    return current().is_triton_on and not IS_INTERPRETED and has_preload()


@contextmanager
def _compiling() -> Iterator[set[tuple[str, str]]]:
    """Inside the block, kernels that this process has not loaded are compiled in threads, and
    not launched. Yield their names and keys.
    """
    kernels: set[tuple[str, str]] = set()
    preloaded: list[dict[str, Any]] = []
    is_ours = False  # whether our own preload calls the hook

    def refuse(*_: Any, **asked: Any) -> bool:
        nonlocal is_ours
        if is_ours:
            return False
        name = name_and_key(asked)
        if name not in kernels:
            kernels.add(name)
            is_ours = True
            try:
                preload(asked)
                preloaded.append(asked)
            except Exception as error:  # its launch will raise it again
                log.debug("not compiled ahead: %s: %s", name[0], error)
            finally:
                is_ours = False
        return True  # neither compile nor launch

    try:
        with (
            hooked("runtime", "jit_cache_hook", lambda _: refuse),
            Loaders(min(MAX_THREADS, len(os.sched_getaffinity(0)))) as pool,
            compile_in(pool),
        ):
            yield kernels
    finally:
        for asked in preloaded:
            release(asked)


class Loaders(ThreadPoolExecutor):
    """Threads that compile kernels and load them onto the device that is current here."""

    def __init__(self, count: int) -> None:
        index = torch.cuda.current_device() if torch.cuda.is_available() else None
        super().__init__(count, "kernels", _use_device, (index,))

    def submit(self, work: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        """Compile, and load the kernel if possible; otherwise its launch loads it."""

        def load() -> Any:
            kernel = work(*args, **options)
            make_ready(kernel)
            return kernel

        return super().submit(load)


def _use_device(index: int | None) -> None:
    if index is not None:
        torch.cuda.set_device(index)


def _digest(name: str) -> str:
    """Hash a name, this device, and the versions and sources in use."""
    device = torch.cuda.get_device_properties(torch.cuda.current_device())
    parts = (name, current().describe(), torch.__version__, device.name, _sources())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


@cache
def _sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(SOURCES.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
