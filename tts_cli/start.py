"""How this process's start went: moments for `run.json`, in seconds since the process began.

A moment is noted where a part of the start is over, so the parts are what lies between.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

# In their order. What a run does not come to is left out.
MOMENTS = (
    "command_s",  # Python runs, and the command line is imported
    "checked_s",  # the manifest is checked: the model is wanted
    "imported_s",  # torch and the engine are imported
    "device_s",  # the device answers
    "loaded_s",  # weights are in memory
    "ready_s",  # slots are made, kernels loaded, and the graph of a frame is recorded
    "first_row_s",  # the first row's audio is on disk
    "spoken_s",  # the last row's
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
