"""Serve the review of a folder until a signal comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tts_cli.app.look import Screen
from tts_cli.app.review.folder import ReviewFolder
from tts_cli.app.review.retakes import Retakes
from tts_cli.config import RunConfig
from tts_cli.errors import Interrupted
from tts_cli.extras import load
from tts_cli.store.store import Store


def serve(
    out: Path,
    config: RunConfig,
    machine: Mapping[str, Any],
    screen: Screen,
    announce: Callable[[str], None],
    *,
    port: int = 0,
    reviewer: str = "",
    is_confirmed: bool = False,
) -> None:
    """Serve the page until the first signal; a retake in progress is stopped in order.

    Args:
        machine: settings of retakes that are not the folder's, by name.
        announce: called with the address of the page.
        port: 0: any free one.
        is_confirmed: retakes may read files elsewhere that the folder names, and download models.
    Raises:
        UsageError: it is not an output folder.
        SetupError: the extra is not installed, the folder cannot be read, or the port is in use.
    """
    for name in ("starlette", "uvicorn"):
        load("review", name, "review")
    from tts_cli.app.review.server import Server

    Store.read_only(out)
    folder = ReviewFolder(out, config, reviewer)
    retakes = Retakes(folder, machine, screen, is_confirmed=is_confirmed)
    with Server(folder, retakes, port) as server:
        announce(server.address)
        try:
            retakes.run()
        except Interrupted:  # the usual end
            return
