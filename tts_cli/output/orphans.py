"""What lies in an output folder, or stands in its journal, and belongs to no row of a manifest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain
from pathlib import Path

from tts_cli.config import SUBTITLES, SUBTYPES
from tts_cli.manifest.ids import IdTable, id_hash, is_recorded_id
from tts_cli.output.journal import Journal
from tts_cli.output.leftovers import audio_files
from tts_cli.output.named import Named


def find_orphans(
    out: Path, journal: Journal, has_id: Callable[[str], bool], made: Collection[str] = ()
) -> Named:
    """The ids of audio files, subtitles and lines that `has_id` does not know, each once. Their
    files are never removed.

    Args:
        made: names of files that are no row's but made of rows, see `audio_files`.
    """
    found, seen = Named(), IdTable()
    files = audio_files(out, made, (*SUBTYPES, *SUBTITLES))
    for row_id in chain((row_id for row_id, _ in files), recorded_ids(journal)):
        if has_id(row_id) or seen.setdefault(id_hash(row_id), found.count) != found.count:
            continue
        found.add(row_id)
    return found


def recorded_ids(journal: Journal) -> Iterator[str]:
    """The ids of the journal's rows, those of bad rows without an id left out. Raises OSError."""
    return (line["id"] for line in journal.file_lines() if is_recorded_id(line["id"]))
