"""Which rows go into a call, and what answers and deaths do; workers only note their calls."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from tasks import task_of

from models.base import SpeechRequest, Voice
from models.sampling import Sampling
from tts_cli.core import Finish, Result, Task
from tts_cli.engine.session import SessionFacts
from tts_cli.voices.voice_loader import TaskWithVoice
from tts_cli.workers import dispatch
from tts_cli.workers.dispatch import Dispatcher, DriverQueue, _Run
from tts_cli.workers.messages import Ended, LogMessage, Ready, WorkerNews
from tts_cli.workers.worker_handle import OpenRow, WorkerHandle


@dataclass
class Answer:
    """Of a call, that never comes."""

    def future(self) -> Future[Any]:
        return Future()


class Actor:
    """Notes what it is called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        def remote(*args: Any) -> Answer:
            self.calls.append((name, args))
            return Answer()

        return type("Method", (), {"remote": staticmethod(remote)})

    @property
    def orders(self) -> list[list[str]]:
        """The ids of each call with rows."""
        return [
            [order.voiced.task.id for order in args[0]]
            for name, args in self.calls
            if name == "speak"
        ]


class Voices:
    """Keeps voices by number."""

    def next_reference(self) -> None:
        """None wait."""

    def stored(self, voice: Voice) -> str:
        return f"stored {voice.digest}"


class Cluster:
    """Ends processes."""

    def __init__(self) -> None:
        self.killed: list[Actor] = []

    def kill(self, actor: Actor, *, is_final: bool) -> None:
        self.killed.append(actor)

    def cause(self, error: BaseException) -> BaseException:
        return error

    def is_death(self, error: BaseException) -> bool:
        return False


class Scene:
    """A dispatcher and two workers of four slots each."""

    def __init__(self) -> None:
        self.events, self.cluster = DriverQueue(), Cluster()
        self.kept: list[Task] = []
        self.dropped: list[Any] = []
        cluster: Any = self.cluster
        voices: Any = Voices()
        cloning: Any = None
        self.dispatcher = Dispatcher(
            cluster, self.events, voices, cloning, self.dropped.append, 24_000
        )
        ready = Ready("host", SessionFacts(), 4, True)
        self.workers = [WorkerHandle(number, Actor(), ready=ready) for number in (1, 2)]
        self.dispatcher.workers += self.workers
        pool = ThreadPoolExecutor(1)
        keep = lambda results: self.kept.extend(task for task, _ in results)  # noqa: E731
        self.run = _Run(keep, pool, threading.Semaphore(0))
        self.dispatcher._run = self.run

    def plan(self, *rows: TaskWithVoice) -> None:
        for row in rows:
            self.dispatcher.add(OpenRow.of(row))
        self.give_out()

    def give_out(self) -> None:
        self.dispatcher._give_out(self.run)

    def settle(self) -> None:
        """Wait for rows that are being recorded."""
        while self.dispatcher._num_recording:
            self.events.turn()


@pytest.fixture
def scene() -> Scene:
    return Scene()


def row(name: str, frames: int = 10, voice: str | None = None) -> TaskWithVoice:
    clone = None if voice is None else Voice(torch.zeros(1), None, None, "xvec", "", voice)
    request = SpeechRequest("x" * 999, max_frames=frames, sampling=Sampling(), seed=1)
    return TaskWithVoice(task_of(name, request), clone)


def ended(number: int, files: Any = None) -> Ended:
    return Ended(number, Result(Finish.EOS, encoded=files))


def test_a_call_carries_all_rows_that_there_is_room_for(scene: Scene) -> None:
    scene.plan(*(row(f"{n}", 30 - n) for n in range(30)))
    one, other = (worker.actor.orders for worker in scene.workers)
    assert (len(one), len(other)) == (1, 1)
    assert one[0] == [
        f"{n}" for n in range(20) if n % 4 in (0, 3)
    ]  # longest first, to who has less
    assert other[0] == [f"{n}" for n in range(20) if n % 4 in (1, 2)]
    numbers = list(scene.workers[0].rows)
    scene.dispatcher.take(scene.workers[0], [ended(number) for number in numbers[:3]])
    scene.give_out()
    assert scene.workers[0].actor.orders[1] == ["20", "21", "22"]
    scene.settle()
    assert sorted(row.id for row in scene.kept) == ["0", "3", "4"]


def test_a_voice_is_in_a_call_once(scene: Scene) -> None:
    scene.workers[1].ready = None
    scene.plan(row("a", 5, "v"), row("b", 4, "w"), row("c", 3, "v"), row("d", 2))
    (_, (orders, *voices)), *_ = scene.workers[0].actor.calls
    assert voices == ["stored v", "stored w"]
    assert [(order.voiced.task.id, order.voice) for order in orders] == [
        ("a", 0), ("b", 1), ("c", 0), ("d", None),
    ]  # fmt: skip
    assert not any(order.voiced.voice for order in orders), "it is sent beside them"


def test_an_answer_that_comes_too_late_is_dropped(scene: Scene) -> None:
    scene.plan(row("a"))
    worker = scene.workers[0]
    (number,) = worker.rows
    scene.dispatcher.take_from_dead(worker, "its process died")
    scene.give_out()
    scene.dispatcher.take(worker, [ended(number, files="files")])
    assert scene.dropped == ["files"]
    assert not scene.kept
    assert sum(len(worker.rows) for worker in scene.workers) == 1, "it is spoken once more"


def test_a_full_disk_over_there_ends_the_run(scene: Scene) -> None:
    from tts_cli.errors import StoppedEarly

    scene.plan(row("a"))
    worker = scene.workers[0]
    scene.dispatcher.take(
        worker, [Ended(number, error=StoppedEarly("full")) for number in worker.rows]
    )
    assert str(scene.events.error) == "full"
    assert scene.events.stopped.is_set()
    scene.plan(row("b"))
    assert worker.actor.orders == [["a"]], "nothing more is given out"


def test_no_more_are_given_out_than_can_be_recorded(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "MAX_RECORDING", 0)
    scene.plan(row("a"))
    assert [worker.actor.orders for worker in scene.workers] == [[], []]


def test_a_worker_that_does_nothing_is_taken_for_dead(scene: Scene) -> None:
    worker, other = scene.workers
    scene.plan(row("a", 9), row("b", 8))
    for one in scene.workers:
        one.heartbeat_s -= dispatch.STILL_S + 1
    told: Future[WorkerNews] = Future()
    told.set_result(WorkerNews([], [LogMessage("tts_cli", 10, "hello")], heartbeat=7))
    scene.dispatcher._take_news(other, 0, told)
    scene.dispatcher._check_heartbeats()
    assert scene.cluster.killed == [worker.actor]
    assert (worker.restarts, worker.ready, other.restarts) == (1, None, 0)
    scene.give_out()
    assert other.actor.orders == [["b"], ["a"]], "its rows go to the other at once"
    scene.dispatcher.take(other, [ended(number) for number in other.rows])
    other.heartbeat_s -= dispatch.STILL_S + 1
    scene.dispatcher._check_heartbeats()
    assert other.restarts == 0, "one that has no rows may rest"
    scene.settle()


def test_rows_of_a_dead_worker_go_to_the_other_in_one_call(scene: Scene) -> None:
    """In groups of an eighth of the slots they once took eight times as long."""
    scene.plan(*(row(f"{n}", 30) for n in range(20)))
    worker, other = scene.workers
    lost = set(worker.actor.orders[0])
    scene.dispatcher.take(other, [ended(number) for number in other.rows])
    scene.dispatcher._died(worker, RuntimeError("gone"))
    assert not worker.rows
    scene.give_out()
    assert set(other.actor.orders[1]) == lost
    assert worker.actor.calls[-1][0] == "hello", "its next process is awaited meanwhile"
    scene.settle()


def test_the_row_that_kills_workers_is_soon_alone(scene: Scene) -> None:
    scene.workers[1].given_up, scene.workers[1].ready = "test", None
    worker, ready = scene.workers[0], scene.workers[0].ready
    scene.plan(*(row(f"{n}", 30) for n in range(10)))
    groups = []
    for _ in range(20):
        if not worker.rows:
            break
        groups.append(len(worker.rows))
        if any(one.voiced.task.id == "7" for one in worker.rows.values()):
            worker.deaths = 0
            scene.dispatcher._died(worker, RuntimeError("gone"))
            worker.ready = ready
        else:
            scene.dispatcher.take(worker, [ended(number) for number in list(worker.rows)])
        scene.give_out()
    scene.settle()
    assert groups[:2] == [10, 10], "the first death may be an accident"
    assert set(groups[2:]) == {1}
    assert len(scene.kept) == 10, "all rows but one are done, and that one has failed"
