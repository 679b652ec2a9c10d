"""Two CUDA streams of a run: frames first, and the vocoder in the time that they leave idle.

A frame is a chain of small kernels that rarely fills the GPU; the vocoder is a few large kernels
whose results are not urgent. So everything that leads to the next frame runs on a stream of high
priority and the vocoder on one of low priority. Graphs are captured on streams of the same two
priorities, because a kernel node has the priority of the stream it was captured on, and PyTorch
asks for that one at replay (`cudaGraphInstantiateFlagUseNodePriority`).

PyTorch takes streams of different priorities from different sets, so objects per stream, such as a
cuBLAS workspace, are never shared between the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch

FRAMES_PRIORITY = -5  # the highest: PyTorch takes the nearest that the device has
VOCODER_PRIORITY = 0  # the lowest


@cache
def vocoder_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the one stream of a device on which all vocoders run: the next one reuses its
    memory and the choices of libraries.
    """
    return torch.cuda.Stream(device, priority=VOCODER_PRIORITY)


class WorkStreams:
    """The streams of one run on a device. Without effect on a device without streams."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._frames: torch.cuda.Stream | None = None
        self._vocoder: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._frames = torch.cuda.Stream(device, priority=FRAMES_PRIORITY)
            self._vocoder = vocoder_stream(device)

    @contextmanager
    def frames(self) -> Iterator[None]:
        """Queue the work inside on the frames' stream: after earlier work of the outer stream,
        and before later work of it, which also waits for the vocoder.
        """
        if self._frames is None or self._vocoder is None:
            yield
            return
        outer = torch.cuda.current_stream(self.device)
        self._frames.wait_stream(outer)
        try:
            with torch.cuda.stream(self._frames):
                yield
        finally:
            outer.wait_stream(self._frames)
            outer.wait_stream(self._vocoder)

    @contextmanager
    def vocoder(self) -> Iterator[None]:
        """Queue the work inside on the vocoder's stream, after the work of the current stream.
        Tensors of the current stream that it reads must stay alive until it has ended: their
        memory is reused in the order of the stream that allocated them.
        """
        if self._vocoder is None:
            yield
            return
        self._vocoder.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._vocoder):
            yield

    def join(self) -> None:
        """Let the current stream wait for the vocoder's."""
        if self._vocoder is not None:
            torch.cuda.current_stream(self.device).wait_stream(self._vocoder)
