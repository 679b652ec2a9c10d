"""What all layouts have in common."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tts_cli.export.audio import Audio
from tts_cli.export.made import ExportFiles
from tts_cli.export.names import Names
from tts_cli.export.row import ExportRow
from tts_cli.export.whole_file import WholeFile


@dataclass(frozen=True)
class Plan:
    """What a layout must know before the first row."""

    made: ExportFiles
    audio: Audio
    names: Names
    splits: Sequence[str]
    voices: Sequence[str]  # all that may come, sorted
    native_rate_hz: int | None  # of all files alike; None: not known, or several
    shard_bytes: int = 1 << 30

    @property
    def rate_hz(self) -> int | None:
        """Of all audio alike; None: not known, or several."""
        return self.audio.rate_hz or self.native_rate_hz

    def open(self, name: str) -> WholeFile:
        """A new file of the data set. Raises DiskFull, OSError."""
        return WholeFile(self.made, name)

    def place(self, row: ExportRow, folder: str) -> str:
        """Put a row's audio into a folder of the data set; its name there. Raises RowError."""
        return self.audio.place(row, f"{folder}/{self.names.of(row)}").partition("/")[2]


class Target:
    """A data set being written.

    Every layout has `folders`, which hold what it makes beside files at the top, and `hub_files`:
    what the hub's card says of each split's files; None: the hub cannot load it.
    """

    hub_files: str | None = None
    has_dots: bool = True  # in names of rows

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._open: dict[str, WholeFile] = {}

    @staticmethod
    def folders(splits: Sequence[str]) -> tuple[str, ...]:
        """Folders at the top that it makes."""
        raise NotImplementedError

    def add(self, row: ExportRow, split: str) -> None:
        """Put a row into a split.

        Raises:
            RowError: it cannot be; nothing of it is left.
            DiskFull, OSError: nothing can be written any more.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Give all files their names. Raises DiskFull, OSError."""
        for file in self._open.values():
            file.close()

    def abort(self) -> None:
        """Remove files that are not whole, while an exception is handled."""
        for file in self._open.values():
            file.abort()

    def lines(self, name: str) -> WholeFile:
        """A file of lines that stays open to the end."""
        if name not in self._open:
            self._open[name] = self.plan.open(name)
        return self._open[name]


def json_line(values: dict[str, Any]) -> bytes:
    """One line of JSON, readable."""
    return (json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n").encode()
