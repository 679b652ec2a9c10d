"""Subtitles, read back by pysubs2."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tts_cli.deliver.subtitles import MAX_CUE_CHARS, Spoken, cues, subtitles

pysubs2 = pytest.importorskip("pysubs2", reason="pysubs2 (extra dev) is not installed")

LONG = (
    "The ferryman had not slept, and the river was high; she stood on the other bank, as she had "
    "stood there every evening since the war, and he could not tell whether she saw him."
)
TEXTS = [
    Spoken("Stay, please.", 0.3104, 1.2),
    Spoken(LONG, 1.5, 12.5),
    Spoken("Braces {stay} and a\\Nbackslash, 2 < 3 & 4 > 3.", 3725.0, 3727.0),
]


@pytest.mark.parametrize("format", ["srt", "vtt"])
def test_times_and_texts(format: str) -> None:
    made = subtitles(TEXTS, format)
    events = pysubs2.SSAFile.from_string(made, format_=format).events
    assert (events[0].start, events[0].end) == (310, 1200)
    assert events[0].plaintext == "Stay, please."
    middle = events[1:-1]
    assert (middle[0].start, middle[-1].end) == (1500, 12500)
    assert all(a.end == b.start for a, b in pairwise(middle))
    assert " ".join(event.plaintext.replace("\n", " ") for event in middle) == LONG
    assert events[-1].start == 3_725_000


def test_signs_of_the_format_are_text() -> None:
    # pysubs2 took braces for markup, and dropped what stood in them.
    srt, vtt = (subtitles(TEXTS, format) for format in ("srt", "vtt"))
    assert "\nBraces {stay} and\na\\Nbackslash, 2 < 3 & 4 > 3.\n" in srt
    assert "\nBraces {stay} and\na\\Nbackslash, 2 &lt; 3 &amp; 4 &gt; 3.\n" in vtt


def test_estimated_times_are_told() -> None:
    assert subtitles(TEXTS, "vtt").startswith("WEBVTT\n\nNOTE ")
    assert "estimated" in subtitles(TEXTS, "vtt")


@pytest.mark.parametrize(
    "text", [LONG, "one", "x" * 500, "word " * 100, "今天下了一整天的大雨。河水涨得很高。" * 6]
)
def test_cues_fit_a_screen_and_lose_nothing(text: str) -> None:
    found = list(cues(Spoken(text, 2.0, 9.0)))
    assert "".join(cue.text for cue in found).replace(" ", "") == text.replace(" ", "")
    assert all(0 < len(cue.text) <= MAX_CUE_CHARS for cue in found)
    assert (found[0].start_s, found[-1].end_s) == (2.0, 9.0)
    assert all(cue.start_s < cue.end_s for cue in found)


def test_no_texts() -> None:
    assert subtitles([], "srt") == ""
