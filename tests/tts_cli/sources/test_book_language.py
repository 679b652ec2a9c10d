"""Language tags of books and the names that checkpoints have for them."""

from __future__ import annotations

import pytest

from tts_cli.sources.chapters import is_language, known_language

KNOWN = ("auto", "english", "chinese", "german")


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("en", "english"),
        ("en-GB", "english"),
        ("EN_us", "english"),
        (" eng ", "english"),
        ("English", "english"),
        ("ger", "german"),
        ("de-CH-1996", "german"),
        ("zh-Hant-TW", "chinese"),
        ("cmn", "chinese"),
        ("zh-yue", None),
        ("yue", None),
        ("fr", None),  # the checkpoint does not know it
        ("auto", None),
        ("und", None),
        ("", None),
        (None, None),
    ],
)
def test_names(tag: str | None, name: str | None) -> None:
    assert known_language(tag, KNOWN) == name


@pytest.mark.parametrize("tag", ["de", "deu", "de-CH", "zh-yue", "nl", " EN ", "German"])
def test_languages(tag: str) -> None:
    assert is_language(tag)


@pytest.mark.parametrize("tag", ["", "und", "mul", "zxx", "auto", "x-default", "unknown", "1"])
def test_what_names_no_language(tag: str) -> None:
    assert not is_language(tag)
