"""What a worker answers, with nothing that speaks behind it."""

from __future__ import annotations

import asyncio
import logging
import queue
from collections.abc import Coroutine, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tasks import task_of

from models.base import SpeechRequest
from tts_cli.core import Result
from tts_cli.voices.voice_loader import TaskWithVoice
from tts_cli.workers.messages import Ended, RowOrder, WorkerNews
from tts_cli.workers.worker import LOOK_S, Worker, WorkerFailed


class Quiet(Worker):
    """Takes rows, and speaks none."""

    def _work(self) -> None:
        """Nothing is loaded."""

    def end(self, *names: str) -> None:
        """Let rows come to their ends."""
        with self._mutex:
            for task in [task for task in self._tasks if task.id in names]:
                self._tell(Ended.of(self._tasks.pop(task), Result(), 0.0))

    def coming(self) -> list[str | None]:
        """The ids of rows that lie ready; None: no more for now."""
        found: list[str | None] = []
        while True:
            try:
                order = self._orders.get_nowait()
            except queue.Empty:
                return found
            found.append(None if order is None else order.task.id)  # type: ignore[union-attr]


@pytest.fixture
def worker() -> Iterator[Quiet]:
    loggers = [logging.getLogger(name) for name in ("tts_cli", "models", "kernels")]
    before = [(logger.level, list(logger.handlers)) for logger in loggers]
    task: Any = SimpleNamespace(level=logging.WARNING, number=1)
    yield Quiet(task)
    for logger, (level, handlers) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.handlers[:] = handlers


def orders(*names: str) -> list[RowOrder]:
    return [
        RowOrder(number, TaskWithVoice(task_of(name, SpeechRequest("Hello."))), None)
        for number, name in enumerate(names, 1)
    ]


def answer(call: Coroutine[Any, Any, WorkerNews]) -> WorkerNews:
    """What a call gives within a while."""
    return asyncio.run(asyncio.wait_for(call, 10))


def test_rows_that_end_together_are_told_together(worker: Quiet) -> None:
    async def both() -> WorkerNews:
        await worker.speak(orders("a", "b", "c"))
        waiting = asyncio.ensure_future(worker.news())
        await asyncio.sleep(0.05)
        assert not waiting.done(), "nothing has ended"
        worker.end("b")
        await asyncio.sleep(0)
        worker.end("a")
        return await waiting

    assert sorted(one.number for one in answer(both()).ended) == [1, 2]
    worker.end("c")
    assert [one.number for one in answer(worker.news()).ended] == [3]


def test_that_no_more_come_is_known_once_the_last_are_there(worker: Quiet) -> None:
    """Ray's calls overtake each other."""
    asyncio.run(worker.drain(3))
    assert worker.coming() == []
    asyncio.run(worker.speak(orders("a", "b")))
    assert worker.coming() == ["a", "b"]
    asyncio.run(worker.speak(orders("c")))
    assert worker.coming() == ["c", None]
    asyncio.run(worker.speak(orders("d")))
    asyncio.run(worker.drain(4))
    assert worker.coming() == ["d", None]


def test_rows_behind_their_slots_are_told_of(worker: Quiet) -> None:
    loaded = SimpleNamespace(batch=SimpleNamespace(rows=32))
    session: Any = SimpleNamespace(num_behind=1, loaded=loaded, heartbeat=7)
    worker._session = session

    async def moving() -> WorkerNews:
        waiting = asyncio.ensure_future(worker.news())
        await asyncio.sleep(2 * LOOK_S)
        assert not waiting.done(), "one of 32 is not worth a word"
        session.num_behind = 5
        return await waiting

    found = answer(moving())
    assert (found.ended, found.num_behind, found.heartbeat) == ([], 5, 7)


def test_messages_are_reported_without_a_result(worker: Quiet) -> None:
    logging.getLogger("tts_cli").warning("careful: %d", 5)
    found = answer(worker.news())
    assert [(one.level, one.text) for one in found.messages] == [(logging.WARNING, "careful: 5")]


def test_totals_answer_a_waiting_call_for_news(
    worker: Quiet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a run does not wait for the next regular report."""
    monkeypatch.setattr("tts_cli.workers.worker.NEWS_S", 60.0)

    async def both() -> WorkerNews:
        waiting = asyncio.ensure_future(worker.news())
        await asyncio.sleep(0.05)
        await worker.counted()
        return await waiting

    assert answer(both()).ended == []


def test_a_worker_that_fails_tells_what_ended_first(worker: Quiet) -> None:
    asyncio.run(worker.speak(orders("a", "b")))
    worker.end("a")
    worker._end(WorkerFailed("the device is gone"))
    assert [one.number for one in answer(worker.news()).ended] == [1]
    with pytest.raises(WorkerFailed, match="the device is gone"):
        answer(worker.news())
    with pytest.raises(WorkerFailed):
        asyncio.run(worker.speak(orders("c")))


def test_a_stopped_worker_gives_rows_back_unspoken(worker: Quiet) -> None:
    asyncio.run(worker.speak(orders("a")))
    worker._end(None)
    asyncio.run(worker.speak(orders("b")))
    ended = answer(worker.news()).ended
    assert [(one.number, one.spoken) for one in ended] == [(1, None), (1, None)]
