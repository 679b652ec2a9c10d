"""CUDA graph capture and replay: the only file that touches torch.cuda.CUDAGraph.

A `GraphRunner` owns one function of a key (a bucket) that works on static buffers. `capture`
records it for keys, largest first, in a shared memory pool. Keys that are only announced to it are
recorded at their second use: the first one runs eagerly, which is the warm-up that a recording
needs, and one that is never used costs nothing. `run` replays the recording, or calls the function
eagerly where there is none.

A graph runs on whatever stream is current at its replay. The graphs of a pool must never overlap,
which one stream guarantees; those of the vocoder, which run beside the frames, have a pool of their
own (`Capturers`). The object that captures is handed in, so that the choice between replay and
eager is tested on a CPU with a fake.
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
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import torch

from kernels.launch.dispatch import KernelFailed
from models.device.beside import Beside
from models.device.streams import FRAMES_PRIORITY, VOCODER_PRIORITY

log = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)
PROGRESS_S = 2.0  # a capture that goes on for longer says how far it is
# No failures of a capture: without it there would be no memory, or no such kernel, either.
PASSED_ON = (torch.OutOfMemoryError, MemoryError, KernelFailed)
_told: set[str] = set()  # why captures have failed


class Capturer(Protocol):
    """Records one call and gives back its output and a replay function."""

    def capture(
        self, function: Callable[[], Any], is_warm: bool = False
    ) -> tuple[Any, Callable[[], None]]:
        """Run `function` once unless it `is_warm`, record it, return (static output, replay)."""

    def is_capturing(self) -> bool:
        """Whether the current stream is being captured."""

    def memory_bytes(self) -> int:
        """Device memory reserved so far, to tell what a capture added."""


def take_workspace(device: torch.device) -> None:
    """Have cuBLAS take the memory that it takes once for every thread and stream."""
    one = torch.ones(16, 16, device=device)
    torch.mm(one, one)


class CudaCapturer:
    """Captures with torch.cuda.CUDAGraph on a side stream, all graphs in one pool.

    Args:
        priority: of the stream, which the recorded kernels keep (`models.device.streams`).
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
            take_workspace(self.device)  # or the pool's memory would hold it as long as the thread
        torch.cuda.synchronize(self.device)
        if not self._graphs:
            # A pool that lost its last graph is on its way out: PyTorch refuses to record into it.
            self.pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        try:
            # Only this thread is forbidden unsafe calls: threads beside the engine may go on.
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
        """Restore what a failed capture leaves behind in torch.

        The capture stream is still the current one, and the allocator may still record into the
        pool by asking the graph, so the graph must live on and the pool cannot be captured into.
        """
        torch.cuda.set_stream(outer)
        index = torch.cuda.current_device() if self.device.index is None else self.device.index
        with suppress(AttributeError, RuntimeError):  # ended already, or not to be ended by us
            torch._C._cuda_endAllocateToPool(index, self.pool)
        self.abandoned.append(graph)
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream(self.device, priority=self.priority)

    def is_capturing(self) -> bool:
        """Whether the current stream is being captured."""
        return torch.cuda.is_current_stream_capturing()

    def memory_bytes(self) -> int:
        """Bytes the caching allocator has reserved."""
        return torch.cuda.memory_reserved(self.device)


class Capturers(NamedTuple):
    """The capturers of a model's graphs, None for eager: graphs that overlap need two."""

    frames: Capturer | None = None  # frames and prefill
    vocoder: Capturer | None = None


EAGER = Capturers()


def cuda_capturers(device: torch.device) -> Capturers:
    """One for each of the two streams of a run, with its priority."""
    return Capturers(CudaCapturer(device, FRAMES_PRIORITY), CudaCapturer(device, VOCODER_PRIORITY))


@dataclass
class GraphStats:
    """What happened to one runner's keys."""

    hits: int = 0  # replays
    misses: int = 0  # eager runs of a runner that has graphs, for want of a usable one
    first_runs: int = 0  # eager runs that warmed a key up for its recording
    failures: dict[str, str] = field(default_factory=dict)  # key -> why its capture failed
    captures: list[dict[str, Any]] = field(default_factory=list)  # key, capture_ms, mib


class GraphRunner(Generic[Key]):
    """Replay by key where recorded, eager otherwise.

    Args:
        name: for messages, such as `frame`.
        function: does the work of one key on static buffers; its output is static as well and
            valid until the next run of any graph of the same pool.
        capturer: None for a runner that stays eager (CPU, `--no-graphs`).
        sample: fills the static inputs of a key with something typical, before it is captured and
            to compare graph and eager; None if they need no filling.
        beside: does what is not a replay; None: the caller's thread does.
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
        self._announced: dict[Key, bool] = {}  # not recorded yet -> whether it was used
        self._asked: Counter[Key] = Counter()  # of those, how often each was to be picked
        self._usual: Key | None = None  # see `announce`

    @property
    def keys(self) -> list[Key]:
        """Captured keys, in capture order."""
        return list(self._graphs)

    def reset(self) -> None:
        """Drop every recording: the static buffers it works on are gone."""
        self._graphs.clear()
        self._announced.clear()
        self._asked.clear()
        self._usual = None
        self.stats.captures.clear()
        self.stats.failures.clear()

    def renew(self) -> None:
        """Have every recording made anew, at its key's second use: what it runs has changed."""
        keys = [*self._graphs, *self._announced]
        self._graphs.clear()
        self._announced = {key: False for key in sorted(keys, key=size_of, reverse=True)}

    def announce(self, keys: Sequence[Key], usual: Key | None = None) -> None:
        """Name keys that may be used: each is recorded at its second use, if not before.

        Args:
            usual: the one of them that `pick` takes for smaller ones while none larger is recorded.
        """
        if self.capturer is not None:
            self._usual = usual
            fresh = [key for key in keys if key not in self._graphs]
            self._announced |= {key: False for key in sorted(fresh, key=size_of, reverse=True)}

    @property
    def usual(self) -> list[Key]:
        """The usual key, while it is not recorded."""
        return [key for key in self.announced if key == self._usual]

    @property
    def announced(self) -> list[Key]:
        """Keys that are named and not recorded yet, largest first."""
        return list(self._announced)

    def pick(self, key: Key, uses: int, worth: int) -> Key:
        """The key to run in place of one that has no recording: the next larger that has one, or
        where none has the usual one, until the key itself was asked for `worth` times, so that a
        recording of its own pays.

        Args:
            uses: that are about to be made. Any larger key must be able to do a smaller one's work.
        """
        if key not in self._announced:
            return key
        self._asked[key] += uses
        if self._asked[key] > worth:
            return key
        # One that is recorded, however large, before one that is not: its first run is what takes.
        for found in (list(self._graphs), [] if self._usual is None else [self._usual]):
            larger = [other for other in found if size_of(other) > size_of(key)]
            if larger:
                return min(larger, key=size_of)
        return key

    def capture(self, only: Sequence[Key] | None = None) -> None:
        """Record all announced keys, largest first, or some of them; one that fails stays eager, is
        told of once and counted. Raises OutOfMemoryError, KernelFailed.
        """
        if self.capturer is None:
            return
        said_s = time.perf_counter()
        keys = self._chosen(only)
        for number, key in enumerate(keys, 1):
            if time.perf_counter() - said_s > PROGRESS_S:
                said_s = time.perf_counter()
                log.info("capturing %s graph %d of %d", self.name, number, len(keys))
            self._fill(key)
            self._record(self.capturer, key)

    def _chosen(self, only: Sequence[Key] | None) -> list[Key]:
        """Announced keys, all or some of them."""
        return [key for key in self.announced if only is None or key in only]

    def _fill(self, key: Key) -> None:
        """Fill the static inputs of a key with something typical."""
        if self.sample is not None:
            self.sample(key)

    def rehearse(self, only: Sequence[Key] | None = None) -> None:
        """Run announced keys eagerly, all or some of them: for what that brings along, such as
        compiled kernels.
        """
        for key in self._chosen(only):
            self._fill(key)
            self._run(key)

    def _record(self, capturer: Capturer, key: Key, is_warm: bool = False) -> None:
        """Record a key, or say why it stays eager. Raises OutOfMemoryError, KernelFailed."""
        before, started = capturer.memory_bytes(), time.perf_counter()
        self._announced.pop(key, None)
        try:
            self._graphs[key] = self._do(
                lambda: capturer.capture(lambda: self.function(key), is_warm)
            )
        except Exception as error:
            cause = first_cause(error)
            if isinstance(cause, KernelFailed):
                self._announced[key] = False  # it can be recorded, without that kernel
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
        """Work in the thread that is meant for it."""
        return work() if self.beside is None else self.beside.run(work)

    def _run(self, key: Key) -> Any:
        """Eagerly."""
        return self._do(lambda: self.function(key))

    def run(self, key: Key) -> Any:
        """Do the work of a key and return its static output.

        Inside another capture the function runs eagerly: a replay there is illegal.
        """
        if self.capturer is None:
            return self._run(key)
        if self._announced and key in self._announced and not self.capturer.is_capturing():
            if not self._announced[key]:
                self._announced[key] = True
                self.stats.first_runs += 1
                return self._run(key)
            self._record(self.capturer, key, is_warm=True)
        if self.capturer.is_capturing():
            self.stats.misses += 1
            return self.function(key)
        if key not in self._graphs:
            self.stats.misses += 1
            return self._run(key)
        output, replay = self._graphs[key]
        replay()
        self.stats.hits += 1
        return output


def size_of(key: Hashable) -> int:
    """The size of a bucket: its number, or the product of several."""
    return math.prod(key) if isinstance(key, tuple) else int(key)  # type: ignore[call-overload]


def first_cause(error: BaseException) -> BaseException:
    """What went wrong first: leaving a broken capture raises a RuntimeError once more, whatever it
    was, a signal too.
    """
    while isinstance(error, RuntimeError) and not isinstance(error, PASSED_ON):
        if error.__context__ is None:
            break
        error = error.__context__
    return error
