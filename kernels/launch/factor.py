"""What `tl.dot` multiplies: as it is on a GPU, as float32 in Triton's interpreter, which multiplies
the bits of bfloat16 and not its values.
"""

from __future__ import annotations

from kernels.launch.dispatch import HAS_PTX, jit, tl


@jit
def factor(x):
    """A block, to be multiplied."""
    if HAS_PTX:
        return x
    else:
        return x.to(tl.float32)
