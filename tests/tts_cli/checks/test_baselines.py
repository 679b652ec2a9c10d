"""Usual values of a voice, and the expected length of a text."""

from __future__ import annotations

from typing import Any

import pytest
from spoken_folders import TEXT, record

from tts_cli.checks.baselines import (
    PACE,
    STOP_LETTERS,
    Evidence,
    RobustStats,
    VoiceBaselines,
    letters_per_second,
    pace,
    speech_s,
    unexpected_silence_s,
)
from tts_cli.store.entry import JournalEntry


def take(**changes: Any) -> JournalEntry:
    made = JournalEntry.of(record("a", **changes))
    assert made is not None
    return made


def test_median_and_deviation_ignore_outliers() -> None:
    found = RobustStats.of([1.0, 1.1, 0.9, 1.0, 1.1, 0.9, 50.0])
    assert found.median == 1.0
    assert found.spread == pytest.approx(0.148, abs=0.001)
    assert found.off(1.0) == 0
    assert RobustStats(1.0, 0.0).off(1.1) > 1e6


def test_the_synthesized_text_counts() -> None:
    figures = take(text="$1,299.50", spoken_text=TEXT)
    assert letters_per_second(figures) == pytest.approx(letters_per_second(take()))
    for changes in ({"text": "Oh."}, {"text": None}, {"finish_reason": "wordless"}):
        assert letters_per_second(take(**changes)) is None
    marked = TEXT.replace(" ", " [pause 1.5s] ", 1)
    assert take(text=marked).letters == take(text=TEXT).letters


def test_stops_take_time() -> None:
    """The last stop is that of every row."""
    seconds = speech_s(take())
    assert seconds == pytest.approx(3.8)
    letters = sum(map(str.isalnum, TEXT))
    assert pace(take()) == pytest.approx(letters / seconds)
    stops = TEXT.replace(" ", ", ", 1).replace(" rain", '. "Rain', 1) + "."
    assert pace(take(text=stops)) == pytest.approx((letters + 2 * STOP_LETTERS) / seconds)
    chinese = "\u5348\u996d\uff0c\u4ee5\u540e\u56de\u6765\u3002" * 3
    assert pace(take(text=chinese)) is None, "few letters"
    assert pace(take(text=chinese * 2)) == pytest.approx((3 * 36 + 11 * STOP_LETTERS) / seconds)


def test_padding_and_requested_pauses_are_not_speech() -> None:
    parts = [
        {"text_start": 0, "text_end": 9, "start_s": 0.0, "end_s": 1.0},
        {"text_start": 9, "text_end": 20, "start_s": 2.5, "end_s": 4.0},
    ]
    assert speech_s(take(parts=parts)) == pytest.approx(3.8 - 1.5)
    applied = {"pad_start_s": 0.5, "pad_end_s": 1.0, "trimmed_start_s": 0.1, "trimmed_end_s": 0.0}
    assert speech_s(take(applied=applied)) == pytest.approx(3.8 - 1.4)
    assert speech_s(take(applied="none")) == pytest.approx(3.8)
    assert unexpected_silence_s(take(parts=parts, silence_inside_s=1.6)) == 0
    assert unexpected_silence_s(take(silence_inside_s=1.6)) == 1.6


def test_rows_that_failed_are_not_usual() -> None:
    good = [Evidence(take()) for _ in range(8)]
    failed = [Evidence(take(status="failed", audio_s=40.0)) for _ in range(30)]
    usual = VoiceBaselines([*good, *failed]).stats(PACE, good[0])
    assert usual is not None
    assert usual.median == pace(good[0].take)
