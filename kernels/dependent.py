"""Programmatic dependent launch: a kernel may start while the one in front of it still ends.

Between two kernels of a stream, or of a captured graph, a GPU waits for the last program of the one
and then starts the programs of the other, a microsecond in which nothing is read. A kernel launched
with `launch_options` starts when every program of the one in front has begun, and stands ready in
`wait_for_previous`, which returns when that one has ended and all it wrote can be seen. Since every
kernel waits before it reads or writes anything, each has also waited for all before it.

It needs Hopper. Kernels of libraries in between are waited for as usual. Measured on whole frames
(H200, ms, without it in brackets): with 64 rows Qwen3-TTS 0.6B 3.42 (3.92), 1.7B 4.03 (4.54), Fish
Speech 6.08 (6.26); but with 16 rows Fish Speech 5.90 (5.78), with one 5.73 (5.39), and with 256,
where products are a library's, 0.6B 6.67 (6.46). So it is on in between.
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
LEAST_ROWS, MOST_ROWS = 17, 64
_is_on = True


@jit
def wait_for_previous(IS_DEPENDENT: tl.constexpr):
    """First thing in a kernel: let the next one start, then wait for the one in front."""
    if IS_DEPENDENT:
        gdc_launch_dependents()
        gdc_wait()


def launch_options(x: Tensor, num_rows: int) -> dict[str, Any]:
    """Keywords of a launch on x's device of a kernel that calls `wait_for_previous`."""
    is_between = LEAST_ROWS <= num_rows <= MOST_ROWS
    if _is_on and is_between and x.is_cuda and not IS_INTERPRETED and is_hopper(x.device):
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
