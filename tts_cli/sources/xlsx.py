"""Read rows of an .xlsx file, with every cell as its user sees it: dates, numbers, results of
formulas.

python-calamine reads the values, and `workbook_scan` what it does not tell. A sheet is read whole,
so its size is bounded; a million rows are for CSV or JSONL.
"""

from __future__ import annotations

import datetime
import io
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from tts_cli.errors import ManifestError, is_panic
from tts_cli.extras import load
from tts_cli.named import nearest, shown, some_of
from tts_cli.sources.item import Item
from tts_cli.sources.table import TableHeader
from tts_cli.sources.xlsx_scan import (
    MAX_FILE_BYTES,
    NumberFormat,
    Sheet,
    SheetScan,
    WorkbookFile,
    column_letters,
)

if TYPE_CHECKING:
    from tts_cli.sources.item import ManifestFile

log = logging.getLogger(__name__)

_MAX_INTEGER = 1e15  # from here on Excel itself has no further digits


def workbook_items(file: BinaryIO, source: ManifestFile) -> Iterator[Item]:
    """Return the items of one sheet; the first row with anything in it names the columns.

    Raises:
        ManifestError: it is no workbook, too large, or has no such sheet or columns.
        SetupError: python-calamine is missing.
    """
    name = source.name
    book = WorkbookFile(file.read(MAX_FILE_BYTES + 1), name)
    sheet = _choose(book.sheets, source.rules.sheet, name)
    values, scan = _read(book, sheet, name)
    is_first = source.found.sheet is None
    source.found.sheet = sheet.name
    if is_first:
        _tell(book.sheets, sheet, scan, name)
    header: TableHeader | None = None
    unfollowed: list[str] = []
    for index, line_values in enumerate(values):
        cells = [
            _shown((index, column), value, scan.formats, unfollowed)
            for column, value in enumerate(line_values)
        ]
        has_problem = any((index, column) in scan.problems for column in range(len(cells)))
        if not has_problem and not any(map(str.strip, cells)):
            continue
        line = index + 1
        if header is None:
            header = TableHeader(cells, source.columns, f"{name}:{line}")
            continue
        problem = _problem(index, cells, scan, header) if has_problem else None
        yield header.item(cells, line) if problem is None else Item(line, problem=problem)
    if header is None:
        raise ManifestError(
            f"{name}: sheet {sheet.name!r} is empty", remedy="choose another with --sheet"
        )
    if unfollowed and is_first:
        log.warning(
            "%s: %d numbers are shown in an unsupported format (currency, fractions): %s first",
            name,
            len(unfollowed),
            unfollowed[0],
        )


def _choose(sheets: list[Sheet], wanted: str | None, name: str) -> Sheet:
    if wanted is None:
        found = next((sheet for sheet in sheets if not sheet.is_hidden), None)
        if found is None:
            raise ManifestError(
                f"{name}: has no visible sheet", "unhide one, or choose it with --sheet"
            )
        return found
    for same in (str, str.casefold):
        for sheet in sheets:
            if same(sheet.name) == same(wanted):
                return sheet
    names = [sheet.name for sheet in sheets]
    close = nearest(wanted, names)
    advice = f"did you mean {shown(close)}? " if close else ""
    raise ManifestError(
        f"{name}: has no sheet {shown(wanted)}", f"{advice}it has {', '.join(names[:20])}"
    )


def _tell(sheets: list[Sheet], sheet: Sheet, scan: SheetScan, name: str) -> None:
    others = [other.name for other in sheets if other is not sheet]
    if others:
        listed = some_of(others, 5)
        log.info("%s: reading sheet %r; other sheets (--sheet): %s", name, sheet.name, listed)
    if scan.hidden_rows:
        log.warning("%s: %d hidden rows are read like the others", name, scan.hidden_rows)


def _read(book: WorkbookFile, sheet: Sheet, name: str) -> tuple[list[list[Any]], SheetScan]:
    what = f"{name}: .xlsx, unless the sheet is saved as CSV,"
    python_calamine = load("xlsx", "python-calamine", what)
    data, scan = book.repacked(sheet)
    try:
        opened = python_calamine.load_workbook(io.BytesIO(data))
        values: list[list[Any]] = opened.get_sheet_by_name(sheet.name).to_python(
            skip_empty_area=False
        )
    except BaseException as error:
        errors = (python_calamine.CalamineError, OSError, ValueError)
        if not is_panic(error) and not isinstance(error, errors):
            raise
        raise ManifestError(
            f"{name}: sheet {sheet.name!r} cannot be read: {error}", "save it as .xlsx again"
        ) from None
    return values, scan


def _problem(index: int, cells: list[str], scan: SheetScan, header: TableHeader) -> str | None:
    """What is wrong with a cell of a row that stands for anything."""
    for column in range(len(cells)):
        why = scan.problems.get((index, column))
        if why is not None and header.is_read(column):
            return f"cell {column_letters(column)}{index + 1} {why}"
    return None


def _shown(
    place: tuple[int, int],
    value: Any,
    formats: Mapping[tuple[int, int], NumberFormat | None],
    unfollowed: list[str],
) -> str:
    """A cell's text."""
    if isinstance(value, float) and place in formats:
        shape = formats[place]
        if shape is not None:
            return shape.show(value)
        text = cell_text(value)
        unfollowed.append(f"{column_letters(place[1])}{place[0] + 1}, read as {text},")
        return text
    return cell_text(value)


def cell_text(value: Any) -> str:
    """A value as Excel shows it where nobody chose another format; days as 2024-03-05."""
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
