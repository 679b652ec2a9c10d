"""The chapter marks of an m4b file, read back by FFmpeg's own library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tts_cli.book.m4b import load_av


@dataclass(frozen=True)
class Mark:
    """A chapter mark as the file stores it."""

    title: str
    start_s: float
    end_s: float


def read_marks(path: Path) -> list[Mark]:
    """Return the chapter marks of a file. Raises SetupError."""
    with load_av().open(str(path)) as container:
        return [
            Mark(
                str(mark["metadata"].get("title", "")),
                float(mark["start"] * mark["time_base"]),
                float(mark["end"] * mark["time_base"]),
            )
            for mark in container.chapters()
        ]
