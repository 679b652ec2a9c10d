"""Check that the device of `--device` is there. Torch is asked as late as can be: importing it
takes seconds, and a rerun that has nothing to do needs none.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tts_cli import startup

if TYPE_CHECKING:
    from tts_cli.config import RunConfig

DRIVERS = ("/dev/nvidiactl", "/dev/dxg")  # of NVIDIA GPUs: Linux, and Linux inside Windows
ALWAYS_THERE = ("auto", "cpu")


def refuse_absent(config: RunConfig) -> None:
    """Raises SetupError at once where there is not even a driver for the device; of workers in a
    cluster, the cluster tells.
    """
    if config.ray_address is None and not any(map(os.path.exists, DRIVERS)):
        require(config)


def require(config: RunConfig) -> None:
    """Raises SetupError where the device is not there, or too few of them; begins its context where
    this process will speak on it.
    """
    if not config.has_workers:
        startup.use_device(config.device)
    if config.device not in ALWAYS_THERE and config.ray_address is None:
        with startup.importing():
            from tts_cli.engine.load import choose_device

        choose_device(config)
