"""Files that are not UTF-8, as old programs and old Excels write them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import pytest
from cases import cases

from tts_cli.core import BadRow, Row
from tts_cli.errors import ManifestError, UsageError
from tts_cli.sources.decode import BLOCK_BYTES, find_encoding, garbled, known_encoding
from tts_cli.sources.item import ManifestFile, ReadOptions
from tts_cli.sources.open import read_rows

CASES = cases(__file__)["decode"]

MakeSource = Callable[..., ManifestFile]
TEXTS = CASES["texts"]


def texts(source: ManifestFile) -> list[str]:
    rows = list(read_rows(source))
    assert all(isinstance(row, Row) for row in rows), rows
    return [row.text for row in rows if isinstance(row, Row)]


@pytest.mark.parametrize("encoding", TEXTS)
def test_what_older_programs_write(
    make_source: MakeSource, caplog: pytest.LogCaptureFixture, encoding: str
) -> None:
    text = TEXTS[encoding]
    source = make_source(f"text\tid\n{text}\ta\n{text}\tb\n".encode(encoding), "m.csv")
    with caplog.at_level(logging.INFO):
        assert texts(source) == [text, text]
        assert texts(source) == [text, text]
    said, separator = caplog.messages  # once, however often it is read
    assert separator == f"{source.name}: the columns are separated by tabs"
    assert said.startswith(
        f"{source.name}: not UTF-8, read as {encoding}, detected from its letters: "
    )
    assert source.facts()[0]["encoding"] == encoding


def test_croatian_is_not_western(make_source: MakeSource) -> None:
    # It was read as cp1252: "Neæe doæi kuæi".
    lines = ["Neće doći kući.", "Đino, dođi ovamo!", "Tko će to srediti?", "Možda noću."]
    assert texts(make_source("\n".join(lines * 3).encode("cp1250"), "m.txt")) == lines * 3


@pytest.mark.parametrize(
    "text", ["café", "I don’t know", "L'élève a très bien répondu", "Não há razão", "Größe"]
)
def test_western_where_nothing_fits_better(make_source: MakeSource, text: str) -> None:
    assert texts(make_source(f"{text}\n".encode("cp1252"), "m.txt")) == [text]


OLD = {
    "en": ["The café is closed.", "“No,” she said. Don’t be late."],
    "fr": ["Le bac part à trois heures.", "Il a plu toute la journée, j’ai dû rentrer."],
    "de": ["Das Mädchen lächelte müde.", "Es heißt „Gruß“.", "Schöne Grüße aus Köln."],
    "fr_dos": ["Le bac part à trois heures.", "Il a plu toute la journée."],
    "pt_dos": ["A balsa sai às três horas.", "Ninguém levantou os olhos. Não há mais pão."],
    "sv_dos": ["Färjan går klockan tre på måndag.", "Ingen såg upp från näten."],
    "hu": ["A komp három órakor indul.", "Eleredt az eső, vidd az esernyőt."],
    "cs": ["Trajekt odjíždí ve tři hodiny.", "Začalo pršet, vezmi si plášť."],
    "pl": ["Nikt nie podniósł wzroku.", "Zaczął padać deszcz, weź płaszcz."],
    "ja": ["港の朝は静かだった。", "船が三時に出る。"],
}


@pytest.mark.parametrize(
    ("key", "encoding"),
    [
        *(("en", "cp1252"), ("de", "cp1252"), ("de", "mac_roman")),
        *(("en", "mac_roman"), ("fr", "cp1252"), ("fr", "mac_roman"), ("fr_dos", "cp850")),
        *(("pt_dos", "cp850"), ("sv_dos", "cp865"), ("hu", "cp1250"), ("cs", "iso8859_2")),
        *(("pl", "iso8859_2"), ("ja", "euc_jp"), ("ja", "iso2022_jp"), ("ja", "shift_jis")),
        *(("ja", "utf-16-le"), ("ja", "utf-16-be")),  # NULs only at the ends of lines
    ],
)
@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_short_tables_in_old_encodings(
    make_source: MakeSource, key: str, encoding: str, end: str
) -> None:
    """Also with the line ends of the first Macs, which Excel still offers."""
    if end == "\r" and encoding.startswith("utf-16"):
        return
    lines = ["id,text", *(f'a_{nth},"{text}"' for nth, text in enumerate(OLD[key]))]
    source = make_source("".join(line + end for line in lines).encode(encoding), "m.csv")
    assert texts(source) == OLD[key]


def test_utf_8_with_a_sign_of_damage_is_utf_8(make_source: MakeSource) -> None:
    text = "The caf\ufffd is closed."
    assert texts(make_source(f"{text}\n".encode(), "m.txt")) == [text]
    assert garbled(text) == "\ufffd"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-16-le"])
@pytest.mark.parametrize("name", ["m.csv", "m.txt", "m.tsv"])
def test_as_excel_saves_unicode_text(make_source: MakeSource, encoding: str, name: str) -> None:
    """Its "Unicode Text" is UTF-16 with tabs, named .txt, and what else people make of that."""
    lines = ["text", "Grüße", "你好"] if name != "m.txt" else ["Grüße", "你好"]
    content = "\r\n".join([*lines, ""]).encode(encoding)
    assert texts(make_source(content, name)) == ["Grüße", "你好"]


def test_a_few_broken_bytes_do_not_make_it_another_encoding(make_source: MakeSource) -> None:
    content = "text\nGrüße aus Köln\n".encode() + b"caf\xe9\n"
    rows = list(read_rows(make_source(content, "m.csv")))
    assert isinstance(rows[0], Row)
    assert isinstance(rows[1], BadRow)
    assert (
        "line 3 (0xe9) is not UTF-8; save the file as UTF-8, or give its encoding with --encoding"
        in rows[1].message
    )
    assert "--encoding" in rows[1].message


def test_a_word_without_end() -> None:
    """It took half a minute by a fuzzed manifest: the square of the word's length."""
    text = ("x" * 60_000 + " ") * 4 + TEXTS["cp1252"] * 20
    started_s = time.perf_counter()
    found = find_encoding([text.encode("cp1252")])
    assert found.name == "cp1252"
    assert time.perf_counter() - started_s < 5


def test_the_flag(make_source: MakeSource) -> None:
    source = make_source("text\nGrüße\n".encode("mac_roman"), "m.csv")
    object.__setattr__(source, "rules", ReadOptions(encoding=known_encoding("Mac_Roman")))
    assert texts(source) == ["Grüße"]
    source = make_source("text\nGrüße\n".encode("cp1252"), "m.csv")
    object.__setattr__(source, "rules", ReadOptions(encoding=known_encoding("ascii")))
    with pytest.raises(ManifestError, match=r"is not ascii \(near byte 8\); save it as UTF-8, or"):
        texts(source)
    jsonl = make_source('{"text": "Größe"}\n'.encode("cp1252"))
    object.__setattr__(jsonl, "rules", ReadOptions(encoding="cp1252"))
    assert texts(jsonl) == ["Größe"]


@pytest.mark.parametrize("name", ["klingon", "base64", "rot13", "a\0b", ""])
def test_names_of_no_encoding(name: str) -> None:
    with pytest.raises(UsageError, match="is not an encoding; such as utf-8"):
        known_encoding(name)


@pytest.mark.parametrize("encoding", ["cp932", "gb18030", "big5", "cp949"])
@pytest.mark.parametrize("pad", [0, 1])
def test_a_sample_ends_at_the_end_of_a_line(encoding: str, pad: int) -> None:
    """Half of the long files ended inside of a character, and were another encoding's."""
    raw = (b"x" * pad) + f"{TEXTS[encoding]}\n".encode(encoding) * 3000
    assert find_encoding([raw]).name == encoding
    assert find_encoding([raw[:BLOCK_BYTES], raw[BLOCK_BYTES:]]).name == encoding


@pytest.mark.parametrize(
    "text",
    [
        *("Loading…", "Mind the step… please", "Ferry™ crossing", "Hall 3×2 metres", "It costs £5"),
        *("Don’t wait", "“Come in,” he said", "10 °C – not more", "one…two", "Ferry® crossing"),
    ],
)
def test_english_of_windows(text: str) -> None:
    found = find_encoding([f"id,text\na,{text}\nb,{text}\n".encode("cp1252")])
    assert (found.name, found.words != "") == ("cp1252", True)


@pytest.mark.parametrize(
    "text",
    ["“come in,” he said", "für Müller", "don’t", "café", "Привет", "10 €", "Łódź", "l’été…"],
)
def test_garbled_text(text: str) -> None:
    wrong = text.encode().decode("cp1252", "replace").replace("\ufffd", "\x9d")
    assert garbled(wrong)
    assert not garbled(text)
    assert garbled("A caf\ufffd on the quay.")


@pytest.mark.parametrize("text", ["« LE CAFÉ»", "MANHÃ», disse", "Âge d’or", "São Paulo"])
def test_text_that_is_not_garbled(text: str) -> None:
    assert not garbled(text)
