"""Check that the device of --device exists, as late as possible: importing torch takes seconds, and
a rerun without work does not need it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tts_cli import startup

if TYPE_CHECKING:
    from tts_cli.config import RunConfig

DRIVERS = ("/dev/nvidiactl", "/dev/dxg")  # NVIDIA's drivers on Linux, and on Linux in Windows
ALWAYS_THERE = ("auto", "cpu")


def require_driver(config: RunConfig) -> None:
    """Raise SetupError early if the machine has no driver. A Ray cluster has its own."""
    if config.ray_address is None and not any(map(os.path.exists, DRIVERS)):
        require_device(config)


def require_device(config: RunConfig) -> None:
    """Raise SetupError if a device is missing. Create its context if this process synthesizes."""
    if not config.has_workers:
        startup.use_device(config.device)
    if config.device not in ALWAYS_THERE and config.ray_address is None:
        with startup.importing():
            from tts_cli.engine.load import choose_device

        choose_device(config)
