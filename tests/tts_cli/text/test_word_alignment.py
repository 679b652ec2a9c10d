"""Every word of a written text has what is synthesized for it, whatever its edits are."""

from __future__ import annotations

import pytest

from tts_cli.text.frontend import normalize
from tts_cli.text.normalized_text import Edit, NormalizedText
from tts_cli.text.pauses import pause_spans
from tts_cli.text.word_alignment import one_edit, written_words


def spoken_for(normalized: NormalizedText) -> list[tuple[str, str]]:
    found = written_words(normalized)
    for word in found:
        assert normalized.text[word.start : word.end] == word.text
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
        ("See \u00a75 of it.", [("5", "section five"), ("of", "of")]),
        ("JournalEntry 3 km now.", [("3", "three"), ("km", "kilometers"), ("now", "now")]),
        ("Pay $3 million, he said.", [("$3 million", "three million dollars"), ("he", "he")]),
        ("10 \u00d7 3 = 30", [("10", "ten"), ("3", "times three"), ("=", "equals")]),
    ],
)
def test_words_and_what_is_synthesized_for_them(written: str, found: list[tuple[str, str]]) -> None:
    edits = normalize(written, "english", pause_spans(written))
    words = spoken_for(NormalizedText.of(written, edits))
    assert set(found) <= set(words), words
    assert " ".join(said for _, said in words).split()


def test_the_edits_of_a_lexicon() -> None:
    name = NormalizedText("Ask Nguyen today.", (Edit(4, 10, "win"),))
    assert spoken_for(name)[1] == ("Nguyen", "win")
    two = NormalizedText("Ask A B today.", (Edit(4, 7, "the very first"),))
    assert spoken_for(two) == [("Ask", "ask"), ("A B", "the very first"), ("today", "today")]
    same = NormalizedText("Go on on.", (Edit(3, 5, "right on"),))
    assert spoken_for(same) == [("Go", "go"), ("on", "right on"), ("on", "on")]
    at_the_end = NormalizedText("Go \u2192", (Edit(3, 4, "then"),))
    assert spoken_for(at_the_end) == [("Go", "go then")]
    empty = NormalizedText("Go on.", (Edit(3, 5, ""),))
    assert spoken_for(empty) == [("Go", "go")]


@pytest.mark.parametrize(
    ("written", "spoken", "found"),
    [
        ("He paid $5 then.", "He paid five dollars then.", ("$5", "five dollars")),
        ("On 5 May.", "On the fifth of May.", ("5", "the fifth of")),
        ("Go now.", "Go right now.", ("Go now", "go right now")),
        ("A 5", "A five", ("5", "five")),
    ],
)
def test_a_text_whose_edits_are_not_known(
    written: str, spoken: str, found: tuple[str, str]
) -> None:
    normalized = one_edit(written, spoken)
    assert normalized.spoken == spoken
    assert found in spoken_for(normalized)


@pytest.mark.parametrize("text", ["", " ", "...", "[pause 1s]", "\u2014 \u2014"])
def test_no_words(text: str) -> None:
    assert written_words(NormalizedText(text)) == []
    assert written_words(one_edit(text, "words")) == []
