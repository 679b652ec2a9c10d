"""Workers in threads of this process, in place of Ray's: the same `Worker`, behind calls that copy
what passes as a process boundary does, and whose processes die when a test says so.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from tts_cli.config import RunConfig
from tts_cli.workers import session, worker
from tts_cli.workers.cluster import Share
from tts_cli.workers.messages import WorkerConfig
from tts_cli.workers.worker import Worker

LATE_S = 0.05  # that calls with rows come behind those after them: Ray promises no order


class Death(Exception):  # noqa: N818
    """Raised by a call whose process has died."""


class Raised(Exception):  # noqa: N818
    """What a call raises that raised over there."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Call:
    """The answer to a call, later."""

    def __init__(self, answer: Future[Any]) -> None:
        self._answer = answer

    def future(self) -> Future[Any]:
        """As `ray.ObjectRef.future`."""
        return self._answer


class Actor:
    """A worker's processes, one after the other.

    Args:
        on_call: is told of every call, with its name and arguments; says whether the process dies
            of it.
    """

    def __init__(
        self, settings: WorkerConfig, on_call: Callable[[Actor, str, tuple[Any, ...]], bool]
    ) -> None:
        self.settings = settings
        self.deaths = 0
        self.is_dead = False  # for good
        self._on_call = on_call
        self._open: dict[Future[Any], Future[Any] | None] = {}  # answers, and the calls that run
        self._mutex = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._workers = [Worker(pickle.loads(pickle.dumps(settings)))]  # the last one is alive

    def __getattr__(self, name: str) -> Any:
        class Method:
            """As a method of a Ray actor."""

            @staticmethod
            def remote(*args: Any) -> Call:
                return self._call(name, args)

        return Method

    def _call(self, name: str, args: tuple[Any, ...]) -> Call:
        answer: Future[Any] = Future()
        is_deadly = self._on_call(self, name, args)
        with self._mutex:
            if self.is_dead:
                answer.set_exception(Death())
                return Call(answer)
            self._open[answer] = None
            method = getattr(self._workers[-1], name)
        if is_deadly:
            self.die()
            return Call(answer)
        copied = pickle.loads(pickle.dumps(args))
        late_s = LATE_S if name == "speak" else 0.0
        with self._mutex:
            if answer not in self._open:  # its process has died
                return Call(answer)
            call = asyncio.run_coroutine_threadsafe(_later(method, copied, late_s), self._loop)
            self._open[answer] = call
        call.add_done_callback(lambda found: self._answer(answer, found))
        return Call(answer)

    def _answer(self, answer: Future[Any], found: Future[Any]) -> None:
        with self._mutex:
            if answer not in self._open:  # its process has died
                return
            del self._open[answer]
        if found.cancelled() or (error := found.exception()) is None:
            answer.set_result(pickle.loads(pickle.dumps(found.result())))
        else:
            answer.set_exception(Raised(error))

    def die(self, *, is_final: bool = False) -> None:
        """End the process, and begin another unless that was final."""
        with self._mutex:
            lost, self._open = self._open, {}
            self.is_dead = is_final or self.is_dead
            asyncio.run_coroutine_threadsafe(self._workers[-1].stop(), self._loop)
            if not self.is_dead:
                self.deaths += 1
                self._workers.append(Worker(pickle.loads(pickle.dumps(self.settings))))
        for answer, call in lost.items():
            if call is not None:
                call.cancel()
            answer.set_exception(Death())

    def end(self) -> None:
        """End the process for good, and the thread that its calls run in."""
        if self._loop.is_closed():
            return
        self.die(is_final=True)
        asyncio.run_coroutine_threadsafe(self._end_calls(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end_calls(self) -> None:
        """Cancel the calls that still run, and forget those that a worker wanted to wake."""
        calls = asyncio.all_tasks() - {asyncio.current_task()}
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        for one in self._workers:
            with one._mutex:
                one._waker = None
        await asyncio.get_running_loop().shutdown_default_executor()


async def _later(method: Callable[..., Any], args: tuple[Any, ...], delay_s: float) -> Any:
    await asyncio.sleep(delay_s)
    return await method(*args)


class FakeCluster:
    """What `Cluster` offers, with no Ray. Calls are watched by `on_call`, where a test sets it."""

    on_call: Callable[[Actor, str, tuple[Any, ...]], bool] = staticmethod(lambda *_: False)
    actors: list[Actor] = []  # noqa: RUF012  # of the last run

    calls: list[str] = []  # noqa: RUF012  # what was done in processes of their own

    def __init__(self, config: RunConfig) -> None:
        self.share = Share(config.num_workers or 2, False, 1)
        self._own: list[Actor] = []
        type(self).actors = self._own

    def open(self) -> None:
        """Do nothing: no cluster must be started."""

    def spawn(self, kind: type, settings: WorkerConfig) -> Actor:
        """A worker."""
        actor = Actor(settings, self.on_call)
        self._own.append(actor)
        return actor

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """See `Cluster`."""
        type(self).calls.append(args[0].__name__)
        return pickle.loads(pickle.dumps(function(*pickle.loads(pickle.dumps(args)))))

    def keep(self, value: Any) -> Any:
        """Objects are their own references."""
        return value

    def kill(self, actor: Actor, *, is_final: bool) -> None:
        """See `Cluster`."""
        actor.die(is_final=is_final)

    def is_death(self, error: BaseException) -> bool:
        """See `Cluster`."""
        return isinstance(error, Death)

    def is_final(self, error: BaseException) -> bool:
        """See `Cluster`."""
        return False

    def cause(self, error: BaseException) -> BaseException:
        """See `Cluster`."""
        return error.cause if isinstance(error, Raised) else error

    def close(self, *, is_tidy: bool = True) -> None:
        """End all workers."""
        for actor in self._own:
            actor.end()


def use_fake_cluster(patch: pytest.MonkeyPatch) -> type[FakeCluster]:
    """Let commands of this process take threads for workers."""
    kind = type("Cluster", (FakeCluster,), {"calls": []})
    patch.setattr(session, "Cluster", kind)
    # What workers say is heard as it is: they share this process's loggers.
    patch.setattr(worker._MessageStore, "emit", lambda *_: None)
    return kind
