"""Two CUDA streams of a run: frames first, the vocoder beside them in what they leave idle.

A frame is a chain of small kernels that rarely fills the GPU, the vocoder a few large ones that
nobody waits for. So everything that leads to the next frame runs on a stream of high priority and
the vocoder on one of low priority: where both have work, a multiprocessor that becomes free goes to
the frame. Graphs are captured on streams of the same two priorities, because a kernel node keeps
the priority of the stream it was captured on, and PyTorch asks for that one at replay
(`cudaGraphInstantiateFlagUseNodePriority`); were it the launching stream's, it would be the same.

PyTorch takes streams of different priorities from different sets, so what it keeps by stream, such
as a cuBLAS workspace, is never shared between the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch

FRAMES_PRIORITY = -5  # the highest there is: PyTorch takes the nearest the device has
VOCODER_PRIORITY = 0  # the lowest


@cache
def vocoder_stream(device: torch.device) -> torch.cuda.Stream:
    """The one stream of a device on which vocoders run: what one of them has run there before, and
    the memory it took, serve the next.
    """
    return torch.cuda.Stream(device, priority=VOCODER_PRIORITY)


class WorkStreams:
    """The streams of one run on a device. Does nothing where the device has no streams."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._frames: torch.cuda.Stream | None = None
        self._vocoder: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._frames = torch.cuda.Stream(device, priority=FRAMES_PRIORITY)
            self._vocoder = vocoder_stream(device)

    @contextmanager
    def frames(self) -> Iterator[None]:
        """Queue what is inside on the frames' stream: after what the stream outside holds already,
        and before what it gets later, which comes after the vocoder's as well.
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
        """Queue what is inside on the vocoder's stream, after what the current stream holds.

        What it reads of tensors made on the current stream must be kept until it is through: their
        memory is handed out again in the order of the stream they were made on.
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
