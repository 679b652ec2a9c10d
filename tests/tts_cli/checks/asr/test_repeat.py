"""A phrase twice in a row, as pocketsphinx heard the sample voice say it."""

from __future__ import annotations

import pytest

from tts_cli.checks.asr.compare import repeat_of


@pytest.mark.parametrize(
    ("heard", "phrase", "num_letters"),
    [
        (
            "train number eighty two train number eighty two to chicago",
            "train number eighty two",
            20,
        ),
        (
            "i'm ashamed to adjourn muslim aid by mr peterman second in mr peterman seconded by",
            "mr peterman second in",
            16,
        ),
        ("police are asking any intel is sarah asking any news", "are asking any intel is", 14),
        (
            "they are samuel your car so alive samuel your cause alive",
            "samuel your car so alive",
            18,
        ),
        ("the name of the name of the name of your dog", "the name of", 9),
        # What ordinary texts have.
        ("it was the best of times it was the worst of times", "it was the best of times", 17),
        ("and past the nine and past the eight", "and past the nine", 10),
        ("no no no not like that", "no no", 4),
    ],
)
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
