"""Manifests in formats of other programs: what is read of them, and files that mean harm."""

from __future__ import annotations

import base64
import gzip
import io
import logging
import lzma
import struct
import sys
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from tts_cli.core import BadRow, Row
from tts_cli.errors import ManifestError, SetupError
from tts_cli.sources import other_workbooks
from tts_cli.sources.item import ManifestFile
from tts_cli.sources.mapping import ColumnMapping
from tts_cli.sources.open import open_source, read_rows

Found = tuple[str | None, str, dict[str, Any]]
Opened = Callable[..., tuple[list[Found], str]]

# Written by xlwt: a hidden sheet, dates, number formats, a formula without a result.
XLS = (
    "/Td6WFoAAATm1rRGAgAhARwAAAAQz1jM4BX/ArldAGgzvhyGMHdg9KSEKkAMHHYngvKRhtyIyie64aC3xgQTZ5vNmL"
    "lpNRUqmeED08XozNH0Sz/ZqCLxYNmwx+4v1UI+paOKIneBVRFwGzT6D/ujymYAx2HNK6igkCGXYQa6acGNE53j3AJ0"
    "RT5nICFqJsgiAmHzQQ6RS72aaGFB7AQMzE1VFJIDdRhHg7FayNXPrztdBF0nWuaP3iMZI5IGUsrn9w02Tr0ZBoCh5Y"
    "y4Mld5F2odRYzLuHLDIpeRl+5epFmFqUrvNOwjHIhDWqmDXEqzDNy9cmsXixfZSUiyo0l4hU8tZb+DR0Lqq/N9nCO1"
    "xRpVe/5lyiqqCU+5fWndJpsvrWkCJdoOkWuXJoe/XzTYimCs9glUmgLqnLZLBclv+u195+gxD4jWZLoNnHry7p5o+E"
    "YbCpxSYriiPPWzVoUUCdpRjGPsIzGdLoPwVE/8WiMY99ovb+wfpR2hTgheKeXmDJEAVpKqPBhvjrTUsuBUf99CA/VF"
    "caJsowsOJX4HDbrAAFygevomjeE7SsHvodnaui4ZSA1SNJpS6+I4c2pa+re0RHWC4RemnlyzosTtBedj2VzRVjrHZA"
    "x8vgggyC1Tio77PzJ005SI4TUFtz8Vh/kS51MRiAFQ774CL7RhouPqqL05sJdSl8aln8amoMtzKdVGbyHiA8PdjFN3"
    "TJnfeRlTqeMTGlw042jWUYRoyR5p/S1tfwK0RUh9SfccAw44vyEJYnXCZ84312bVi3orI8Tva17jIshxwUTotQRD5U"
    "eQv51DCj8UY7f1SEPdMDRi4cW5eDOw3z9jcDWLQCPs0IbRv2F5v5aXTDWU8nBZRq/kk64l3iwAzY8JoNkX82WjBr0i"
    "G+LvwKgEiWGyBqD0VaVyCabKaADsFPv06Klkyd2KgbjH/lIr5bJUtfGJ6UHRpcsZ0wqxCOgAAAAAyEJJHPmBMwEAAd"
    "UFgCwAAI7fSJWxxGf7AgAAAAAEWVo="
)
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
PO = b"""msgid ""
msgstr "Content-Type: text/plain; charset=ISO-8859-1\\n"

#. in it
msgctxt "open"
msgid "Open"
msgstr "\xd6ffnen"

#, fuzzy
msgctxt "close"
msgid "Close"
msgstr "Sch"

msgctxt "files"
msgid "%d file"
msgid_plural "%d files"
msgstr[0] "Eine Datei"
msgstr[1] "Mehrere Dateien"

msgctxt "none"
msgid "Untranslated"
msgstr ""

#~ msgid "old"
#~ msgstr "alt"
"""
POT = b'msgid "Open"\nmsgstr ""\n\nmsgid "Close the file."\nmsgstr ""\n'
KEYS = b'msgid "TITLE_1"\nmsgstr "One."\n\nmsgid "TITLE_2"\nmsgstr "Two."\n'
ANDROID = rb"""<resources>
<string name="a">It\'s <b>\"fine\"</b>,
   and &lt;new&gt;.\nNext \u00e9.</string>
<plurals name="n"><item quantity="one">One song</item><item quantity="other">Songs</item></plurals>
<string-array name="d"><item>Monday</item><item>Tuesday</item></string-array>
<color name="red">#f00</color>
</resources>"""
XLIFF = b"""<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a">
<body>
<trans-unit id="1" resname="hi"><source>Hi</source>
<target>Hallo <x id="I" equiv-text="{{name}}"/><ph>%s</ph> da</target>
<note>greet</note></trans-unit>
<trans-unit id="2" resname="bye"><source>Bye</source></trans-unit>
</body></file></xliff>"""
XLIFF_2 = b"""<xliff version="2.0" srcLang="en"><file id="f"><unit id="u1"><segment>
<source>One. </source></segment><segment><source>Two.</source></segment></unit></file></xliff>"""
RESX = b"""<root><data name="A.Text"><value>Open</value><comment>menu</comment></data>
<data name="Icon" type="System.Drawing.Bitmap"><value>AAAA</value></data></root>"""
QT = b"""<!DOCTYPE TS><TS version="2.1"><context><name>Main</name>
<message><source>Open</source><translation>Auf</translation></message>
<message><source>New</source><translation type="unfinished"></translation></message>
</context></TS>"""
FOUNTAIN = b"""Title: The Mill
Author: Somebody

INT. MILL - NIGHT

Rain. /* ANNA

Not this. */

ANNA (V.O.)
(softly)
Who is *there*?
Come in.

EMIL ^
Me. [[a note]]

CUT TO:

@McKAY
Hey.

THE WALL IS GREY

.FLASHBACK

EMIL
Later.
"""
READ: list[tuple[str, bytes, list[Found], str]] = [
    (
        "a.ods",
        ods(
            cells("id", "text")
            + cells("a", "Gr\u00fc\u00dfe.|Zwei<text:s/>Zeilen")
            + cells("", "")
            + cells("b", "x<office:annotation><text:p>not this</text:p></office:annotation>")
            + EMPTY
        ),
        [("a", "Gr\u00fc\u00dfe.\nZwei Zeilen", {}), ("b", "x", {})],
        "",
    ),
    (
        "a.xls",
        lzma.decompress(base64.b64decode("".join(XLS))),
        [
            ("a", "Gr\u00fc\u00dfe aus K\u00f6ln.", {"code": "007", "when": "2024-03-05"}),
            ("b", "3.5", {"code": "12.5"}),
            (None, "has no text", {}),
        ],
        "1 numbers are shown in an unsupported format (currency, fractions): C4, read as 12.5",
    ),
    (
        "a.po",
        PO,
        [
            (
                "open",
                "\u00d6ffnen",
                {"context": "open", "comment": "in it", "source": "Open"},
            ),
            ("files/0", "Eine Datei", {"context": "files", "source": "%d file"}),
            ("files/1", "Mehrere Dateien", {"context": "files", "source": "%d file"}),
        ],
        "1 translation is marked fuzzy, not read",
    ),
    ("a.pot", POT, [("000001", "Open", {}), ("000002", "Close the file.", {})], ""),
    (
        "b.po",
        KEYS,
        [("TITLE_1", "One.", {"source": "TITLE_1"}), ("TITLE_2", "Two.", {"source": "TITLE_2"})],
        "",
    ),
    (
        "strings.xml",
        ANDROID,
        [
            ("a", 'It\'s "fine", and <new>.\nNext \u00e9.', {}),
            ("n/one", "One song", {}),
            ("n/other", "Songs", {}),
            ("d/0", "Monday", {}),
            ("d/1", "Tuesday", {}),
        ],
        "",
    ),
    (
        "a.xlf",
        XLIFF,
        [("hi", "Hallo {{name}} da", {"source": "Hi", "note": "greet"})],
        "1 text without a translation left out",
    ),
    ("b.xliff", XLIFF_2, [("u1", "One. Two.", {})], ""),
    ("a.resx", RESX, [("A.Text", "Open", {"comment": "menu"})], ""),
    (
        "a.ts",
        QT,
        [("000001", "Auf", {"context": "Main", "source": "Open"})],
        "1 text without a translation left out",
    ),
    (
        "a.fountain",
        FOUNTAIN,
        [
            (
                "000001",
                "Who is there? Come in.",
                {"speaker": "ANNA", "scene": "INT. MILL - NIGHT", "direction": "softly"},
            ),
            ("000002", "Me.", {"speaker": "EMIL", "scene": "INT. MILL - NIGHT"}),
            ("000003", "Hey.", {"speaker": "McKAY", "scene": "INT. MILL - NIGHT"}),
            ("000004", "Later.", {"speaker": "EMIL", "scene": "FLASHBACK"}),
        ],
        "4 speeches read, not the 3 other paragraphs",
    ),
    ("a.arb", b'{"@@locale": "en", "hi": "Hello.", "@hi": {}}', [("hi", "Hello.", {})], ""),
    ("a.jsonl.gz", gzip.compress(b'{"id": "a", "text": "x"}', mtime=0), [("a", "x", {})], ""),
    ("a.csv.gz", gzip.compress(b"id,text\na,x\n", mtime=0), [("a", "x", {})], ""),
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


@pytest.mark.parametrize(("name", "content", "rows", "said"), READ, ids=[one[0] for one in READ])
def test_what_is_read(
    opened: Opened, name: str, content: bytes, rows: list[Found], said: str
) -> None:
    found, messages = opened(name, content)
    assert found == rows
    assert said in messages


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
    ("a.xls", lzma.decompress(base64.b64decode("".join(XLS)))[:3000], "cannot be read"),
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
    assert opened("a.ts", QT)[0]


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
    assert other_workbooks._repeats("1e9") == 1
