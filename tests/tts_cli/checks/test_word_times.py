"""Times of words as programs, players and Praat read them, by parsers of others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from tts_cli.checks.word_times import TimedWord, WordTimes, joined_words, textgrid, words_vtt

TEXT = '"Well," said <he> & she; it is 3.50 now. [pause 1s] Then "all" of them went.'


def times_of(text: str = TEXT) -> WordTimes:
    """Words of a third of a second each, with a tenth between them."""
    words = [
        TimedWord(
            found[0],
            round(0.5 + 0.4 * number, 3),
            round(0.8 + 0.4 * number, 3),
            *(0.4, *found.span(), "dictionary"),
        )
        for number, found in enumerate(re.finditer(r"[\w.]*\w", text.replace("pause 1s", " " * 8)))
    ]
    return WordTimes("a", 1, "ab", "some aligner", text, 10.0, 0.4, words)


def test_json_reads_back() -> None:
    times = times_of()
    assert WordTimes.decode(times.encode()) == times


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b"[" * 100_000, b'{"id": 1}', times_of().encode().replace(b"0.5,", b"9.5,")]
)
def test_what_makes_no_sense_is_none(raw: bytes) -> None:
    assert WordTimes.decode(raw) is None


def test_places_outside_of_the_text_are_none() -> None:
    assert WordTimes.decode(replace(times_of(), text="short").encode()) is None


def test_words_of_joined_files() -> None:
    first, last = times_of("One two."), replace(times_of("Three."), unsure=["odd"], score=0.1)
    files = [("One two.", -0.1, first), ("Not aligned.", 1.0, None), ("Three.", 0.6, last)]
    found = joined_words("01-one", "sum", 9.0, files)
    assert found is not None
    assert WordTimes.decode(found.encode()) == found
    assert found.text == "One two. Not aligned. Three."
    edges = [(word.start_s, word.end_s) for word in found.words]
    assert edges == [(0.4, 0.7), (0.8, 1.1), (1.1, 1.4)], "none begins before another ends"
    texts = [found.text[word.text_start : word.text_end] for word in found.words]
    assert texts == ["One", "two", "Three"]
    assert found.unsure == ["the times of 'Not aligned.' are unknown", "a: odd"]
    assert (found.id, found.sha256, found.audio_s, found.score) == ("01-one", "sum", 9.0, 0.3)
    assert joined_words("x", "sum", 9.0, files[1:2]) is None


def test_vtt(tmp_path: Path) -> None:
    webvtt = pytest.importorskip("webvtt", reason="webvtt-py reads it back")
    times = replace(times_of(), unsure=["check: <b> --> c"])
    path = tmp_path / "a.vtt"
    path.write_text(words_vtt(times))
    cues = list(webvtt.read(path))
    assert len(cues) == 2, "a cue a sentence"
    assert cues[0].start == "00:00:00.500"
    assert cues[1].end == "00:00:05.600"
    moments = re.findall(r"<(\d\d:\d\d:\d\d\.\d{3})>", words_vtt(times))
    assert len(moments) == len(times.words) - 2, "a cue's first word has its start"
    assert moments == sorted(moments)
    shown = re.sub(r"<[\d:.]+>", "", words_vtt(times).split("\n\n")[2])
    assert shown.split("\n")[2] == '"Well," said &lt;he&gt; &amp; she; it is 3.50 now.'
    assert "pause" not in words_vtt(times)


def test_moments_are_inside_of_their_cue_and_in_order() -> None:
    times = times_of("a b c")
    same = [replace(word, start_s=0.5, end_s=0.5) for word in times.words]
    assert "<" not in words_vtt(replace(times, words=same))


def test_textgrid(tmp_path: Path) -> None:
    reader = pytest.importorskip("textgrid", reason="textgrid reads it back")
    times = times_of()
    path = tmp_path / "a.TextGrid"
    path.write_text(textgrid(times))
    (tier,) = reader.TextGrid.fromFile(str(path))
    assert (tier.name, tier.minTime, tier.maxTime) == ("words", 0.0, 10.0)
    said = [(one.mark, one.minTime, one.maxTime) for one in tier if one.mark]
    assert said == [(word.word, word.start_s, word.end_s) for word in times.words]
    assert [one.minTime for one in tier][1:] == [one.maxTime for one in tier][:-1], "no gaps"
