"""Read the rows of a table: a header that names the columns, then one line of cells per row."""

from __future__ import annotations

import csv
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tts_cli.errors import ManifestError
from tts_cli.named import counted, first_few, shown
from tts_cli.sources.dialect import PATH, path_id, skip_directives
from tts_cli.sources.item import Dialect, Item
from tts_cli.sources.jsonl import Lines
from tts_cli.sources.mapping import (
    ERROR,
    KEEP,
    ColumnMapping,
    RowProblem,
    as_flag,
    guess_mapping,
    unknown_names,
)

if TYPE_CHECKING:
    from tts_cli.sources.item import ManifestFile

log = logging.getLogger(__name__)

_ELSEWHERE = "; if the header is a later line, remove the lines above it"
_HOLDS_SEPARATOR = "; put cells that contain the separator in quotes"
_MAX_TOLD = 5


class TableHeader:
    """The columns of one table. A column without a name is called by its position, `#1` the first.
    Raises ManifestError: a name is unknown or occurs twice, or no column is the text.

    Args:
        place: file and line, for messages.
        form: None for a sheet of a workbook.
    """

    def __init__(
        self, cells: list[str], columns: ColumnMapping, place: str, form: Dialect | None = None
    ) -> None:
        names = [cell.strip() for cell in cells]
        self.nameless = {place for place, name in enumerate(names) if not name}
        by_place = (f"#{number}" for number in range(1, len(names) + 1))
        self.names = [
            name or (number if number not in names else "")
            for name, number in zip(names, by_place, strict=True)
        ]
        self._columns = columns
        self._place = place
        self._targets = form.targets if form and form.names else {}
        self._id_parts = form.id_parts if form else 0
        self._kept = KEEP if self._targets and columns.extra == ERROR else columns.extra
        self.overhanging: list[
            str
        ] = []  # ids or lines of rows with a cell after the last named column
        named = [name for name in names if name]
        named += [name for name in self.names if name in columns.fields and name not in named]
        for name in named:
            columns.meet(name)
        self.fields = [self._field_of(name) if name else None for name in self.names]
        if not columns.is_shared:
            columns.require_met(place)
        self._check_names(named, place, form)
        self._check_twice(place)
        self._path = None
        if form and form.id_parts and (form.names or "id" in self.fields):
            self._path = names.index(PATH) if form.names else self.fields.index("id")
        self._is_plain = all(self.fields) and self._path is None
        self._extra = [
            (index, name)
            for index, (name, target) in enumerate(zip(self.names, self.fields, strict=True))
            if self._kept == KEEP and name and target is None
        ]

    def _field_of(self, name: str) -> str | None:
        target = None if name in self._columns.fields else self._targets.get(name)
        return self._columns.field_of(name) if target is None else target or None

    @property
    def _is_first_nameless(self) -> bool:
        return self.nameless - {len(self.names) - 1} == {0}

    def _check_names(self, named: list[str], place: str, form: Dialect | None) -> None:
        columns = self._columns
        fits = guess_mapping(named, columns.language)
        is_strange = not any(self.fields) and not fits
        elsewhere = _ELSEWHERE if is_strange else ""
        if is_strange and form is not None and form.advice:
            elsewhere += f"; if it is already a row, add {form.advice}"
        strange = [name for name in named if name not in columns.fields]
        if self._kept == ERROR and not all(map(self._field_of, strange)):
            given = dict(columns.fields)
            if self._is_first_nameless and not {"id"} & {*self.fields, *fits.values()}:
                named, given = ["#1", *named], {"#1": "id", **given}
            said = unknown_names(named, given, columns.language)
            raise ManifestError(f"{place}: {said}{elsewhere}")
        if not {"text", "input"} & set(self.fields):
            guess = {name: target for name, target in fits.items() if target == "text"}
            guess = {**columns.fields, **(guess or {"COLUMN": "text"})}
            remedy = f"add {as_flag(guess)}{elsewhere}" if named else None
            raise ManifestError(f"{place}: has no column 'text'", remedy)

    def _check_twice(self, place: str) -> None:
        by_field: dict[str, str] = {}
        for name, target in zip(self.names, self.fields, strict=True):
            is_kept = self._kept == KEEP
            if name and self.names.count(name) > 1 and (target or is_kept):
                raise ManifestError(f"{place}: the column {shown(name)} occurs twice")
            other = by_field.setdefault(target, name) if target else name
            if target and other != name:
                raise ManifestError(
                    f"{place}: the columns {shown(other)} and {shown(name)} both map to '{target}'",
                    f"leave one out: {as_flag({other: '' if other == target else target})}",
                )

    def is_read(self, column: int) -> bool:
        return column < len(self.fields) and (
            self.fields[column] is not None or any(index == column for index, _ in self._extra)
        )

    def item(self, cells: list[str], line: int) -> Item:
        """Return the item of a row with as many cells as columns. Raises ManifestError."""
        if self._is_plain:
            return Item(line, dict(zip(self.fields, cells, strict=True)))  # type: ignore[arg-type]
        if self._path is not None:
            cells[self._path] = path_id(cells[self._path], self._id_parts)
        values: dict[str, str] = {}
        for target, cell in zip(self.fields, cells, strict=True):
            if target is not None:
                values[target] = cell
        last, is_over = len(cells) - 1, False
        for index in self.nameless:
            if self.fields[index] is None and cells[index].strip():
                if index == last:
                    is_over = True
                elif self._kept == ERROR:
                    raise self._nameless(index, cells[index], line)
        if is_over and self._kept == ERROR:
            problem = (
                f"has {shown(cells[last])} after the last named column; if it belongs to a "
                "sentence, put that cell in quotes; --extra drop ignores all of that column"
            )
            return Item(line, problem=problem)
        extra = {name: cells[index] for index, name in self._extra if cells[index].strip()}
        if is_over:
            self.overhanging.append(values.get("id") or f"line {line}")
        return Item(line, values, extra)

    def _nameless(self, index: int, cell: str, line: int) -> ManifestError:
        name = self.names[index] or f"#{index + 1}"
        is_taken = "id" in self.fields or not self._is_first_nameless
        free = [] if is_taken else [as_flag({**self._columns.fields, name: "id"})]
        return ManifestError(
            f"{self._place}: column {index + 1} has no name, and {shown(cell)} in line {line}",
            " or ".join(["add " + one for one in free] + ["--extra keep or drop"]),
        )

    def tell_overhanging(self, name: str, num_rows: int) -> None:
        """Log a warning if only some rows have a cell in a nameless last column."""
        found = self.overhanging
        if found and len(found) < num_rows:
            log.warning(
                "%s: text after the last named column in %s of %d: %s; check for an "
                "unquoted separator inside a sentence",
                name,
                counted(len(found), "row"),
                num_rows,
                first_few(found, _MAX_TOLD),
            )


def table_items(lines: Lines, form: Dialect, source: ManifestFile) -> Iterator[Item]:
    """Return an item per row of cells; a row may span lines inside quotes."""
    skip_directives(lines, form)
    rows = _rows(lines, form)
    if form.names:
        header = TableHeader(list(form.names), source.columns, source.name, form)
    else:
        header = _read_header(rows, source, form)
    num_columns, num_rows = len(header.names), 0
    for start, cells, problem in rows:
        num_rows += 1
        if problem is None and len(cells) != num_columns:
            kind = "list" if form.names else "header"
            problem = RowProblem(
                f"has {len(cells)} cells, but the {kind} has {num_columns}"
                + _HOLDS_SEPARATOR * form.is_quoted
            )
        if problem is None:
            yield header.item(cells, start)
        else:
            yield Item(start, problem=_table_problem(problem, start, lines.number))
    header.tell_overhanging(source.name, num_rows)


_Cells = tuple[int, list[str], RowProblem | csv.Error | None]  # first line, cells, or a problem


def _rows(lines: Lines, form: Dialect) -> Iterator[_Cells]:
    reader = form.reader(lines)
    while True:
        lines.start_row()
        start = lines.number + 1
        try:
            cells = next(reader)
            if lines.problem is not None:
                raise RowProblem(lines.problem)
        except StopIteration:
            return
        except (RowProblem, csv.Error) as problem:
            yield start, [], problem
        else:
            if any(map(str.strip, cells)):
                yield start, cells, None


def _reason(problem: Exception) -> str:
    """Return the message of the csv module, with tabs escaped."""
    if "new-line character" in str(problem):
        return "it contains a lone carriage return; save the file with Unix or Windows line ends"
    return str(problem).replace("\t", "\\t")


def _table_problem(problem: Exception, start: int, end: int) -> str:
    if isinstance(problem, csv.Error):
        advice = "close every quote, and double quotes inside a cell"
        message = f"not a table row: {_reason(problem)}; {advice}"
    else:
        message = str(problem)
    if end > start:
        message += (
            f" (the row spans lines {start} to {end}; if a quote is not closed, {end - start} "
            f"line{'s' * (end > start + 1)} after the first would be lost)"
        )
    return message


def _read_header(rows: Iterator[_Cells], source: ManifestFile, form: Dialect) -> TableHeader:
    start, header, problem = next(rows, (0, [], None))
    if problem is not None:
        raise ManifestError(
            f"{source.name}:{start}: the header cannot be read: {_reason(problem)}"
        ) from None
    if not header:
        raise ManifestError(
            f"{source.name}: is empty",
            remedy="put the column names into the first row, such as id,text",
        )
    return TableHeader(header, source.columns, f"{source.name}:{start}", form)
