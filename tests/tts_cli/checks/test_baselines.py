"""What a voice's rows have in common, and how long a text should take."""

from __future__ import annotations

from typing import Any

import pytest
from spoken_folders import TEXT, record

from tts_cli.checks.baselines import (
    STOP_LETTERS,
    Usual,
    Voices,
    letters_a_second,
    pace,
    speech_s,
    unasked_silence_s,
    usual_of,
)
from tts_cli.store.take import Take


def speech(**changes: Any) -> Take:
    made = Take.of(record("a", **changes))
    assert made is not None
    return made


def test_median_and_deviation_pass_over_outliers() -> None:
    found = usual_of([1.0, 1.1, 0.9, 1.0, 1.1, 0.9, 50.0])
    assert found.median == 1.0
    assert found.spread == pytest.approx(0.148, abs=0.001)
    assert found.off(1.0) == 0
    assert Usual(1.0, 0.0).off(1.1) > 1e6


def test_the_spoken_text_counts_for_the_rate() -> None:
    figures = speech(text="$1,299.50", spoken_text=TEXT)
    assert letters_a_second(figures) == pytest.approx(letters_a_second(speech()))
    assert letters_a_second(speech(text="Oh.")) is None
    assert letters_a_second(speech(text=None)) is None
    assert letters_a_second(speech(finish_reason="wordless")) is None


def test_marks_of_pauses_are_no_letters() -> None:
    marked = TEXT.replace(" ", " [pause 1.5s] ", 1)
    assert speech(text=marked).letters == speech(text=TEXT).letters


def test_stops_take_time() -> None:
    """The last stop is that of every row."""
    seconds = speech_s(speech())
    assert seconds == pytest.approx(3.8)
    letters = sum(map(str.isalnum, TEXT))
    assert pace(speech()) == pytest.approx(letters / seconds)
    stops = TEXT.replace(" ", ", ", 1).replace(" rain", '. "Rain', 1) + "."
    longer = (letters + 2 * STOP_LETTERS) / seconds
    assert pace(speech(text=stops)) == pytest.approx(longer)
    chinese = "\u5348\u996d\uff0c\u4ee5\u540e\u56de\u6765\u3002" * 3
    assert pace(speech(text=chinese)) is None, "few letters"
    assert pace(speech(text=chinese * 2)) == pytest.approx((3 * 36 + 11 * STOP_LETTERS) / seconds)


def test_what_was_added_and_what_was_asked_for_is_no_speech() -> None:
    parts = [
        {"text_start": 0, "text_end": 9, "start_s": 0.0, "end_s": 1.0},
        {"text_start": 9, "text_end": 20, "start_s": 2.5, "end_s": 4.0},
    ]
    assert speech_s(speech(parts=parts)) == pytest.approx(3.8 - 1.5)
    applied = {"pad_start_s": 0.5, "pad_end_s": 1.0, "trimmed_start_s": 0.1, "trimmed_end_s": 0.0}
    assert speech_s(speech(applied=applied)) == pytest.approx(3.8 - 1.4)
    assert speech_s(speech(applied="none")) == pytest.approx(3.8)
    assert unasked_silence_s(speech(parts=parts, silence_inside_s=1.6)) == 0
    assert unasked_silence_s(speech(silence_inside_s=1.6)) == 1.6


def test_rows_that_failed_are_not_usual() -> None:
    good = [speech() for _ in range(8)]
    failed = [speech(status="failed", audio_s=40.0) for _ in range(30)]
    usual = Voices([*good, *failed]).rate(good[0])
    assert usual is not None
    assert usual.median == pace(good[0])
