"""Read the rows of a workbook, with cells as they are shown: dates, numbers, results of formulas.

A sheet is read whole, so its size is bounded. For a million rows, use CSV or JSONL.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO

from tts_cli.errors import ManifestError
from tts_cli.named import first_few, nearest, shown
from tts_cli.sources.archive import MAX_TOTAL_BYTES, Archive
from tts_cli.sources.cells import MAX_FILE_BYTES, SAVE_AS_CSV, Grid, Sheet, column_letters
from tts_cli.sources.dialect import MAX_PARTS, PATH, columns_advice, require_no_header
from tts_cli.sources.item import Dialect, Item
from tts_cli.sources.other_workbooks import OdsFile, XlsFile
from tts_cli.sources.table import TableHeader
from tts_cli.sources.xlsx_file import XlsxFile

if TYPE_CHECKING:
    from tts_cli.sources.item import ManifestFile

log = logging.getLogger(__name__)

_SAMPLE_ROWS = 50


def workbook_items(file: BinaryIO, source: ManifestFile) -> Iterator[Item]:
    """Return the items of one sheet. The first row that is not empty names the columns. Raises
    ManifestError, and SetupError if a library is missing.
    """
    name = source.name
    book = _open(file.read(MAX_FILE_BYTES + 1), name)
    sheet = _choose(book.sheets, source.rules.sheet, name)
    grid = book.grid(sheet)
    is_first = source.found.sheet is None
    source.found.sheet = sheet.name
    if is_first:
        _tell(book.sheets, sheet, grid, name)
    header: TableHeader | None = None
    filled = (cells for cells in grid.rows() if any(map(str.strip, cells)))
    sample = list(islice(filled, _SAMPLE_ROWS))
    if (names := source.rules.columns) and sample:
        names += ("",) * (len(sample[0]) - len(names))
        require_no_header(sample[0], names, source)
        form = Dialect("", names=names, targets={PATH: "id"}, id_parts=PATH in names and MAX_PARTS)
        header = TableHeader(list(names), source.columns, name, form)
    for index, cells in enumerate(grid.rows()):
        has_problem = any((index, column) in grid.problems for column in range(len(cells)))
        if not has_problem and not any(map(str.strip, cells)):
            continue
        line = index + 1
        if header is None:
            is_title = sum(map(bool, cells)) == 1 < max(map(len, sample))
            form = Dialect("", advice="" if is_title else columns_advice(sample))
            header = TableHeader(cells, source.columns, f"{name}:{line}", form)
            continue
        cells += [""] * (len(header.fields) - len(cells))  # --columns may name more
        for column, target in enumerate(header.fields if grid.merged else ()):
            if target not in ("id", "text", "input"):  # one text is one row
                cells[column] = cells[column] or grid.merged.get((index, column), "")
        problem = _problem(index, cells, grid, header) if has_problem else None
        yield header.item(cells, line) if problem is None else Item(line, problem=problem)
    if header is None:
        raise ManifestError(
            f"{name}: sheet {sheet.name!r} is empty", remedy="choose another with --sheet"
        )
    if grid.unsupported and is_first:
        told = "%s: %d numbers are shown in an unsupported format (currency, fractions): %s first"
        log.warning(told, name, len(grid.unsupported), grid.unsupported[0])


def _open(data: bytes, name: str) -> XlsxFile | OdsFile | XlsFile:
    """Open a workbook; its first bytes and parts show the kind."""
    if len(data) > MAX_FILE_BYTES:
        raise ManifestError(f"{name}: is larger than {MAX_FILE_BYTES >> 20} MiB", SAVE_AS_CSV)
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        return XlsFile(data, name)
    archive = Archive(
        io.BytesIO(data), name, "save it again; if it is a text, name it .csv", MAX_TOTAL_BYTES
    )
    is_ods = b"opendocument" in archive.read("mimetype") if "mimetype" in archive.names else False
    return OdsFile(archive, name) if is_ods else XlsxFile(archive, name)


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


def _tell(sheets: list[Sheet], sheet: Sheet, grid: Grid, name: str) -> None:
    others = [other.name for other in sheets if other is not sheet]
    if others:
        listed = first_few(others, 5)
        log.info("%s: reading sheet %r; other sheets (--sheet): %s", name, sheet.name, listed)
    if grid.num_hidden:
        log.warning("%s: %d hidden rows are read like the others", name, grid.num_hidden)


def _problem(index: int, cells: list[str], grid: Grid, header: TableHeader) -> str | None:
    for column in range(len(cells)):
        why = grid.problems.get((index, column))
        if why is not None and header.is_read(column):
            return f"cell {column_letters(column)}{index + 1} {why}"
    return None
