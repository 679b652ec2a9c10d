"""Read workbooks of LibreOffice (.ods) and of Excel before 2007 (.xls).

A cell of an .ods file contains the text that is shown. Repeated cells and rows are written once,
with a count, so a small file could expand to billions of cells. They are counted first. For .xls,
xlrd only reads cells that exist, while python-calamine would allocate the whole rectangle of each
sheet.

Source: OpenDocument 1.3, part 3, section 9.
"""

from __future__ import annotations

import datetime
import io
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tts_cli.errors import ManifestError, library_errors
from tts_cli.extras import load
from tts_cli.sources.archive import Archive
from tts_cli.sources.row import CELL_ERRORS
from tts_cli.sources.xlsx_scan import (
    MAX_CELLS,
    SAVE_AS_CSV,
    Grid,
    Sheet,
    cell_text,
    number_format,
    walk_xml,
)

_CONTENT, _MANIFEST = "content.xml", "META-INF/manifest.xml"
_MAX_REPEATS = 1 << 20  # of a cell or a row
_CELLS = ("table-cell", "covered-table-cell")
_NOT_READ = ("annotation", "frame", "tracked-changes")  # a comment, a picture
_SPACES = {"s": " ", "tab": " ", "line-break": "\n"}


def _too_many_cells(name: str, sheet: str) -> ManifestError:
    return ManifestError(
        f"{name}: sheet {sheet!r} has more than {MAX_CELLS:,} cells",
        f"delete cells far outside of the table, or {SAVE_AS_CSV}",
    )


def _rectangle(rows: list[list[str]], name: str, sheet: Sheet) -> Iterator[list[str]]:
    """Return rows of one length. Raises ManifestError: there are too many cells."""
    width = max(map(len, rows), default=0)
    if width * len(rows) > MAX_CELLS:
        raise _too_many_cells(name, sheet.name)
    return (row + [""] * (width - len(row)) for row in rows)


class OdsFile:
    """An .ods file. Raises ManifestError: it is damaged."""

    def __init__(self, archive: Archive, name: str) -> None:
        self._name = name
        if _MANIFEST in archive.names and b"encryption-data" in archive.read(_MANIFEST):
            raise ManifestError(f"{name}: is encrypted", "save it without a password")
        self._content = archive.read(_CONTENT)
        self.sheets = self._walk(None).sheets

    def grid(self, sheet: Sheet) -> Grid:
        """Return the cells of a sheet. Raises ManifestError: there are too many."""
        walk = self._walk(sheet.name)
        problems = {
            (row, column): "shows an error"
            for row, cells in enumerate(walk.rows)
            for column, text in enumerate(cells)
            if text.startswith("Err:") or text in CELL_ERRORS
        }
        return Grid(_rectangle(walk.rows, self._name, sheet), problems, walk.num_hidden)

    def _walk(self, wanted: str | None) -> _OdsWalk:
        walk = _OdsWalk(wanted, self._name)
        place, remedy = f"{self._name}: {_CONTENT}", "save it as .ods again"
        walk_xml(self._content, place, remedy, walk.start, walk.text, walk.end)
        return walk


class _OdsWalk:
    """Collects the sheets of a document, and the rows of one of them; equal rows are one list.

    Args:
        wanted: name of the sheet; None: no rows are collected.
    """

    def __init__(self, wanted: str | None, name: str) -> None:
        self.sheets: list[Sheet] = []
        self.rows: list[list[str]] = []
        self.num_hidden = 0
        self._wanted, self._name = wanted, name
        self._hidden_styles: set[str] = set()
        self._style = ""
        self._is_wanted = False
        self._row: list[str] = []
        self._num_cells = 0
        self._row_repeats = self._empty_rows = 0
        self._cell_repeats = self._empty_cells = 0
        self._cell: list[str] = []
        self._num_paragraphs = self._num_not_read = 0  # open elements

    def start(self, tag: str, values: Mapping[str, str]) -> None:
        """Handle the start of an element."""
        values = {key.rpartition(":")[2]: value for key, value in values.items()}
        if tag == "style":
            self._style = values.get("name", "")
        elif tag == "table-properties" and values.get("display") == "false":
            self._hidden_styles.add(self._style)
        elif tag == "table":
            name = values.get("name", "")
            is_hidden = values.get("style-name", "") in self._hidden_styles
            self._is_wanted = name == self._wanted and not self.rows
            self.sheets.append(Sheet(name, "", is_hidden))
        elif tag == "table-row" and self._is_wanted:
            self._row, self._empty_cells = [], 0
            self._row_repeats = _repeats(values.get("number-rows-repeated"))
            self.num_hidden += values.get("visibility", "visible") != "visible"
        elif tag in _CELLS:
            self._cell = []
            self._cell_repeats = _repeats(values.get("number-columns-repeated"))
        elif tag == "p":
            self._num_paragraphs += 1
            if self._cell and not self._num_not_read:
                self._cell.append("\n")
        elif tag in _NOT_READ:
            self._num_not_read += 1
        elif tag in _SPACES:
            self.text(_SPACES[tag])

    def text(self, text: str) -> None:
        """Handle a text."""
        if self._is_wanted and self._num_paragraphs and not self._num_not_read:
            self._cell.append(text)

    def end(self, tag: str) -> None:
        """Handle the end of an element."""
        if tag == "p":
            self._num_paragraphs -= 1
        elif tag in _NOT_READ:
            self._num_not_read -= 1
        elif tag == "table":
            self._is_wanted = False
        elif not self._is_wanted:
            return
        elif tag in _CELLS and not self._cell:
            self._empty_cells += self._cell_repeats
        elif tag in _CELLS:
            self._count(len(self._row) + self._empty_cells + self._cell_repeats, 0)
            self._row += [""] * self._empty_cells + ["".join(self._cell)] * self._cell_repeats
            self._empty_cells = 0
        elif tag == "table-row" and not self._row:
            self._empty_rows += self._row_repeats
        elif tag == "table-row":
            added = self._empty_rows + self._row_repeats * len(self._row)
            self._count(0, added)
            self.rows += [[]] * self._empty_rows + [self._row] * self._row_repeats
            self._empty_rows = 0

    def _count(self, width: int, added: int) -> None:
        self._num_cells += added
        if width + self._num_cells > MAX_CELLS:
            raise _too_many_cells(self._name, self._wanted or "")


def _repeats(text: str | None) -> int:
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) < 8
    return min(int(text or 1), _MAX_REPEATS) if is_number else 1


class XlsFile:
    """An .xls file.

    Raises:
        ManifestError: it is damaged, or protected by a password.
        SetupError: xlrd is missing.
    """

    def __init__(self, data: bytes, name: str) -> None:
        what = f"{name}: .xls, unless the sheet is saved as .xlsx or CSV,"
        self._xlrd = load("xls", "xlrd", what)
        self._name = name
        with self._errors():
            self._book = self._xlrd.open_workbook(
                file_contents=data,
                logfile=io.StringIO(),
                formatting_info=True,
                ragged_rows=True,
            )
            sheets = enumerate(self._book.sheets())
            self.sheets = [Sheet(one.name, str(nth), one.visibility != 0) for nth, one in sheets]

    def _errors(self) -> Any:
        return library_errors(self._name, "save it as .xlsx without a password, or as CSV (UTF-8)")

    def grid(self, sheet: Sheet) -> Grid:
        """Return the cells of a sheet. Raises ManifestError: there are too many."""
        grid = Grid()
        with self._errors():
            found = self._book.sheet_by_index(int(sheet.part))
            lengths = [found.row_len(row) for row in range(found.nrows)]
        if sum(lengths) > MAX_CELLS:
            raise _too_many_cells(self._name, sheet.name)
        with self._errors():
            rows = [
                [self._text(grid, found, row, column) for column in range(length)]
                for row, length in enumerate(lengths)
            ]
            grid.rows = _rectangle(rows, self._name, sheet)
            grid.num_hidden = sum(bool(one.hidden) for one in found.rowinfo_map.values())
        return grid

    def _text(self, grid: Grid, sheet: Any, row: int, column: int) -> str:
        """Return the text that a cell shows, and note problems in the grid."""
        xlrd, cell = self._xlrd, sheet.cell(row, column)
        value, kind = cell.value, cell.ctype
        if kind == xlrd.XL_CELL_ERROR:
            grid.problems[row, column] = "shows an error"
            return ""
        if kind == xlrd.XL_CELL_BOOLEAN:
            return cell_text(bool(value))
        style = self._book.xf_list[sheet.cell_xf_index(row, column)]
        code = self._book.format_map[style.format_key].format_str
        if kind == xlrd.XL_CELL_DATE and re.search(r"\[[hm]", code, re.IGNORECASE):
            return cell_text(datetime.timedelta(days=value))
        if kind == xlrd.XL_CELL_DATE:
            when = xlrd.xldate.xldate_as_datetime(value, self._book.datemode)
            is_day = float(value).is_integer()
            return cell_text(when.date() if is_day else when.time() if value < 1 else when)
        if kind != xlrd.XL_CELL_NUMBER:
            return cell_text(value)
        shape = number_format(code)
        if isinstance(shape, bool):
            return cell_text(value)
        return grid.number(row, column, value, shape)
