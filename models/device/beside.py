"""The thread in which a vocoder does everything but replays of graphs.

The first call of a library takes as long during other work as alone, so loading starts early. And
PyTorch remembers cuDNN's choice of kernels for a shape, a quarter of a second on an H200, for one
thread only. So both are done in the same thread, which lives as long as the process.
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
_inside = threading.local()  # is_here: set in these threads


@cache
def _thread(device: torch.device) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "beside", _begin, (device,))


def _begin(device: torch.device) -> None:
    _inside.is_here = True
    if device.type == "cuda":
        torch.cuda.set_device(device)


class Beside:
    """Runs work in that thread, one after another: with `start` and `wait`, or with `run`.
    Objects that started work uses belong to it until `wait` has returned.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._begun: Future[None] | None = None

    def start(self, work: Callable[[], object]) -> None:
        """Start work on the vocoders' stream, after the previous work has ended. Its errors are
        ignored: the real work raises them again.
        """
        self.wait()
        run = contextvars.copy_context().run
        self._begun = _thread(self.device).submit(run, self._rehearse, work)

    def wait(self) -> None:
        if self._begun is not None:
            self._begun.result()
            self._begun = None

    def run(self, work: Callable[[], Result]) -> Result:
        """Run work in that thread, on the caller's stream and in its context, and wait for it;
        on a CPU, which gains nothing, in the caller's thread. Raises the errors of the work.
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
            log.debug("rehearsal failed: %s", error)


def load_libraries(device: torch.device, dtype: torch.dtype) -> None:
    """Make cuDNN and cuBLAS load what a vocoder needs: 0.3 s, mostly outside of Python."""
    x = torch.ones(1, 64, 64, device=device, dtype=dtype)
    F.conv1d(x, torch.ones(64, 64, 3, device=device, dtype=dtype))
    torch.mm(x[0], x[0])
