"""Read .xlsx files: a ZIP file of XML, from an untrusted source.

Cells are read in order, so that a single cell in the last corner does not allocate the whole
rectangle. Their values are the saved ones; a formula without a saved result is a problem of its
cell.

Source: ECMA-376, part 1, section 18 (SpreadsheetML).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import lru_cache
from itertools import islice

from tts_cli.errors import ManifestError
from tts_cli.sources.archive import Archive
from tts_cli.sources.cells import END, START, TEXT, Grid, Sheet, XmlEvent, cell_text, xml_events

_MAX_SHEETS = 1000
_MAX_ELEMENTS = 1 << 18  # of styles or relations; Excel has 65,490 styles
_SAVE_AGAIN = "save it as .xlsx again"
_WORKBOOK = "xl/workbook.xml"
_RELATIONS = "xl/_rels/workbook.xml.rels"
_SHARED, _STYLES = "sharedStrings", "styles"
_CELL_REFERENCE = re.compile(r"([A-Za-z]{1,3})([1-9][0-9]{0,6})")
_RANGE = re.compile(rf"{_CELL_REFERENCE.pattern}:[A-Za-z]{{1,3}}([1-9][0-9]{{0,6}})")
_ROW_NUMBER = re.compile(r"[1-9][0-9]{0,6}")
_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")
_NO_RESULT = "contains a formula without a saved result; open and save the file in Excel"
_BUILT_IN = {0: "General", 1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%"}
_BUILT_IN |= {49: "@", **dict.fromkeys((*range(14, 23), 45, 47), "yyyy"), 46: "[h]:mm:ss"}


class XlsxFile:
    """An .xlsx file. Raises ManifestError if it is damaged or too large."""

    def __init__(self, archive: Archive, name: str) -> None:
        self._name, self._archive = name, archive
        self._parts = self._relations()
        self._is_1904 = False
        self.sheets: list[Sheet] = []
        for tag, values in self._elements(_WORKBOOK, "workbookPr", "sheet"):
            link = next((values[key] for key in values if key.rpartition(":")[2] == "id"), "")
            part = self._parts.get(link, "")
            if tag == "workbookPr":
                self._is_1904 = values.get("date1904") in ("1", "true")
            elif "worksheets/" in part and len(self.sheets) < _MAX_SHEETS:  # no chart or dialog
                is_hidden = values.get("state", "visible") != "visible"
                self.sheets.append(Sheet(values.get("name", ""), part, is_hidden))

    def grid(self, sheet: Sheet) -> Grid:
        grid = Grid(f"{self._name}: sheet {sheet.name!r}")
        reader = _SheetReader(grid, self._texts(), self._formats(), self._is_1904)
        try:
            reader.read(self._events(sheet.part))
        except (ValueError, IndexError) as error:
            place = f"{self._name}: {sheet.part}"
            raise ManifestError(f"{place}: is damaged: {error}", _SAVE_AGAIN) from None
        return grid

    def _relations(self) -> dict[str, str]:
        """Return the parts of the ZIP file that the workbook refers to, by id, and some by kind."""
        found: dict[str, str] = {}
        for _, values in self._elements(_RELATIONS, "Relationship"):
            if values.get("TargetMode") == "External":
                continue
            target = values.get("Target", "")
            part = target[1:] if target.startswith("/") else posixpath.join("xl", target)
            found[values.get("Id", "")] = part = posixpath.normpath(part)
            kind = values.get("Type", "").rpartition("/")[2]
            if kind in (_SHARED, _STYLES):
                found[kind] = part
        return found

    def _texts(self) -> list[str]:
        """Return the texts that cells share, without readings (`rPh`)."""
        texts: list[str] = []
        pieces: list[str] = []
        is_open = is_reading = False
        part = self._parts.get(_SHARED)
        for kind, name, _ in self._events(part) if part else ():
            if kind == TEXT and is_open:
                pieces.append(name)
            elif kind != TEXT:
                is_open = kind == START and name == "t" and not is_reading
                is_reading = kind == START if name == "rPh" else is_reading
                if kind == END and name == "si":
                    texts.append(_unescaped("".join(pieces)))
                    pieces.clear()
        return texts

    def _formats(self) -> list[str]:
        own: dict[int, str] = {}
        found: list[str] = []
        is_cell_style = False
        groups = ("cellXfs", "cellStyleXfs", "cellStyles", "dxfs")
        part = self._parts.get(_STYLES)
        for tag, values in self._elements(part, "numFmt", "xf", *groups) if part else ():
            number = _number(values.get("numFmtId"))
            if tag == "numFmt":
                own[number] = values.get("formatCode", "")
            elif tag in groups:
                is_cell_style = tag == "cellXfs"
            elif is_cell_style:
                found.append(own.get(number, _BUILT_IN.get(number, "?")))
        return found

    def _elements(self, part: str, *tags: str) -> Iterator[tuple[str, Mapping[str, str]]]:
        found = (
            (name, values)
            for kind, name, values in self._events(part)
            if kind == START and name in tags
        )
        return islice(found, _MAX_ELEMENTS)

    def _events(self, part: str) -> Iterator[XmlEvent]:
        return xml_events(self._archive.read(part), f"{self._name}: {part}", _SAVE_AGAIN)


class _SheetReader:
    """Puts cells into a grid. `texts` are shared strings, `formats` number formats by style."""

    def __init__(self, grid: Grid, texts: list[str], formats: list[str], is_1904: bool) -> None:
        self._grid, self._texts, self._formats, self._is_1904 = grid, texts, formats, is_1904
        self._row = self._column = -1

    def read(self, events: Iterable[XmlEvent]) -> None:
        """Read a sheet. Raises ValueError for an invalid reference or value."""
        cell: Mapping[str, str] = {}
        pieces: list[str] = []
        inside: set[str] = set()  # names of the elements in the cell
        is_open = False
        for kind, name, values in events:
            if kind == END:
                is_open = False
                if name == "c":
                    self._put(cell, "".join(pieces), inside)
                elif name == "rPh":
                    inside.discard("rPh")
            elif kind == TEXT:
                if is_open:
                    pieces.append(name)
            elif name == "c":
                cell, pieces, inside = values, [], set()
                self._move(values)
            elif name == "row":
                self._begin_row(values)
            elif name == "mergeCell" and (found := _RANGE.fullmatch(values.get("ref", ""))):
                self._merge(_column_number(found[1]), int(found[2]) - 1, int(found[3]))
            else:
                inside.add(name)
                is_open = name in ("v", "t") and "rPh" not in inside

    def _begin_row(self, values: Mapping[str, str]) -> None:
        number = values.get("r", str(self._row + 2))
        if not _ROW_NUMBER.fullmatch(number):
            raise ValueError(f"row {number[:20]!r} is not a row number")
        self._row, self._column = int(number) - 1, -1
        self._grid.num_hidden += values.get("hidden") in ("1", "true")

    def _merge(self, column: int, top: int, end: int) -> None:
        """Remember the text of a merged range for the cells below its first one."""
        cells = self._grid.cells
        text = "".join(cells[top][column : column + 1]) if top < len(cells) else ""
        for row in range(top + 1, min(end, len(cells)) if text else 0):
            self._grid.count(1)
            self._grid.merged[row, column] = text

    def _move(self, values: Mapping[str, str]) -> None:
        self._column += 1
        if (reference := values.get("r")) is not None:
            found = _CELL_REFERENCE.fullmatch(reference)
            if found is None:
                raise ValueError(f"{reference[:20]!r} is not a cell")
            self._column, self._row = _column_number(found[1]), int(found[2]) - 1

    def _put(self, cell: Mapping[str, str], text: str, inside: Set[str]) -> None:
        kind, place = cell.get("t", "n"), (self._row, self._column)
        shown = text
        if kind == "s" and text:
            if text.startswith("-"):
                raise ValueError(f"{text[:20]} is not the number of a shared text")
            shown = self._texts[int(text)]
        elif kind == "b" and text:
            shown = cell_text(text.strip() in ("1", "true"))
        elif kind == "n" and text:
            style = _number(cell.get("s"))
            code = self._formats[style] if 0 <= style < len(self._formats) else ""
            shown = self._grid.number(*place, float(text), code, self._is_1904)
        elif kind == "e":
            self._grid.problems[place] = "shows an error"
            shown = ""
        elif "_x" in text:
            shown = _unescaped(text)
        if "f" in inside and not text and not (kind == "str" and "v" in inside):  # it may be ""
            self._grid.problems[place] = _NO_RESULT
        self._grid.put(*place, shown)


def _unescaped(text: str) -> str:
    """Return a text with the characters that XML cannot contain, such as _x000D_ for U+000D."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def _number(text: str | None) -> int:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,9}", text) else -1


@lru_cache(maxsize=1024)
def _column_number(letters: str) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter.upper()) - 64
    return number - 1
