"""An operation as two functions: one that launches Triton kernels, and a PyTorch reference.

    @op(swiglu_ref)
    def swiglu(gate_up): ...  # launches

The reference is the CPU path, and the kernel is tested against it. `op` is the only place that
chooses, at every call, by the first argument and by the kernels in effect
(`kernels.launch.dispatch`). A failure of Triton is raised with the operation's name: an operation
may have written half of its results, or be part of a graph that is captured. The caller that can
start its work again handles it (`tts_cli/engine/kernels.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from kernels.launch.dispatch import KernelFailed, plain_name, use_triton

First = TypeVar("First")
Others = ParamSpec("Others")
Result = TypeVar("Result")
Operation = Callable[Concatenate[First, Others], Result]


def op(
    reference: Operation[First, Others, Result], when: Callable[[Any], bool] = use_triton
) -> Callable[[Operation[First, Others, Result]], Operation[First, Others, Result]]:
    """Turn the function that launches kernels into a public operation.

    Args:
        reference: takes the same arguments and returns the same.
        when: whether to run the kernels, by the first argument, which is positional.
    """

    def decorate(launch: Operation[First, Others, Result]) -> Operation[First, Others, Result]:
        name = plain_name(launch.__name__)

        @wraps(launch)
        def run(first: First, /, *others: Others.args, **named: Others.kwargs) -> Result:
            if not when(first):
                return reference(first, *others, **named)
            try:
                return launch(first, *others, **named)
            except KernelFailed as failure:
                failure.operation = name
                raise

        return run

    return decorate
