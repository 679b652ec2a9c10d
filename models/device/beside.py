"""The thread in which a vocoder does all that is not a graph's replay.

What libraries load at a first call takes as long beside other work as alone, so it is begun early.
And which kernels cuDNN takes for a shape, which it needs a quarter of a second to choose on an
H200, PyTorch remembers for the thread that asked and for no other: what was chosen beside other
work would be chosen once more in earnest, so both are done by the same thread, which lives as long
as the process.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import torch
import torch.nn.functional as F

from models.device.streams import vocoder_stream

log = logging.getLogger(__name__)

Result = TypeVar("Result")
_inside = threading.local()  # is_here: set in such a thread


@cache
def _thread(device: torch.device) -> ThreadPoolExecutor:
    """The one thread of a device."""
    return ThreadPoolExecutor(1, "beside", _begin, (device,))


def _begin(device: torch.device) -> None:
    _inside.is_here = True
    if device.type == "cuda":
        torch.cuda.set_device(device)


class Beside:
    """Runs work in that thread, one after another: begun and waited for later, or at once.

    What work in it uses belongs to it until `wait` has returned.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._begun: Future[None] | None = None

    def start(self, work: Callable[[], object]) -> None:
        """Begin, on the vocoders' stream, once what was begun before is over. What goes wrong is
        left to whoever does the same in earnest.
        """
        self.wait()
        run = contextvars.copy_context().run
        self._begun = _thread(self.device).submit(run, self._rehearse, work)

    def wait(self) -> None:
        """Wait for the end of what was begun, if anything was."""
        if self._begun is not None:
            self._begun.result()
            self._begun = None

    def run(self, work: Callable[[], Result]) -> Result:
        """Do something there on the caller's stream, in his context, and wait for it; on a CPU,
        where nothing is gained by it, here. Raises what it raises.
        """
        if self.device.type != "cuda" or getattr(_inside, "is_here", False):
            return work()
        stream = torch.cuda.current_stream(self.device)

        def on_stream() -> Result:
            with torch.inference_mode(), torch.cuda.stream(stream):
                return work()

        return _thread(self.device).submit(contextvars.copy_context().run, on_stream).result()

    def _rehearse(self, work: Callable[[], object]) -> None:
        try:
            with torch.inference_mode():
                if self.device.type != "cuda":
                    work()
                    return
                stream = vocoder_stream(self.device)
                with torch.cuda.stream(stream):
                    work()
                stream.synchronize()
        except Exception as error:
            log.debug("beside: %s", error)


def load_libraries(device: torch.device, dtype: torch.dtype) -> None:
    """Have cuDNN and cuBLAS load what they need for a vocoder: 0.3 s, most of them outside of
    Python.
    """
    x = torch.ones(1, 64, 64, device=device, dtype=dtype)
    F.conv1d(x, torch.ones(64, 64, 3, device=device, dtype=dtype))
    torch.mm(x[0], x[0])
