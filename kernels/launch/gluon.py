"""Gluon, Triton's language of layouts, shared memory and barriers, for versions that have it.

It is experimental, so every kernel in it names the versions that it was tried with and has a twin
in Triton's own language, which all other versions run. 3.6 has run on a GPU, 3.9 was compiled
without one. Triton's interpreter does not run it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from kernels.launch.dispatch import IS_INTERPRETED, jit, triton

KNOWN = ("3.6.", "3.9.")
HOPPERS = 9  # the only generation with these products of warp groups

try:
    if triton is None or IS_INTERPRETED or not triton.__version__.startswith(KNOWN):
        raise ImportError("no Triton, or another version")
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language.nvidia import hopper
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
except ImportError:
    gluon = gl = hopper = TensorDescriptor = None

HAS_GLUON: bool = gluon is not None
fetch: Any = None  # copies a block: descriptor, [row, column], barrier, place in shared memory
for _name in ("async_copy_global_to_shared", "async_load"):  # 3.6 has the first, 3.9 both
    fetch = getattr(getattr(hopper, "tma", None), _name, fetch)


def gluon_jit(function: Callable[..., Any]) -> Any:
    """As `dispatch.jit`, for a kernel in Gluon."""
    return jit(function, by=gluon.jit) if HAS_GLUON else function


@cache
def has_warp_groups(device: torch.device) -> bool:
    """Whether kernels for Hopper's warp groups run on a GPU."""
    return HAS_GLUON and torch.cuda.get_device_capability(device)[0] == HOPPERS


def shared_block(tensor: Tensor, rows: int, columns: int) -> Any:
    """A descriptor of blocks of a tensor (R, C), for products of warp groups."""
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    shape, strides = list(tensor.shape), list(tensor.stride())
    return TensorDescriptor(tensor, shape, strides, [rows, columns], layout)
