"""Manifests in formats of other programs: what is read of them, and files that mean harm."""

from __future__ import annotations

import gzip
import io
import logging
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases import cases

from tts_cli.core import BadRow, Row
from tts_cli.errors import ManifestError, SetupError
from tts_cli.sources import other_workbooks
from tts_cli.sources.item import ManifestFile
from tts_cli.sources.mapping import ColumnMapping
from tts_cli.sources.open import open_source, read_rows

Found = tuple[str | None, str, dict[str, Any]]
Opened = Callable[..., tuple[list[Found], str]]

CASES = cases(__file__)["other_formats"]
FORMATS = (
    Path(__file__).parent / "formats"
)  # a.xls was written by xlwt: a hidden sheet, dates, formats
OFFICE = 'xmlns:%s="urn:oasis:names:tc:opendocument:xmlns:%s:1.0"'
NAMES = " ".join(OFFICE % (name, name) for name in ("office", "table", "text", "style"))


def ods(rows: str, *, before: str = "", manifest: str = "") -> bytes:
    """A workbook of LibreOffice with one sheet."""
    content = (
        f"<office:document-content {NAMES}>{before}<office:body><office:spreadsheet>"
        f'<table:table table:name="Lines">{rows}</table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        packed.writestr("content.xml", content)
        packed.writestr("META-INF/manifest.xml", manifest)
    return found.getvalue()


def cells(*texts: str, row: str = "", cell: str = "") -> str:
    """A row of such a workbook."""
    inner = "".join(
        f"<table:table-cell{cell}>"
        + "".join(f"<text:p>{one}</text:p>" for one in text.split("|"))
        + "</table:table-cell>"
        for text in texts
    )
    return f"<table:table-row{row}>{inner}</table:table-row>"


EMPTY = (
    '<table:table-row table:number-rows-repeated="1048570">'
    '<table:table-cell table:number-columns-repeated="16384"/></table:table-row>'
)
WORKBOOK = ods(
    cells("id", "text")
    + cells("a", "Gr\u00fc\u00dfe.|Zwei<text:s/>Zeilen")
    + cells("", "")
    + cells("b", "x<office:annotation><text:p>not this</text:p></office:annotation>")
    + EMPTY
)
ROWS = [("a", "x", {})]
MADE: list[tuple[str, bytes, list[Found]]] = [
    ("a.ods", WORKBOOK, [("a", "Gr\u00fc\u00dfe.\nZwei Zeilen", {}), ("b", "x", {})]),
    ("a.jsonl.gz", gzip.compress(b'{"id": "a", "text": "x"}', mtime=0), ROWS),
    ("a.csv.gz", gzip.compress(b"id,text\na,x\n", mtime=0), ROWS),
]


@pytest.fixture
def opened(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> Opened:
    """Write a file and read it."""

    def read(name: str, content: bytes) -> tuple[list[Found], str]:
        path = tmp_path / name
        path.write_bytes(content)
        with (
            caplog.at_level(logging.INFO),
            open_source(str(path), columns=ColumnMapping({}, "keep")) as source,
        ):
            assert isinstance(source, ManifestFile)
            rows = list(read_rows(source))
            assert list(read_rows(source)) == rows
        found: list[Found] = [
            (row.id, row.message if isinstance(row, BadRow) else row.text, dict(row.extra or {}))
            if isinstance(row, Row)
            else (None, row.message, {})
            for row in rows
        ]
        return found, caplog.text

    return read


@pytest.mark.parametrize("name", CASES)
def test_what_is_read(opened: Opened, name: str) -> None:
    found, messages = opened(name, (FORMATS / name).read_bytes())
    assert [[row_id or "", text, extra] for row_id, text, extra in found] == CASES[name]["rows"]
    assert CASES[name]["reported"] in messages


@pytest.mark.parametrize(("name", "content", "rows"), MADE)
def test_what_is_read_of_packed_files(
    opened: Opened, name: str, content: bytes, rows: list[Found]
) -> None:
    assert opened(name, content)[0] == rows


def parquet(columns: dict[str, list[Any]], **options: Any) -> bytes:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    found = io.BytesIO()
    write_table(pyarrow.table(columns), found, **options)
    return found.getvalue()


def test_parquet(opened: Opened) -> None:
    """Data sets have their audio beside the text: it is left out, and reported."""
    audio = [{"bytes": b"x", "path": "a.wav"}, None]
    columns = {"id": ["a", None], "text": ["One.", "Two."], "score": [0.5, float("nan")]}
    found, messages = opened("a.parquet", parquet({**columns, "seed": [None, 7], "audio": audio}))
    assert found == [("a", "One.", {"score": 0.5}), ("000002", "Two.", {"score": None})]
    assert "columns that are not text or numbers are left out: audio" in messages


@pytest.mark.slow
def test_a_text_of_a_dictionary_is_not_made_for_all_rows(opened: Opened) -> None:
    """A small file whose rows would be much text at a time."""
    content = parquet({"text": ["x" * 19_000] * 2_000})
    assert len(content) < 30_000
    found, _ = opened("a.parquet", content)
    assert len(found) == 2_000


FAR = (
    '<table:table-cell table:number-columns-repeated="16000"><text:p>x</text:p></table:table-cell>'
)
HOSTILE: list[tuple[str, bytes, str]] = [
    ("a.ods", ods(cells("text") + cells("x", row=' table:number-rows-repeated="9999999"') * 4), ""),
    (
        "a.ods",
        ods(f'<table:table-row table:number-rows-repeated="1048576">{FAR}</table:table-row>'),
        "has more than 4,000,000 cells; delete cells far outside of the table",
    ),
    (
        "a.ods",
        ods(cells("text") + cells("x") * 300 + f"<table:table-row>{FAR}</table:table-row>"),
        "has more than 4,000,000 cells",
    ),
    ("a.ods", ods("", before="<a>"), "content.xml: is damaged"),
    ("a.ods", ods("", manifest="<m:encryption-data/>"), "is encrypted; save it without a password"),
    ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2000), "cannot be read"),
    ("a.xls", (FORMATS / "a.xls").read_bytes()[:3000], "cannot be read"),
    ("a.po", b'msgid "a"\nmsgstr "b\n\\', "cannot be read"),
    ("a.po", b"\0\1\2 no catalogue", "cannot be read"),
    (
        "strings.xml",
        b'<!DOCTYPE r [<!ENTITY a "b"><!ENTITY c SYSTEM "file:///etc/passwd">]>'
        b'<resources><string name="a">&c;</string></resources>',
        "declares entities",
    ),
    ("strings.xml", b"<resources>" + b"<a>" * 5000, "is damaged"),
    ("a.xliff", b"<unknown/>", "is XML of an unknown kind; string tables are"),
    ("a.fountain", b"Nothing but action.\n", "has no dialogue"),
    ("a.parquet", b"PAR1" + struct.pack("<I", 1 << 31) + b"PAR1", "cannot be read"),
    ("a.parquet", b"", "cannot be read"),
    ("a.jsonl.gz", b"\x1f\x8b no", "end-of-stream"),
    ("a.jsonl.gz", gzip.compress(b'{"text": "x"}' * 100, mtime=0)[:-20], "end-of-stream"),
    ("a.jsonl.gz", gzip.compress(bytes(80 << 20)), "a line is longer than 64 MiB"),
    ("a.tar.gz", b"", "is compressed; unpack it"),
]


@pytest.mark.parametrize(("name", "content", "words"), HOSTILE)
def test_hostile(opened: Opened, name: str, content: bytes, words: str) -> None:
    with pytest.raises(ManifestError) as caught:
        opened(name, content)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_document_type_is_read_only_without_entities(opened: Opened) -> None:
    assert opened("a.ts", (FORMATS / "a.ts").read_bytes())[0]


@pytest.mark.parametrize(
    ("module", "name", "content", "words"),
    [
        ("xlrd", "a.xls", b"\xd0\xcf\x11\xe0", '.xlsx or CSV, needs xlrd: .*; pip install "xlrd>='),
        ("polib", "a.po", b"", '.po needs polib: .*; pip install "polib>='),
        ("lxml.etree", "a.xlf", b"<xliff/>", 'needs lxml: .*; pip install "'),
        ("pyarrow.parquet", "a.parquet", b"", 'saved as .jsonl, needs pyarrow: .*; pip install "'),
    ],
)
def test_without_the_library(
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    name: str,
    content: bytes,
    words: str,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SetupError, match=words):
        opened(name, content)


def test_rows_of_equal_cells_are_rows_of_their_own(opened: Opened) -> None:
    """Repeated rows are one list while they are counted."""
    repeated = cells("wavs/a.wav", "x", row=' table:number-rows-repeated="2"')
    found, _ = opened("a.ods", ods(cells("voice", "text") + repeated))
    assert [text for _, text, _ in found] == ["x", "x"]
    assert [other_workbooks._repeats(one) for one in ("3", "1e9", "12345678")] == [3, 1, 1]
