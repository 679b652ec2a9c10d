"""Rows as readers find them: counted, their names mapped, passed over where nobody wants them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tts_cli.manifest.row import BadRow, Row, RowProblem, build_row
from tts_cli.manifest.speaker_names import name_in_front

if TYPE_CHECKING:
    from tts_cli.manifest.ids import ContentIds
    from tts_cli.manifest.reader import Source


class RowBuilder:
    """Makes the rows of one manifest.

    Args:
        wanted: see `read_rows`.
        number: of the last row of the manifest before; numbers go on.
        file: see `Row`.
        content_ids: see `build_row`; they must see rows that are passed over, too.
    """

    def __init__(
        self,
        source: Source,
        wanted: Sequence[int] | None = None,
        number: int = 0,
        file: str = "",
        content_ids: ContentIds | None = None,
    ) -> None:
        self.number = number
        self.is_whole = wanted is None  # all rows are read, and for the first time
        self._wanted = wanted
        self._folder = source.folder
        self._columns = source.columns
        self._is_idle = source.columns.is_idle
        self._has_names, self._has_cast = source.rules.has_names, source.rules.has_cast
        self._file = file
        self._content_ids = content_ids
        self._strips_markup = source.rules.strips_markup
        self.is_passed = False  # the row counted last, though it may have been made

    def next(self) -> bool:
        """Count a row that was found. False: it is to be passed over."""
        self.number += 1
        if self._wanted is None:
            return True
        self.is_passed = not self._wanted[self.number - 1]
        return not self.is_passed or self._content_ids is not None

    def row(self, values: Mapping[str, Any], line: int) -> Row | BadRow:
        """The row of an object."""
        extra = None
        if not self._is_idle:
            try:
                values, extra = self._columns.split(values)
            except RowProblem as problem:
                return self.bad(line, str(problem))
        if self._has_names:
            values, extra = self._without_name(values, extra or {})
        row = build_row(
            values,
            line=line,
            number=self.number,
            folder=self._folder,
            extra=extra or None,
            content_ids=self._content_ids,
            strips_markup=self._strips_markup,
        )
        return self._named(row) if self._file else row

    def cells(self, values: Mapping[str, str], line: int, extra: Mapping[str, str]) -> Row | BadRow:
        """The row of a table's cells, by field."""
        if self._has_names:
            values, extra = self._without_name(values, extra)
        row = build_row(
            values,
            line=line,
            number=self.number,
            folder=self._folder,
            is_text=True,
            extra=extra or None,
            content_ids=self._content_ids,
            strips_markup=self._strips_markup,
        )
        return self._named(row) if self._file else row

    def bad(self, line: int, message: str) -> BadRow:
        """A row that cannot be read."""
        return BadRow(line, self.number, None, message, file=self._file)

    def _without_name(
        self, values: Mapping[str, Any], extra: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """A row's values where the name in front of its text is who says it."""
        values, extra = dict(values), dict(extra)
        field = "text" if "text" in values else "input"
        text = values.get(field)
        found = name_in_front(text) if isinstance(text, str) else None
        if found is not None:
            values[field] = found[1]
            if not self._has_cast:
                extra.setdefault("speaker", found[0])
            elif not (values.get("character") or values.get("role")):
                values["character"] = found[0]
        return values, extra

    def _named(self, row: Row | BadRow) -> Row | BadRow:
        if isinstance(row, BadRow):
            return replace(row, file=self._file)
        row.file = self._file
        return row
