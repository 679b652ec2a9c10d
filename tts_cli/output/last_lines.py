"""What the journal holds of single rows, looked up when it is needed: 24 to 48 bytes a row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tts_cli.manifest.ids import IdTable
from tts_cli.output.journal import JOURNAL_NAME, MAX_LINE_BYTES
from tts_cli.output.plain_file import require_plain_file
from tts_cli.output.record_table import key_of, parse


class LastLines:
    """The last line of every row, read where it stands in the file. Lines that are added later are
    not seen. One thread at a time.

    Raises:
        SetupError: the journal is no plain file.
        OSError: it cannot be read.
    """

    def __init__(self, out: Path) -> None:
        self._path = out / JOURNAL_NAME
        self._places = IdTable()  # key -> where its last line begins, and one
        if not require_plain_file(self._path):
            return
        with open(self._path, "rb") as file:
            start = 0
            while raw := file.readline(MAX_LINE_BYTES):
                line = parse(raw) if raw.endswith(b"\n") else None
                if line is not None:
                    self._places.put(line.key, start + 1)
                start += len(raw)

    def get(self, row_id: str, take: int = 1) -> dict[str, Any] | None:
        """The last line of a row; None if there is none."""
        place = self._places.get(key_of(row_id, take))
        if place is None:
            return None
        with open(self._path, "rb") as file:
            file.seek(place - 1)
            return _values(file.readline(MAX_LINE_BYTES))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Every last line, in the order of the file."""
        if not len(self._places):
            return
        with open(self._path, "rb") as file:
            start = 0
            while raw := file.readline(MAX_LINE_BYTES):
                line = parse(raw) if raw.endswith(b"\n") else None
                if line is not None and self._places.get(line.key) == start + 1:
                    found = _values(raw)
                    if found is not None:
                        yield found
                start += len(raw)


def _values(raw: bytes) -> dict[str, Any] | None:
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None
