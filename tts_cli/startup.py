"""Shorten the start of a process, and record its moments for `run.json`, in seconds since it began.

While Python imports torch (two seconds), a thread starts the GPU's driver and creates its context
on the device, which torch then uses: calls through ctypes release the interpreter. Without a driver
or a device nothing happens here; the code that needs them reports it. Torch's libraries are not
loaded in the thread, because an import of another extension would then hold the interpreter while
it waits for the system's loader.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import pairwise

# In their order. A run without such a step has no such moment.
MOMENTS = (
    "command_s",  # Python has started, and the command line is imported
    "checked_s",  # the manifest is checked, and the model is needed
    "imported_s",  # PyTorch and the engine are imported
    "device_s",  # the device responds
    "loaded_s",  # the weights are in memory
    "ready_s",  # slots are allocated, kernels loaded, and the graph of a frame is captured
    "first_row_s",  # the first row's audio is on disk
    "spoken_s",  # the last row's audio is on disk
)

TORCH = "pip install 'torch>=2.10'"  # remedy if it cannot be imported

_zero_s = 0.0  # start of the process, or of the command in it
_has_begun = False
_reached: dict[str, float] = {}


def begin_process() -> None:
    """Start the clock of a process whose command is not imported yet."""
    global _zero_s, _has_begun
    _zero_s, _has_begun = time.perf_counter() - _age_s(), True


def begin_command() -> None:
    """Start the clock of a command, which may be one of several in a process."""
    global _zero_s, _has_begun
    if not _has_begun:
        _zero_s = time.perf_counter()
    _has_begun = False
    _reached.clear()
    reach("command_s")


def reach(moment: str) -> None:
    """Record a moment if it is the first of its name. Thread-safe."""
    assert moment in MOMENTS, moment
    _reached.setdefault(moment, time.perf_counter() - _zero_s)


def moments() -> dict[str, float]:
    """Return the recorded moments, in the order of `MOMENTS`."""
    return {name: round(_reached[name], 3) for name in MOMENTS if name in _reached}


@contextmanager
def importing() -> Iterator[None]:
    """Disable garbage collection while torch is imported.

    Modules stay in memory, so collecting them costs time for nothing: 0.2 of 2.4 s during the
    import, and pauses of all threads later.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def _age_s() -> float:
    """Return the seconds since the system started this process, to 0.01 s; 0.0 if unknown."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
    return age_s if age_s > 0 else 0.0


SPEAKING = ("synth", "say", "book", "warmup", "profile")  # commands that use torch
NOT_SPEAKING = ("-h", "--help", "--dry-run")
DRIVER = "libcuda.so.1"
CALLED = ("cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain")  # functions used here


def set_openmp_policy() -> None:
    """Let OpenMP threads sleep while they wait.

    By default they spin, which costs milliseconds per operation as soon as another thread needs
    their core. OpenMP reads the variable when torch's libraries are loaded.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def begin_driver(args: Sequence[str]) -> None:
    """Start the GPU's driver if a command line will synthesize on it."""
    set_openmp_policy()
    is_speaking = bool(args) and args[0] in SPEAKING
    if is_speaking and not any(arg in NOT_SPEAKING for arg in args) and not _is_on_cpu(args):
        _in_thread("driver", start_driver)


@cache
def use_device(device: str) -> None:
    """Create the context of a `--device` once, if its name identifies the device."""
    kind, _, number = device.partition(":")
    if kind in ("auto", "cuda"):
        _in_thread("context", lambda: make_context(int(number or 0)))


@cache
def _driver() -> ctypes.CDLL | None:
    """Return NVIDIA's driver, or None if it is missing or lacks a function used here."""
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError:
        return None
    return driver if all(hasattr(driver, name) for name in CALLED) else None


def start_driver() -> bool:
    """Return whether the driver runs. The first call starts it."""
    driver = _driver()
    return driver is not None and bool(driver.cuInit(ctypes.c_uint(0)) == 0)


def make_context(index: int) -> bool:
    """Create the context that a process shares on a device. Return whether it exists."""
    driver, device, context = _driver(), ctypes.c_int(), ctypes.c_void_p()
    if driver is None or not start_driver():
        return False
    if driver.cuDeviceGet(ctypes.byref(device), ctypes.c_int(index)) != 0:
        return False
    return bool(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0)


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _is_on_cpu(args: Sequence[str]) -> bool:
    """Whether the command line chooses the CPU; settings files may choose it too."""
    return "--device=cpu" in args or ("--device", "cpu") in pairwise(args)


def _in_thread(name: str, work: Callable[[], object]) -> None:

    def run() -> None:
        with suppress(OSError, AttributeError, ValueError):
            work()

    threading.Thread(target=run, name=name, daemon=True).start()
