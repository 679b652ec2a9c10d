"""Read workbooks of LibreOffice (.ods) and of Excel before 2007 (.xls).

Repeated cells and rows of an .ods file are written once, with a count, so a small file could expand
to billions of cells; they are counted first.

Source: OpenDocument 1.3, part 3, section 9.
"""

from __future__ import annotations

import io
from typing import Any

from tts_cli.errors import ManifestError, library_errors
from tts_cli.extras import load
from tts_cli.sources.archive import Archive
from tts_cli.sources.cells import START, TEXT, Grid, Sheet, cell_text, xml_events
from tts_cli.sources.row import CELL_ERRORS

_CONTENT, _MANIFEST = "content.xml", "META-INF/manifest.xml"
_MAX_REPEATS = 1 << 20  # of a cell or a row
_CELLS = ("table-cell", "covered-table-cell")
_NOT_READ = ("annotation", "frame", "tracked-changes")  # a comment, a picture
_SPACES = {"s": " ", "tab": " ", "line-break": "\n"}


class OdsFile:
    """An .ods file. Raises ManifestError if it is damaged."""

    def __init__(self, archive: Archive, name: str) -> None:
        self._name = name
        if _MANIFEST in archive.names and b"encryption-data" in archive.read(_MANIFEST):
            raise ManifestError(f"{name}: is encrypted", "save it without a password")
        self._content = archive.read(_CONTENT)
        self.sheets = self._read(None, Grid(name))

    def grid(self, sheet: Sheet) -> Grid:
        grid = Grid(f"{self._name}: sheet {sheet.name!r}")
        self._read(sheet.name, grid)
        for row, cells in enumerate(grid.cells):
            for column, text in enumerate(cells):
                if text.startswith("Err:") or text in CELL_ERRORS:
                    grid.problems[row, column] = "shows an error"
        return grid

    def _read(self, wanted: str | None, grid: Grid) -> list[Sheet]:
        """Put the cells of the wanted sheet into a grid. Return all sheets."""
        sheets: list[Sheet] = []
        cells: list[str] = []  # of the row
        pieces: list[str] = []  # of the cell
        hidden: set[str] = set()  # styles
        style, is_wanted = "", False
        row = num_rows = num_cells = num_empty = 0  # repeats of row and cell; empty cells before
        num_paragraphs = num_not_read = 0  # open elements
        place = f"{self._name}: {_CONTENT}"
        for kind, name, found in xml_events(self._content, place, "save it as .ods again"):
            values = {key.rpartition(":")[2]: value for key, value in found.items()}
            change = 1 if kind == START else -1
            if kind == TEXT or (kind == START and name in _SPACES):
                if is_wanted and num_paragraphs and not num_not_read:
                    pieces.append(name if kind == TEXT else _SPACES[name])
            elif name == "p":
                num_paragraphs += change
                if kind == START and pieces and not num_not_read:
                    pieces.append("\n")
            elif name in _NOT_READ:
                num_not_read += change
            elif name == "style":
                style = values.get("name", "")
            elif name == "table-properties" and values.get("display") == "false":
                hidden.add(style)
            elif name == "table":
                is_wanted = kind == START and values.get("name", "") == wanted and not row
                if kind == START:
                    is_hidden = values.get("style-name", "") in hidden
                    sheets.append(Sheet(values.get("name", ""), "", is_hidden))
            elif name == "table-row" and is_wanted and kind == START:
                cells, num_empty = [], 0
                num_rows = _repeats(values.get("number-rows-repeated"))
                grid.num_hidden += values.get("visibility", "visible") != "visible"
            elif name == "table-row" and is_wanted:
                if cells:
                    grid.put_rows(row, num_rows, cells)
                row += num_rows
            elif name in _CELLS and kind == START:
                pieces = []
                num_cells = _repeats(values.get("number-columns-repeated"))
            elif name in _CELLS and is_wanted:
                num_empty += num_cells
                if text := "".join(pieces):
                    grid.count(num_empty)
                    cells += [""] * (num_empty - num_cells) + [text] * num_cells
                    num_empty = 0
        return sheets


def _repeats(text: str | None) -> int:
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) < 8
    return min(int(text or 1), _MAX_REPEATS) if is_number else 1


class XlsFile:
    """An .xls file. Raises ManifestError if it is damaged or protected, SetupError without xlrd."""

    def __init__(self, data: bytes, name: str) -> None:
        what = f"{name}: .xls, unless the sheet is saved as .xlsx or CSV,"
        self._xlrd = load("xls", "xlrd", what)
        self._name = name
        with self._errors():
            self._book = self._xlrd.open_workbook(
                file_contents=data, logfile=io.StringIO(), formatting_info=True, ragged_rows=True
            )
            sheets = enumerate(self._book.sheets())
            self.sheets = [Sheet(one.name, str(nth), one.visibility != 0) for nth, one in sheets]

    def _errors(self) -> Any:
        return library_errors(self._name, "save it as .xlsx without a password, or as CSV (UTF-8)")

    def grid(self, sheet: Sheet) -> Grid:
        grid = Grid(f"{self._name}: sheet {sheet.name!r}")
        with self._errors():
            found = self._book.sheet_by_index(int(sheet.part))
            for row in range(found.nrows):
                for column in range(found.row_len(row)):
                    grid.put(row, column, self._text(grid, found, row, column))
            grid.num_hidden = sum(bool(one.hidden) for one in found.rowinfo_map.values())
        return grid

    def _text(self, grid: Grid, sheet: Any, row: int, column: int) -> str:
        """Return the text that a cell shows, and note problems in the grid."""
        xlrd, cell = self._xlrd, sheet.cell(row, column)
        if cell.ctype == xlrd.XL_CELL_ERROR:
            grid.problems[row, column] = "shows an error"
            return ""
        if cell.ctype == xlrd.XL_CELL_BOOLEAN:
            return cell_text(bool(cell.value))
        if cell.ctype not in (xlrd.XL_CELL_NUMBER, xlrd.XL_CELL_DATE):
            return cell_text(cell.value)
        style = self._book.xf_list[sheet.cell_xf_index(row, column)]
        code = self._book.format_map[style.format_key].format_str
        return grid.number(row, column, cell.value, code, is_1904=bool(self._book.datemode))
