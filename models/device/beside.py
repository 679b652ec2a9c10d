"""One piece of work on the device in a thread of its own, done for what it brings along: what
libraries load and choose at a first call takes as long beside other work as alone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import torch

from models.device.streams import vocoder_stream

log = logging.getLogger(__name__)


class Beside:
    """Runs such work, one after another, on the vocoders' stream.

    What it works on belongs to it until `wait` has returned. What goes wrong is left to whoever
    does the same in earnest.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._thread: threading.Thread | None = None

    def start(self, work: Callable[[], object]) -> None:
        """Begin, once what was begun before is over."""
        self.wait()
        self._thread = threading.Thread(target=self._run, args=(work,), name="beside")
        self._thread.start()

    def wait(self) -> None:
        """Wait for the end of what was begun, if anything was."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self, work: Callable[[], object]) -> None:
        try:
            with torch.inference_mode():
                if self.device.type != "cuda":
                    work()
                    return
                torch.cuda.set_device(self.device)
                stream = vocoder_stream(self.device)
                with torch.cuda.stream(stream):
                    work()
                stream.synchronize()
        except Exception as error:
            log.debug("beside: %s", error)
