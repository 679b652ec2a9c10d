"""Subtitles, read back by pysubs2."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tts_cli.audio.pacing import Pause
from tts_cli.audio.subtitles import (
    MAX_CUE_CHARS,
    TimedText,
    cues,
    shifted,
    split_at_parts,
    subtitles,
)

pysubs2 = pytest.importorskip("pysubs2", reason="pysubs2 (extra dev) is not installed")

LONG = (
    "The ferryman had not slept, and the river was high; she stood on the other bank, as she had "
    "stood there every evening since the war, and he could not tell whether she saw him."
)
TEXTS = [
    TimedText("Stay, please.", 0.3104, 1.2),
    TimedText(LONG, 1.5, 12.5),
    TimedText("Braces {stay} and a\\Nbackslash, 2 < 3 & 4 > 3.", 3725.0, 3727.0),
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


def test_times_of_a_file_from_anybody() -> None:
    made = "WEBVTT\n\n00:01.500 --> 01:00:02.000 line:0\n0:00:09,000 is said\n"
    moved = "WEBVTT\n\n00:00:00.000 --> 01:00:00.000 line:0\n0:00:09,000 is said\n"
    assert shifted(made, -2.0) == moved
    long = f"{'9' * 50_000}:00:00,000 --> 00:00:01,000"  # more digits than int takes
    assert shifted(long, 1.0).endswith(" --> 00:00:02,000")


def test_signs_of_the_format_are_text() -> None:
    # pysubs2 took braces for markup, and dropped what stood in them.
    srt, vtt = (subtitles(TEXTS, format) for format in ("srt", "vtt"))
    assert "\nBraces {stay} and\na\\Nbackslash, 2 < 3 & 4 > 3.\n" in srt
    assert "\nBraces {stay} and\na\\Nbackslash, 2 &lt; 3 &amp; 4 &gt; 3.\n" in vtt


@pytest.mark.parametrize(("format", "arrow"), [("srt", "\u2192"), ("vtt", "--&gt;")])
def test_a_text_is_no_line_of_times(format: str, arrow: str) -> None:
    made = subtitles(
        [TimedText("0:09,000 --> 0:10,000", 1.0, 2.0), TimedText("a-->b", 2.0, 3.0)], format
    )
    assert made.count("-->") == 2
    assert f"\n0:09,000 {arrow} 0:10,000\n" in made
    assert f"\na{arrow}b\n" in made


PARTS = [
    {"text_start": 0, "text_end": 12, "start_s": 0.0, "end_s": 1.5},
    {"text_start": 13, "text_end": 30, "start_s": 1.9, "end_s": 4.0},
]
TWO = "It was late. Nobody was there."


def test_parts_have_the_edges_of_the_audio() -> None:
    whole = TimedText(TWO, 10.2, 13.8, (Pause(11.0, 11.2),))
    found = split_at_parts(whole, PARTS, TWO, 10.0)
    assert found == [
        TimedText("It was late. ", 10.2, 11.5, (Pause(11.0, 11.2),)),
        TimedText("Nobody was there.", 11.9, 13.8, (Pause(11.0, 11.2),)),
    ]
    assert "00:00:10,200 --> 00:00:11,500\nIt was late.\n" in subtitles(found, "srt")
    assert "NOTE All times are those of the audio." in subtitles(found, "vtt")


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], TWO),
        (PARTS[:1], TWO),
        (PARTS, "Another text than the one the row has now."),
        ([PARTS[1], PARTS[0]], TWO),
        ([PARTS[0], PARTS[1] | {"start_s": 9.0}], TWO),
        ([PARTS[0], PARTS[1] | {"text_start": 99}], TWO),
    ],
)
def test_parts_that_say_nothing_of_the_text(parts: list[dict[str, float]], text: str) -> None:
    whole = TimedText(TWO, 10.2, 13.8)
    assert split_at_parts(whole, parts, text, 10.0) == [whole]


def test_cues_are_cut_where_the_sense_is() -> None:
    """`No. | 14` and `June 2nd, | 1921` were cut, behind what looks like an end."""
    text = (
        "On the morning of that day in January, the clock which hangs above the door of No. 14 in "
        "our street began to run backward. On the evening of June 2nd, 1921, it did so again."
    )
    assert [cue.text for cue in cues(TimedText(text, 0.0, 10.0))] == [
        "On the morning of that day in January,",
        "the clock which hangs above the door of No. 14 in our street began to run backward.",
        "On the evening of June 2nd, 1921, it did so again.",
    ]


@pytest.mark.parametrize(
    "text", [LONG, "one", "x" * 500, "word " * 100, "今天下了一整天的大雨。河水涨得很高。" * 6]
)
def test_cues_fit_a_screen_and_lose_nothing(text: str) -> None:
    found = list(cues(TimedText(text, 2.0, 9.0)))
    assert "".join(cue.text for cue in found).replace(" ", "") == text.replace(" ", "")
    assert all(0 < len(cue.text) <= MAX_CUE_CHARS for cue in found)
    assert (found[0].start_s, found[-1].end_s) == (2.0, 9.0)
    assert all(cue.start_s < cue.end_s for cue in found)
