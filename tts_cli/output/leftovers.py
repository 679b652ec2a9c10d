"""Audio that a run had written, but not yet recorded, when it died."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from tts_cli.config import SUBTYPES
from tts_cli.manifest.ids import id_problem
from tts_cli.output.journal import Journal
from tts_cli.output.record import RowRecord

_ERROR = "the run died before this row was recorded"


def unrecorded_rows(
    out: Path, since_ns: int, journal: Journal, made: Collection[str] = ()
) -> Iterator[RowRecord]:
    """A failed row for each file since a time, in ns of the file system's clock, without a line.

    They are told from a user's own files by that time; with a line they may be replaced.

    Args:
        made: see `audio_files`.
    """
    for row_id, path in audio_files(out, made):
        if not journal.knows(row_id) and path.lstat().st_mtime_ns >= since_ns:
            yield RowRecord(row_id, "failed", error=_ERROR)


def audio_files(
    out: Path, made: Collection[str] = (), suffixes: Collection[str] = tuple(SUBTYPES)
) -> Iterator[tuple[str, Path]]:
    """The files of a folder that could be audio of rows, with these rows' ids.

    Args:
        made: names of files in the folder itself that were made of rows, such as chapters.
        suffixes: of the files that are meant.
    """
    for folder, _, names in os.walk(out):
        for name in names:
            path = Path(folder, name)
            row_id = path.relative_to(out).with_suffix("").as_posix()
            if path.suffix.removeprefix(".") not in suffixes or id_problem(row_id):
                continue
            if path.relative_to(out).as_posix() in made:
                continue
            yield row_id, path
