"""Workbooks for tests: sheets as Excel saves them, written by openpyxl, and zips of given parts."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import openpyxl

NAMESPACE = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def workbook(
    rows: Sequence[Sequence[Any]],
    name: str = "Sheet1",
    formats: Mapping[str, str] | None = None,
    others: Mapping[str, Sequence[Sequence[Any]]] | None = None,
    hidden: Sequence[str] = (),
) -> bytes:
    """An .xlsx file.

    Args:
        rows: of the sheet `name`.
        formats: number format by cell, such as {"A2": "000"}.
        others: more sheets; one with the name "!first" stands before `name`.
        hidden: names of sheets that do not show.
    """
    book = openpyxl.Workbook()
    book.remove(book.active)
    sheets = {**(others or {}), name: rows}
    if not any(other.startswith("!") for other in sheets):
        sheets = {name: rows, **(others or {})}
    for title, content in sheets.items():
        sheet = book.create_sheet(title.lstrip("!"))
        for row in content:
            sheet.append(list(row))
        if title in hidden:
            sheet.sheet_state = "hidden"
    for cell, code in (formats or {}).items():
        book[name][cell].number_format = code
    found = io.BytesIO()
    book.save(found)
    return found.getvalue()


def sheet_xml(rows: str) -> str:
    """A sheet of these rows in XML."""
    return f"<worksheet {NAMESPACE}><sheetData>{rows}</sheetData></worksheet>"


def bare_workbook(sheet: str | bytes, **parts: str | bytes) -> bytes:
    """The least that is a workbook, with a sheet's XML; `styles` and `sharedStrings` may be given.

    So do other programs write it: no more parts than they need.
    """
    links = "".join(
        f'<Relationship Id="r{part}" Type="{OFFICE}/{part}" Target="/xl/{part}.xml"/>'
        for part in parts
    )
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(
            "xl/workbook.xml",
            f'<workbook {NAMESPACE} xmlns:r="{OFFICE}"><sheets>'
            '<sheet name="Lines" sheetId="1" r:id="rId1"/></sheets></workbook>',
        )
        packed.writestr(
            "xl/_rels/workbook.xml.rels",
            '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
            f'<Relationship Id="rId1" Type="{OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>'
            f"{links}</Relationships>",
        )
        packed.writestr("xl/worksheets/sheet1.xml", sheet)
        for part, content in parts.items():
            packed.writestr(f"xl/{part}.xml", content)
    return found.getvalue()
