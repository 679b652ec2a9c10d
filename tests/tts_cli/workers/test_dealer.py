"""Which rows go into a call, and what is made of answers; workers only note their calls."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from tasks import task_of

from models.base import SpeechRequest, Voice
from models.sampling import Sampling
from tts_cli.core import Finish, Result, Task
from tts_cli.engine.session import SessionFacts
from tts_cli.voices.stage import Voiced
from tts_cli.workers import dealer, lives
from tts_cli.workers.dealer import Dealer, waiting
from tts_cli.workers.hand import Hand
from tts_cli.workers.lives import DriverQueue, Lives
from tts_cli.workers.messages import Ended, Ready, Said, WorkerNews


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

    def give_out(self, hands: list[Hand]) -> None:
        """None wait."""

    def kept(self, voice: Voice) -> str:
        return f"kept {voice.digest}"


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
    """A dealer and two workers of four slots each."""

    def __init__(self) -> None:
        self.events, self.cluster = DriverQueue(), Cluster()
        self.kept: list[Task] = []
        self.dropped: list[Any] = []
        self.lives = Lives(self.cluster, self.events)  # type: ignore[arg-type]
        ready = Ready("host", SessionFacts(), 4, True)
        self.hands = [Hand(number, Actor(), ready=ready) for number in (1, 2)]
        self.lives.hands += self.hands
        voices: Any = Voices()
        cloning: Any = None
        self.dealer = Dealer(
            self.events,
            self.lives,
            voices,
            cloning,
            lambda task, _: self.kept.append(task),
            self.dropped.append,
            24_000,
        )
        self.lives.on_death = self.dealer.take_from_dead

    def plan(self, *rows: Voiced) -> None:
        for row in rows:
            self.dealer._window.add(waiting(row))
        self.dealer._give_out()

    def settle(self) -> None:
        """Wait for rows that are being recorded."""
        while self.dealer._num_recording:
            self.events.turn()


@pytest.fixture
def scene() -> Scene:
    return Scene()


def row(name: str, frames: int = 10, voice: str | None = None) -> Voiced:
    clone = None if voice is None else Voice(torch.zeros(1), None, None, "xvec", "", voice)
    request = SpeechRequest("x" * 999, max_frames=frames, sampling=Sampling(), seed=1)
    return Voiced(task_of(name, request), clone)


def ended(number: int, files: Any = None) -> Ended:
    return Ended(number, Result(Finish.EOS, encoded=files))


def test_a_call_carries_all_rows_that_there_is_room_for(scene: Scene) -> None:
    scene.plan(*(row(f"{n}", 30 - n) for n in range(30)))
    one, other = (hand.actor.orders for hand in scene.hands)
    assert (len(one), len(other)) == (1, 1)
    assert one[0] == [
        f"{n}" for n in range(20) if n % 4 in (0, 3)
    ]  # longest first, to who has less
    assert other[0] == [f"{n}" for n in range(20) if n % 4 in (1, 2)]
    numbers = list(scene.hands[0].rows)
    scene.dealer.take(scene.hands[0], [ended(number) for number in numbers[:3]])
    scene.dealer._give_out()
    assert scene.hands[0].actor.orders[1] == ["20", "21", "22"]
    scene.settle()
    assert sorted(row.id for row in scene.kept) == ["0", "3", "4"]


def test_a_voice_is_in_a_call_once(scene: Scene) -> None:
    scene.hands[1].ready = None
    scene.plan(row("a", 5, "v"), row("b", 4, "w"), row("c", 3, "v"), row("d", 2))
    (_, (orders, *voices)), *_ = scene.hands[0].actor.calls
    assert voices == ["kept v", "kept w"]
    assert [(order.voiced.task.id, order.voice) for order in orders] == [
        ("a", 0), ("b", 1), ("c", 0), ("d", None),
    ]  # fmt: skip
    assert not any(order.voiced.voice for order in orders), "it is sent beside them"


def test_an_answer_that_comes_too_late_is_dropped(scene: Scene) -> None:
    scene.plan(row("a"))
    hand = scene.hands[0]
    (number,) = hand.rows
    scene.dealer.take_from_dead(hand, "its process died")
    scene.dealer._give_out()
    scene.dealer.take(hand, [ended(number, files="files")])
    assert scene.dropped == ["files"]
    assert not scene.kept
    assert sum(len(hand.rows) for hand in scene.hands) == 1, "it is spoken once more"


def test_a_full_disk_over_there_ends_the_run(scene: Scene) -> None:
    from tts_cli.errors import StoppedEarly

    scene.plan(row("a"))
    hand = scene.hands[0]
    scene.dealer.take(hand, [Ended(number, error=StoppedEarly("full")) for number in hand.rows])
    assert str(scene.events.error) == "full"
    assert scene.events.stopped.is_set()
    scene.plan(row("b"))
    assert hand.actor.orders == [["a"]], "nothing more is given out"


def test_no_more_are_given_out_than_can_be_recorded(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dealer, "MAX_RECORDING", 0)
    scene.plan(row("a"))
    assert [hand.actor.orders for hand in scene.hands] == [[], []]


def test_a_worker_that_does_nothing_is_taken_for_dead(scene: Scene) -> None:
    hand, other = scene.hands
    scene.plan(row("a", 9), row("b", 8))
    for one in scene.hands:
        one.pulse_s -= lives.STILL_S + 1
    told: Future[WorkerNews] = Future()
    told.set_result(WorkerNews([Said("tts_cli", 10, "hello")], pulse=7))
    scene.lives._heard(other, 0, told)
    scene.lives.look()
    assert scene.cluster.killed == [hand.actor]
    assert (hand.restarts, hand.ready, other.restarts) == (1, None, 0)
    scene.dealer._give_out()
    assert other.actor.orders == [["b"]], "a row that may have killed a worker goes alone"
    scene.dealer.take(other, [ended(number) for number in other.rows])
    scene.dealer._give_out()
    assert other.actor.orders == [["b"], ["a"]]
    scene.dealer.take(other, [ended(number) for number in other.rows])
    other.pulse_s -= lives.STILL_S + 1
    scene.lives.look()
    assert other.restarts == 0, "one that has no rows may rest"
    scene.settle()
