"""Rows are suspect by figures, and compared with their own voice."""

from __future__ import annotations

from typing import Any

import pytest
from spoken_folders import record

from tts_cli.checks.baselines import MIN_ROWS, Voices
from tts_cli.checks.suspicion import MOST, reasons_of, severity
from tts_cli.store.take import Take


def speech(**changes: Any) -> Take:
    """A row of a voice that says 17 letters a second at -20 dBFS."""
    made = Take.of(record("a", **changes))
    assert made is not None
    return made


def usual(count: int = 20, **changes: Any) -> list[Take]:
    return [
        speech(**{"audio_s": 4 + place % 5 / 20, "level_dbfs": -20 - place % 3 / 2, **changes})
        for place in range(count)
    ]


def kinds(row: Take, others: list[Take] | None = None) -> list[str]:
    voices = Voices(usual() if others is None else others)
    return [reason.kind for reason in reasons_of(row, voices)]


def test_a_usual_row_is_not_suspect() -> None:
    assert kinds(speech()) == []


@pytest.mark.parametrize(
    ("changes", "kind", "figures"),
    [
        (
            {"audio_s": 2.2},
            "fast",
            "1.95 times as fast as usual for clara, 33.5 letters per second",
        ),
        ({"audio_s": 9.0}, "slow", "2.26 times as slow as usual for clara, 7.6 letters per second"),
        ({"level_dbfs": -11.0}, "loud", "-11.0 dBFS; usual for clara: -20.5"),
        ({"level_dbfs": -30.0}, "quiet", "-30.0 dBFS; usual for clara: -20.5"),
        ({"level_dbfs": None}, "quiet", "digital silence"),
        ({"clipped_share": 0.02}, "clipped", "2.0 % of samples are at full scale"),
        (
            {"remarks": [["long", "9.0 s where about 3.0 s were expected", 2.0]]},
            "long",
            "9.0 s where about",
        ),
        (
            {"remarks": [["silence", "near silence for 2.5 s", 2.0]]},
            "silence",
            "near silence for 2.5 s",
        ),
        ({"silence_inside_s": 1.1}, "silence", "near silence for 1.1 s inside"),
        ({"remarks": [["repeats", "one first code for 1.2 s", 2.0]]}, "repeats", "one first code"),
        (
            {"remarks": [["fast", "1.40 times as fast as the other parts", 2.0]]},
            "fast",
            "1.40 times as fast",
        ),
        ({"suspect": ["said 3 of 9 words"]}, "other", "said 3 of 9 words"),
        ({"finish_reason": "early"}, "early", "ended before its text can be over: 4.0 s for 83"),
        ({"finish_reason": "max_frames"}, "cut", "reached the maximum length: 4.0 s"),
        ({"finish_reason": "stuck"}, "stuck", "got stuck"),
    ],
)
def test_reasons_have_figures(changes: dict[str, Any], kind: str, figures: str) -> None:
    (reason,) = reasons_of(speech(**changes), Voices(usual()))
    assert reason.kind == kind
    assert reason.text.startswith(figures)
    assert 1 <= reason.weight <= MOST


def test_failed_rows_are_not_compared() -> None:
    assert kinds(speech(status="failed", audio_s=0.5, level_dbfs=-60.0, frames=2)) == []


def test_few_rows_are_not_compared_but_silence_is_told() -> None:
    few = usual(MIN_ROWS - 1)
    assert kinds(speech(audio_s=20.0, level_dbfs=-5.0), few) == []
    assert kinds(speech(level_dbfs=-50.0), few) == ["quiet"]


def test_every_voice_is_compared_with_itself() -> None:
    others = usual() + usual(voice="dora", level_dbfs=-35.0)
    assert kinds(speech(voice="dora", level_dbfs=-35.0), others) == []
    assert kinds(speech(voice="dora", level_dbfs=-20.0), others) == ["loud"]


def test_a_voice_that_speaks_unevenly_is_given_room() -> None:
    wild = [speech(audio_s=2.0 + 0.4 * place) for place in range(20)]
    assert kinds(speech(audio_s=8.5), wild) == []


def test_scripts_are_compared_with_their_own() -> None:
    chinese = "\u5348\u996d\u4ee5\u540e\u56de\u6765\u8d70\u8d70\u5427\u3002" * 3
    others = usual() + usual(text=chinese)
    assert kinds(speech(text=chinese), others) == []
    assert kinds(speech(text=chinese, audio_s=15.0), others) == ["slow"]


def test_reasons_add_up_the_weightiest_first() -> None:
    reasons = reasons_of(speech(level_dbfs=None, clipped_share=0.0011), Voices(usual()))
    assert [reason.kind for reason in reasons] == ["quiet", "clipped"]
    assert severity(reasons) == pytest.approx(MOST + 1.1)


def part(start_s: float, end_s: float) -> dict[str, Any]:
    return {"text_start": 0, "text_end": 9, "start_s": start_s, "end_s": end_s}


def test_pauses_that_were_asked_for_are_none() -> None:
    """Neither marks of the text nor joints of parts; but a longer silence elsewhere is one."""
    parts = [part(0.0, 2.0), part(3.5, 5.5)]
    asked = speech(parts=parts, audio_s=5.5, silence_inside_s=1.54)
    assert kinds(asked) == []
    assert kinds(speech(parts=parts, audio_s=5.5, silence_inside_s=1.9)) == ["silence"]
    pausing = [speech(silence_inside_s=1.0 + place % 4 / 10) for place in range(20)]
    assert kinds(speech(silence_inside_s=1.3), pausing) == [], "this voice pauses"
