"""Numbers of languages other than English, by num2words."""

from __future__ import annotations

import sys

import pytest
from cases import lines_of

from tts_cli.errors import SetupError
from tts_cli.text import languages as other_languages
from tts_cli.text import rule
from tts_cli.text.frontend import LANGUAGES, normalize
from tts_cli.text.normalized_text import NormalizedText


def say(text: str, language: str) -> str:
    return NormalizedText.of(text, normalize(text, language)).spoken


def test_numbers() -> None:
    for language, written, spoken in lines_of(__file__, "other_languages.tsv"):
        assert say(written, language) == spoken


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_long_rows_of_digits_are_left_or_read_but_never_fatal(language: str) -> None:
    text = "1" * 400 + " 12 " + "1,1.1 " * 50
    assert normalize(text, language)


def test_a_reader_that_fails_leaves_its_number_and_is_told_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """num2words raised ValueError for `1.250.000,5`, which ended the run as an internal error."""
    import num2words

    def fail(number: object, **_: object) -> str:
        if number == 7:
            raise NotImplementedError("seven is not known")
        return "tal"

    other_languages.rules_of.cache_clear()
    monkeypatch.setattr(rule, "_failed", set())
    monkeypatch.setattr(num2words, "num2words", fail)
    assert say("Es sind 5 und 7 und 7,5.", "german") == "Es sind tal und 7 und 7,5."
    other_languages.rules_of.cache_clear()
    assert len(caplog.records) == 1
    assert "'7', and all other text" in caplog.text
    assert "seven is not known" in caplog.text


def test_without_num2words_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    other_languages.rules_of.cache_clear()
    monkeypatch.setitem(sys.modules, "num2words", None)
    with pytest.raises(SetupError, match=r"in german, .* needs num2words: .*; pip install"):
        normalize("5", "german")
