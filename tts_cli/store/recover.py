"""Finish the commits of a command that was killed, and remove the files that it only staged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from tts_cli.atomic import find_parts, remove_part, token_of
from tts_cli.core import Status
from tts_cli.sources.ids import TRUNCATED, id_problem
from tts_cli.store.entry import JournalEntry, Moved, user_entry
from tts_cli.store.files import (
    AUDIO_SUFFIXES,
    CODES_SUFFIX,
    Mover,
    is_file_of,
    owner_of,
    size_and_sha256,
    take_name,
)
from tts_cli.store.journal import Journal


def recover(out: Path, journal: Journal, since: int) -> int:
    """Make the files of a folder agree with the entries that a killed command appended. Return the
    number of files that were renamed or removed.

    - A file that an entry moves still has its old name and content: it is moved.
    - A staged file has the digest that the last entry with its name records: it gets the name.
      Content with that name that no entry explains belongs to a user and becomes a separate take,
      with `origin: user`.
    - Any other staged file: no entry was committed for it, so it is removed.
    - A staged file of an entry is missing: nothing is done here. The row's file is missing, so the
      plan finds that the row is due.

    Args:
        journal: open for appending.
        since: size of the journal when the killed command began to change the folder.
    Raises:
        OSError, DiskFull, RowError: the next command does the rest.
    """
    files, count = Mover(out), 0
    entries = [entry for entry in journal.entries_since(since) if not id_problem(entry.id)]
    expected: dict[str, str | None] = {}  # the digests that names have after the last entry
    for entry in entries:
        for one in _moved(entry):
            expected.pop(one.name, None)
            if one.target is not None:
                expected[one.target] = one.sha256
        expected |= _digests(entry)
    for entry in entries:
        for one in _moved(entry):
            found = size_and_sha256(out / one.name)
            is_new = one.name in expected and (
                one.sha256 is None or expected[one.name] in (None, one.sha256)
            )
            if found is not None and not is_new and one.sha256 in (None, found[1]):
                count += files.move(one.name, one.target)
                files.sync()  # before another file gets the old name
    for part, path, token in list(find_parts(out)):
        name = Path(path).relative_to(out).as_posix()
        sha256 = expected.get(name)
        if sha256 is None or token != token_of(sha256):
            remove_part(part)
            continue
        found = size_and_sha256(out / name)
        if found is not None and found[1] != sha256 and name.endswith(AUDIO_SUFFIXES):
            count += _adopt(files, journal, name, found)
        files.make_room(name)
        files.put(os.path.relpath(part, out), name)
        count += 1
    files.end()
    return count


def _moved(entry: JournalEntry) -> Iterator[Moved]:
    for one in entry.moved:
        if all(is_file_of(entry.id, name) for name in (one.name, one.target) if name is not None):
            yield one


def _digests(entry: JournalEntry) -> dict[str, str | None]:
    source, path = entry.source or {}, str(entry.path)
    codes = path.removesuffix(Path(path).suffix) + CODES_SUFFIX
    found = {
        path: entry.sha256,
        codes: entry.codes_sha256,
        source.get("path"): source.get("sha256"),
    }
    return {str(name): sha256 for name, sha256 in found.items() if sha256 is not None}


def _adopt(files: Mover, journal: Journal, name: str, found: tuple[int, str]) -> bool:
    """Turn content that no entry explains into a take that a user made."""
    owner = owner_of(name)
    if owner is None or name.startswith(f"{TRUNCATED}/"):
        return False
    row_id, number = owner[0], journal.row(owner[0]).next_take()
    target = take_name(row_id, number, Path(name).suffix)
    base = journal.ok_take(row_id) or JournalEntry(row_id, status=Status.OK)
    moved = [Moved(name, found[1], target)]
    journal.append(replace(user_entry(base, number, found, target), moved=moved))
    return files.move(name, target)
