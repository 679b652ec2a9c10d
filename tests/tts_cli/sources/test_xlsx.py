"""Workbooks: cells as their users see them, and files that mean harm."""

from __future__ import annotations

import datetime
import io
import logging
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bounds import bounded
from make_xlsx import NAMESPACE, bare_workbook, sheet_xml, workbook

from tts_cli.core import BadRow, Row
from tts_cli.errors import ManifestError, StoppedEarly
from tts_cli.sources import archive
from tts_cli.sources.cells import cell_text, column_letters
from tts_cli.sources.item import ManifestFile, ReadOptions
from tts_cli.sources.mapping import ColumnMapping
from tts_cli.sources.open import read_rows

MakeSource = Callable[..., ManifestFile]
TEXT_ROW = '<row r="1"><c r="A1" t="inlineStr"><is><t>text</t></is></c></row>'


def read(
    make_source: MakeSource, content: bytes, sheet: str | None = None, extra: str = "error"
) -> list[Row | BadRow]:
    source = make_source(content, "m.xlsx")
    object.__setattr__(source, "rules", ReadOptions(sheet=sheet))
    object.__setattr__(source, "columns", ColumnMapping({}, extra))
    rows = list(read_rows(source))
    assert list(read_rows(source)) == rows
    return rows


def refused(make_source: MakeSource, content: bytes) -> str:
    with pytest.raises(ManifestError) as caught:
        read(make_source, content)
    return str(caught.value)


def test_a_sheet(make_source: MakeSource, caplog: pytest.LogCaptureFixture) -> None:
    """Row numbers are the sheet's: rows may stand before the header, and empty ones between."""
    rows = [
        [],
        [None, None],
        ["id", "text", "voice", "seed", "greedy", "temperature"],
        ["a", "Grüße,\nzwei Zeilen", "clara", 7, True, 0.8],
        [],
        ["b", 2024, None, None, False, None],
        ["c", None, None, None, None, None],
    ]
    with caplog.at_level(logging.INFO):
        first, second, bad = read(make_source, workbook(rows))
    assert isinstance(first, Row)
    assert isinstance(second, Row)
    assert (first.line, first.number, first.id, first.text) == (4, 1, "a", "Grüße,\nzwei Zeilen")
    assert (first.seed, dict(first.sampling)) == (7, {"greedy": True, "temperature": 0.8})
    assert (second.line, second.text, second.voice) == (6, "2024", None)
    assert isinstance(bad, BadRow)
    assert (bad.line, bad.id, bad.message) == (7, "c", "has no text")
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        (7, None, "7"),
        (7, "000", "007"),
        (0.5, "0%", "50%"),
        (2.5, "0.00", "2.50"),
        (1234.5, "#,##0.00", "1234.50"),
        (-3, "00", "-03"),
        (0.1 + 0.2, None, "0.3"),
        (1e20, None, "1e+20"),
        (123456789012345, None, "123456789012345"),
        (True, None, "TRUE"),
        (datetime.date(2024, 3, 5), None, "2024-03-05"),
        (datetime.datetime(2024, 3, 5, 14, 30), None, "2024-03-05 14:30"),
        (datetime.time(9, 5, 7), None, "9:05:07"),
        (datetime.timedelta(hours=36, minutes=5), None, "36:05"),
        ("007", None, "007"),
    ],
)
def test_cells_as_they_show(make_source: MakeSource, value: Any, code: str, shown: str) -> None:
    formats = {"A2": code} if code else None
    (row,) = read(make_source, workbook([["text"], [value]], formats=formats))
    assert isinstance(row, Row)
    assert row.text == shown


def test_formats_that_are_not_followed_are_told(
    make_source: MakeSource, caplog: pytest.LogCaptureFixture
) -> None:
    (row,) = read(make_source, workbook([["text"], [12.5]], formats={"A2": '"$"#,##0.00'}))
    assert isinstance(row, Row)
    assert row.text == "12.5"
    assert "1 numbers are shown in an unsupported format (currency, fractions)" in caplog.text
    assert "A2, read as 12.5, first" in caplog.text


def test_formulas_are_their_results(make_source: MakeSource) -> None:
    cells = (
        '<row r="2"><c r="A2" t="str"><f>"a"&amp;"b"</f><v>ab</v></c></row>'
        '<row r="3"><c r="A3" t="e"><f>1/0</f><v>#DIV/0!</v></c></row>'
        '<row r="4"><c r="A4"><f>A2</f></c></row>'
        '<row r="5"><c r="A5" t="str"><f>""</f><v></v></c></row>'
        '<row r="6" hidden="1"><c r="A6" t="inlineStr"><is><t>hidden</t></is></c></row>'
    )
    rows = read(make_source, bare_workbook(sheet_xml(TEXT_ROW + cells)))
    assert [row.text for row in rows if isinstance(row, Row)] == ["ab", "hidden"]
    assert [row.message for row in rows if isinstance(row, BadRow)] == [
        "cell A3 shows an error",
        "cell A4 contains a formula without a saved result; open and save the file in Excel",
    ]


def test_errors_in_columns_nobody_reads(make_source: MakeSource) -> None:
    rows = [["text", "sum"], ["a", "=B9"]]
    (row,) = read(make_source, workbook(rows), extra="drop")
    assert isinstance(row, Row)
    (row,) = read(make_source, workbook(rows), extra="keep")
    assert isinstance(row, BadRow)
    assert row.message.startswith(
        "cell B2 contains a formula without a saved result; open and save the file in Excel"
    )


SHEETS = {"!Notes": [["secret"]], "Old": [["text"], ["old"]]}


def test_which_sheet(make_source: MakeSource, caplog: pytest.LogCaptureFixture) -> None:
    content = workbook([["text"], ["new"]], "Lines", others=SHEETS, hidden=["!Notes", "Old"])
    with caplog.at_level(logging.INFO):
        (row,) = read(make_source, content)
    assert isinstance(row, Row)
    assert row.text == "new"
    assert "reading sheet 'Lines'; other sheets (--sheet): Notes, Old" in caplog.text
    (row,) = read(make_source, content, "old")
    assert isinstance(row, Row)
    assert row.text == "old"
    with pytest.raises(ManifestError, match=r"no sheet 'Lies'; did you mean 'Lines'\? it has"):
        read(make_source, content, "Lies")
    assert "sheet 'Lines' is empty; choose another with --sheet" in refused(
        make_source, workbook([], "Lines")
    )


def test_hidden_rows_are_told(make_source: MakeSource, caplog: pytest.LogCaptureFixture) -> None:
    row = '<row r="2" hidden="1"><c r="A2" t="inlineStr"><is><t>a</t></is></c></row>'
    read(make_source, bare_workbook(sheet_xml(TEXT_ROW + row)))
    assert "1 hidden rows are read like the others" in caplog.text


def test_what_other_programs_write(make_source: MakeSource) -> None:
    """No places, no styles, rich text in shared strings, as lean exporters do."""
    shared = (
        '<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        "<si><t>text</t></si><si><r><t xml:space='preserve'>So </t></r>"
        "<r><t>rich.</t></r></si></sst>"
    )
    sheet = sheet_xml('<row><c t="s"><v>0</v></c></row><row><c t="s"><v>1</v></c></row>')
    (row,) = read(make_source, bare_workbook(sheet, sharedStrings=shared))
    assert isinstance(row, Row)
    assert row.text == "So rich."


def test_a_change_is_noticed(make_source: MakeSource) -> None:
    source = make_source(workbook([["text"], ["a"]]), "m.xlsx")
    assert len(list(read_rows(source))) == 1
    with open(source.name, "wb") as file:
        file.write(workbook([["text"], ["b"]]))
    with pytest.raises(StoppedEarly, match="was changed"):
        source.require_same()
    with pytest.raises(StoppedEarly, match="was changed"):
        list(read_rows(source))


class TestHostile:
    def test_a_bomb(self, make_source: MakeSource, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(archive, "MAX_TOTAL_BYTES", 1 << 20)
        content = bare_workbook(sheet_xml(TEXT_ROW + " " * (1 << 21)))
        assert len(content) < 10_000
        assert "is larger than 1 MiB when unpacked; check where" in refused(make_source, content)

    def test_a_bomb_beside_the_sheet_is_not_unpacked(self, make_source: MakeSource) -> None:
        found = io.BytesIO(bare_workbook(sheet_xml(TEXT_ROW)))
        with zipfile.ZipFile(found, "a", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("xl/media/image1.png", bytes(40 << 20))
            packed.writestr("../outside.xml", "x")
        assert read(make_source, found.getvalue()) == []

    @pytest.mark.slow
    def test_millions_of_styles(self, make_source: MakeSource, tmp_path: Path) -> None:
        """A list of them all would take a gigabyte; the file has 15 kB."""
        styles = f"<styleSheet {NAMESPACE}><cellXfs>{'<xf/>' * 3_000_000}</cellXfs></styleSheet>"
        content = bare_workbook(sheet_xml(TEXT_ROW), styles=styles)
        with bounded("styles", tmp_path):
            assert read(make_source, content) == []

    def test_a_file_too_large(
        self, make_source: MakeSource, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tts_cli.sources.xlsx.MAX_FILE_BYTES", 100)
        assert "is larger than 0 MiB" in refused(make_source, workbook([["text"]]))

    @pytest.mark.parametrize("place", ["XFD1048576", "ZZZ999", "A9999999", "XFD400"])
    def test_a_cell_far_away(self, make_source: MakeSource, place: str) -> None:
        """Rows have one length, so it would make all others as long, or follow millions of them."""
        cell = f'<row><c r="{place}" t="inlineStr"><is><t>x</t></is></c></row>'
        said = refused(make_source, bare_workbook(sheet_xml(TEXT_ROW + cell)))
        assert "has more than 4,000,000 cells; delete cells far outside of the table, or" in said

    @pytest.mark.parametrize(
        "rows",
        [
            '<row r="2"><c r="A99999999"><v>1</v></c></row>',
            '<row r="2"><c r="a99999999"><v>1</v></c></row>',
            '<row r="2"><c r="ZZZZ3"><v>1</v></c></row>',
            '<row r="2"><c r="A0"><v>1</v></c></row>',
            '<row r="4294967295"><c><v>1</v></c></row>',
            '<row r="A99999999"><c><v>1</v></c></row>',
            '<row r="0"><c><v>1</v></c></row>',
        ],
    )
    def test_a_place_that_excel_does_not_write(self, make_source: MakeSource, rows: str) -> None:
        said = refused(make_source, bare_workbook(sheet_xml(TEXT_ROW + rows)))
        assert "xl/worksheets/sheet1.xml: is damaged: " in said

    def test_rows_without_a_place_follow_each_other(self, make_source: MakeSource) -> None:
        sheet = sheet_xml(TEXT_ROW + "<row><c><v>1</v></c></row>" * 2)
        rows = read(make_source, bare_workbook(sheet))
        assert [(row.line, row.text) for row in rows] == [(2, "1"), (3, "1")]

    def test_small_letters_name_columns(self, make_source: MakeSource) -> None:
        far = '<row r="2"><c r="zzz999"><v>1</v></c></row>'
        said = refused(make_source, bare_workbook(sheet_xml(TEXT_ROW + far)))
        assert "has more than 4,000,000 cells" in said
        near = '<row r="2"><c r="a2"><v>1</v></c></row>'
        (row,) = read(make_source, bare_workbook(sheet_xml(TEXT_ROW + near)))
        assert row.text == "1"

    @pytest.mark.slow
    def test_a_long_text_in_many_cells(self, make_source: MakeSource, tmp_path: Path) -> None:
        """Cells that share a text take no memory for copies of it: here 19 kB in 30,000 cells."""
        shared = f"<sst><si><t>text</t></si><si><t>{'x' * 19_000}</t></si></sst>"
        cells = '<row><c t="s"><v>1</v></c></row>' * 30_000
        content = bare_workbook(sheet_xml(TEXT_ROW + cells), sharedStrings=shared)
        source = make_source(content, "m.xlsx")
        with bounded("shared", tmp_path):
            assert sum(isinstance(row, Row) for row in read_rows(source)) == 30_000

    @pytest.mark.parametrize("value", ["9", "-1", "x", "1.5"])
    def test_a_shared_text_that_is_not_there(self, make_source: MakeSource, value: str) -> None:
        cell = f'<row><c t="s"><v>{value}</v></c></row>'
        content = bare_workbook(sheet_xml(TEXT_ROW + cell), sharedStrings="<sst><si/></sst>")
        assert "sheet1.xml: is damaged" in refused(make_source, content)

    def test_a_number_format_of_many_zeros(self, make_source: MakeSource) -> None:
        content = workbook([["text"], [5]], formats={"A2": "0" * 250})
        (row,) = read(make_source, content)
        assert row.text == "5"

    def test_entities(self, make_source: MakeSource) -> None:
        sheet = '<!DOCTYPE a [<!ENTITY b "' + "x" * 1000 + '">]>' + sheet_xml(TEXT_ROW)
        assert "declares a document type" in refused(make_source, bare_workbook(sheet))

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"PK\x03\x04" + b"x" * 100,
            workbook([["text"], ["a"]])[:-300],
            bare_workbook("<worksheet>"),
            bare_workbook(b"\xff\xfe\0"),
            bare_workbook(sheet_xml(TEXT_ROW), styles="<a", sharedStrings="<sst"),
        ],
    )
    def test_damage(self, make_source: MakeSource, content: bytes) -> None:
        said = refused(make_source, content)
        assert "is not a workbook" in said or "is damaged" in said or "cannot be read" in said
        assert len(said) < 400

    def test_a_document_of_another_program(self, make_source: MakeSource) -> None:
        found = io.BytesIO()
        with zipfile.ZipFile(found, "w") as packed:
            packed.writestr("content.xml", "<a/>")
        assert "'xl/_rels/workbook.xml.rels' is missing in the file" in refused(
            make_source, found.getvalue()
        )


def test_readings_are_not_text(make_source: MakeSource) -> None:
    """Excel stores the kana of Japanese cells next to their characters."""
    reading = '<rPh sb="0" eb="2"><t>トウキョウ</t></rPh>'
    shared = f"<sst><si><t>text</t></si><si><t>東京</t>{reading}</si></sst>"
    inline = f'<row><c t="inlineStr"><is><t>大阪</t>{reading}</is></c></row>'
    sheet = sheet_xml('<row><c t="s"><v>0</v></c></row><row><c t="s"><v>1</v></c></row>' + inline)
    rows = read(make_source, bare_workbook(sheet, sharedStrings=shared))
    assert [row.text for row in rows] == ["東京", "大阪"]


@pytest.mark.parametrize(("base", "shown"), [("0", "1900-03-01"), ("1", "1904-03-02")])
def test_days_are_counted_from_the_year_of_the_workbook(
    make_source: MakeSource, base: str, shown: str
) -> None:
    """Excel for the Mac counted from 1904."""
    styles = '<styleSheet><cellXfs><xf/><xf numFmtId="14"/></cellXfs></styleSheet>'
    sheet = sheet_xml(TEXT_ROW + '<row><c s="1"><v>61</v></c></row>')
    packed = io.BytesIO(bare_workbook(sheet, styles=styles))
    content = io.BytesIO()
    with zipfile.ZipFile(packed) as before, zipfile.ZipFile(content, "w") as after:
        for name in before.namelist():
            data = before.read(name)
            pr = f'<workbookPr date1904="{base}"/><sheets>'.encode()
            after.writestr(name, data.replace(b"<sheets>", pr))
    (row,) = read(make_source, content.getvalue())
    assert row.text == shown


def test_names_of_columns() -> None:
    assert [column_letters(number) for number in (0, 25, 26, 701, 702)] == [
        *("A", "Z", "AA", "ZZ", "AAA")
    ]
    assert cell_text(1.0) == "1"


def test_a_sheet_without_a_header(make_source: MakeSource) -> None:
    content = workbook([["a_1", "The lamp is lit.", None], ["a_2", "Mind the step.", "x"]])
    assert "if it is already a row, add --columns id,text" in refused(make_source, content)
    for names in (("id", "text"), ("id", "text", "", "instruct")):
        source = make_source(content, "m.xlsx")
        object.__setattr__(source, "rules", ReadOptions(columns=names))
        object.__setattr__(source, "columns", ColumnMapping({}, "drop"))
        rows = [row for row in read_rows(source) if isinstance(row, Row)]
        assert [(row.id, row.text) for row in rows] == [
            ("a_1", "The lamp is lit."),
            ("a_2", "Mind the step."),
        ]
    source = make_source(workbook([["id", "text"], ["a", "x"]]), "n.xlsx")
    object.__setattr__(source, "rules", ReadOptions(columns=("id", "text")))
    with pytest.raises(ManifestError, match="has column names, but --columns is given too"):
        list(read_rows(source))


def test_merged_cells_count_for_each_row(make_source: MakeSource) -> None:
    """But a text is that of one row."""
    rows = "".join(
        f'<row r="{number}">'
        + "".join(
            f'<c r="{letter}{number}" t="inlineStr"><is><t>{text}</t></is></c>'
            for letter, text in zip("AB", cells, strict=True)
        )
        + "</row>"
        for number, cells in enumerate(
            [("character", "text"), ("Anna", "One."), ("", "Two."), ("Tom", "Three."), ("Tom", "")],
            1,
        )
    )
    sheet = (
        f"<worksheet {NAMESPACE}><sheetData>{rows}</sheetData><mergeCells>"
        '<mergeCell ref="A2:A3"/><mergeCell ref="B4:B5"/><mergeCell ref="C9:D99"/>'
        '<mergeCell ref="no"/></mergeCells></worksheet>'
    )
    found = read(make_source, bare_workbook(sheet))
    assert [(one.character, one.text) for one in found if isinstance(one, Row)] == [
        ("Anna", "One."),
        ("Anna", "Two."),
        ("Tom", "Three."),
    ]
    assert isinstance(found[3], BadRow)
