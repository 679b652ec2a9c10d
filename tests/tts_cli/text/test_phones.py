"""Pronunciations in ARPAbet, IPA and pinyin, and lexicons of the W3C."""

from __future__ import annotations

from pathlib import Path

import pytest

from tts_cli.errors import UsageError
from tts_cli.text.lexicon import parse_row_lexicon, read_lexicon
from tts_cli.text.phones import ARPABET, IPA, PINYIN, has_phones, parse, respelled, tagged

FISH = r"<\|phoneme_start\|>[^<]*<\|phoneme_end\|>"
PLS = """<?xml version="1.0" encoding="UTF-8"?>
<lexicon version="1.0" xmlns="http://www.w3.org/2005/01/pronunciation-lexicon"
  alphabet="ipa" xml:lang="en-US">
  <lexeme><grapheme>Siobhan</grapheme><grapheme>Shivaun</grapheme>
    <phoneme>ʃɪˈvɔːn</phoneme></lexeme>
  <lexeme><grapheme>W3C</grapheme><alias>World Wide Web Consortium</alias>
    <phoneme>x</phoneme></lexeme>
</lexicon>
"""


def test_ipa_becomes_the_phones_of_cmudict() -> None:
    assert parse("ˌɛndʒəˈnɪɹ", IPA) == ["EH2", "N", "JH", "AH0", "N", "IH1", "R"]
    assert parse("ʃɪˈvɔːn", IPA) == ["SH", "IH0", "V", "AO1", "N"]
    assert parse("/ˈtʃaɪ.nə/", IPA) == ["CH", "AY1", "N", "AH0"]


@pytest.mark.parametrize(
    ("spoken", "alphabet", "words"),
    [
        ("ʀoʒ", IPA, "'ʀ' is not a sign"),
        ("EH1 QQ", ARPABET, "'QQ' is not arpabet"),
        ("gong", PINYIN, "'gong' is not pinyin"),
        ("gong6", PINYIN, "not pinyin"),
        ("ˈ.", IPA, "no sounds"),
    ],
)
def test_what_is_no_pronunciation(spoken: str, alphabet: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse(spoken, alphabet)


def test_models_that_read_phones_get_tags() -> None:
    assert has_phones(FISH)
    assert not has_phones(None)
    assert not has_phones(r"\[[^]]*\]")
    word = tagged(["EH1", "N"], ARPABET)
    assert word == "<|phoneme_start|>EH1 N<|phoneme_end|>"
    assert tagged(["gong1", "shi1"], PINYIN).count("<|phoneme_start|>") == 2


def test_others_get_letters() -> None:
    assert respelled(parse("ʃɪˈvɔːn", IPA)) == "shih-vawn"
    assert respelled(parse("EH2 N JH AH0 N IH1 R", ARPABET)) == "ehn-juh-nihr"
    assert respelled(["AY1"]) == "eye"


def test_a_lexicon_with_alphabets(tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_text(
        "from\tto\tlanguage\talphabet\nSiobhan\tʃɪˈvɔːn\tenglish\tipa\n行\thang2\tchinese\tpinyin\n"
        "SQL\tsequel\n",
        encoding="utf-8",
    )
    lexicon = read_lexicon(path)
    assert lexicon.num_phonetic == 2
    spoken = [entry.spoken for entry in lexicon.for_model(has_phones=True).entries]
    assert spoken == [
        "<|phoneme_start|>SH IH0 V AO1 N<|phoneme_end|>",
        "<|phoneme_start|>hang2<|phoneme_end|>",
        "sequel",
    ]
    others = lexicon.for_model(has_phones=False)
    assert [entry.spoken for entry in others.entries] == ["shih-vawn", "sequel"]


def test_what_is_wrong_has_a_line(tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_text("a\tb\tany\tany\tmorse\nc\tQQ\tany\tany\tarpabet\n", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_lexicon(path)
    assert f"{path}:1: alphabet 'morse' must be one of" in caught.value.message
    assert f"{path}:2: 'to': 'QQ' is not arpabet" in caught.value.message


def test_pls(tmp_path: Path) -> None:
    path = tmp_path / "words.pls"
    path.write_text(PLS, encoding="utf-8")
    lexicon = read_lexicon(path)
    found = [(entry.written, entry.spoken, entry.language) for entry in lexicon.entries]
    assert found == [
        ("Siobhan", "ʃɪˈvɔːn", "english"),
        ("Shivaun", "ʃɪˈvɔːn", "english"),
        ("W3C", "World Wide Web Consortium", "english"),
    ]
    assert lexicon.num_phonetic == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("<lexicon>", "not valid XML"),
        ("<lexicon/>", "not a pronunciation lexicon"),
        ('<!DOCTYPE x [<!ENTITY a "b">]>' + PLS, "document type"),
    ],
)
def test_what_is_no_pls(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "words.pls"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=words):
        read_lexicon(path)


def test_the_lexicon_of_a_row() -> None:
    entries = parse_row_lexicon("lead=led; St. John = sinjin\n").entries
    assert [(one.written, one.spoken) for one in entries] == [
        ("lead", "led"),
        ("St. John", "sinjin"),
    ]
    for text in ("lead", "=led", "lead="):
        with pytest.raises(ValueError, match="word=pronunciation"):
            parse_row_lexicon(text)
