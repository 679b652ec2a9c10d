"""Whole lines of a journal, by the id of their row: what `Journal` has no need to remember."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any

from tts_cli.errors import SetupError
from tts_cli.manifest.ids import IdTable, id_hash
from tts_cli.output.journal import JOURNAL_NAME
from tts_cli.output.record import EXTRA

_MAX_LINE_BYTES = 1 << 20


class JournalLines:
    """The last line of every row where that is ok, extra takes left out. It remembers their
    places, 24 to 48 bytes a row. Nothing may be appended meanwhile.

    Raises:
        SetupError: the journal cannot be read.
    """

    def __init__(self, out: Path) -> None:
        path = out / JOURNAL_NAME
        self._places = IdTable()  # hash of an id -> one more than its place; 0: it failed
        try:
            self._file = open(path, "rb")  # noqa: SIM115
        except OSError as error:
            raise SetupError(f"{path}: {error.strerror or error}", "check the path") from error
        place = 0
        while raw := self._file.readline(_MAX_LINE_BYTES):
            if (line := _parsed(raw)) is not None:
                is_ok = line.get("status") == "ok"
                self._places.put(id_hash(line["id"]), place + 1 if is_ok else 0)
            place += len(raw)

    def __enter__(self) -> JournalLines:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def get(self, row_id: str) -> dict[str, Any] | None:
        """The fields of a row's last line; None if there is none, or if it failed."""
        place = self._places.get(id_hash(row_id))
        if not place:
            return None
        self._file.seek(place - 1)
        return _parsed(self._file.readline(_MAX_LINE_BYTES))


def parts_of(line: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts that a line tells; none where they make no sense."""
    parts = line.get("parts") or []
    numbers = ("text_start", "text_end", "start_s", "end_s")
    try:
        is_sound = all(isinstance(part[name], (int, float)) for part in parts for name in numbers)
        is_sound = is_sound and all(
            isinstance(part[name], int) for part in parts for name in numbers[:2]
        )
    except (TypeError, KeyError):
        return []
    return list(parts) if is_sound else []


def _parsed(raw: bytes) -> dict[str, Any] | None:
    """A line of a row; None for what makes no sense, such as one torn by a crash."""
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    is_row = isinstance(line, dict) and isinstance(line.get("id"), str)
    is_row = is_row and line.get("role") != EXTRA
    return line if is_row else None
