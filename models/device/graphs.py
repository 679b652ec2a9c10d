"""CUDA graph capture and replay: the only file that touches torch.cuda.CUDAGraph.

A `GraphRunner` owns one function of a bucket that works on static buffers. `capture` records it for
a list of buckets, largest first, in a shared memory pool; `run` replays the graph of a bucket, or
calls the function if there is none.

A graph runs on the stream that is current at its replay. The graphs of a pool must never overlap,
which one stream guarantees. Those of the vocoder run concurrently with the frames, so they have
another pool (`Capturers`). The capturer is an argument: the choice between replay and eager is
tested on a CPU with a fake.
"""

from __future__ import annotations

import logging
import math
import time
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import torch

from kernels.launch.dispatch import KernelFailed
from models.device.beside import Beside
from models.device.streams import FRAMES_PRIORITY, VOCODER_PRIORITY

log = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)
PROGRESS_S = 2.0  # between two log lines of a long capture
# Not failures of a capture: without it memory, or the kernel, would be missing too.
PASSED_ON = (torch.OutOfMemoryError, MemoryError, KernelFailed)
_told: set[str] = set()  # why captures have failed


class Capturer(Protocol):
    def capture(
        self, function: Callable[[], Any], is_warm: bool = False
    ) -> tuple[Any, Callable[[], None]]:
        """Run `function` once unless it `is_warm`, capture it, return (static output, replay)."""

    def is_capturing(self) -> bool:
        """Whether the current stream is being captured."""

    def memory_bytes(self) -> int:
        """Device memory reserved so far; the difference is the size of a capture."""


def take_workspace(device: torch.device) -> None:
    """Make cuBLAS allocate its workspace for this thread and stream."""
    one = torch.ones(16, 16, device=device)
    torch.mm(one, one)


class CudaCapturer:
    """Captures with torch.cuda.CUDAGraph on a side stream, all graphs in one pool.

    Args:
        priority: of the stream; the recorded kernels have the same (`models.device.streams`).
    """

    def __init__(self, device: torch.device, priority: int = VOCODER_PRIORITY) -> None:
        self.device = device
        self.priority = priority
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream(device, priority=priority)
        self.abandoned: list[torch.cuda.CUDAGraph] = []
        self._graphs: weakref.WeakSet[torch.cuda.CUDAGraph] = weakref.WeakSet()

    def capture(
        self, function: Callable[[], Any], is_warm: bool = False
    ) -> tuple[Any, Callable[[], None]]:
        """Warm up on the capture stream (kernels compile and load there), then record."""
        outer = torch.cuda.current_stream(self.device)
        if not is_warm:
            self.stream.wait_stream(outer)
            try:
                with torch.cuda.stream(self.stream):
                    function()
            finally:
                outer.wait_stream(self.stream)
        with torch.cuda.stream(self.stream):
            take_workspace(self.device)  # now, or it would be in the pool's memory
        torch.cuda.synchronize(self.device)
        if not self._graphs:
            # A pool that lost its last graph is being freed: PyTorch refuses to capture into it.
            self.pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        try:
            # Only this thread must avoid unsafe calls: the threads around the engine may continue.
            with torch.cuda.graph(
                graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"
            ):
                output = function()
        except BaseException:
            self._abandon(graph, outer)
            raise
        self._graphs.add(graph)
        return output, graph.replay

    def _abandon(self, graph: torch.cuda.CUDAGraph, outer: torch.cuda.Stream) -> None:
        """Restore the state of torch after a failed capture. The capture stream is still the
        current one, and the allocator may still use the pool by asking the graph, so the
        graph must stay alive and the pool cannot be used again.
        """
        torch.cuda.set_stream(outer)
        index = torch.cuda.current_device() if self.device.index is None else self.device.index
        with suppress(AttributeError, RuntimeError):  # ended already, or not ours to end
            torch._C._cuda_endAllocateToPool(index, self.pool)
        self.abandoned.append(graph)
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream(self.device, priority=self.priority)

    def is_capturing(self) -> bool:
        return torch.cuda.is_current_stream_capturing()

    def memory_bytes(self) -> int:
        return torch.cuda.memory_reserved(self.device)


class Capturers(NamedTuple):
    """The capturers of a model's graphs, None for eager. Graphs that may overlap need two."""

    frames: Capturer | None = None  # frames and prefill
    vocoder: Capturer | None = None


EAGER = Capturers()


def cuda_capturers(device: torch.device) -> Capturers:
    """Return one capturer for each of the two streams of a run, with its priority."""
    return Capturers(CudaCapturer(device, FRAMES_PRIORITY), CudaCapturer(device, VOCODER_PRIORITY))


@dataclass
class GraphStats:
    hits: int = 0  # replays
    misses: int = 0  # eager runs of a runner that has graphs, without a usable one
    first_runs: int = 0  # eager runs that warmed a bucket up for its capture
    failures: dict[str, str] = field(default_factory=dict)  # key -> why its capture failed
    captures: list[dict[str, Any]] = field(default_factory=list)  # key, capture_ms, mib


class GraphRunner(Generic[Key]):
    """Replays the graph of a bucket, or runs its function if there is none.

    A bucket that was announced and not captured gets its graph at its second run. The first run is
    the warm-up that a capture needs; a bucket that is never used costs nothing.

    Args:
        name: for messages, such as `frame`.
        function: does the work of one bucket on static buffers. Its output is static too, and valid
            until the next run of any graph of the same pool.
        capturer: None for a runner that stays eager (CPU, `--no-graphs`).
        sample: fills the static inputs of a bucket with typical values, before its capture and to
            compare graph and eager; None: they need no values.
        beside: runs everything but replays; None: the caller's thread.
    """

    def __init__(
        self,
        name: str,
        function: Callable[[Key], Any],
        capturer: Capturer | None,
        sample: Callable[[Key], None] | None = None,
        beside: Beside | None = None,
    ) -> None:
        self.name = name
        self.function = function
        self.capturer = capturer
        self.sample = sample
        self.beside = beside
        self.stats = GraphStats()
        self._graphs: dict[Key, tuple[Any, Callable[[], None]]] = {}
        self._waiting: dict[Key, bool] = {}  # announced -> whether it has run; largest first
        self._asked: Counter[Key] = Counter()  # calls of `pick` for a waiting bucket
        self._usual: Key | None = None  # as `announce` describes it

    @property
    def keys(self) -> list[Key]:
        """Captured buckets, in the order of capture."""
        return list(self._graphs)

    @property
    def announced(self) -> list[Key]:
        """Buckets that are announced and not captured yet, largest first."""
        return list(self._waiting)

    @property
    def usual(self) -> list[Key]:
        """The usual bucket in a list, until it is captured."""
        return [key for key in self._waiting if key == self._usual]

    def announce(self, keys: Sequence[Key], usual: Key | None = None) -> None:
        """Name buckets that may be used.

        Args:
            usual: the bucket that `pick` takes for smaller ones while no larger one is captured.
        """
        if self.capturer is not None:
            self._usual = usual
            self._wait_for([key for key in keys if key not in self._graphs])

    def reset(self) -> None:
        """Drop every graph after its static buffers were freed."""
        self.renew()
        self._waiting.clear()
        self._asked.clear()
        self.stats.captures.clear()
        self.stats.failures.clear()

    def renew(self) -> None:
        """Capture every graph again, at its bucket's second run: its kernels have changed."""
        keys = [*self._graphs, *self._waiting]
        self._graphs.clear()
        self._waiting.clear()
        self._wait_for(keys)

    def _wait_for(self, keys: Sequence[Key]) -> None:
        self._waiting |= dict.fromkeys(sorted(keys, key=size_of, reverse=True), False)

    def pick(self, key: Key, uses: int, worth: int) -> Key:
        """Return the bucket to run in place of one without a graph: the next larger one with a
        graph, else the usual one. A bucket that was requested more than `worth` times is
        returned itself, so that it gets a graph.

        Args:
            uses: number of coming runs. Larger buckets must be able to do the work of smaller ones.
        """
        if key not in self._waiting:
            return key
        self._asked[key] += uses
        if self._asked[key] > worth:
            return key
        # A captured bucket, however large, before one that is not: its first run takes longest.
        for found in (self.keys, [] if self._usual is None else [self._usual]):
            if larger := [other for other in found if size_of(other) > size_of(key)]:
                return min(larger, key=size_of)
        return key

    def capture(self, only: Sequence[Key] | None = None, *, is_rehearsal: bool = False) -> None:
        """Capture announced buckets, largest first. A bucket that cannot be captured stays eager,
        which is logged once and counted.

        Args:
            only: some of them; None: all.
            is_rehearsal: run them eagerly instead, for side effects such as compiled kernels.
        Raises:
            OutOfMemoryError, KernelFailed: no other bucket could be captured either.
        """
        if self.capturer is None:
            return
        keys = [key for key in self._waiting if only is None or key in only]
        logged_s = time.perf_counter()
        for number, key in enumerate(keys, 1):
            if self.sample is not None:
                self.sample(key)
            if is_rehearsal:
                self._run(key)
                continue
            if time.perf_counter() - logged_s > PROGRESS_S:
                logged_s = time.perf_counter()
                log.info("capturing %s graph %d of %d", self.name, number, len(keys))
            self._capture(self.capturer, key)

    def _capture(self, capturer: Capturer, key: Key, is_warm: bool = False) -> None:
        """Capture a bucket, or log why it stays eager. Raises as `capture`."""
        before, started = capturer.memory_bytes(), time.perf_counter()
        self._waiting.pop(key, None)
        work = partial(capturer.capture, partial(self.function, key), is_warm)
        try:
            self._graphs[key] = self._do(work)
        except Exception as error:
            cause = first_cause(error)
            if isinstance(cause, KernelFailed):
                self._waiting[key] = False  # it can be captured, without that kernel
            if not isinstance(cause, Exception) or isinstance(cause, PASSED_ON):
                raise cause from None
            reason = (str(cause).strip() or type(cause).__name__).splitlines()[0]
            level = logging.DEBUG if reason in _told else logging.WARNING
            _told.add(reason)
            log.log(level, "%s graph %s not captured, runs eagerly: %s", self.name, key, reason)
            self.stats.failures[str(key)] = reason
            return
        self.stats.captures.append(
            {
                "graph": self.name,
                "key": str(key),
                "capture_ms": round(1000 * (time.perf_counter() - started), 1),
                "mib": round((capturer.memory_bytes() - before) / 2**20, 1),
            }
        )

    def _do(self, work: Callable[[], Any]) -> Any:
        return work() if self.beside is None else self.beside.run(work)

    def _run(self, key: Key) -> Any:
        return self._do(partial(self.function, key))

    def run(self, key: Key) -> Any:
        """Do the work of a bucket and return its static output. Inside another capture the
        function runs eagerly, in the caller's thread: a replay there is illegal.
        """
        if self.capturer is None:
            return self._run(key)
        if self.capturer.is_capturing():
            self.stats.misses += 1
            return self.function(key)
        if key in self._waiting:
            if not self._waiting[key]:
                self._waiting[key] = True
                self.stats.first_runs += 1
                return self._run(key)
            self._capture(self.capturer, key, is_warm=True)
        if key not in self._graphs:
            self.stats.misses += 1
            return self._run(key)
        output, replay = self._graphs[key]
        replay()
        self.stats.hits += 1
        return output


def size_of(key: Hashable) -> int:
    """Return the size of a bucket: its number, or the product of its numbers."""
    return math.prod(key) if isinstance(key, tuple) else int(key)  # type: ignore[call-overload]


def first_cause(error: BaseException) -> BaseException:
    """Return the first error: leaving a broken capture raises another RuntimeError, whatever the
    first was, even a signal.
    """
    while isinstance(error, RuntimeError) and not isinstance(error, PASSED_ON):
        if error.__context__ is None:
            break
        error = error.__context__
    return error
