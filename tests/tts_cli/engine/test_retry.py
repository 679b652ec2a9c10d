"""Which rows are spoken again."""

from __future__ import annotations

from typing import Any

import pytest

from tts_cli.config import RunConfig
from tts_cli.engine.judge import RetryPolicy
from tts_cli.folder.take import Take
from tts_cli.plan.standing import attempts_at_parts, attempts_in_vain


@pytest.mark.parametrize(
    ("reason", "attempt", "has_been_nan", "is_greedy", "is_again"),
    [
        ("eos", 1, False, False, False),
        ("max_frames", 1, False, False, True),
        ("early", 1, False, False, True),
        ("early", 3, False, False, False),
        ("early", 1, False, True, False),
        ("stuck", 2, False, False, True),
        ("max_frames", 2, False, False, True),
        ("max_frames", 3, False, False, False),
        ("max_frames", 1, False, True, False),
        ("max_frames", 2, True, False, True),  # the attempt that gave NaN counts
        ("max_frames", 3, True, False, False),
        ("nan", 1, False, False, True),
        ("nan", 1, False, True, True),
        ("nan", 2, True, False, False),
        ("nan", 3, False, False, True),  # once, behind all the retries of a runaway too
    ],
)
def test_two_retries(
    reason: str, attempt: int, has_been_nan: bool, is_greedy: bool, is_again: bool
) -> None:
    assert RetryPolicy(2).is_again(reason, attempt, has_been_nan, is_greedy) is is_again


@pytest.mark.parametrize("reason", ["eos", "max_frames", "early", "stuck"])
def test_where_the_cap_is_an_end_nothing_is_spoken_again(reason: str) -> None:
    policy = RetryPolicy(2, accepts_truncated=True)
    assert not policy.is_again(reason, 1, False, False)
    assert not policy.is_runaway(reason)
    assert policy.is_again("nan", 1, False, False)


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
    assert policy.is_runaway("max_frames") is is_runaway
    assert not policy.is_runaway("eos")


def line(reason: str | None, **more: Any) -> Take:
    values = {"id": "a", "status": "failed", "request_hash": "h", "attempts": 3, **more}
    found = Take.of({**values, "finish_reason": reason})
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
def test_attempts_in_vain(record: Take, number: int) -> None:
    assert attempts_in_vain(record) == number


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ([{"attempts": 1}, {"attempts": 3, "error": "no end"}], (0, 3)),
        ([{"attempts": 1}, {"attempts": 2}], (1, 2)),  # together they were too long
        ([{"attempts": "x", "error": "no"}, {"error": "no"}], (0, 0)),
        ([{"attempts": 1}], ()),  # it has two parts now
        ([], ()),
    ],
)
def test_attempts_at_parts(parts: list[Any], found: tuple[int, ...]) -> None:
    place = {"text_start": 0, "text_end": 1, "start_s": 0.0, "end_s": 1.0}
    parts = [place | part for part in parts]
    assert attempts_at_parts(line("max_frames", parts=parts), 2) == found
    assert attempts_at_parts(line("eos", parts=parts), 2) == ()
