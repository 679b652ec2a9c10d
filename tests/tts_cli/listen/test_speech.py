"""Lines of any version and any content become speeches, or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tts_cli.listen.speech import inner_path, speech_of

LINE = {"id": "a", "status": "ok"}


@pytest.mark.parametrize(
    "values",
    [
        None,
        [],
        "a",
        {"id": "a"},
        {"id": "a", "status": "done"},
        {"id": "", "status": "ok"},
        {"id": 7, "status": "ok"},
        {"id": "a", "status": "ok", "take": "2"},
        {"id": "a", "status": "ok", "take": True},
        {"id": "a", "status": "ok", "take": -1},
    ],
)
def test_what_is_no_row(values: Any) -> None:
    assert speech_of(values, 0) is None


def test_a_line_of_the_first_version() -> None:
    """Without schema, take and text; its seed has 63 bits, which a browser would round."""
    speech = speech_of({**LINE, "seed": 2**62 + 1, "text_chars": 12, "audio_s": 1.5}, 3)
    assert speech is not None
    assert (speech.take, speech.place, speech.text, speech.seed) == (1, 3, None, None)
    assert (speech.text_chars, speech.audio_s) == (12, 1.5)


def test_a_made_voice_has_a_name_and_no_path() -> None:
    speech = speech_of({**LINE, "voice": ".voices/ann-0123456789ab"}, 0)
    assert speech is not None
    assert speech.voice == "ann-0123456789ab"


def test_what_is_not_of_its_type_is_not_known() -> None:
    speech = speech_of(
        {
            **LINE,
            "text": 5,
            "voice": ["x"],
            "audio_s": "long",
            "level_dbfs": 1e400,
            "clipped_share": -1,
            "frames": 2.5,
            "suspect": ["a", 7],
            "parts": [{"text_start": 0, "text_end": "x", "start_s": 0, "end_s": 1}],
            "decode_ms": None,
        },
        0,
    )
    assert speech is not None
    assert (speech.text, speech.voice, speech.level_dbfs) == (None, None, None)
    assert (speech.audio_s, speech.clipped_share, speech.frames) == (0.0, None, 0)
    assert speech.suspect == ("a",)
    assert speech.parts == ()
    assert speech.stages_ms == (0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "path", ["/a.wav", "../a.wav", "a/../../b.wav", "a\\b.wav", "", ".", "a\0b", 7]
)
def test_paths_that_could_lead_out(path: Any) -> None:
    assert inner_path(path) is None


def test_paths_inside() -> None:
    assert inner_path("a/b c.wav") == "a/b c.wav"
    assert inner_path("./javascript:alert(1)") == "javascript:alert(1)"
