"""Commit changes of rows: a name's old content gets the name of its take, and nothing is lost.

A commit is a redo log. Its steps, each durable before the next:

1. All files of the change are staged under temporary names.
2. Content that is about to lose its name gets a second name in `takes/<id>/`.
3. The entry is appended to the journal. This is the commit point.
4. The staged files get their names, and names that the entry does not have any more are removed.
   These changes are synced when the command ends, before its mark is removed.

A crash before 3 leaves staged files and second names, which recovery removes; after 3, recovery
finishes step 4 (`recover.py`).
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from tts_cli.audio.file import is_whole_audio
from tts_cli.core import Role, Status
from tts_cli.errors import RowError, StoppedEarly, writing
from tts_cli.manifest.ids import TAKES, TRUNCATED
from tts_cli.named import Named
from tts_cli.store.atomic import (
    link_or_copy,
    part_of,
    remove_part,
    sync_file,
    sync_folder,
    token_of,
    written_whole,
)
from tts_cli.store.files import (
    AUDIO_SUFFIXES,
    CODES_SUFFIX,
    DERIVED_SUFFIXES,
    NESTED_SUFFIXES,
    SOURCE_MARK,
    Inside,
    SharedNames,
    audio_suffix,
    facts_of,
    take_name,
)
from tts_cli.store.journal import Journal
from tts_cli.store.mark import FolderMark
from tts_cli.store.take import CopiedLine, Take, users_take

NOT_AUDIO = "the file is not whole audio"


@dataclass(frozen=True)
class StagedFile:
    """A file on disk that is not committed yet. Names are relative to the folder."""

    part: str  # its temporary name
    name: str  # the name that it gets
    sha256: str


@dataclass(frozen=True)
class RowChange:
    """One entry to commit, and the files that it describes."""

    line: Take | CopiedLine
    staged: tuple[StagedFile, ...] = ()
    is_rendition: bool = False  # the files are another format or level of the same take
    freed: tuple[str, ...] = ()  # names in `takes/` of files that became the row's own

    @property
    def entry(self) -> Take:
        """The entry that the line has."""
        return self.line if isinstance(self.line, Take) else self.line.take

    @property
    def is_of_row(self) -> bool:
        """Whether it changes which files have the row's own names."""
        entry = self.entry
        return entry.status is not Status.FAILED and entry.role is not Role.EXTRA


@dataclass
class _Rotation:
    """What happened to the content that had the names of a change before."""

    entries: list[Take] = field(default_factory=list)  # of content that became a take
    made: list[Path] = field(default_factory=list)  # second names of content
    dropped: list[str] = field(default_factory=list)  # names that the row does not have any more
    number: int | None = None  # the new take that the row's audio became


class Commits:
    """Changes the rows of one output folder, whose lock is held. Several threads may commit
    different rows.

    Args:
        num_extras: takes that a run makes of each row besides its own; their numbers stay free.
    """

    def __init__(self, out: Path, journal: Journal, mark: FolderMark, num_extras: int = 0) -> None:
        self.out = out
        self.journal = journal
        self.num_extras = num_extras
        self.edited = Named()  # ids of rows whose file a user had edited, which is a take now
        self.is_broken = False  # a commit could not be finished; the next command will
        self._mark = mark
        self._inside = Inside(out)
        self._mutex = threading.Lock()  # of numbers for content that becomes a take
        self._touched: set[str] = set()  # folders whose renames are not synced yet
        self._has_truncated = (out / TRUNCATED).is_dir()
        self._shared: SharedNames | None = None

    def commit(self, *changes: RowChange) -> None:
        """Commit changes of different rows with one entry each.

        Raises:
            RowError, OSError: a row's content cannot get another name; nothing has changed.
            DiskFull: nothing has changed.
            StoppedEarly: the entries are committed, and the next command finishes them.
        """
        rotations: list[_Rotation] = []
        try:
            self._mark.set(self.journal.size)
            for change in changes:
                rotations.append(_Rotation())
                self._rotate(change, rotations[-1])
            entries = [entry for one in rotations for entry in one.entries]
            staged = (os.path.join(self.out, one.part) for each in changes for one in each.staged)
            made = (str(path) for one in rotations for path in one.made)
            new = set(self._inside.unsynced)
            folders = {*map(os.path.dirname, (*staged, *made)), *new}
            self.journal.append(*entries, *(one.line for one in changes), folders=folders)
            self._inside.unsynced -= new
        except BaseException:
            self._undo(changes, rotations)
            raise
        try:
            for change, rotation in zip(changes, rotations, strict=True):
                self._finish(change, rotation)
        except BaseException:
            self.is_broken = True
            raise

    def stage_take(self, row_id: str, take: Take) -> tuple[StagedFile, ...]:
        """Stage the files of a take in `takes/` as the row's own. Raises RowError, DiskFull,
        OSError.
        """
        staged: list[StagedFile] = []
        for ending in (audio_suffix(take.path), CODES_SUFFIX, *DERIVED_SUFFIXES):
            source, target = self.out / take_name(row_id, take.take, ending), f"{row_id}{ending}"
            found = facts_of(source)
            is_taken = ending in DERIVED_SUFFIXES and os.path.lexists(self.out / target)
            if found is None or is_taken:
                continue
            self._inside.make_room(self.out / target)
            part = part_of(self.out / target, token_of(found[1]))
            try:
                with writing(part):
                    remove_part(part)
                    link_or_copy(source, Path(part))
                    sync_file(Path(part))
            except BaseException:
                remove_part(part)
                for one in staged:
                    remove_part(self.out / one.part)
                raise
            staged.append(StagedFile(os.path.relpath(part, self.out), target, found[1]))
        return tuple(staged)

    def sync(self) -> None:
        """Make all renames durable. Raises DiskFull, OSError."""
        self._touched |= self._inside.unsynced
        while self._touched:
            folder = self._touched.pop()
            with contextlib.suppress(FileNotFoundError):
                sync_folder(folder)

    def adopt(self, row_id: str) -> Take | None:
        """Make the file of a row a take of its own, if a user has edited it: from then on it is the
        row's current take. Returns its entry; None where the file is what was recorded.
        """
        line = self._current_line(row_id)
        if line is None:
            return None
        name = f"{row_id}{audio_suffix(line.take.path)}"
        found = facts_of(self.out / name)
        if found is None or found[1] == line.take.sha256 or line.take.sha256 is None:
            return None
        number = self.journal.next_take(row_id, line.take.take, self.num_extras)
        entry = replace(users_take(line.take, number, found, name), role=line.take.role)
        self.commit(RowChange(entry))
        self.edited.add(row_id)
        return entry

    def _current_line(self, row_id: str) -> CopiedLine | None:
        """The last ok line of a row's current take."""
        file = self.journal.file(row_id)
        return None if file is None else self.journal.spoken_line(row_id, file.take)

    def _rotate(self, change: RowChange, rotation: _Rotation) -> None:
        """Give content that loses its name the name of its take."""
        entry = change.entry
        new = {one.name: one.sha256 for one in change.staged}
        current = self._current_line(entry.id) if change.is_of_row else None
        own = [] if current is None else [f"{entry.id}{audio_suffix(current.take.path)}"]
        if not change.is_rendition:
            own += [f"{entry.id}{CODES_SUFFIX}"] * (current is not None)
        if change.is_of_row and entry.status is Status.REMOVED:
            for name in (*own, *self._derived(entry)):
                self._link(name, self._home(entry, name), rotation)
            return
        if change.is_of_row and not new:  # the audio stays where it is
            if current is not None and current.take.take != entry.take:
                codes = f"{entry.id}{CODES_SUFFIX}"
                home = take_name(entry.id, current.take.take, CODES_SUFFIX)
                self._link(codes, home, rotation)
            return
        for name in dict.fromkeys((*new, *own)):
            if name.startswith(f"{TRUNCATED}/"):
                continue
            found = facts_of(self.out / name)
            if name not in new:
                rotation.dropped.append(name)
            if found is not None and found[0] and found[1] != new.get(name):
                self._move_aside(change, current, name, found, rotation)

    @staticmethod
    def _home(entry: Take, name: str) -> str:
        """The name that one of the row's files has as the file of a take."""
        return take_name(entry.id, entry.take, name.removeprefix(entry.id))

    def _move_aside(
        self,
        change: RowChange,
        current: CopiedLine | None,
        name: str,
        found: tuple[int, str],
        rotation: _Rotation,
    ) -> None:
        """Give a file that loses its name another one.

        Args:
            name: of the file.
            found: its size and SHA-256.
        """
        entry, path = change.entry, self.out / name
        if name.endswith(CODES_SUFFIX):
            number = rotation.number or (current.take.take if current else entry.take)
            if number == entry.take:
                return  # codes of the same take, or of none
            home = take_name(entry.id, number, CODES_SUFFIX)
        else:
            suffix = audio_suffix(name)
            known = self._take_of(entry, current, found)
            if known is not None and known.take.take != entry.take:
                home = take_name(entry.id, known.take.take, suffix)
            elif known is not None and change.is_rendition:
                source = entry.source or {}
                is_elsewhere = source.get("path") is None
                if is_elsewhere and known.take.request_hash != entry.request_hash:
                    home = self._new_number(change, known, found, suffix, rotation)
                elif source.get("sha256") == found[1] and not is_elsewhere:
                    home = str(source["path"])
                elif source.get("kind") == "audio" and entry.role is not Role.HELD:
                    return  # it can be derived again
                else:
                    home = rendition_name(entry, found[1], suffix)
            else:
                home = self._new_number(change, known or current, found, suffix, rotation)
        target = self.out / home
        self._inside.make_room(target, is_synced=False)
        if facts_of(target) == found:
            return
        if os.path.lexists(target):
            target = self.out / self._new_number(change, current, found, path.suffix, rotation)
        rotation.made.append(target)
        with written_whole(target) as part:
            link_or_copy(path, part)

    def _take_of(
        self, entry: Take, current: CopiedLine | None, found: tuple[int, str]
    ) -> CopiedLine | None:
        """The take of a row that has some content; None: no entry explains it."""
        if current is not None and current.take.sha256 in (None, found[1]):
            return current
        for number in self.journal.numbers(entry.id):
            line = self.journal.spoken_line(entry.id, number)
            if line is not None and line.take.sha256 == found[1]:
                return line
        return None

    def _new_number(
        self,
        change: RowChange,
        known: CopiedLine | None,
        found: tuple[int, str],
        suffix: str,
        rotation: _Rotation,
    ) -> str:
        """Make content a take of its own; returns its name.

        Args:
            known: the take that it is of, or was made from; None: nothing is known about it.
        """
        entry = change.entry
        with self._mutex:
            used = max([entry.take, *(one.take for one in rotation.entries)])
            number = self.journal.next_take(entry.id, used, self.num_extras)
            name = take_name(entry.id, number, suffix)
            while os.path.lexists(self.out / name):
                number = self.journal.next_take(entry.id, number, self.num_extras)
                name = take_name(entry.id, number, suffix)
        base = Take(entry.id, Status.OK, text=entry.text) if known is None else known.take
        new = users_take(base, number, found, name)
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

    def _undo(self, changes: tuple[RowChange, ...], rotations: list[_Rotation]) -> None:
        """Remove what was prepared for entries that were not committed."""
        for change in changes:
            for one in change.staged:
                remove_part(os.path.join(self.out, one.part))
        for rotation in rotations:
            for path in rotation.made:
                remove_part(path)

    def _finish(self, change: RowChange, rotation: _Rotation) -> None:
        """Make the names agree with a committed entry. Raises StoppedEarly."""
        entry = change.entry
        problem = f"row {entry.id} is committed, but its files cannot get their names"
        remedy = "remove what is in the way, and run the same command again"
        with writing(self.out / entry.id, StoppedEarly, problem, remedy):
            for one in change.staged:
                path = os.path.join(self.out, one.name)
                part = os.path.join(self.out, one.part)
                os.replace(part, path)
                self._touched.add(os.path.dirname(path))
                if change.freed:
                    remove_part(part)  # a second name of the same file is not renamed
            for name in (*rotation.dropped, *change.freed):
                self._unlink(name)
            if change.is_of_row and entry.status is Status.OK and self._has_truncated:
                for suffix in (*AUDIO_SUFFIXES, CODES_SUFFIX):
                    self._unlink(f"{TRUNCATED}/{entry.id}{suffix}")
            elif entry.path is not None and entry.path.startswith(f"{TRUNCATED}/"):
                self._has_truncated = True

    def _unlink(self, name: str) -> None:
        self.remove(self.out / name)

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there; the removal is synced by `sync`."""
        try:
            path.unlink()
        except (FileNotFoundError, NotADirectoryError):
            return
        self._touched.add(str(path.parent))
        self._remove_empty(path.parent)

    def _remove_empty(self, folder: Path) -> None:
        """Remove a folder in `takes/` and those above it, as far as they are empty."""
        if folder.is_relative_to(self.out / TAKES):
            with contextlib.suppress(OSError):  # it contains something
                while folder != self.out:
                    folder.rmdir()
                    self._inside.forget(folder)
                    folder = folder.parent

    def _link(self, name: str, home: str, rotation: _Rotation) -> None:
        """Give a file of a row that is removed a second name in `takes/`; the first one is dropped.
        Raises RowError: that name is taken.
        """
        source, target = self.out / name, self.out / home
        if not source.is_file() or source.is_symlink():
            return
        self._inside.make_room(target, is_synced=False)
        if not os.path.lexists(target):
            rotation.made.append(target)
            if not link_or_copy(source, target):
                sync_file(target)
        elif facts_of(target) != facts_of(source):
            raise RowError(f"{target} is in the way")
        rotation.dropped.append(name)

    def _derived(self, entry: Take) -> Iterator[str]:
        """Names of subtitles and word times of a row."""
        for suffix in DERIVED_SUFFIXES:
            name = f"{entry.id}{suffix}"
            if os.path.lexists(self.out / name) and not self._is_of_other(entry.id, suffix):
                yield name

    def _is_of_other(self, row_id: str, suffix: str) -> bool:
        """Whether a file of this name belongs to another row of the folder."""
        if suffix not in NESTED_SUFFIXES:
            return False
        if self._shared is None:
            self._shared = SharedNames(_all_ids(self.journal))
        return self._shared.owner(row_id, suffix) is not None


def rendition_name(take: Take, sha256: str, suffix: str) -> str:
    """The name of an earlier delivered file of a take that is kept."""
    return take_name(take.id, take.take, f".{sha256[:8]}{suffix}")


def source_name(row_id: str, take: int, suffix: str) -> str:
    """The name of the file that the delivered file of a take was made from."""
    return take_name(row_id, take, f"{SOURCE_MARK}{suffix}")


def _all_ids(journal: Journal) -> Iterator[str]:
    yield from (take.id for take in journal.takes())
    yield from (take.id for take in journal.removed_rows())
