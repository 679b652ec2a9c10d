"""Commit changes of rows: the old content of a name becomes a take, and nothing is lost.

A commit is a redo log. Its steps, each durable before the next:

1. All new files of the change are staged under temporary names.
2. The entry is appended to the journal. This is the commit point. Its field `moved` lists the files
   that get other names, or lose theirs.
3. Content whose name gets other content receives its name in `takes/<id>/`, as a hard link or a
   copy.
4. The staged files, or those of a take that becomes current, get their names. Then content whose
   name has no successor is moved to `takes/<id>/` or removed. This is synced by the next commit
   that moves files, or when the command ends, before its mark is removed.

A crash before 2 leaves staged files, which recovery removes; after 2, recovery repeats steps 3 and
4 (`recover.py`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from tts_cli.atomic import remove_part
from tts_cli.audio.file import is_whole_audio
from tts_cli.core import Role, Status
from tts_cli.errors import RowError, StoppedEarly, writing
from tts_cli.events import Count
from tts_cli.sources.ids import TRUNCATED
from tts_cli.store.entry import CopiedLine, JournalEntry, Moved, user_entry
from tts_cli.store.files import (
    AUDIO_SUFFIXES,
    CODES_SUFFIX,
    DERIVED_SUFFIXES,
    NESTED_SUFFIXES,
    SOURCE_MARK,
    Mover,
    SharedNames,
    audio_suffix,
    is_same,
    size_and_sha256,
    take_name,
)
from tts_cli.store.journal import Journal
from tts_cli.store.mark import FolderMark

NOT_AUDIO = "the file is not whole audio"


@dataclass(frozen=True)
class RowChange:
    line: JournalEntry | CopiedLine
    staged: tuple[Moved, ...] = ()  # new files, by their temporary names
    is_rendition: bool = False  # the files are another format or level of the same take
    moved: tuple[Moved, ...] = ()  # files in `takes/` that become the row's own
    is_new: bool = False  # no take of the journal was the row's file

    @property
    def entry(self) -> JournalEntry:
        return self.line if isinstance(self.line, JournalEntry) else self.line.take

    @property
    def new_names(self) -> set[str]:
        return {str(one.target) for one in (*self.staged, *self.moved)}


@dataclass
class _Rotation:
    """The new names of the content that had the names of a change before."""

    entries: list[JournalEntry] = field(default_factory=list)  # of content that becomes a take
    moved: list[Moved] = field(default_factory=list)
    number: int | None = None  # the new take that the row's audio becomes


class Commits:
    """Changes the rows of one locked output folder. Several threads may commit different rows.

    Args:
        num_extras: takes that a run makes of each row besides its own; their numbers stay free.
    """

    def __init__(self, out: Path, journal: Journal, mark: FolderMark, num_extras: int = 0) -> None:
        self.out = out
        self.journal = journal
        self.num_extras = num_extras
        self.edited = Count()  # ids of rows whose file a user had edited, which is a take now
        self.is_broken = False  # a commit could not be finished; the next command will
        self.files = Mover(out)
        self._mark = mark
        self._mutex = threading.Lock()  # of `edited`, and numbers for content that becomes a take
        self._has_truncated = (out / TRUNCATED).is_dir()
        self._shared: SharedNames | None = None

    def commit(self, *changes: RowChange) -> None:
        """Commit changes of different rows with one entry each.

        Raises:
            RowError, OSError: a row's content cannot get another name; nothing has changed.
            DiskFull: nothing has changed.
            StoppedEarly: the entries are committed, and the next command finishes them.
        """
        lines: list[JournalEntry | CopiedLine] = []
        rotations: list[_Rotation] = []
        has_moved = False
        staged = [os.path.join(self.out, one.name) for each in changes for one in each.staged]
        try:
            with writing(self.out):
                if not self._mark.is_set:
                    self._mark.set(self.journal.size)
                for change in changes:
                    rotation = self._rotated(change)
                    rotations.append(rotation)
                    line, moved = change.line, [*rotation.moved, *change.moved]
                    has_moved = has_moved or bool(moved)
                    if isinstance(line, CopiedLine):
                        line = line.changed(moved=moved)
                    elif moved or line.moved:
                        line = replace(line, moved=moved)
                    lines += [*rotation.entries, line]
                # New folders are durable before the lines; earlier renames only if files move.
                due = self.files.due(has_renames=has_moved)
                try:
                    self.journal.append(*lines, folders={*map(os.path.dirname, staged), *due})
                except BaseException:
                    self.files.owe(due)
                    raise
        except BaseException:
            for part in staged:
                remove_part(part)
            raise
        try:
            self._finish(changes, rotations)
        except BaseException:
            self.is_broken = True
            raise

    def adopt(self, row_id: str) -> JournalEntry | None:
        """Make a file that a user has edited a separate take, which becomes the row's current one.
        Return its entry; None: the file is unchanged.
        """
        line = self._current_line(row_id)
        if line is None:
            return None
        name = f"{row_id}{audio_suffix(line.take.path)}"
        found = size_and_sha256(self.out / name)
        if found is None or found[1] == line.take.sha256 or line.take.sha256 is None:
            return None
        number = self.journal.row(row_id).next_take(line.take.take, self.num_extras)
        entry = replace(user_entry(line.take, number, found, name), role=line.take.role)
        self.commit(RowChange(entry))
        with self._mutex:
            self.edited.add(row_id)
        return entry

    def moved_back(self, entry: JournalEntry) -> tuple[Moved, ...]:
        """Return the files of a take in `takes/` that become the row's own. Raises OSError."""
        moved = []
        for ending in (audio_suffix(entry.path), CODES_SUFFIX, *DERIVED_SUFFIXES):
            name, target = take_name(entry.id, entry.take, ending), f"{entry.id}{ending}"
            is_taken = ending in DERIVED_SUFFIXES and os.path.lexists(self.out / target)
            found = None if is_taken else size_and_sha256(self.out / name)
            if found is not None:
                self.files.make_room(target)
                moved.append(Moved(name, found[1], target))
        return tuple(moved)

    def _current_line(self, row_id: str) -> CopiedLine | None:
        file = self.journal.file(row_id)
        return None if file is None else self.journal.last_ok_line(row_id, file.take)

    def _rotated(self, change: RowChange) -> _Rotation:
        """Find the files whose names get other content or are removed, and the names that these
        files get. Raises RowError, OSError.
        """
        entry, rotation = change.entry, _Rotation()
        new = {str(one.target): str(one.sha256) for one in (*change.staged, *change.moved)}
        # Whether the entry changes which files have the row's own names.
        is_of_row = entry.status is not Status.FAILED and entry.role is not Role.EXTRA
        has_current = is_of_row and not change.is_new
        current = self._current_line(entry.id) if has_current else None
        own, codes = [], f"{entry.id}{CODES_SUFFIX}"
        if current is not None:
            own = [f"{entry.id}{audio_suffix(current.take.path)}"]
            own += [] if change.is_rendition else [codes]
        if is_of_row and entry.status is Status.REMOVED:
            sha256 = None if current is None else current.take.sha256
            for name in (*own, *self._derived(entry)):
                home = take_name(entry.id, entry.take, name.removeprefix(entry.id))
                self._move(name, sha256 if name in own[:1] else None, home, rotation)
            return rotation
        if is_of_row and not new:  # the audio is not moved
            if current is not None and current.take.take != entry.take:
                home = take_name(entry.id, current.take.take, CODES_SUFFIX)
                self._move(codes, None, home, rotation)
            own = []
        for name in dict.fromkeys((*new, *own)):
            found = None if name.startswith(f"{TRUNCATED}/") else size_and_sha256(self.out / name)
            if found is not None and found[1] != new.get(name):
                place = self._home(change, current, name, found, rotation) if found[0] else None
                self._move(name, found[1], place, rotation)
        if self._has_truncated and is_of_row and entry.status is Status.OK:
            for suffix in (*AUDIO_SUFFIXES, CODES_SUFFIX):
                self._move(f"{TRUNCATED}/{entry.id}{suffix}", None, None, rotation)
        return rotation

    def _move(self, name: str, sha256: str | None, home: str | None, rotation: _Rotation) -> None:
        """Note that a file, if it exists, gets another name or loses its own."""
        path = self.out / name
        if not path.is_file() or path.is_symlink():
            return
        if home is not None:
            self.files.make_room(home)
            if os.path.lexists(self.out / home) and not is_same(path, self.out / home):
                raise RowError(f"{self.out / home} is in the way")
        rotation.moved.append(Moved(name, sha256, home))

    def _home(
        self,
        change: RowChange,
        current: CopiedLine | None,
        name: str,
        found: tuple[int, str],
        rotation: _Rotation,
    ) -> str | None:
        """Return the new name of a file that loses its own; None: it can be deleted."""
        entry, suffix = change.entry, audio_suffix(name)
        if name.endswith(CODES_SUFFIX):
            number = rotation.number or (current.take.take if current else entry.take)
            return None if number == entry.take else take_name(entry.id, number, CODES_SUFFIX)
        known = self._take_of(entry, current, found)
        source = entry.source or {}
        home = None
        if known is not None and known.take.take != entry.take:
            home = take_name(entry.id, known.take.take, suffix)
        elif known is not None and change.is_rendition:
            is_elsewhere = source.get("path") is None
            if is_elsewhere and known.take.request_hash != entry.request_hash:
                pass
            elif source.get("sha256") == found[1] and not is_elsewhere:
                home = str(source["path"])
            elif source.get("kind") == "audio" and entry.role is not Role.HELD:
                return None  # it can be derived again
            else:
                home = rendition_name(entry, found[1], suffix)
        if home is None:
            return self._new_number(change, known or current, found, suffix, rotation)
        path = self.out / home
        if os.path.lexists(path) and size_and_sha256(path) != found:
            return self._new_number(change, current, found, suffix, rotation)
        return home

    def _take_of(
        self, entry: JournalEntry, current: CopiedLine | None, found: tuple[int, str]
    ) -> CopiedLine | None:
        """Return the take of a row that has this content; None: no entry explains it."""
        if current is not None and current.take.sha256 in (None, found[1]):
            return current
        lines = (self.journal.last_ok_line(entry.id, n) for n in self.journal.row(entry.id).numbers)
        return next((one for one in lines if one and one.take.sha256 == found[1]), None)

    def _new_number(
        self,
        change: RowChange,
        known: CopiedLine | None,
        found: tuple[int, str],
        suffix: str,
        rotation: _Rotation,
    ) -> str:
        """Make content a separate take. Return the name of its file.

        Args:
            known: the take that has the content, or that it was made from; None: unknown.
        """
        entry = change.entry
        with self._mutex:
            number = max([entry.take, *(one.take for one in rotation.entries)])
            name = ""
            while not name or os.path.lexists(self.out / name):
                number = self.journal.row(entry.id).next_take(number, self.num_extras)
                name = take_name(entry.id, number, suffix)
        base = JournalEntry(entry.id, Status.OK, text=entry.text) if known is None else known.take
        new = user_entry(base, number, found, name)
        if base.sha256 == found[1]:
            new = replace(new, origin=None)
        else:
            with self._mutex:
                self.edited.add(entry.id)
            if not is_whole_audio(self.out / f"{entry.id}{suffix}"):
                new = replace(new, status=Status.FAILED, error=NOT_AUDIO)
        rotation.entries.append(new)
        rotation.number = number
        return name

    def _finish(self, changes: tuple[RowChange, ...], rotations: list[_Rotation]) -> None:
        """Make the names of files agree with committed entries. Raises StoppedEarly."""
        problem = "row {} is committed, but its files cannot get their names"
        remedy = "remove what is in the way, and run the same command again"
        has_retained = False
        for change, rotation in zip(changes, rotations, strict=True):
            if not rotation.moved:
                continue
            row_id = change.entry.id
            with writing(self.out / row_id, StoppedEarly, problem.format(row_id), remedy):
                for one in rotation.moved:
                    if one.target is not None and one.name in change.new_names:
                        self.files.retain(one.name, one.target)
                        has_retained = True
        if has_retained:
            with writing(self.out, StoppedEarly, f"{self.out} cannot be synced", remedy):
                self.files.sync()
        for change, rotation in zip(changes, rotations, strict=True):
            row_id = change.entry.id
            with writing(self.out / row_id, StoppedEarly, problem.format(row_id), remedy):
                for one in (*change.moved, *change.staged):
                    is_staged = one in change.staged
                    self.files.put(one.name, str(one.target), is_staged=is_staged)
                for one in rotation.moved:
                    if one.name not in change.new_names:
                        self.files.move(one.name, one.target)
            if (change.entry.path or "").startswith(f"{TRUNCATED}/"):
                self._has_truncated = True

    def _derived(self, entry: JournalEntry) -> Iterator[str]:
        for suffix in DERIVED_SUFFIXES:
            name = f"{entry.id}{suffix}"
            if not os.path.lexists(self.out / name):
                continue
            if suffix in NESTED_SUFFIXES and self._shared is None:
                takes = chain(self.journal.takes(), self.journal.removed_rows())
                self._shared = SharedNames(take.id for take in takes)
            if self._shared is None or self._shared.owner(entry.id, suffix) is None:
                yield name


def rendition_name(take: JournalEntry, sha256: str, suffix: str) -> str:
    """Return the name of an earlier delivered file of a pinned take."""
    return take_name(take.id, take.take, f".{sha256[:8]}{suffix}")


def source_name(row_id: str, take: int, suffix: str) -> str:
    """Return the name of the file that a take's delivered file was made from."""
    return take_name(row_id, take, f"{SOURCE_MARK}{suffix}")
