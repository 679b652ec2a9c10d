"""Shorten the start, and time it: moments for `run.json`, in seconds since the process began.

A moment is noted where a part of the start is over, so the parts are what lies between.

What a start waits for in the GPU's driver, begun beside the imports.

Importing torch takes two seconds of Python. Starting the driver (0.2 s) and making its context on
the device (0.3 s) need none: called through ctypes they leave the interpreter to other threads.
Torch then finds the device's own context made, which every user of a device in a process shares.
Without a driver or a device nothing happens, and nothing is said: who needs them will.

Torch's libraries are not loaded here: whoever imports an extension meanwhile waits for the system's
loader, and keeps Python to itself while it does (0.9 s of `import click` on a slow CPU).
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

# In their order. What a run does not come to is left out.
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

TORCH = "pip install 'torch>=2.10'"  # what an import of it may lack

_zero_s = 0.0  # when the process, or the command inside one, began
_has_begun = False
_reached: dict[str, float] = {}


def begin_process() -> None:
    """A process begins whose one command is still to be imported."""
    global _zero_s, _has_begun
    _zero_s, _has_begun = time.perf_counter() - _age_s(), True


def begin_command() -> None:
    """A command begins: the process's own, or one more inside of it."""
    global _zero_s, _has_begun
    if not _has_begun:
        _zero_s = time.perf_counter()
    _has_begun = False
    _reached.clear()
    reach("command_s")


def reach(moment: str) -> None:
    """Note a moment; only the first time counts. From any thread."""
    assert moment in MOMENTS, moment
    _reached.setdefault(moment, time.perf_counter() - _zero_s)


def moments() -> dict[str, float]:
    """What was reached, in the order of `MOMENTS`."""
    return {name: round(_reached[name], 3) for name in MOMENTS if name in _reached}


@contextmanager
def importing() -> Iterator[None]:
    """Inside, torch is imported. What modules are made of stays, so nobody looks for garbage in it,
    neither now (0.2 s of 2.4) nor later, when a search stops all threads.
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
    """Seconds since the system started this process, to a hundredth; 0.0 where it does not say."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
    return age_s if age_s > 0 else 0.0


SPEAKING = ("synth", "say", "book", "warmup", "profile")  # commands that will want torch
NOT_SPEAKING = ("-h", "--help", "--dry-run")
DRIVER = "libcuda.so.1"
CALLED = ("cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain")  # of it


def settle_threads() -> None:
    """OpenMP reads this when torch's libraries are loaded. Its threads spin while they wait, which
    costs milliseconds an operation once anything else wants their core; asleep they cost nothing.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def begin(args: Sequence[str]) -> None:
    """Start the driver, if a command line is one that speaks."""
    settle_threads()
    is_speaking = bool(args) and args[0] in SPEAKING
    if is_speaking and not any(arg in NOT_SPEAKING for arg in args) and not _is_on_cpu(args):
        _in_thread("driver", start_driver)


@cache
def use_device(device: str) -> None:
    """Make the context of a `--device`, as far as its name tells which it is; once."""
    kind, _, number = device.partition(":")
    if kind in ("auto", "cuda"):
        _in_thread("context", lambda: make_context(int(number or 0)))


@cache
def _driver() -> ctypes.CDLL | None:
    """NVIDIA's driver, where there is one that has what is called here."""
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError:
        return None
    return driver if all(hasattr(driver, name) for name in CALLED) else None


def start_driver() -> bool:
    """Whether it runs now; the first call takes its time, later ones do not. False without one."""
    driver = _driver()
    return driver is not None and bool(driver.cuInit(ctypes.c_uint(0)) == 0)


def make_context(index: int) -> bool:
    """Make and keep the context that all of this process share on a device; whether it is there."""
    driver, device, context = _driver(), ctypes.c_int(), ctypes.c_void_p()
    if driver is None or not start_driver():
        return False
    if driver.cuDeviceGet(ctypes.byref(device), ctypes.c_int(index)) != 0:
        return False
    return bool(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0)


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _is_on_cpu(args: Sequence[str]) -> bool:
    """Whether a command line says that no GPU is wanted; settings may say so, too."""
    return "--device=cpu" in args or ("--device", "cpu") in pairwise(args)


def _in_thread(name: str, work: Callable[[], object]) -> None:
    """Do something that nobody waits for."""

    def run() -> None:
        with suppress(OSError, AttributeError, ValueError):
            work()

    threading.Thread(target=run, name=name, daemon=True).start()
