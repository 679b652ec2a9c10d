"""Convert the files of a folder that an earlier version wrote to their present names.

Until 0.4 all takes of a row were in `takes/<id>/`, the current one under two names; the sources of
converted files were called `<name>.original`, and the files of removed rows were in `removed/`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from tts_cli.atomic import atomic_path, iter_lines
from tts_cli.audio.file import is_whole_audio
from tts_cli.core import Status
from tts_cli.named import counted
from tts_cli.plain import open_plain
from tts_cli.sources.ids import REMOVED, TAKES, id_problem, is_recorded_id
from tts_cli.store.commit import Commits, rendition_name, source_name
from tts_cli.store.entry import REPLACED, CopiedLine, JournalEntry
from tts_cli.store.files import (
    AUDIO_SUFFIXES,
    CODES_SUFFIX,
    ROW_SUFFIXES,
    PathGuard,
    audio_suffix,
    owner_of,
    size_and_sha256,
    take_name,
)
from tts_cli.store.journal import Journal
from tts_cli.store.orphans import audio_files

log = logging.getLogger(__name__)

OLD_JOURNAL = "timings.schema-3.jsonl"  # the journal before the conversion
_ORIGINAL = ".original"
_REPLACING = b'"unfinished": "replacing"', REPLACED.encode()
# How lines of ours begin.
_FIRST_ID = re.compile(rb'\{"id": "((?:[ !#-\[\]-~]|\\["\\/bfnrt]|\\u[0-9a-f]{4})*)"')
_TAIL = "(~[0-9]+)?"  # after the id in `removed/`, where the id was removed before


def upgrade(out: Path, journal: Journal, commits: Commits, crashed_ns: int | None) -> None:
    """Convert a folder, unless that was done, and store a copy of its journal.

    Args:
        journal: open for appending; has lines of an earlier schema.
        crashed_ns: start of a killed run of that version, by the clock of the file system; None: no
            run was killed. Younger files without a line are from that run.
    Raises:
        OSError, RowError, DiskFull: a rerun converts the rest.
    """
    if (out / OLD_JOURNAL).exists():
        return
    size, found = journal.size, _Upgrade(out, journal, commits)
    found.run()
    unrecorded = set(found.torn())
    if crashed_ns is not None:
        unrecorded |= {
            row_id
            for row_id, path in audio_files(out)
            if journal.row(row_id).current is None and path.lstat().st_mtime_ns >= crashed_ns
        }
    error = "the run died before this row was recorded"
    lines = (
        JournalEntry(one, Status.FAILED, error=error, attempts=1) for one in sorted(unrecorded)
    )
    if unrecorded:
        journal.append(*lines)
    with atomic_path(out / OLD_JOURNAL) as part:
        shutil.copyfile(journal.path, part)
        os.truncate(part, size)
    if found.count:
        files = counted(found.count, "file has", "files have")
        log.warning("%s a new name: see %s and %s/", files, "timings.jsonl", TAKES)


class _Upgrade:
    def __init__(self, out: Path, journal: Journal, commits: Commits) -> None:
        self.out = out
        self.count = 0
        self._journal = journal
        self._commits = commits
        self._inside = PathGuard(out)

    def run(self) -> None:
        for entry in list(self._entries(*_REPLACING)):
            self._replaced(entry)
        if (self.out / REMOVED).is_dir():
            for entry in list(self._entries(f'"path": "{REMOVED}/'.encode())):
                self._from_removed(entry)
            for folder, _, _ in os.walk(self.out / REMOVED, topdown=False):
                if not os.listdir(folder):
                    os.rmdir(folder)
        for entry in list(self._journal.removed_rows()):
            for suffix in ROW_SUFFIXES if id_problem(entry.id) is None else ():
                self._move(f"{entry.id}{suffix}", take_name(entry.id, entry.take, suffix))
        if (self.out / TAKES).is_dir():
            chosen = [entry for entry in self._journal.chosen() if entry.is_ok]
            digests = self._digests({entry.id for entry in chosen})
            for entry in chosen:
                self._current(entry, digests[entry.id])
        for path in list(self._originals()):
            self._original(path)

    def torn(self) -> Iterator[str]:
        """Yield the id of a torn line if no other line has it; its file may exist."""
        found = _FIRST_ID.match(self._journal.torn)
        row_id = json.loads(b'"%b"' % found[1]) if found else None
        if is_recorded_id(row_id, Status.FAILED) and self._journal.row(row_id).current is None:
            yield row_id

    def _entries(self, *words: bytes) -> Iterator[JournalEntry]:
        with open_plain(self._journal.path) as file:
            for raw in iter_lines(file):
                if any(one in raw for one in words) and (take := JournalEntry.decode(raw)):
                    yield take

    def _replaced(self, entry: JournalEntry) -> None:
        """Record the state of a take whose run died while its file was replaced."""
        last = self._journal.row(entry.id).number(entry.take)
        if id_problem(entry.id) or last is None or last.status is not Status.FAILED:
            return
        suffix = audio_suffix(entry.path)
        names = (f"{entry.id}{suffix}", take_name(entry.id, entry.take, suffix))
        found = [size_and_sha256(self.out / name) for name in names]
        line = self._journal.last_ok_line(entry.id, entry.take)
        for known in (entry, None if line is None else line.take):
            if known is not None and (known.bytes, known.sha256) in found:
                self._journal.append(replace(known, status=Status.OK, error=None))
                return

    def _from_removed(self, entry: JournalEntry) -> None:
        """Move the files of one take from `removed/` to `takes/`."""
        row_id, path = re.escape(entry.id), str(entry.path)
        front, rest = rf"{REMOVED}/(?:{TAKES}/)?", r"(/[0-9]+)?(\.[a-z0-9]+)"
        found = re.fullmatch(f"{front}{row_id}{_TAIL}{rest}", path)
        if found is None or id_problem(entry.id):
            return
        tail, number, suffix = found[1] or "", found[2], found[3]
        fronts = (f"{REMOVED}/{TAKES}/", f"{REMOVED}/") if number else (f"{REMOVED}/",)
        for front in fronts:
            stem = f"{front}{entry.id}{tail}"
            stem += number if number and front.endswith(f"{TAKES}/") else ""
            for one in dict.fromkeys((suffix, *ROW_SUFFIXES)):
                self._move(f"{stem}{one}", take_name(entry.id, entry.take, one))

    def _current(self, entry: JournalEntry, digests: set[str | None]) -> None:
        """Leave a row's current take only the row's own names. `digests`: of all its entries."""
        suffix = audio_suffix(entry.path)
        own, home = f"{entry.id}{suffix}", take_name(entry.id, entry.take, suffix)
        codes, codes_home = (f"{entry.id}{CODES_SUFFIX}", home.removesuffix(suffix) + CODES_SUFFIX)
        first, second = size_and_sha256(self.out / own), size_and_sha256(self.out / home)
        if second is None:
            return
        is_stale = first is not None and first[1] in digests and first[1] != entry.sha256
        is_cut = first is not None and first[1] not in digests
        is_cut = is_cut and not is_whole_audio(self.out / own)
        if first == second:
            (self.out / home).unlink()
        elif first is None or is_stale or is_cut:  # its run died before the name was given
            os.replace(self.out / home, self.out / own)
            self.count += 1
        else:
            return  # a user edited the row's own file
        if (self.out / codes_home).is_file():
            os.replace(self.out / codes_home, self.out / codes)
            (self.out / codes_home).unlink(missing_ok=True)  # a second name of the same file
        elif first != second:
            (self.out / codes).unlink(missing_ok=True)

    def _digests(self, row_ids: set[str]) -> dict[str, set[str | None]]:
        found: dict[str, set[str | None]] = {row_id: set() for row_id in row_ids}
        for entry in self._journal.entries_since(0):
            if entry.id in found:
                found[entry.id] |= {entry.sha256, (entry.source or {}).get("sha256")}
        return found

    def _originals(self) -> Iterator[Path]:
        for folder, _, names in os.walk(self.out):
            for name in names:
                if name.endswith(tuple(f"{one}{_ORIGINAL}" for one in AUDIO_SUFFIXES)):
                    yield Path(folder, name)

    def _original(self, path: Path) -> None:
        name = path.relative_to(self.out).as_posix()
        owner = owner_of(name.removesuffix(_ORIGINAL))
        if owner is None or id_problem(owner[0]):
            return
        row_id, number = owner
        file = self._journal.file(row_id)
        number = number if number is not None or file is None else file.take
        line = None if number is None else self._journal.line(row_id, number)
        if number is None or line is None:
            return
        suffix = audio_suffix(name.removesuffix(_ORIGINAL))
        source = line.take.source or {}
        if source.get("path") == name:
            home = source_name(row_id, number, suffix)
            entry = replace(line.take, source={**source, "path": home})
            self._move(name, home)
            self._journal.append(CopiedLine(entry, {**line.values, "source": entry.source}))
        elif (found := size_and_sha256(path)) is not None:
            self._move(name, rendition_name(line.take, found[1], suffix))

    def _move(self, old: str, new: str) -> None:
        source, target = self.out / old, self.out / new
        if size_and_sha256(source) is None:
            return
        if os.path.lexists(target):
            if size_and_sha256(target) == size_and_sha256(source):
                source.unlink()
            return
        self._inside.make_room(target)
        os.rename(source, target)
        self.count += 1
