"""Find files and entries of an output folder that belong to no row of a manifest."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from tts_cli.atomic import read_own
from tts_cli.config import SUBTITLES, SUBTYPES
from tts_cli.events import Count
from tts_cli.sources.ids import IdTable, id_hash, id_problem, is_recorded_id
from tts_cli.store.files import WORDS_VTT_SUFFIX
from tts_cli.store.journal import Journal

BOOK_NAME = "book.json"
_MAX_BOOK_BYTES = 1 << 29


def audio_files(
    out: Path, suffixes: Collection[str] = tuple(SUBTYPES)
) -> Iterator[tuple[str, Path]]:
    """Yield the files of a folder that could be audio of rows, with the ids of these rows, without
    files that a book made from rows, such as chapters.
    """
    made = _made_names(out)
    for folder, _, names in os.walk(out):
        for name in names:
            path = Path(folder, name)
            row_id = path.relative_to(out).with_suffix("").as_posix()
            if path.suffix.removeprefix(".") not in suffixes or id_problem(row_id):
                continue
            if name.endswith(WORDS_VTT_SUFFIX) or path.relative_to(out).as_posix() in made:
                continue
            yield row_id, path


def find_orphans(out: Path, journal: Journal, has_id: Callable[[str], bool]) -> Count:
    """Count the ids of audio, subtitles and entries for which `has_id` is false, each once."""
    found, seen = Count(is_sorted=True), IdTable()
    files = audio_files(out, (*SUBTYPES, *SUBTITLES))
    for row_id in chain((row_id for row_id, _ in files), recorded_ids(journal)):
        if has_id(row_id) or seen.setdefault(id_hash(row_id), found.count) != found.count:
            continue
        found.add(row_id)
    return found


def read_book(out: Path) -> Any:
    """Return the content of `book.json`. Raises SetupError, OSError, ValueError, RecursionError."""
    data = read_own(out / BOOK_NAME, _MAX_BOOK_BYTES)
    if data is None:
        raise FileNotFoundError(errno.ENOENT, "is not there", str(out / BOOK_NAME))
    return json.loads(data)


def _made_names(out: Path) -> set[str]:
    """Return the names of files made from rows by `book.json`; empty without a valid book."""
    try:
        values = read_book(out)
        files = [*values["files"], *values["chapters"]]
        return {file["path"] for file in files if isinstance(file["path"], str)}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return set()


def recorded_ids(journal: Journal) -> Iterator[str]:
    """Yield the ids of the journal's rows, without invalid rows that have none. Raises OSError."""
    return (take.id for take in journal.takes() if is_recorded_id(take.id))
