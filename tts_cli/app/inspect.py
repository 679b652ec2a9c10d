"""Measure the finished files of a folder, and compare them with the limits of a preset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import soundfile

from tts_cli import signals
from tts_cli.audio.inspection import inspect
from tts_cli.audio.presets import LimitCheck, Preset
from tts_cli.audio.treatment import require_levels
from tts_cli.book.book_file import read_made
from tts_cli.store.files import PlainFiles
from tts_cli.store.orphans import BOOK_NAME
from tts_cli.store.sources import why_failed
from tts_cli.store.store import Store


@dataclass(frozen=True)
class InspectedFile:
    name: str  # path in the folder; the title or id where there is no file
    checks: list[LimitCheck]
    problem: str | None = None  # why it cannot be measured

    @property
    def failures(self) -> list[str]:
        """Return the limits that the file does not meet, in words."""
        if self.problem is not None:
            return [self.problem]
        misses = (one for one in self.checks if not one.is_met)
        return [f"{one.text}, must be {one.limit}" for one in misses]


def inspect_folder(folder: Path, preset: Preset) -> Iterator[InspectedFile]:
    """Yield a book's chapters, or the current files of rows. Raises UsageError, SetupError."""
    require_levels("--preset")
    plain = PlainFiles(folder)
    for name, problem in _files(folder):
        signals.check()
        if problem is None and plain.size(folder / name) is None:
            problem = "is missing, or not a regular file of the folder"
        if problem is not None:
            yield InspectedFile(name, [], problem)
            continue
        try:
            facts = inspect(folder / name)
        except (OSError, soundfile.LibsndfileError) as error:
            yield InspectedFile(name, [], f"cannot be read: {error}")
        else:
            yield InspectedFile(name, preset.checks(facts))


def _files(folder: Path) -> Iterator[tuple[str, str | None]]:
    """Yield the names of the files to measure. Those that do not exist have a reason."""
    journal = Store.read_only(folder).journal
    if (folder / BOOK_NAME).is_file():
        book = read_made(folder)
        yield from ((file.path, None) for file, _ in book.chapters.values())
        yield from ((title, "the chapter was not written") for title in book.unwritten)
        return
    for take in journal.takes():
        if take.is_ok and take.path is not None:
            yield take.path, None
        else:
            yield take.id, why_failed(take)
