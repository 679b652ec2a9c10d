"""Every word of a written text has what is spoken for it, whatever text care has made of it."""

from __future__ import annotations

import pytest

from tts_cli.text.care import normalize
from tts_cli.text.pauses import pause_spans
from tts_cli.text.reading import Reading
from tts_cli.text.wording import written_words


def spoken_for(written: str, spoken: str | None = None) -> list[tuple[str, str]]:
    said = spoken or Reading.of(written, normalize(written, "english", pause_spans(written))).spoken
    found = written_words(written, said)
    for word in found:
        assert written[word.start : word.end] == word.text
    return [(word.text, " ".join(word.spoken)) for word in found]


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("Hello, world!", [("Hello", "hello"), ("world", "world")]),
        ("It costs 3.50 now.", [("costs", "costs"), ("3.50", "three point five zero")]),
        ("Dr. Smith paid $5 10% late.", [("$5", "five dollars"), ("10%", "ten percent")]),
        ("Wait \u2014 [pause 500ms] don\u2019t go.", [("Wait", "wait"), ("don\u2019t", "don't")]),
        ("one\u2014two", [("one", "one"), ("two", "two")]),
        ("You & I.", [("&", "and"), ("I", "i")]),
    ],
)
def test_words_and_what_is_said_for_them(written: str, found: list[tuple[str, str]]) -> None:
    words = spoken_for(written)
    assert set(found) <= set(words), words
    assert " ".join(said for _, said in words).split()


def test_a_lexicon_and_words_that_nobody_can_tell_apart() -> None:
    assert spoken_for("Ask Nguyen today.", "Ask win today.")[1] == ("Nguyen", "win")
    assert spoken_for("Ask A B today.", "Ask the very first today.")[1] == ("A B", "the very first")
    assert spoken_for("Go.", "Then go.") == [("Go", "then go")]
    assert spoken_for("Go on.", "Go right on then.") == [("Go", "go right"), ("on", "on then")]


@pytest.mark.parametrize("text", ["", " ", "...", "[pause 1s]", "\u2014 \u2014"])
def test_no_words(text: str) -> None:
    assert written_words(text, text) == []
    assert written_words(text, "words") == []
