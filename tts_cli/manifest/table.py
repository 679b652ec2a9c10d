"""Rows of a table: a header that names the columns, and what CSV and TSV make of lines.

TSV follows the quoting of CSV, as spreadsheets write it: a cell that starts with a quote must
double the quotes inside it. What separates the cells of a .csv is found in its header: Excel
writes semicolons where the comma is the decimal sign, others write tabs.
"""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tts_cli.errors import ManifestError
from tts_cli.manifest.columns import DROP, ERROR, Columns, as_flag, fitting, unknown_names
from tts_cli.manifest.lines import Lines
from tts_cli.manifest.row import BadRow, Row, RowProblem, shown

if TYPE_CHECKING:
    from tts_cli.manifest.reader import Source
    from tts_cli.manifest.row_builder import RowBuilder

log = logging.getLogger(__name__)

_ELSEWHERE = "; if the header is a later line, remove what stands above it"
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_EXCEL_SEPARATOR = re.compile(r"sep=(.)[\r\n]*")


class Header:
    """The columns of one table.

    Args:
        cells: the names as they stand there.
        place: file and line, for messages.
    Raises:
        ManifestError: a name is no field and nobody says what becomes of it, or stands twice; none
            is the text.
    """

    def __init__(self, cells: list[str], columns: Columns, place: str) -> None:
        self.names = [cell.strip() for cell in cells]
        self._columns = columns
        named = [name for name in self.names if name]
        for name in named:
            columns.meet(name)
        self.fields = [columns.field_of(name) if name else None for name in self.names]
        if not columns.is_shared:
            columns.require_met(place)
        is_strange = not any(map(columns.field_of, named)) and not fitting(named)
        elsewhere = _ELSEWHERE if is_strange else ""
        strange = [name for name in named if name not in columns.fields]
        if columns.extra == ERROR and not all(map(columns.field_of, strange)):
            raise ManifestError(f"{place}: {unknown_names(named, columns.fields)}{elsewhere}")
        self._check_twice(place)
        if not {"text", "input"} & set(self.fields):
            fits = fitting(named).items()
            guess = {name: target for name, target in fits if target == "text"}
            guess = {**columns.fields, **(guess or {"COLUMN": "text"})}
            remedy = f"add {as_flag(guess)}{elsewhere}" if named else None
            raise ManifestError(f"{place}: no column is called 'text'", remedy)
        self._is_plain = all(self.fields)
        kept = columns.extra not in (ERROR, DROP)
        self._extra = [
            (index, name)
            for index, (name, target) in enumerate(zip(self.names, self.fields, strict=True))
            if kept and name and target is None
        ]

    def _check_twice(self, place: str) -> None:
        by_field: dict[str, str] = {}
        for name, target in zip(self.names, self.fields, strict=True):
            is_kept = self._columns.extra not in (ERROR, DROP)
            if name and self.names.count(name) > 1 and (target or is_kept):
                raise ManifestError(f"{place}: the column {shown(name)} stands twice")
            other = by_field.setdefault(target, name) if target else name
            if target and other != name:
                raise ManifestError(
                    f"{place}: the columns {shown(other)} and {shown(name)} both become '{target}'",
                    f"leave one out: {as_flag({other: '' if other == target else target})}",
                )

    def is_read(self, column: int) -> bool:
        """Whether a cell of that column, from 0, is of any account."""
        return column < len(self.fields) and (
            self.fields[column] is not None or any(index == column for index, _ in self._extra)
        )

    def row(self, cells: list[str], rows: RowBuilder, line: int) -> Row | BadRow:
        """The row of some cells, as many as there are columns."""
        if self._is_plain:
            return rows.cells(dict(zip(self.fields, cells, strict=True)), line, {})  # type: ignore[arg-type]
        values: dict[str, str] = {}
        for name, target, cell in zip(self.names, self.fields, cells, strict=True):
            if target is not None:
                values[target] = cell
            elif not name and cell.strip():
                return rows.bad(line, f"has {shown(cell)} in a column without a name")
        extra = {name: cells[index] for index, name in self._extra if cells[index].strip()}
        return rows.cells(values, line, extra)


def table_rows(lines: Lines, source: Source, rows: RowBuilder) -> Iterator[Row | BadRow]:
    """CSV and TSV: the first row names the columns; a row may span lines inside quotes."""
    separator = "\t" if source.format == "tsv" else _find_separator(lines, source)
    reader = csv.reader(lines, delimiter=separator, strict=True)
    header = _read_header(reader, lines, source)
    num_columns = len(header.names)
    while True:
        lines.start_row()
        start = lines.number + 1
        try:
            cells = next(reader)
            if lines.problem is not None:
                raise RowProblem(lines.problem)
            if not any(map(str.strip, cells)):
                continue
            if len(cells) != num_columns:
                raise RowProblem(
                    f"has {len(cells)} cells, the header has {num_columns}; "
                    "put a cell that holds the separator in quotes"
                )
        except StopIteration:
            return
        except (RowProblem, csv.Error) as problem:
            if rows.next():
                yield rows.bad(start, _table_problem(problem, start, lines.number))
            continue
        if rows.next():
            yield header.row(cells, rows, start)


def _find_separator(lines: Lines, source: Source) -> str:
    """What separates the cells of a .csv, by its first line; that line is then read again, but for
    Excel's own `sep=;`.
    """
    found = ","
    for line in lines:
        if match := _EXCEL_SEPARATOR.fullmatch(line):
            found = match[1]
            break
        if line.strip(" ,;\t\r\n"):
            found = max(SEPARATORS, key=lambda separator: _fit(line, separator, source.columns))
            lines.give_back(line)
            break
    if found != "," and source.found.separator is None:
        name = SEPARATORS.get(found, shown(found))
        log.info("%s: the columns are separated by %s", source.name, name)
    source.found.separator = found
    return found


def _fit(line: str, separator: str, columns: Columns) -> tuple[int, int]:
    """How well a header's line can be taken apart so: names that are known, then names at all."""
    try:
        names = [cell.strip() for cell in next(csv.reader([line], delimiter=separator), [])]
    except csv.Error:
        return (0, 0)
    return (sum(columns.field_of(name) is not None for name in names), len(names))


def _reason(problem: Exception) -> str:
    """What the csv module says; it names a tab by the tab itself."""
    return str(problem).replace("\t", "\\t")


def _table_problem(problem: Exception, start: int, end: int) -> str:
    if isinstance(problem, csv.Error):
        advice = "close every quote and double those inside a cell"
        message = f"not a table row: {_reason(problem)}; {advice}"
    else:
        message = str(problem)
    if end > start:
        message += f" (the row runs from line {start} to {end}; is a quote never closed?)"
    return message


def _read_header(reader: Iterator[list[str]], lines: Lines, source: Source) -> Header:
    start = lines.number + 1
    try:
        header: list[str] = []
        while not any(map(str.strip, header)):
            start = lines.number + 1
            header = next(reader)
        if lines.problem is not None:
            raise RowProblem(lines.problem)
    except StopIteration:
        raise ManifestError(
            f"{source.name}: is empty", remedy="name the columns in the first row, as id,text"
        ) from None
    except (RowProblem, csv.Error) as problem:
        raise ManifestError(
            f"{source.name}:{start}: the header cannot be read: {_reason(problem)}"
        ) from None
    return Header(header, source.columns, f"{source.name}:{start}")
