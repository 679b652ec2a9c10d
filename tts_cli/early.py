"""What a start waits for in the GPU's driver, begun beside the imports.

Importing torch takes two seconds of Python. Starting the driver (0.2 s) and making its context on
the device (0.3 s) need none: called through ctypes they leave the interpreter to other threads.
Torch then finds the device's own context made, which every user of a device in a process shares.
Without a driver or a device nothing happens, and nothing is said: who needs them will.

Torch's libraries are not loaded here: whoever imports an extension meanwhile waits for the system's
loader, and keeps Python to itself while it does (0.9 s of `import click` on a slow CPU).
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise

SPEAKING = ("synth", "say", "book", "warmup", "profile")  # commands that will want torch
NOT_SPEAKING = ("-h", "--help", "--dry-run")
DRIVER = "libcuda.so.1"


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


class Driver:
    """The few functions of NVIDIA's driver that a start is about. Raises OSError without one."""

    def __init__(self) -> None:
        library = ctypes.CDLL(DRIVER)
        self._init = library.cuInit
        self._device = library.cuDeviceGet
        self._retain = library.cuDevicePrimaryCtxRetain

    def start(self) -> bool:
        """Whether it runs now; the first call takes its time, later ones do not."""
        return bool(self._init(ctypes.c_uint(0)) == 0)

    def make_context(self, index: int) -> bool:
        """Make and keep the context that all of this process share on a device; whether it is
        there.
        """
        device, context = ctypes.c_int(), ctypes.c_void_p()
        if not self.start() or self._device(ctypes.byref(device), ctypes.c_int(index)) != 0:
            return False
        return bool(self._retain(ctypes.byref(context), device) == 0)


@cache
def _driver() -> Driver | None:
    """The driver, where there is one."""
    try:
        return Driver()
    except (OSError, AttributeError):
        return None


def start_driver() -> bool:
    """See `Driver`; False where there is none."""
    driver = _driver()
    return driver is not None and driver.start()


def make_context(index: int) -> bool:
    """See `Driver`; False where there is none."""
    driver = _driver()
    return driver is not None and driver.make_context(index)


def _is_on_cpu(args: Sequence[str]) -> bool:
    """Whether a command line says that no GPU is wanted; settings may say so, too."""
    return "--device=cpu" in args or ("--device", "cpu") in pairwise(args)


def _in_thread(name: str, work: Callable[[], object]) -> None:
    """Do something that nobody waits for."""

    def run() -> None:
        with suppress(OSError, AttributeError, ValueError):
            work()

    threading.Thread(target=run, name=name, daemon=True).start()
