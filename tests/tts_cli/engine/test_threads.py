"""Rows in, spoken rows out, with no manifest, file or signal: the seam that commands stand on."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from engine_harness import request
from fakes import FakeSpeechModel, fake_codes
from tasks import task_of

from models.base import ModelInfo
from tts_cli.core import Kind, Remark, Result, Task
from tts_cli.engine.load import Loaded
from tts_cli.engine.pieces import RetryPolicy
from tts_cli.engine.scheduler import BatchSize
from tts_cli.engine.speech_run import SpeechRun
from tts_cli.errors import StoppedEarly
from tts_cli.voices.voice_loader import TaskWithVoice

Open = Callable[..., Loaded]


@pytest.fixture
def open_fake(make_info: Callable[..., ModelInfo]) -> Open:
    """A session on a model in plain Python; `FakeSpeechModel` has the arguments."""

    def open_fake(max_batch: int = 4, **faults: Any) -> Loaded:
        model: Any = FakeSpeechModel(max_batch, **faults)
        model.info = make_info(max_positions=200, samples_per_frame=2, sample_rate_hz=20)
        return Loaded(model, torch.device("cpu"), torch.float32, BatchSize(max_batch), 0.0)

    return open_fake


def rows(*texts: str, max_frames: int = 100, **more: Any) -> list[Task]:
    """The seed of a row is its number."""
    return [
        task_of(str(number), request(text, number, max_frames), **more)
        for number, text in enumerate(texts)
    ]


class Kept(dict[str, Result]):
    """What came of tasks, by their ids."""

    def __call__(self, results: Sequence[tuple[Task, Result]]) -> None:
        for task, spoken in results:
            assert task.id not in self, "a row ended twice"
            self[task.id] = spoken


def speak(session: Loaded, given: list[Task], **settings: Any) -> Kept:
    kept = Kept()
    SpeechRun(session, kept, RetryPolicy(2), **settings).speak(given)
    return kept


@pytest.mark.parametrize("writers", [1, 8])
def test_every_row_comes_back_with_its_own_speech(open_fake: Open, writers: int) -> None:
    texts = ["x" * (1 + 7 * number % 23) for number in range(40)]
    given = rows(*texts)
    found = speak(open_fake(), given, writers=writers)
    assert len(found) == 40
    for number, text in enumerate(texts):
        row = found[str(number)]
        assert (row.error, row.finish, row.attempts) == (None, "eos", 1)
        assert (row.seed, row.frames) == (number, len(text))
        codes = fake_codes(number, len(text)).numpy()
        assert np.array_equal(row.codes, codes)
        assert np.array_equal(row.samples, codes.ravel())
        assert row.samples.dtype == np.float32
        assert row.work.prompt_tokens == len(text)
        assert 1 <= row.work.bucket <= 4
        assert row.work.queue_ms > 0


def test_a_row_that_cannot_be_spoken_is_refused_alone(open_fake: Open) -> None:
    found, (*given, last) = Kept(), rows("xx", "x" * 150, "xxx")
    run = SpeechRun(open_fake(), found, RetryPolicy(2))
    run.speak([*map(TaskWithVoice, given), TaskWithVoice(last, error="its voice is gone")])
    assert found["0"].error is None
    assert found["1"].error == (
        "150 prompt tokens and 100 frames are more than the 200 positions of this checkpoint; "
        "split the text or lower max_frames"
    )
    assert found["2"].error == "its voice is gone"
    assert (found["1"].attempts, found["1"].samples, found["1"].queued_s) == (0, None, None)


def test_speech_too_short_for_its_text(open_fake: Open) -> None:
    """Rows that lost most of their words once counted as spoken."""
    session = open_fake()
    given = [rows("x" * 38, least_frames=least, usual_s=38 * 0.075)[0] for least in (0, 38, 39)]
    given = [replace(task, row=replace(task.row, id=str(at))) for at, task in enumerate(given)]
    found = speak(session, given)
    assert (found["0"].error, found["0"].finish) == (None, "eos")
    assert (found["1"].error, found["1"].finish) == (None, "eos")
    row = found["2"]
    assert row.error == (
        "its audio ended after 38 frames (3.8 s) in 3 attempts; its text takes at least 39 frames"
    )
    assert (row.finish, row.attempts, row.frames) == ("early", 3, 38)
    assert len(row.samples) == 2 * 38
    assert row.frames_dropped == 2 * 38
    assert row.usual_s == pytest.approx(38 * 0.075)


class Unstuck(FakeSpeechModel):
    """Only a row's first seed stands still; those of a fake model all do."""

    def codes(self, slot: int, frames: int) -> torch.Tensor:
        codes = super().codes(slot, frames)
        return codes if self.slots[slot].request.seed < 99 else codes.flip(1)


@pytest.mark.parametrize("model", [FakeSpeechModel, Unstuck])
def test_speech_that_stands_still(open_fake: Open, model: type[FakeSpeechModel]) -> None:
    """One first code for 4 s and more; only the audio's judge sees it, when the slot is free."""
    session = open_fake(2)
    other: Any = model(2)
    other.info = session.model.info
    session.model = other
    found = speak(session, rows(*["xy" * 20, "xy" * 20, "xy" * 6] * 4), writers=3)
    assert len(found) == 12
    for name, row in found.items():
        if int(name) % 3 == 2:
            assert (row.error, row.attempts) == (None, 1)
            assert row.remarks == (Remark(Kind.REPEATS, "the same first code for 1.2 s"),)
        elif model is Unstuck:
            assert (row.error, row.attempts, row.finish) == (None, 2, "eos")
            assert (row.frames_dropped, row.remarks) == (40, ())
            assert row.seed > 99
        else:
            stuck = "its audio got stuck: the same first code for 4.0 s in 3 attempts"
            assert (row.error, row.attempts, row.finish) == (stuck, 3, "stuck")
            assert (row.frames_dropped, len(row.samples)) == (80, 80)


def test_nan_has_an_error_and_no_audio(open_fake: Open) -> None:
    found = speak(open_fake(), rows("nan", "xx"))
    assert found["0"].error == "the model returned NaN or infinite values twice"
    assert (found["0"].attempts, found["0"].finish) == (2, None)
    assert found["0"].samples is None
    assert found["0"].codes is None
    assert found["1"].error is None


def test_rows_may_never_end_and_the_run_is_stopped(open_fake: Open) -> None:
    ended: list[Result] = []
    speech: SpeechRun

    def keep(results: Sequence[tuple[Task, Result]]) -> None:
        ended.extend(spoken for _, spoken in results)
        if len(ended) >= 50:
            speech.stop()

    def endless() -> Iterator[Task]:
        assert threading.current_thread() is not threading.main_thread()
        for number in itertools.count():
            yield task_of(str(number), request("xx", number))

    speech = SpeechRun(open_fake(), keep, RetryPolicy(0))
    speech.speak(endless())
    assert len(ended) >= 50
    assert all(row.error is None for row in ended)


@pytest.mark.parametrize("where", ["rows", "keep"])
def test_a_callers_error_ends_the_run_and_comes_back(open_fake: Open, where: str) -> None:
    def broken_rows() -> Iterator[Task]:
        yield from rows("xx")
        raise LookupError("no more")

    def keep(_: Sequence[tuple[Task, Result]]) -> None:
        if where == "keep":
            raise LookupError("no more")

    threads = threading.active_count()
    speech = SpeechRun(open_fake(), keep, RetryPolicy(0), writers=3)
    with pytest.raises(LookupError, match="no more"):
        speech.speak(broken_rows() if where == "rows" else rows(*["xx"] * 900))
    assert threading.active_count() == threads


def test_a_lost_device_is_an_early_stop(open_fake: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    session = open_fake()

    def lost(*_: Any) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore")

    monkeypatch.setattr(session.model, "decode_frames", lost)
    with pytest.raises(StoppedEarly, match="the device failed: CUDA error: an illegal"):
        speak(session, rows("xx"))


def test_a_step_down_stays_with_the_session(open_fake: Open) -> None:
    """The scheduler once had a batch size of its own, and the session's stayed as it was."""
    session = open_fake(16, memory_rows=3)
    assert len(speak(session, rows(*["xxxx"] * 40))) == 40
    assert session.batch.rows == 2
    speech = SpeechRun(session, lambda *_: None, RetryPolicy(0))
    speech.speak(rows(*["xxxx"] * 10))
    assert speech.engine.facts()["memory_step_downs"] == 0


class Interrupting(FakeSpeechModel):
    """Ctrl-C in a launch of frames."""

    def decode_frames(self, bucket: int, count: int) -> None:
        super().decode_frames(bucket, count)
        if len(self.batches) == 3:
            raise KeyboardInterrupt


def test_a_run_that_is_cut_short_frees_its_slots(open_fake: Open) -> None:
    """The next run on the session takes them all for free."""
    session = open_fake()
    model: Any = Interrupting(4)
    model.info = session.model.info
    session.model = model
    switch_s = sys.getswitchinterval()
    with pytest.raises(KeyboardInterrupt):
        speak(session, rows(*["x" * 9] * 8))
    assert model.slots == {}
    assert sys.getswitchinterval() == switch_s
    assert len(speak(session, rows(*["x" * 9] * 8))) == 8
