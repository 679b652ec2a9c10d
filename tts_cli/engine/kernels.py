"""Which kernels a session runs, and what happens where Triton fails.

A small kernel is compiled and launched when a device is opened, beside the reading of weights; what
it tells is heard before the first kernel of a model runs. Should a later one fail all the same,
whoever has work in hand says `leave_triton` and begins it again: operations then run their PyTorch
references, and graphs are recorded anew. Kernels that were asked for by name are not exchanged for
others, and with `--reproducible` none are once a device is open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

import torch

from kernels.launch.dispatch import (
    KernelFailed,
    Kernels,
    fall_back,
    is_portable,
    is_triton_on,
    use_kernels,
)
from kernels.launch.own_hash import begin_hash
from kernels.launch.probe import begin_probe, remedy_for
from tts_cli.errors import SetupError, StoppedEarly

if TYPE_CHECKING:
    from models.slots.model import SpeechModel

Result = TypeVar("Result")


def choose_kernels(name: str, device: torch.device) -> Callable[[], None]:
    """Have a session run the kernels of `--kernels`; on a CPU there is no choice.

    Returns:
        What to call before the first of them runs. Raises SetupError: kernels that were asked for
        by name cannot run here.
    """
    use_kernels(cast(Kernels, name) if device.type == "cuda" else "auto")
    if device.type != "cuda" or name == "reference":
        return lambda: None
    if is_triton_on():
        begin_hash()
    found = begin_probe(device)

    def settle() -> None:
        failure = found.result()
        if failure is not None and is_portable():
            raise _unusable(failure)
        if failure is not None:
            fall_back(failure, remedy_for(failure))

    return settle


def _unusable(failure: str) -> SetupError:
    """What is said where kernels that were asked for by name cannot be had."""
    return SetupError(
        f"--kernels portable: Triton does not work ({failure})",
        remedy=f"{remedy_for(failure)}, or use --kernels auto, which continues without it",
    )


def leave_triton(failure: str, model: SpeechModel, is_fixed: bool) -> None:
    """Go on with the PyTorch references, which a model's graphs are recorded anew with.

    Args:
        failure: of a kernel.
        is_fixed: rows must not change with what speaks them.
    Raises:
        SetupError: kernels were asked for by name.
        StoppedEarly: rows would sound otherwise.
    """
    remedy = remedy_for(failure)
    if is_portable():
        raise _unusable(failure)
    if is_fixed:
        raise StoppedEarly(
            f"a Triton kernel failed ({failure}), and with --reproducible the kernels must "
            "not change during a run",
            remedy=f"finished rows are safe; {remedy}, or start again with --kernels reference and "
            "--redo all",
        )
    model.settle()
    if torch.cuda.is_available():
        torch.cuda.synchronize()  # graphs are over; and a device that is lost says so
    fall_back(failure, remedy)
    for runner in model.graph_runners():
        runner.renew()


def with_fallback(
    work: Callable[[], Result],
    model: SpeechModel,
    is_fixed: bool = False,
    undo: Callable[[], object] = lambda: None,
) -> Result:
    """Do work that can be done twice; where a kernel fails, once more without Triton. Raises as
    `leave_triton` does.

    Args:
        undo: is done in between.
    """
    try:
        return work()
    except KernelFailed as error:
        failure = str(error)
    # Outside of the handler, because the error holds what the attempt had allocated.
    leave_triton(failure, model, is_fixed)
    undo()
    return work()
