"""A phrase twice in a row, as pocketsphinx heard the sample voice say it."""

from __future__ import annotations

import pytest
from cases import cases

from tts_cli.checks.asr.compare import repeat_of

CASES = cases(__file__)["repeat"]


@pytest.mark.parametrize(("heard", "phrase", "num_letters"), CASES["words_that_stand_twice"])
def test_words_that_stand_twice(heard: str, phrase: str, num_letters: int) -> None:
    assert repeat_of(heard.split(), "words") == (phrase, num_letters)


@pytest.mark.parametrize(
    "heard", ["", "water", "water boils at two hundred", "one of them went to one of the"]
)
def test_words_that_do_not(heard: str) -> None:
    assert repeat_of(heard.split(), "words") is None


def test_characters() -> None:
    twice = "\u4f60\u597d\u5417"
    assert repeat_of(f"{twice}{twice}\u6211", "characters") == (twice, 3)
    assert repeat_of("\u6211\u4eec\u4eca\u5929\u53bb", "characters") is None
