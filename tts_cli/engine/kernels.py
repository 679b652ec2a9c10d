"""Choose the kernels of a session's model, and continue without Triton if it fails.

A test kernel is compiled and launched as soon as a device is opened, while weights are read. If a
later kernel fails, the caller calls `leave_triton` and starts its work again with the PyTorch
references. Kernels that were requested by name are never replaced, nor any with `--reproducible`
once a device is open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar, cast

import torch

from kernels.launch.dispatch import KernelFailed, Kernels, KernelsName
from kernels.launch.own_hash import begin_hash
from kernels.launch.probe import begin_probe, remedy_for
from tts_cli.errors import SetupError, StoppedEarly

if TYPE_CHECKING:
    from models.slots.model import SpeechModel

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Probe = Future[str | None] | None  # None: nothing to wait for


def choose_kernels(name: str, device: torch.device) -> Kernels:
    """Return the kernels of `--kernels`; a CPU has only the references."""
    return Kernels.named(cast(KernelsName, name) if device.type == "cuda" else "auto")


def probe_kernels(kernels: Kernels, device: torch.device) -> Probe:
    """Start the test kernel on a GPU, if Triton kernels are used."""
    if device.type != "cuda" or kernels.mode == "reference":
        return None
    if kernels.is_triton_on:
        begin_hash()
    return begin_probe(device)


def settle_kernels(probe: Probe, model: SpeechModel, device: torch.device) -> None:
    """Wait for the test kernel before the model runs its first one, and leave Triton if it failed.

    Raises SetupError if kernels that were requested by name cannot run here.
    """
    if probe is not None and (failure := probe.result()) is not None:
        leave_triton(failure, model, is_fixed=False)
    say = log.info if device.type == "cuda" else log.debug  # a CPU has one path
    say("kernels on %s: %s", device.type, model.kernels.describe(device))


def leave_triton(failure: str, model: SpeechModel, is_fixed: bool) -> None:
    """Make a model run the PyTorch references, and log that. Its graphs are captured again.

    Raises SetupError if kernels were requested by name, and StoppedEarly if `is_fixed`, because
    rows would sound different.
    """
    remedy = remedy_for(failure)
    if model.kernels.is_portable:
        raise SetupError(
            f"--kernels portable: Triton does not work ({failure})",
            remedy=f"{remedy}, or use --kernels auto, which continues without it",
        )
    if is_fixed:
        raise StoppedEarly(
            f"a Triton kernel failed ({failure}), and with --reproducible the kernels must "
            "not change during a run",
            remedy=f"finished rows are safe; {remedy}, or start again with --kernels reference and "
            "--redo all",
        )
    model.leave_triton(failure)
    log.warning(
        "Triton does not work (%s); %s; continuing with PyTorch's own operations, which is slower",
        failure,
        remedy,
    )


def with_fallback(
    work: Callable[[], Result],
    model: SpeechModel,
    is_fixed: bool = False,
    undo: Callable[[], object] = lambda: None,
) -> Result:
    """Do work that can be repeated. If a kernel fails, call `undo` and repeat the work without
    Triton. Raises as `leave_triton`.
    """
    try:
        return work()
    except KernelFailed as error:
        failure = str(error)
    # Outside of the handler, because the error holds what the attempt had allocated.
    leave_triton(failure, model, is_fixed)
    undo()
    return work()
