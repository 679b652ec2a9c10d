"""Device functions of `kernels.persistent_decoder`: waiting between programs.

Programs of one launch hand work to each other through global memory, so whatever another program
wrote in this launch is read with `.cg`: past the L1 cache, which is not coherent. A program's
stores come before its arrival: a barrier of its threads, then one release by a single thread,
which in the PTX memory model also covers what the barrier ordered before it (PTX ISA, memory
consistency model, causality order).
"""

from __future__ import annotations

from kernels.dispatch import jit, tl


@jit
def arrive(counter_ptr):
    """Tell the others that this program's stores of a stage are done."""
    tl.debug_barrier()
    tl.atomic_add(counter_ptr, 1, sem="release", scope="gpu")


@jit
def wait_for(counter_ptr, target, POLL_ATOMIC: tl.constexpr):
    """Spin until `target` arrivals of this launch are counted."""
    if POLL_ATOMIC:
        while tl.atomic_add(counter_ptr, 0, sem="acquire", scope="gpu") < target:
            pass
    else:
        while tl.load(counter_ptr, volatile=True) < target:
            pass
    tl.debug_barrier()
