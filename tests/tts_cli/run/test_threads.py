"""Rows in, spoken rows out, with no manifest, file or signal: the seam that commands stand on."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from engine_harness import request
from fakes import FakeSpeechModel, fake_codes

from models.base import ModelInfo
from tts_cli.engine.scheduler import BatchSize
from tts_cli.errors import StoppedEarly
from tts_cli.run.load import Session
from tts_cli.run.retry import RetryPolicy
from tts_cli.run.threads import SpeechRun
from tts_cli.voices.speech_row import SpeechRow

Open = Callable[..., Session]


@pytest.fixture
def open_fake(make_info: Callable[..., ModelInfo]) -> Open:
    """A session on a model in plain Python; `FakeSpeechModel` has the arguments."""

    def open_fake(max_batch: int = 4, **faults: Any) -> Session:
        model: Any = FakeSpeechModel(max_batch, **faults)
        model.info = make_info(max_positions=200, samples_per_frame=2, sample_rate_hz=20)
        return Session(model, torch.device("cpu"), torch.float32, BatchSize(max_batch), 0.0)

    return open_fake


def rows(*texts: str, max_frames: int = 100) -> list[SpeechRow]:
    """The seed of a row is its number."""
    return [
        SpeechRow(str(number), request(text, number, max_frames))
        for number, text in enumerate(texts)
    ]


def speak(session: Session, given: list[SpeechRow], **settings: Any) -> dict[str, SpeechRow]:
    """All rows at their ends, by id."""
    ended: list[SpeechRow] = []
    SpeechRun(session, ended.append, RetryPolicy(2), **settings).run(given)
    found = {row.id: row for row in ended}
    assert len(found) == len(ended), "a row ended twice"
    return found


@pytest.mark.parametrize("takers", [1, 8])
def test_every_row_comes_back_with_its_own_speech(open_fake: Open, takers: int) -> None:
    texts = ["x" * (1 + 7 * number % 23) for number in range(40)]
    given = rows(*texts)
    found = speak(open_fake(), given, takers=takers)
    assert len(found) == 40
    for number, text in enumerate(texts):
        row = found[str(number)]
        assert row is given[number]
        assert (row.error, row.finish_reason, row.attempts) == (None, "eos", 1)
        assert (row.seed, row.frames) == (number, len(text))
        codes = fake_codes(number, len(text)).numpy()
        assert np.array_equal(row.codes, codes)
        assert np.array_equal(row.samples, codes.ravel())
        assert row.samples.dtype == np.float32
        assert row.work.prompt_tokens == len(text)
        assert 1 <= row.work.bucket <= 4
        assert row.work.queue_ms > 0


def test_samples_as_16_bit_numbers(open_fake: Open) -> None:
    row = speak(open_fake(), rows("xx"), is_int16=True)["0"]
    assert row.samples.dtype == np.int16


def test_a_row_that_cannot_be_spoken_is_refused_alone(open_fake: Open) -> None:
    given = rows("xx", "x" * 150, "xxx")
    given[2].error = "its voice is gone"
    found = speak(open_fake(), given)
    assert found["0"].error is None
    assert found["1"].error == (
        "150 prompt tokens and 100 frames are more than the 200 positions of this checkpoint; "
        "split the text or lower max_frames"
    )
    assert found["2"].error == "its voice is gone"
    assert (found["1"].attempts, found["1"].samples, found["1"].queued_s) == (0, None, None)


def test_a_runaway_has_its_error_and_its_audio(open_fake: Open) -> None:
    row = speak(open_fake(), rows("x" * 9, max_frames=5))["0"]
    assert row.error == "no end of speech within 5 frames (0.5 s) in 3 attempts"
    assert (row.finish_reason, row.attempts, row.frames) == ("max_frames", 3, 5)
    assert len(row.samples) == 10
    assert row.frames_dropped == 2 * 5
    assert row.seed != 0


def test_nan_has_an_error_and_no_audio(open_fake: Open) -> None:
    found = speak(open_fake(), rows("nan", "xx"))
    assert found["0"].error == "the model gave NaN or infinite values twice"
    assert (found["0"].attempts, found["0"].finish_reason) == (2, None)
    assert found["0"].samples is None
    assert found["0"].codes is None
    assert found["1"].error is None


def test_rows_may_never_end_and_the_run_is_stopped(open_fake: Open) -> None:
    ended: list[SpeechRow] = []
    speech: SpeechRun

    def take(row: SpeechRow) -> None:
        ended.append(row)
        if len(ended) == 50:
            speech.stop()

    def endless() -> Iterator[SpeechRow]:
        assert threading.current_thread() is not threading.main_thread()
        for number in itertools.count():
            if speech.is_stopped():
                return
            yield SpeechRow(str(number), request("xx", number))

    speech = SpeechRun(open_fake(), take, RetryPolicy(0))
    speech.run(endless())
    assert len(ended) >= 50
    assert all(row.error is None for row in ended)


@pytest.mark.parametrize("where", ["rows", "take"])
def test_a_callers_error_ends_the_run_and_comes_back(open_fake: Open, where: str) -> None:
    def broken_rows() -> Iterator[SpeechRow]:
        yield from rows("xx")
        raise LookupError("no more")

    def take(row: SpeechRow) -> None:
        if where == "take":
            raise LookupError("no more")

    threads = threading.active_count()
    speech = SpeechRun(open_fake(), take, RetryPolicy(0), takers=3)
    with pytest.raises(LookupError, match="no more"):
        speech.run(broken_rows() if where == "rows" else rows(*["xx"] * 900))
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
    speech = SpeechRun(session, lambda row: None, RetryPolicy(0))
    speech.run(rows(*["xxxx"] * 10))
    assert speech.engine.facts()["memory_step_downs"] == 0
