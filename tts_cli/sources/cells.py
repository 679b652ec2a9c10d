"""The cells of a workbook's sheet as they are shown: numbers by their formats, dates, and XML."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from xml.parsers import expat

from tts_cli.errors import ManifestError

MAX_FILE_BYTES = 64 << 20
MAX_CELLS = 4_000_000  # of the rectangle that contains all cells of a sheet
SAVE_AS_CSV = "save the sheet as CSV (UTF-8)"
_NUMBER = re.compile(r"(?:#,##)?(0{1,30})(?:\.(0{1,30}))?(%?)")  # Excel shows 30 decimals at most
_NO_LETTERS = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]')  # of a number format: texts, colours
_DURATION = re.compile(r"\[(?:h+|m+|s+)\]", re.IGNORECASE)
_BLOCK_BYTES = 1 << 16
START, TEXT, END = "start", "text", "end"
XmlEvent = tuple[str, str, Mapping[str, str]]  # kind; name without a prefix, or text; attributes
_MAX_INTEGER = 1e15  # from here on Excel itself has no further digits


@dataclass(frozen=True)
class Sheet:
    name: str
    part: str  # of the zip, or its number
    is_hidden: bool


@dataclass
class Grid:
    """The cells of a sheet as they are shown. Rows and columns count from 0."""

    name: str  # of file and sheet, for messages
    problems: dict[tuple[int, int], str] = field(default_factory=dict)  # why a cell has no value
    num_hidden: int = 0  # rows
    unsupported: list[str] = field(default_factory=list)  # cells with an unsupported number format
    cells: list[list[str]] = field(default_factory=list)  # of each row
    merged: dict[tuple[int, int], str] = field(default_factory=dict)  # below the first of a range
    _num_cells: int = 0

    def put(self, row: int, column: int, text: str) -> None:
        if row >= len(self.cells):
            self._add_empty(row + 1)
        cells = self.cells[row] = self.cells[row] or []  # empty rows are one list
        if (missing := column + 1 - len(cells)) > 0:
            self.count(missing)
            cells += [""] * missing
        cells[column] = text

    def put_rows(self, row: int, repeats: int, cells: list[str]) -> None:
        """Add equal rows. The cells of the first one are already counted."""
        self.count((repeats - 1) * len(cells))
        self._add_empty(row)
        self.cells += [cells] * repeats

    def _add_empty(self, num_rows: int) -> None:
        if num_rows > MAX_CELLS:
            raise self._too_many()
        self.cells += [[]] * (num_rows - len(self.cells))

    def number(self, row: int, column: int, value: float, code: str, is_1904: bool) -> str:
        """Return a number as a cell with the format `code` shows it; note an unsupported format."""
        text = _formatted(value, code, is_1904)
        if text is None:
            text = cell_text(value)
            self.unsupported.append(f"{column_letters(column)}{row + 1}, read as {text},")
        return text

    def count(self, cells: int) -> None:
        self._num_cells += cells
        if self._num_cells > MAX_CELLS:
            raise self._too_many()

    def rows(self) -> Iterator[list[str]]:
        """Return the rows, all of one length."""
        width = max(map(len, self.cells), default=0)
        if width * len(self.cells) > MAX_CELLS:
            raise self._too_many()
        return (cells + [""] * (width - len(cells)) for cells in self.cells)

    def _too_many(self) -> ManifestError:
        return ManifestError(
            f"{self.name} has more than {MAX_CELLS:,} cells",
            f"delete cells far outside of the table, or {SAVE_AS_CSV}",
        )


def _formatted(value: float, code: str, is_1904: bool) -> str | None:
    kind = _kind_of(code)
    if isinstance(kind, str):
        return cell_text(value if not kind else _date(value, kind == "duration", is_1904))
    if kind is None:
        return None
    digits, decimals, is_percent = kind
    value *= 100 if is_percent else 1
    width = digits + (decimals + 1 if decimals else 0) + (value < 0)
    return f"{value:0{width}.{decimals}f}" + "%" * is_percent


@lru_cache(maxsize=1024)
def _kind_of(code: str) -> tuple[int, int, bool] | str | None:
    """Return digits, decimals and percentage of a number format; "date" or "duration"; "" for
    numbers as they are; None if the format is not supported.
    """
    if code in ("General", "@", "0", ""):
        return ""
    if found := _NUMBER.fullmatch(code):
        return len(found[1]), len(found[2] or ""), bool(found[3])
    if _DURATION.search(code):
        return "duration"
    return "date" if re.search("[ymdhs]", _NO_LETTERS.sub("", code).lower()) else None


def _date(days: float, is_duration: bool, is_1904: bool) -> Any:
    """Return the date, time or duration for a number of days; the number if no date fits."""
    try:
        if is_duration:
            return datetime.timedelta(days=days)
        first = datetime.datetime(1904, 1, 1) if is_1904 else datetime.datetime(1899, 12, 30)
        if not is_1904 and days < 60:  # Excel has a 29 February 1900
            first += datetime.timedelta(days=1)
        when = first + datetime.timedelta(milliseconds=round(days * 86_400_000))
    except (OverflowError, ValueError):
        return days
    return when.date() if days.is_integer() else when.time() if days < 1 else when


def cell_text(value: Any) -> str:
    """Return a value as Excel shows it by default; days as 2024-03-05."""
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


def column_letters(number: int) -> str:
    """Return the name of a column; 0 is A."""
    letters = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def xml_events(content: bytes, place: str, remedy: str) -> Iterator[XmlEvent]:
    """Yield starts, texts and ends of elements. Raises ManifestError on damage or a DOCTYPE."""

    def refuse(*_: Any) -> None:
        raise ManifestError(f"{place} declares a document type", remedy)

    found: list[XmlEvent] = []
    add, none = found.append, dict[str, str]()
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = lambda tag, values: add((START, _local(tag), values))
    parser.CharacterDataHandler = lambda text: add((TEXT, text, none))
    parser.EndElementHandler = lambda tag: add((END, _local(tag), none))
    for at in range(0, len(content) + 1, _BLOCK_BYTES):
        try:
            parser.Parse(content[at : at + _BLOCK_BYTES], at + _BLOCK_BYTES > len(content))
        except expat.ExpatError as error:
            raise ManifestError(f"{place}: is damaged: {error}", remedy) from None
        yield from found
        found.clear()


@lru_cache(maxsize=1024)
def _local(tag: str) -> str:
    return tag.rpartition(":")[2]
