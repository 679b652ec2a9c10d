"""Programmatic dependent launch: a kernel may start while the one in front of it still ends.

Between two kernels of a stream, or of a captured graph, a GPU waits for the last program of the one
and then starts the programs of the other, a microsecond in which nothing is read. A kernel launched
with `launch_options` starts when every program of the one in front has begun, and stands ready in
`wait_for_previous`, which returns when that one has ended and all it wrote can be seen. Since every
kernel waits before it reads or writes anything, each has also waited for all before it.

It needs Hopper. Kernels of libraries in between are waited for as usual.

Source: CUDA C++ programming guide, "Programmatic Dependent Launch and Synchronization".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor

from kernels.dispatch import HAS_TRITON, IS_INTERPRETED, jit, tl

if HAS_TRITON:
    from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

HOPPER = (9, 0)
_is_on = True


@jit
def wait_for_previous(IS_DEPENDENT: tl.constexpr):
    """First thing in a kernel: let the next one start, then wait for the one in front."""
    if IS_DEPENDENT:
        gdc_launch_dependents()
        gdc_wait()


def launch_options(x: Tensor) -> dict[str, Any]:
    """Keywords of a launch on x's device of a kernel that calls `wait_for_previous`."""
    if _is_on and x.is_cuda and not IS_INTERPRETED and is_hopper(x.device):
        return {"IS_DEPENDENT": True, "launch_pdl": True}
    return {"IS_DEPENDENT": False}


@cache
def is_hopper(device: torch.device) -> bool:
    """Whether a GPU is of this generation or a later one."""
    return torch.cuda.get_device_capability(device) >= HOPPER


@contextmanager
def without_dependent_launch() -> Iterator[None]:
    """Inside, every kernel waits for the end of the one in front before it starts: the twin that
    tests compare with.
    """
    global _is_on
    before, _is_on = _is_on, False
    try:
        yield
    finally:
        _is_on = before
