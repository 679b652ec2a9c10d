"""Codes of languages: as tools write them, never in the way of a name."""

from __future__ import annotations

import pytest

from tts_cli.text.frontend import TextFrontend
from tts_cli.text.languages import CODES, code_of, named_language

KNOWN = ("auto", *CODES, "sichuan_dialect")


@pytest.mark.parametrize(
    ("code", "name"),
    [
        *[("en", "english"), ("EN", "english"), ("en-US", "english"), ("en_GB", "english")],
        *[("zh-CN", "chinese"), ("zh-Hant-TW", "chinese"), ("cmn", "chinese")],
        *[("pt_BR", "portuguese"), ("deu", "german"), ("es-419", "spanish"), ("ja", "japanese")],
    ],
)
def test_codes(code: str, name: str) -> None:
    assert named_language(code, KNOWN) == name


@pytest.mark.parametrize("value", ["auto", "english", "English", "yue", "xx", "en US", "e", ""])
def test_what_is_no_code_stays(value: str) -> None:
    assert named_language(value, KNOWN) == value


def test_only_languages_that_are_known() -> None:
    assert named_language("de", ("auto", "english")) == "de"
    assert named_language("de", ("auto", "de")) == "de"
    assert named_language("en", ("auto",)) == "en"


def test_the_normalizer_and_lexicons_take_them(tmp_path, make_info) -> None:  # type: ignore[no-untyped-def]
    from tts_cli.config import RunConfig

    lexicon = tmp_path / "words.tsv"
    lexicon.write_text("SQL\tsequel\ten-US\n")
    info = make_info(languages=("auto", "english"))
    care = TextFrontend.of(RunConfig(normalize="en-GB", lexicon=lexicon), info)
    assert (care.language, care.lexicon.entries[0].language) == ("english", "english")


@pytest.mark.parametrize(
    ("language", "code"),
    [
        *[("english", "en"), ("German", "de"), ("zh-CN", "zh"), ("deu", "de"), ("klingon", None)],
        *[("nl", "nl"), ("nl-NL", "nl"), ("sv_SE", "sv"), ("yue", "yue"), ("auto", None)],
    ],
)
def test_the_code_of_a_language(language: str, code: str | None) -> None:
    assert code_of(language) == code
