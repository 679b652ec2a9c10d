"""Attempts: their estimates, and the attempt after each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from engine_harness import attempt_of, request
from fakes import FakeSpeechModel

from tts_cli.core import Finish
from tts_cli.seeds import attempt_seed


def test_estimates_follow_the_text_up_to_the_cap() -> None:
    model = FakeSpeechModel(1)

    def frames(text: str, cap: int = 1000) -> float:
        return attempt_of(0, model.prompt(request(text, max_frames=cap))).estimated_frames

    assert frames("x" * 100) == pytest.approx(94)
    assert frames("早" * 100) == pytest.approx(282)
    assert frames("x" * 100, cap=20) == 20


def test_the_next_one_changes_nothing_but_the_seed() -> None:
    asked = request("Hello.", seed=7)
    first = attempt_of(0, FakeSpeechModel(1).prompt(asked))
    first.finish, first.frames = Finish.MAX_FRAMES, 9
    second = first.next()
    assert second.prompt.request == replace(asked, seed=attempt_seed(7, 2))
    assert (second.number, second.first, second.frames_dropped) == (2, 1, 9)
    second.finish, second.frames, second.made = None, 3, 3
    third = second.next()
    assert third.prompt.request.seed == attempt_seed(7, 4)
    assert (third.was_nan, third.frames_dropped) == (True, 9)
