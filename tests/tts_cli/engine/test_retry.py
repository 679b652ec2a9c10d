"""Which rows are spoken again."""

from __future__ import annotations

from typing import Any

import pytest
from engine_harness import attempt_of
from fakes import FakeSpeechModel

from models.base import SpeechRequest
from models.sampling import Sampling
from tts_cli.config import RunConfig
from tts_cli.core import Finish
from tts_cli.engine.pieces import RetryPolicy
from tts_cli.plan.diff import attempts_before
from tts_cli.store.entry import JournalEntry

EOS, CAP, EARLY, STUCK = Finish.EOS, Finish.MAX_FRAMES, Finish.EARLY, Finish.STUCK


@pytest.mark.parametrize(
    ("finish", "done", "was_nan", "is_greedy", "is_again"),
    [
        (EOS, 0, False, False, False),
        (CAP, 0, False, False, True),
        (EARLY, 0, False, False, True),
        (EARLY, 2, False, False, False),
        (EARLY, 0, False, True, False),
        (STUCK, 1, False, False, True),
        (CAP, 1, False, False, True),
        (CAP, 2, False, False, False),
        (CAP, 0, False, True, False),
        (CAP, 1, True, False, True),  # the attempt that gave NaN counts
        (CAP, 2, True, False, False),
        (None, 0, False, False, True),
        (None, 0, False, True, True),
        (None, 1, True, False, False),
        (None, 2, False, False, True),  # once, behind all the retries of a runaway too
    ],
)
def test_two_retries(
    finish: Finish | None, done: int, was_nan: bool, is_greedy: bool, is_again: bool
) -> None:
    sampling = Sampling(greedy=is_greedy, subtalker_greedy=is_greedy)
    prompt = FakeSpeechModel(1).prompt(SpeechRequest("a", sampling=sampling))
    attempt = attempt_of(0, prompt, done + 1, was_nan=was_nan)
    assert RetryPolicy(2).has_another(attempt, finish) is is_again


@pytest.mark.parametrize(
    ("settings", "is_runaway"),
    [
        ({}, True),
        ({"accept_truncated": True}, False),
        ({"model": "synthetic:qwen3-tts-0.6b"}, False),
        ({"model": "folder"}, True),
    ],
)
def test_the_policy_of_a_run(settings: dict[str, object], is_runaway: bool) -> None:
    policy = RetryPolicy.of(RunConfig(retries=5, **settings))  # type: ignore[arg-type]
    assert policy.retries == 5
    assert policy.is_runaway(CAP) is is_runaway
    assert not policy.is_runaway(EOS)


def line(reason: str | None, **more: Any) -> JournalEntry:
    values = {"id": "a", "status": "failed", "request_hash": "h", "attempts": 3, **more}
    found = JournalEntry.of({**values, "finish_reason": reason})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("record", "number"),
    [
        (line("max_frames"), 3),
        (line("early"), 3),
        (line("stuck"), 3),
        (line(None), 0),
        (line("eos"), 0),
        (line("early", attempts=-1), 0),
        (line("early", attempts=10**30), 0),
        (line("early", attempts="3"), 0),
    ],
)
def test_attempts_before(record: JournalEntry, number: int) -> None:
    assert attempts_before(record, 1) == (number,)


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ([{"attempts": 1}, {"attempts": 3, "error": "no end"}], (0, 3)),
        ([{"attempts": 1}, {"attempts": 2}], (1, 2)),  # together they were too long
        ([{"attempts": "x", "error": "no"}, {"error": "no"}], (0, 0)),
        ([{"attempts": 1}], (0, 0)),  # it has two parts now
        ([], (0, 0)),
    ],
)
def test_attempts_before_at_pieces(parts: list[Any], found: tuple[int, ...]) -> None:
    place = {"text_start": 0, "text_end": 1, "start_s": 0.0, "end_s": 1.0}
    parts = [place | part for part in parts]
    assert attempts_before(line("max_frames", parts=parts), 2) == found
    assert attempts_before(line("eos", parts=parts), 2) == (0, 0)
