"""Which texts hold nothing, and which hold nothing to speak."""

from __future__ import annotations

import pytest
from cases import cases

from models.fish_speech.family import PACE as FISH
from tts_cli.text.words import is_blank, is_wordless


def test_what_is_blank_and_what_has_no_words() -> None:
    words = cases(__file__)["words"]
    for kind, texts in words.items():
        for name, text in texts.items():
            assert is_blank(text) is (kind == "blank"), name
            assert is_wordless(text) is (kind != "some"), name


@pytest.mark.parametrize(
    ("text", "is_without"),
    [("[laugh]", True), ("<|speaker:0|> ...", True), ("[laugh] Ha.", False), ("[laugh", False)],
)
def test_what_a_checkpoint_reads_as_markup_is_no_word(text: str, is_without: bool) -> None:
    assert is_wordless(text, FISH) == is_without
    assert not is_wordless(text)
