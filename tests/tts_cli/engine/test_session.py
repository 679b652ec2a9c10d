"""A session in this process: loaded when it is wanted, spoken with again and again, closed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from engine_harness import request
from fake_speakers import RoomyModel
from tasks import task_of

from models.base import ModelInfo
from tts_cli.config import RunConfig
from tts_cli.core import Task
from tts_cli.engine import load
from tts_cli.engine.load import Loaded
from tts_cli.engine.scheduler import BatchSize
from tts_cli.engine.session import LocalSession
from tts_cli.errors import Cancelled, RowError, SetupError
from tts_cli.plan.room import Needs


@pytest.fixture
def model(make_info: Callable[..., ModelInfo]) -> RoomyModel:
    found = RoomyModel(4)
    found.info = make_info(max_positions=2000, samples_per_frame=2, sample_rate_hz=20)
    return found


@pytest.fixture
def session(model: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalSession]:
    def open_checkpoint(_: RunConfig) -> Loaded:
        return Loaded(model, torch.device("cpu"), torch.float32, BatchSize(4), 0.5)

    monkeypatch.setattr(load, "open_checkpoint", open_checkpoint)
    found = LocalSession(RunConfig(device="cpu"), model.info)
    yield found
    found.close()


NEEDS = Needs(4, 100, 50)


def tasks(count: int, text: str = "xxxx") -> list[Task]:
    return [task_of(str(number), request(text, number, 40)) for number in range(count)]


def test_steps_are_those_still_to_be_done(session: LocalSession, model: RoomyModel) -> None:
    assert not session.has_room(NEEDS)
    assert [what for what, _ in session.steps(NEEDS)] == ["allocating slots and graphs"]
    again = LocalSession(session.config, session.info)
    assert [what for what, _ in again.steps()] == ["loading the model"]
    for _, step in again.steps(NEEDS):
        step()
    assert again.has_room(NEEDS)
    assert again.facts().device["max_batch"] == 4
    again.close()


def test_what_it_did_is_added_up_until_its_room_is_another(session: LocalSession) -> None:
    session.make_room(NEEDS)
    kept: list[str] = []
    for count in (3, 5):
        session.speak(tasks(count), lambda results: kept.extend(task.id for task, _ in results))
    facts = session.facts()
    assert (len(kept), facts.load_s, facts.workers) == (8, 0.5, [])
    assert facts.device["row_steps"] >= 8 * 4
    session.widen(Needs(1, 400, 300))
    assert session.has_room(Needs(1, 400, 300))
    assert "row_steps" not in session.facts().device


def test_room_that_cannot_be_made(session: LocalSession, model: RoomyModel) -> None:
    session.make_room(NEEDS)
    model.most_positions = model.rooms[-1][1]
    with pytest.raises(RowError, match="does not have enough memory for the slots"):
        session.widen(Needs(1, 400, 300))
    assert session.has_room(NEEDS)


def test_capacity_as_long_as_voices_are_made(session: LocalSession) -> None:
    with session.capacity_for(NEEDS):
        assert session.has_room(NEEDS)
    assert session.loaded.room is None
    assert session.loaded.batch.rows == 4


def test_a_failed_voice_leaves_as_many_rows_as_before(
    session: LocalSession, model: RoomyModel
) -> None:
    """The room of the one voice stayed, and with it one row at a time, for all later rows."""
    one = Needs(1, 100, 50)
    with pytest.raises(RowError), session.capacity_for(one):
        raise RowError("no end of speech")
    assert (session.loaded.room, session.loaded.batch.rows) == (None, 4)
    model.most_positions = 10  # less than any room needs
    with pytest.raises(SetupError, match="not have enough memory"), session.capacity_for(one):
        pytest.fail("there is no room")
    assert (session.loaded.room, session.loaded.batch.rows) == (None, 4)
    model.most_positions = 2000
    session.widen(NEEDS)
    assert model.rooms[-1][0] == 4


def test_it_is_stopped_until_it_is_told_to_go_on(session: LocalSession) -> None:
    """A signal may come between two calls of `speak`."""
    session.make_room(NEEDS)
    kept: list[str] = []

    def keep(results: Sequence[tuple[Task, Any]]) -> None:
        kept.extend(task.id for task, _ in results)
        session.stop()

    endless = (task_of(str(number), request("xx", number, 40)) for number in itertools.count())
    session.speak(endless, keep)
    assert kept
    before = len(kept)
    session.speak(tasks(3), keep)
    assert len(kept) == before
    session.resume()
    session.speak(tasks(1), keep)
    assert len(kept) == before + 1


def test_closed_it_is_of_no_use(session: LocalSession) -> None:
    assert session.loaded
    session.close()
    session.close()
    with pytest.raises(Cancelled):
        session.speak(tasks(1), lambda *_: None)
