"""A Hopper GPU that Triton can compile for on a machine without one; it launches nothing.

Imported in a process of its own, before anything of `kernels`.
"""

from __future__ import annotations

import torch

_is_available = torch.cuda.is_available
torch.cuda.is_available = lambda: True
import triton  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402

import kernels.launch.dispatch  # noqa: E402, F401

torch.cuda.is_available = _is_available


class Hopper:
    """What a launch asks Triton's driver for, up to where it would launch."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


triton.runtime.driver.set_active(Hopper())
