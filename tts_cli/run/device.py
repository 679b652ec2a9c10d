"""Where a model computes, how precisely, and what of this process that takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from tts_cli import signals
from tts_cli.config import RunConfig
from tts_cli.errors import SetupError
from tts_cli.run.held_setting import HeldSetting


def choose_device(config: RunConfig) -> torch.device:
    """The device `--device` means. Raises SetupError when it is not there."""
    signals.check()  # torch has been imported
    if config.device == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    kind, _, number = config.device.partition(":")
    index = int(number or 0)  # torch keeps eight bits of it: of cuda:300 it makes cuda:44
    if kind == "cuda":
        count = int(torch.cuda.is_available())
        if count and index:  # who has any has the first: counting them takes 0.1 s
            count = torch.cuda.device_count()
        if index >= count:
            found = f"{count} CUDA devices found" if count else "no CUDA device found"
            raise SetupError(
                f"--device {config.device}: {found}",
                remedy="use --device cpu, or see `tts-cli doctor`",
            )
        return torch.device(kind, index)
    return torch.device(kind)


def choose_dtype(config: RunConfig, device: torch.device) -> torch.dtype:
    """The dtype `--dtype` means on a device."""
    if config.dtype == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return torch.float32 if config.dtype == "float32" else torch.bfloat16


@contextmanager
def on_device(device: torch.device) -> Iterator[None]:
    """Inside, this thread's device is the given one; behind, what it was."""
    if device.type != "cuda":
        yield
        return
    with torch.cuda.device(device):
        yield


def read_tf32() -> tuple[bool, bool]:
    """Whether products, and cuDNN, may round float32 to TF32."""
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def write_tf32(are_allowed: tuple[bool, bool]) -> None:
    """The same, from now on."""
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = are_allowed


# float32 means float32: the parity promise holds without TF32.
TF32 = HeldSetting(read_tf32, write_tf32, (False, False))
