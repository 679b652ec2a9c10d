"""Tasks in pieces: spoken like others, put together whole, few at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from engine_harness import request
from fakes import FakeSpeechModel, fake_codes
from tasks import joined_task, task_of

from models.base import ModelInfo, Prompt
from tts_cli.core import Finish, Kind, Remark, Result, Task
from tts_cli.engine.load import Loaded
from tts_cli.engine.pieces import Attempt, Pieces, RetryPolicy
from tts_cli.engine.scheduler import BatchSize
from tts_cli.engine.speech_run import SpeechRun
from tts_cli.voices.voice_loader import TaskWithVoice

TWO = RetryPolicy(2)


@pytest.fixture
def session(make_info: Callable[..., ModelInfo]) -> Loaded:
    """A model in plain Python whose rows speak one frame a letter, two samples each."""
    model: Any = FakeSpeechModel(4)
    model.info = make_info(max_positions=200, samples_per_frame=2, sample_rate_hz=20)
    return Loaded(model, torch.device("cpu"), torch.float32, BatchSize(4), 0.0)


def long_row(row_id: str, *texts: str, seed: int = 1, max_frames: int = 100, **more: Any) -> Task:
    """A task in pieces of these texts, seeds counted up."""
    requests = [request(text, seed + at, max_frames) for at, text in enumerate(texts)]
    return joined_task(row_id, *requests, **more)


def speak(
    session: Loaded, given: list[Task], policy: RetryPolicy = TWO, **settings: Any
) -> dict[str, Result]:
    """What came of all, by id, in the order of their ends."""
    kept: dict[str, Result] = {}

    def keep(results: Sequence[tuple[Task, Result]]) -> None:
        for task, spoken in results:
            assert task.id not in kept, "a row ended twice"
            kept[task.id] = spoken

    SpeechRun(session, keep, policy, **settings).speak(given)
    return kept


@pytest.mark.parametrize("writers", [1, 8])
def test_a_long_row_comes_back_whole_among_others(session: Loaded, writers: int) -> None:
    long = long_row("long", "abc", "defgh", "ij", seed=7)
    short = [task_of(str(number), request("x" * (number + 1), number)) for number in range(20)]
    found = speak(session, [*short[:10], long, *short[10:]], writers=writers)
    assert len(found) == 21
    row = found["long"]
    assert (row.error, row.finish, row.attempts, row.frames) == (None, "eos", 1, 10)
    assert (row.seed, row.remarks, row.frames_dropped) == (7, (), 0)
    codes = [fake_codes(seed, len(text)) for seed, text in ((7, "abc"), (8, "defgh"), (9, "ij"))]
    assert np.array_equal(row.codes, np.concatenate(codes))
    assert row.samples.dtype == np.float32
    assert row.levels is not None
    assert row.work.prompt_tokens == 10
    assert row.queued_s is not None
    assert [(part["text_start"], part["text_end"]) for part in row.parts] == [
        *((0, 3), (4, 9), (10, 12))
    ]
    assert [part["seed"] for part in row.parts] == [7, 8, 9]
    assert [part["boundary"] for part in row.parts] == ["sentence", "sentence", None]
    assert row.parts[-1]["end_s"] == pytest.approx(len(row.samples) / 20)


def test_a_piece_keeps_only_its_own_samples(session: Loaded) -> None:
    """They come as slices of a whole batch of the vocoder, which would wait in memory with them."""
    task, batch = long_row("a", "abc", "de"), np.zeros(99, np.float32)
    pieces = Pieces(session.model.info, session.batch, TWO)
    assert len([*pieces.opened([TaskWithVoice(task)], threading.Event())]) == 2
    codes = np.zeros((99, 2), np.int64)
    spoken = Result(Finish.EOS, samples=batch[:3], codes=codes[:3], frames=3)
    pieces.close(task, 0, spoken, None)
    (kept,) = pieces._open[task].results.values()
    assert kept.samples.base is None
    assert kept.codes.base is None


def test_pauses_stand_between_parts(session: Loaded) -> None:
    without = speak(session, [long_row("a", "abc", "defgh")])["a"]
    row = speak(session, [long_row("a", "abc", "defgh", pause_s=1.0)])["a"]
    first, second = row.parts
    assert second["start_s"] - first["end_s"] == pytest.approx(1.0)
    assert len(row.samples) == len(without.samples) + 20


def test_a_part_is_tried_again_alone(session: Loaded) -> None:
    row = long_row("a", "abc", "x" * 9, "ij", max_frames=5)
    spoken = speak(session, [row])["a"]
    assert spoken.error == (
        "piece 2 of 3: its audio did not end within 5 frames (0.5 s) in 3 attempts"
    )
    assert (spoken.finish, spoken.attempts) == ("max_frames", 3)
    assert [part["attempts"] for part in spoken.parts] == [1, 3, 1]
    assert spoken.frames_dropped == 10
    assert len(spoken.samples) == 2 * (3 + 5 + 2), "what there is is kept to be listened to"


@pytest.mark.parametrize("accepts", [False, True])
def test_a_cap_of_the_row_holds_for_its_parts_together(session: Loaded, accepts: bool) -> None:
    """Every part is shorter than the cap that somebody gave the row, all together are not."""
    texts = ("abc", "defgh")
    rows = [long_row("over", *texts, most_frames=7), long_row("just", *texts, most_frames=8)]
    found = speak(session, rows, RetryPolicy(2, accepts))
    over = None if accepts else "its pieces have 8 frames; the maximum is 7"
    assert (found["over"].error, found["over"].finish) == (over, "max_frames")
    assert (found["just"].error, found["just"].finish) == (None, "eos")
    assert found["over"].samples is not None


def test_a_part_without_audio_leaves_its_row_without(session: Loaded) -> None:
    spoken = speak(session, [long_row("a", "abc", "nan", "ij")])["a"]
    assert spoken.error == "piece 2 of 3: the model returned NaN or infinite values twice"
    assert spoken.samples is None
    assert spoken.frames == 0


def test_a_row_whose_voice_is_gone_ends_once(session: Loaded) -> None:
    kept: list[Result] = []
    run = SpeechRun(session, lambda results: kept.extend(one for _, one in results), TWO)
    run.speak([TaskWithVoice(long_row("a", "abc", "de"), error="its voice is gone")])
    assert [spoken.error for spoken in kept] == ["piece 1 of 2: its voice is gone"]


def test_rows_are_opened_as_the_slots_need_them(
    session: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty thousand characters are 25 minutes of audio: all rows open together would fill memory.
    Slots get pieces in the order of the rows, so that rows opened first can be closed first; which
    thread decodes its last piece first depends on the load of the machine.
    """
    opened: list[int] = []
    kept: list[str] = []
    admitted: list[str] = []

    def keep(results: Sequence[tuple[Task, Result]]) -> None:
        kept.extend(task.id for task, _ in results)

    run = SpeechRun(session, keep, TWO, writers=1)
    admit, pieces = run.engine.scheduler.admit, run.pieces

    def opening(
        tasks: Iterable[TaskWithVoice], stop: threading.Event
    ) -> Iterator[tuple[TaskWithVoice, int]]:
        for voiced, index in Pieces.opened(pieces, tasks, stop):
            opened.append(pieces._num_left)
            yield voiced, index

    def admitting() -> list[tuple[Attempt, int]]:
        found = admit()
        admitted.extend(attempt.task.id for attempt, _ in found if attempt.number == 1)
        return found

    monkeypatch.setattr(pieces, "opened", opening)
    monkeypatch.setattr(run.engine.scheduler, "admit", admitting)
    run.speak([long_row(str(number), "abcde", "fgh", "ij", "k") for number in range(40)])
    assert sorted(kept, key=int) == [str(number) for number in range(40)]
    assert max(opened) < 1.5 * 4 + 4
    assert admitted == sorted(admitted, key=int)


def test_a_run_that_is_stopped_opens_no_more(session: Loaded) -> None:
    pieces, stop = Pieces(session.model.info, session.batch, TWO), threading.Event()
    given = [TaskWithVoice(long_row("a", *"abcdefgh")), TaskWithVoice(long_row("b", "a", "b"))]
    threading.Timer(0.05, stop.set).start()
    assert [index for _, index in pieces.opened(given, stop)] == list(range(8))


class Hurrying(FakeSpeechModel):
    """Speaks only half of a text that begins with `f` at its first attempt."""

    def prefill(self, prompts: list[Prompt], slots: list[int]) -> None:
        super().prefill(prompts, slots)
        for slot in slots:
            asked = self.slots[slot].request
            if asked.text.startswith("f") and asked.seed < 99:
                self.slots[slot].request = replace(asked, text=asked.text[: len(asked.text) // 2])

    def codes(self, slot: int, frames: int) -> torch.Tensor:
        """Their first one never stands still."""
        codes = super().codes(slot, frames)
        codes[:, 0] += codes[:, 1] % 2
        return codes


EVEN = tuple(letter * 60 for letter in "abcd")  # six seconds each
HURRIED = "f" * 60
USUAL_S = 4.5  # of each


@pytest.fixture
def hurrying(make_info: Callable[..., ModelInfo]) -> Loaded:
    model: Any = Hurrying(4)
    model.info = make_info(max_positions=200, samples_per_frame=2, sample_rate_hz=20)
    return Loaded(model, torch.device("cpu"), torch.float32, BatchSize(4), 0.0)


@pytest.mark.parametrize("writers", [1, 8])
def test_a_part_far_faster_than_the_others_is_spoken_again(hurrying: Loaded, writers: int) -> None:
    """One of 151 parts was said to a third less, too long for the floor of any voice."""
    row = long_row("a", EVEN[0], HURRIED, *EVEN[1:], seed=7, usual_s=USUAL_S)
    short = [task_of(str(number), request("x" * (number + 1), number)) for number in range(20)]
    spoken = speak(hurrying, [row, *short], writers=writers)["a"]
    assert spoken.error is None
    assert spoken.remarks == ()
    assert [part["attempts"] for part in spoken.parts] == [1, 2, 1, 1, 1]
    assert [part["frames"] for part in spoken.parts] == [60] * 5
    assert spoken.parts[1]["seed"] != 8
    assert spoken.frames_dropped == 30
    assert len(spoken.codes) == 300


def test_a_part_that_cannot_be_spoken_again_is_suspect(hurrying: Loaded) -> None:
    given = [long_row("a", *EVEN, HURRIED, usual_s=USUAL_S)]
    row = speak(hurrying, given, RetryPolicy(0))["a"]
    assert row.error is None
    assert row.remarks == (Remark(Kind.FAST, "piece 5: 2.00 times as fast as the other pieces"),)


def test_a_part_that_fails_the_second_time_is_what_it_was(hurrying: Loaded) -> None:
    row = long_row("a", *EVEN, HURRIED, usual_s=USUAL_S)
    *others, last = row.pieces
    last = replace(last, request=replace(last.request, max_frames=50))
    spoken = speak(hurrying, [replace(row, pieces=(*others, last))])["a"]
    assert spoken.error is None
    assert spoken.finish == "eos"
    assert spoken.remarks == (Remark(Kind.FAST, "piece 5: 2.00 times as fast as the other pieces"),)
    assert [part["frames"] for part in spoken.parts] == [60] * 4 + [30]
    assert spoken.parts[-1]["attempts"] == 3


def test_a_part_is_suspect_once(hurrying: Loaded) -> None:
    """While another one is spoken again, nothing is said of it yet."""
    row = long_row("a", HURRIED, HURRIED, *EVEN, "e" * 60, usual_s=USUAL_S)
    first, *others = row.pieces
    greedy = replace(first.request.sampling, greedy=True, subtalker_greedy=True)
    first = replace(first, request=replace(first.request, sampling=greedy))
    spoken = speak(hurrying, [replace(row, pieces=(first, *others))])["a"]
    assert [part["attempts"] for part in spoken.parts] == [1, 2, 1, 1, 1, 1, 1]
    assert spoken.remarks == (Remark(Kind.FAST, "piece 1: 2.00 times as fast as the other pieces"),)
