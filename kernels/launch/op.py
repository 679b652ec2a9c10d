"""An operation and its two ways: a function that launches Triton kernels, and a PyTorch reference.

    @op(swiglu_ref)
    def swiglu(gate_up): ...  # launches

The choice stands here and nowhere else. It is made at every call, by the first argument, so that
what was switched off meanwhile, or given up after a failure (`dispatch.fall_back`), runs the
reference from then on. A failure of Triton names the operation. It is passed on and not made good
for here: an operation may have written half of its results, or be part of a graph that is recorded;
whoever can begin the work again does so (`tts_cli/engine/kernels.py`).
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
    """Make a public operation of the function that launches its kernels.

    Args:
        reference: takes the same arguments and returns the same.
        when: whether the kernels serve, by the first argument, which is given by its place.
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
