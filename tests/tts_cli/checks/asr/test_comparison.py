"""What was heard against the text: how much is wrong, and what counts for nothing."""

from __future__ import annotations

import pytest
from cases import cases

from tts_cli.checks.asr.compare import compare, fold_spelling, unit_of
from tts_cli.checks.asr.recognizer import Identity
from tts_cli.checks.asr.transcriber import Transcriber
from tts_cli.checks.verdicts import Segment, Transcript
from tts_cli.core import Status
from tts_cli.store.entry import JournalEntry

CASES = cases(__file__)["comparison"]

pytest.importorskip("rapidfuzz", reason="rapidfuzz comes with the asr extra")


def heard(
    text: str, words: str, language: str | None = "english", **more: str | None
) -> Transcript:
    found = compare([more.get("spoken"), text], words, language, "ear")
    assert found is not None
    return found


@pytest.mark.parametrize(("text", "words"), CASES["what_counts_for_nothing"])
def test_what_counts_for_nothing(text: str, words: str) -> None:
    found = heard(text, words)
    assert (found.wer, found.longest_wrong, found.cer) == (0, 0, 0)
    assert not any(piece.is_wrong for piece in found.segments)


def test_words_lost_said_twice_and_misheard() -> None:
    lost = heard("one cat and two dogs sat there", "a cat and two dogs")
    assert lost.wanted == 7
    assert lost.wer == round(3 / 7, 4), "as it is read back"
    assert lost.longest_wrong == 2
    assert lost.segments[-1] == Segment("sat there", "")
    assert lost.wrong_letters == 8
    twice = heard("the cat sat there", "the cat sat the cat sat there")
    assert (twice.wer, twice.longest_wrong) == (0.75, 3)
    nearly = heard("the river was too wide", "there ever was two wide")
    assert nearly.wer >= 0.6
    assert nearly.cer < 0.3


def test_the_form_that_fits_best_counts() -> None:
    """Of a text that the lexicon respelled; and numbers in figures, or in words."""
    found = heard("Nguyen came.", "new in came", spoken="New-in came.")
    assert found.wer == 0
    digits = heard("Dial five five five", "dial five five nine")
    assert digits.wer <= 0.5
    assert digits.wanted >= 2


@pytest.mark.parametrize(
    ("language", "text", "unit"), [*CASES["units"], (None, "one two", "words")]
)
def test_units(language: str | None, text: str, unit: str) -> None:
    assert unit_of(language, text) == unit


def test_characters() -> None:
    text, words = "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u4f60\u597d\u4e16\u95f4"
    found = heard(text, words, "chinese")
    assert (found.unit, found.wanted, found.wer) == ("characters", 4, 0.25)
    assert found.segments == (Segment(words[:3], words[:3]), Segment("\u754c", "\u95f4"))


def test_other_languages_keep_their_letters() -> None:
    assert heard("Sch\u00f6ne Gr\u00fc\u00dfe!", "sch\u00f6ne gr\u00fc\u00dfe", "german").wer == 0
    assert (
        heard(
            "\u041f\u0440\u0438\u0432\u0435\u0442.", "\u043f\u0440\u0438\u0432\u0435\u0442", "ru"
        ).wer
        == 0
    )


def test_a_text_without_words_is_not_compared() -> None:
    assert compare(["..."], "hm", "english", "ear") is None
    assert compare([None, "[pause 2 s]"], "hm", "english", "ear") is None


def test_spellings_of_a_checkpoint() -> None:
    found = compare(
        ["grey waggon"], "gray wagon", "en", "ear", (("waggon", "wagon"), ("grey", "gray"))
    )
    assert found is not None
    assert found.wer == 0


@pytest.mark.parametrize("word", ["four", "hour", "our", "wise", "there", "fire", "hello", "fence"])
def test_short_words_stay(word: str) -> None:
    assert fold_spelling(word) == word


@pytest.mark.parametrize(("text", "is_heard"), CASES["english_by_its_text"])
def test_english_by_its_text(text: str, is_heard: bool) -> None:
    """Curly quotes or an é made a text of which no language is told another language's."""
    take = JournalEntry("a", Status.OK, text=text, language="auto")
    assert Transcriber(Identity("ear", languages=("en",)), None).is_supported(take) is is_heard
    if is_heard:  # numbers may come as figures, as of English
        words = text.replace("wenty dollars", "$20").replace("t$20", "$20").replace("T$20", "$20")
        assert heard(text, words, language=None).wer == 0
