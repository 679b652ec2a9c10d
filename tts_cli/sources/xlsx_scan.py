"""Read .xlsx files: python-calamine reads the values, after a scan of the file.

The file is a ZIP file of XML. Its parts are unpacked here within limits, and packed again without
compression for the library. The library allocates the whole rectangle of a sheet's cells, so that a
single cell in the last corner would exhaust memory. The scan therefore checks the size of the
sheet. It also finds errors and formulas without results, which the library returns as empty cells,
and the formats of numbers.
"""

from __future__ import annotations

import datetime
import io
import posixpath
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from tts_cli.errors import ManifestError, library_errors
from tts_cli.extras import load
from tts_cli.sources.archive import Archive

MAX_FILE_BYTES = 64 << 20
MAX_CELLS = 4_000_000  # of the rectangle that holds all of a sheet's
MAX_COLUMNS = 16_384
MAX_ROWS = 1 << 20
MAX_TEXT_BYTES = 256 << 20  # of a sheet's cells, a shared text counted in each cell that has it
_MAX_SHEETS = 1000
_MAX_ELEMENTS = 1 << 18  # of styles or relations; Excel has 65,490 styles

_SAVE_AGAIN = "save it as .xlsx again"
SAVE_AS_CSV = "save the sheet as CSV (UTF-8)"
_WORKBOOK = "xl/workbook.xml"
_RELATIONS = "xl/_rels/workbook.xml.rels"
_ROOT = (  # by which the library knows the kind of file
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="rId1" Target="xl/workbook.xml" Type="http://schemas.openxmlformats.org/'
    'officeDocument/2006/relationships/officeDocument"/></Relationships>'
)
_SHARED, _STYLES = "sharedStrings", "styles"
_CELL_REFERENCE = re.compile(r"([A-Za-z]{1,3})([1-9][0-9]{0,6})")
_ROW_NUMBER = re.compile(r"[1-9][0-9]{0,6}")
_BUILT_IN = {0: "General", 1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%"}
_BUILT_IN |= {49: "@", **dict.fromkeys((*range(14, 23), *range(45, 48)), "yyyy")}
_NUMBER = re.compile(r"(?:#,##)?(0{1,30})(?:\.(0{1,30}))?(%?)")  # Excel shows 30 decimals at most
_MAX_INTEGER = 1e15  # from here on Excel itself has no further digits
_NO_LETTERS = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]')  # of a number format: texts, colours


StartElement = Callable[[str, Mapping[str, str]], None]  # name without a prefix, and attributes


@dataclass(frozen=True)
class NumberFormat:
    """The format of a number: digits with leading zeros, decimals, percentage."""

    digits: int
    decimals: int
    is_percent: bool

    def show(self, value: float) -> str:
        """Return a number as its cell shows it."""
        value *= 100 if self.is_percent else 1
        width = self.digits + (self.decimals + 1 if self.decimals else 0) + (value < 0)
        return f"{value:0{width}.{self.decimals}f}" + "%" * self.is_percent


@dataclass
class Grid:
    """The cells of a sheet as they are shown. Places are (row, column), both from 0."""

    rows: Iterable[list[str]] = ()
    problems: dict[tuple[int, int], str] = field(default_factory=dict)  # why a cell has no value
    num_hidden: int = 0  # rows
    unsupported: list[str] = field(default_factory=list)  # cells with an unsupported number format

    def number(self, row: int, column: int, value: float, shape: NumberFormat | None) -> str:
        """Return a number as its cell shows it; note it if its format is not supported (None)."""
        if shape is not None:
            return shape.show(value)
        text = cell_text(value)
        self.unsupported.append(f"{column_letters(column)}{row + 1}, read as {text},")
        return text


@dataclass(frozen=True)
class Sheet:
    """One sheet of a workbook."""

    name: str
    part: str  # of the zip, or its number
    is_hidden: bool


class XlsxFile:
    """An .xlsx file.

    Raises:
        ManifestError: it is damaged or too large.
    """

    def __init__(self, archive: Archive, name: str) -> None:
        self._name, self._archive = name, archive
        relations = self._relations()
        self._shared = relations.get(_SHARED, "")
        self._styles = relations.get(_STYLES, "")
        self.sheets = self._sheets(relations)

    def grid(self, sheet: Sheet) -> Grid:
        """Return the cells of a sheet. Raises ManifestError, SetupError."""
        what = f"{self._name}: .xlsx, unless the sheet is saved as CSV,"
        python_calamine = load("xlsx", "python-calamine", what)
        content = self._archive.read(sheet.part)
        walk = self._scan(content, sheet)
        packed = self._repacked(sheet.part, content)
        with library_errors(f"{self._name}: sheet {sheet.name!r}", _SAVE_AGAIN):
            opened = python_calamine.load_workbook(packed).get_sheet_by_name(sheet.name)
            values: list[list[Any]] = opened.to_python(skip_empty_area=False)
        grid, formats = walk.grid, walk.formats
        grid.rows = (
            [
                grid.number(row, column, value, formats[row, column])
                if isinstance(value, float) and (row, column) in formats
                else cell_text(value)
                for column, value in enumerate(cells)
            ]
            for row, cells in enumerate(values)
        )
        return grid

    def _repacked(self, part: str, content: bytes) -> io.BytesIO:
        """Return a file for the library, of one sheet."""
        found = io.BytesIO()
        with zipfile.ZipFile(found, "w") as packed:
            for other in filter(None, (_WORKBOOK, _RELATIONS, self._styles, self._shared)):
                packed.writestr(other, self._archive.read(other))
            packed.writestr(part, content)
            packed.writestr("_rels/.rels", _ROOT)
        found.seek(0)
        return found

    def _error(self, problem: str, remedy: str) -> ManifestError:
        return ManifestError(f"{self._name}: {problem}", remedy=remedy)

    def _relations(self) -> dict[str, str]:
        """Return the parts of the zip that the workbook refers to, by id, and by kind for some."""
        found: dict[str, str] = {}
        for _, values in self._elements(_RELATIONS, "Relationship"):
            if values.get("TargetMode") == "External":
                continue
            target = values.get("Target", "")
            part = target[1:] if target.startswith("/") else posixpath.join("xl", target)
            part = posixpath.normpath(part)
            found[values.get("Id", "")] = part
            kind = values.get("Type", "").rpartition("/")[2]
            if kind in (_SHARED, _STYLES):
                found[kind] = part
        return found

    def _sheets(self, relations: Mapping[str, str]) -> list[Sheet]:
        found: list[Sheet] = []
        for _, values in self._elements(_WORKBOOK, "sheet")[:_MAX_SHEETS]:
            link = next((values[key] for key in values if key.rpartition(":")[2] == "id"), "")
            part = relations.get(link, "")
            if "worksheets/" in part:  # others are charts and dialogs
                is_hidden = values.get("state", "visible") != "visible"
                found.append(Sheet(values.get("name", ""), part, is_hidden))
        return found

    def _scan(self, content: bytes, sheet: Sheet) -> _SheetWalk:
        walk = _SheetWalk(self._formats(), self._text_sizes())
        try:
            self._walk(content, sheet.part, walk.start, walk.text)
            walk.end_cell()
        except _ReferenceError as error:
            raise self._error(f"{sheet.part}: is damaged: {error}", _SAVE_AGAIN) from None
        num_rows, num_columns = walk.last_row + 1, walk.last_column + 1
        if num_rows > MAX_ROWS or num_columns > MAX_COLUMNS or num_rows * num_columns > MAX_CELLS:
            raise self._error(
                f"sheet {sheet.name!r} has {num_rows:,} rows and {num_columns:,} columns; the "
                f"maximum is {MAX_CELLS:,} cells",
                f"delete cells far outside of the table, or {SAVE_AS_CSV}",
            )
        if walk.text_bytes > MAX_TEXT_BYTES:
            raise self._error(
                f"sheet {sheet.name!r} has more than {MAX_TEXT_BYTES >> 20} MiB of text",
                f"delete what is no row, or {SAVE_AS_CSV}",
            )
        return walk

    def _text_sizes(self) -> list[int]:
        """Return the sizes of the shared texts, in bytes of UTF-8."""
        sizes: list[int] = []

        def start(tag: str, _: Mapping[str, str]) -> None:
            if tag == "si":
                sizes.append(0)

        def text(part: str) -> None:
            if sizes:
                sizes[-1] += len(part.encode())

        if self._shared:
            self._walk(self._archive.read(self._shared), self._shared, start, text)
        return sizes

    def _formats(self) -> list[NumberFormat | bool | None]:
        """Return how numbers are shown, by style of a cell; see `number_format`."""
        own: dict[int, str] = {}
        found: list[NumberFormat | bool | None] = []
        groups = ("cellXfs", "cellStyleXfs", "cellStyles", "dxfs")
        is_cell_style = False
        for tag, values in self._elements(self._styles, "numFmt", "xf", *groups):
            if tag == "numFmt":
                own[_number(values.get("numFmtId"))] = values.get("formatCode", "")
            elif tag in groups:
                is_cell_style = tag == "cellXfs"
            elif is_cell_style:
                number = _number(values.get("numFmtId"))
                found.append(number_format(own.get(number, _BUILT_IN.get(number, "?"))))
        return found

    def _elements(self, part: str, *tags: str) -> list[tuple[str, Mapping[str, str]]]:
        """Return the elements of a part with certain tags, and their attributes; none for ""."""
        found: list[tuple[str, Mapping[str, str]]] = []

        def start(tag: str, values: Mapping[str, str]) -> None:
            if tag in tags and len(found) < _MAX_ELEMENTS:
                found.append((tag, values))

        if part:
            self._walk(self._archive.read(part), part, start)
        return found

    def _walk(
        self,
        content: bytes,
        part: str,
        start: StartElement,
        text: Callable[[str], None] | None = None,
    ) -> None:
        walk_xml(content, f"{self._name}: {part}", _SAVE_AGAIN, start, text)


def walk_xml(
    content: bytes,
    place: str,
    remedy: str,
    start: StartElement,
    text: Callable[[str], None] | None = None,
    end: Callable[[str], None] | None = None,
) -> None:
    """Call functions for the elements, by their names without prefixes, and texts of a document.

    Args:
        place: file and part, in messages.
    Raises:
        ManifestError: it is damaged, or declares a document type.
    """

    def refuse(*_: Any) -> None:
        raise ManifestError(f"{place} declares a document type", remedy)

    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda tag, values: start(tag.rpartition(":")[2], values)
    parser.StartDoctypeDeclHandler = refuse
    if text is not None:
        parser.CharacterDataHandler = text
    if end is not None:
        parser.EndElementHandler = lambda tag: end(tag.rpartition(":")[2])
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise ManifestError(f"{place}: is damaged: {error}", remedy) from None


class _ReferenceError(ValueError):
    """A row number or cell reference that Excel does not write.

    The library accepts some of them, such as `A4294967295`, and allocates all rows up to it.
    """


class _SheetWalk:
    """Collects facts about the cells of a sheet.

    Args:
        text_sizes: bytes of each shared text.
    """

    def __init__(self, formats: list[NumberFormat | bool | None], text_sizes: list[int]) -> None:
        self.grid = Grid()  # without rows
        # Formats of numbers that are not shown as they are; None: not supported.
        self.formats: dict[tuple[int, int], NumberFormat | None] = {}
        self.last_row = self.last_column = -1
        self.text_bytes = 0  # of the cells' shared texts
        self._formats = formats
        self._text_sizes, self._largest = text_sizes, max(text_sizes, default=0)
        self._row = self._column = -1
        self._has_formula = self._has_value = self._is_error = False
        self._is_in_value = self._is_text = False
        self._shared_index: str | None = None  # the characters so far; None: not a shared text

    def text(self, part: str) -> None:
        """Handle a text."""
        self._has_value = self._has_value or self._is_in_value
        if self._shared_index is not None and self._is_in_value:
            self._shared_index += part

    def start(self, tag: str, values: Mapping[str, str]) -> None:
        """Handle the start of an element."""
        self._is_in_value = tag in ("v", "t")
        if tag == "v":
            self._count_shared()
            self._has_value = self._has_value or self._is_text
        elif tag == "f":
            self._has_formula = True
        elif tag == "c":
            self.end_cell()
            self._start_cell(values)
        elif tag == "row":
            self.end_cell()
            number = values.get("r", str(self._row + 2))
            if not _ROW_NUMBER.fullmatch(number):
                raise _ReferenceError(f"row {number[:20]!r} is not a row number")
            self._row = int(number) - 1
            self._column = -1
            self.last_row = max(self.last_row, self._row)
            self.grid.num_hidden += values.get("hidden") in ("1", "true")

    def _start_cell(self, values: Mapping[str, str]) -> None:
        reference = values.get("r")
        if reference is None:
            self._column += 1
        elif match := _CELL_REFERENCE.fullmatch(reference):
            self._column, self._row = _column_number(match[1].upper()), int(match[2]) - 1
        else:
            raise _ReferenceError(f"{reference[:20]!r} is not a cell")
        self.last_row = max(self.last_row, self._row)
        self.last_column = max(self.last_column, self._column)
        kind = values.get("t", "n")
        self._is_error = kind == "e"
        self._is_text = kind == "str"  # whose result may be empty
        self._shared_index = "" if kind == "s" else None
        if kind == "n" and "s" in values:
            style = _number(values["s"])
            shape = self._formats[style] if 0 <= style < len(self._formats) else False
            if not isinstance(shape, bool):
                self.formats[self._row, self._column] = shape

    def end_cell(self) -> None:
        """Complete the last cell."""
        if self._is_error:
            self.grid.problems[self._row, self._column] = "shows an error"
        elif self._has_formula and not self._has_value:
            self.grid.problems[self._row, self._column] = (
                "contains a formula without a saved result; open and save the file in Excel"
            )
        self._count_shared()
        self._shared_index = None
        self._has_formula = self._has_value = self._is_error = False
        self._is_in_value = self._is_text = False

    def _count_shared(self) -> None:
        """Add the size of a shared text; for an unusual form of its index, the largest size."""
        if self._shared_index:
            index, sizes = _number(self._shared_index), self._text_sizes
            self.text_bytes += sizes[index] if 0 <= index < len(sizes) else self._largest
            self._shared_index = ""


def _number(text: str | None, default: int = -1) -> int:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,9}", text) else default


def _column_number(letters: str) -> int:
    """Return the number of a column: A is 0, AA is 26."""
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - 64
    return number - 1


def column_letters(number: int) -> str:
    """Return the name of a column; 0 is A."""
    letters = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def number_format(code: str) -> NumberFormat | bool | None:
    """Return the format for a code; None: it is not supported; False: no format, or a date."""
    if code in ("General", "@", "0", ""):
        return False
    if match := _NUMBER.fullmatch(code):
        return NumberFormat(len(match[1]), len(match[2] or ""), bool(match[3]))
    letters = _NO_LETTERS.sub("", code).lower()
    return False if re.search("[ymdhs]", letters) else None


def cell_text(value: Any) -> str:
    """Return a value as Excel shows it by default; days as 2024-03-05."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < _MAX_INTEGER
        return str(int(value)) if whole else f"{value:.15g}"
    if isinstance(value, datetime.datetime):
        return f"{value:%Y-%m-%d} {_clock(value.hour, value.minute, value.second)}"
    if isinstance(value, datetime.time):
        return _clock(value.hour, value.minute, value.second)
    if isinstance(value, datetime.timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return _clock(*divmod(minutes, 60), seconds)
    return str(value)


def _clock(hours: int, minutes: int, seconds: int) -> str:
    return f"{hours}:{minutes:02d}" + (f":{seconds:02d}" if seconds else "")
