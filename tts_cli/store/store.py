"""An output folder: its lock, its journal, and the commands that change it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tts_cli import signals
from tts_cli.atomic import read_own, remove_stale_parts, require_plain_file, write_atomic
from tts_cli.audio.file import is_whole_wav
from tts_cli.audio.tags import comment_of
from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Role, Status
from tts_cli.errors import (
    FolderLocked,
    RowError,
    SetupError,
    StoppedEarly,
    UsageError,
    disk_full,
    is_disk_error,
    writing,
)
from tts_cli.named import counted
from tts_cli.sources.ids import TAKES, id_problem, natural_order
from tts_cli.store.commit import Commits, RowChange
from tts_cli.store.derived import DERIVED_NAME, DerivedFiles
from tts_cli.store.entry import JournalEntry
from tts_cli.store.files import (
    CHECKS_NAME,
    JOURNAL_NAME,
    REVIEWS_NAME,
    SOURCE_MARK,
    AudioWriter,
    PlainFiles,
    audio_suffix,
    own_names,
    prepare_folder,
    size_and_sha256,
    take_name,
)
from tts_cli.store.journal import Journal
from tts_cli.store.lock import FolderLock
from tts_cli.store.mark import FolderMark, require_journal
from tts_cli.store.orphans import BOOK_NAME
from tts_cli.store.recover import recover
from tts_cli.store.results import ResultCommits, invalid_entry
from tts_cli.store.run_file import (
    REPORT_NAME,
    FolderTotals,
    RunLog,
    read_report,
    with_folder,
    write_report,
)
from tts_cli.store.upgrade import upgrade

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.store.clean import Droppable, Takes
    from tts_cli.store.merge import Merger, Origins
    from tts_cli.store.reencode import Decode, Reencoded, ReencodeJob

log = logging.getLogger(__name__)


class Store:
    """An output folder.

    - Reading a folder neither locks nor repairs it, and writes nothing.
    - Writing locks the folder first, then recovers it from a crash, and only then reads it. A
      folder without a journal stays untouched until `lock` or `open`, so that a bad manifest
      creates nothing.
    - Every change of a row is a commit (`commit.py`): complete, durable, and without overwriting.
    - The end of the `with` block updates takes.json and releases the lock, also after an error.

    Args:
        out: None: the rows have no folder, and all are new.
        info: the model; None: the command synthesizes nothing.
    """

    def __init__(self, out: Path | None, config: RunConfig, info: ModelInfo | None = None) -> None:
        self.is_anywhere = out is not None
        self.out = Path() if out is None else out
        self.is_new = not self.is_anywhere or not self.exists(self.out)
        self._config = config
        self._native_rate_hz, self._comment = 0, ""
        if info is not None:
            self.set_speech_format(info.sample_rate_hz, comment_of(info))
        self.run_id: str | None = None  # of the run that synthesizes, once it is recorded
        self._stack = ExitStack()
        self._lock: FolderLock | None = None
        self._is_open = False

    @staticmethod
    def exists(out: Path) -> bool:
        """Return whether a folder has a journal, so that rows may be done already."""
        return os.path.lexists(out / JOURNAL_NAME)

    @classmethod
    def read_only(cls, out: Path) -> Store:
        """Open a folder for reading. Raises UsageError (it has no journal), SetupError."""
        if not require_plain_file(out / JOURNAL_NAME):
            raise UsageError(f"{out}: has no {JOURNAL_NAME}", "give an output folder of `synth`")
        return cls(out, RunConfig())

    @classmethod
    @contextmanager
    def locked(cls, out: Path, config: RunConfig) -> Iterator[Store]:
        """Lock a folder for reading. It is changed only if a killed command has to be finished."""
        store = cls(out, config)
        with store._stack:
            store.lock()
            if store._mark.left_at() is not None or store._has_crashed:
                store.open()
            try:
                yield store
            finally:
                if store._is_open:
                    store._end(has_failed=True)

    def __enter__(self) -> Store:
        if not self.is_new:
            self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._stack:
            if self._is_open:  # an unsynced folder is worse than a failed row, so it is reported
                self._end(has_failed=kind is not None and not issubclass(kind, RowError))

    @cached_property
    def journal(self) -> Journal:
        """The journal; empty for a new folder."""
        if self.is_new:  # its path may be invalid
            return Journal(None)
        return Journal(self.out, is_read_only=True, has_sums=self._config.verify_files)

    @cached_property
    def runs(self) -> RunLog:
        return RunLog(self.out)

    @cached_property
    def writer(self) -> AudioWriter:
        """The encoder of row files. Raises UsageError, SetupError."""
        return AudioWriter(self.out, self._config, self._native_rate_hz)

    @cached_property
    def commits(self) -> Commits:
        """The commits of the folder; the store must be open."""
        return Commits(self.out, self.journal, self._mark, self._config.max_takes)

    @cached_property
    def results(self) -> ResultCommits:
        """The commits of results; the store must be open."""
        return ResultCommits(self.commits, self.writer, self._comment)

    @cached_property
    def _mark(self) -> FolderMark:
        return FolderMark(self.out)

    @property
    def _has_crashed(self) -> bool:
        """Whether the last owner of the lock was killed."""
        return self._lock is not None and self._lock.crashed_ns is not None

    @property
    def is_book(self) -> bool:
        return (self.out / BOOK_NAME).is_file()

    def commit_failure(self, row: BadRow) -> JournalEntry:
        """Record a row that cannot be synthesized. Raises DiskFull."""
        take = invalid_entry(row, self.journal.row(row.record_id).take_to_write(), self.run_id)
        self.commits.commit(RowChange(take))
        return take

    def lock(self) -> None:
        """Create and lock the folder, once. Raises UsageError, SetupError, FolderLocked."""
        if self._lock is not None:
            return
        prepare_folder(self.out)
        if (self.out / REPORT_NAME).is_dir():
            report = self.out / REPORT_NAME
            raise UsageError(f"{report}: is a folder", "move it, or choose another --out")
        self._lock = self._stack.enter_context(FolderLock(self.out, self._config.take_over))
        if self.is_new and self.exists(self.out):
            raise FolderLocked(
                f"another run has written into {self.out} in the meantime",
                remedy="run the same command again",
            )

    def open(self) -> None:
        """Lock and recover the folder and open the journal, unless that is done. Raises as `lock`,
        or StoppedEarly: it cannot be repaired.
        """
        if self._is_open:
            return
        try:
            self.lock()
            self._forget()
            for name in (LIST_NAME, CHECKS_NAME, REVIEWS_NAME, BOOK_NAME, DERIVED_NAME):
                require_plain_file(self.out / name)
            self.runs = RunLog(self.out)
            marked = self._mark.left_at()
            if marked is not None:
                require_journal(self.out / JOURNAL_NAME, marked)
            self.journal = self._stack.enter_context(
                Journal(self.out, has_sums=self._config.verify_files)
            )
            self._recover(marked)
            self._is_open = True
        except BaseException:
            self._stack.close()
            raise

    def pin(self, row_id: str, take: int) -> bool:
        """Make a take the row's current one, whatever later settings are. Return whether anything
        changed.

        Raises:
            RowError: its file is missing or damaged.
            DiskFull: nothing has changed.
        """
        if problem := id_problem(row_id):
            raise RowError(f"row '{row_id}' {problem}")
        entry, file = self.journal.take(row_id, take), self.journal.file(row_id)
        if entry is None:
            raise RowError(f"row '{row_id}' has no take {take}")
        path = self.out / str(entry.path)
        found = size_and_sha256(path)
        if found is None or entry.bytes not in (0, found[0]):
            raise RowError(
                f"{row_id}: the file of take {take} is missing or damaged: {path}",
                remedy="choose another take",
            )
        if file is not None and file.take == take:
            if file.is_held and not file.has_failed:
                return False
            self.commits.commit(RowChange(replace(entry, role=Role.HELD)))
        else:
            self._make_current(replace(entry, role=Role.HELD))
        return True

    def _make_current(self, *entries: JournalEntry) -> None:
        changes = []
        for entry in entries:
            moved = self.commits.moved_back(entry)
            entry = replace(entry, path=f"{entry.id}{audio_suffix(entry.path)}")
            changes.append(RowChange(entry, moved=moved))
        self.commits.commit(*changes)

    def remove(self, row_ids: Iterable[str]) -> list[tuple[str, str]]:
        """Remove rows: their files become takes. Return the ids of rows that cannot be removed,
        with reasons.

        Raises:
            Interrupted, DiskFull, StoppedEarly: some rows remain; the same command removes them.
        """
        stayed: list[tuple[str, str]] = []
        waiting = iter(row_ids)
        while batch := list(islice(waiting, _BATCH)):
            signals.check()
            try:
                self.commits.commit(*map(self._removal, batch))
            except (OSError, RowError) as error:
                if isinstance(error, OSError) and is_disk_error(error):
                    raise disk_full(error, self.out / TAKES) from error
                if len(batch) > 1:
                    stayed += (one for row_id in batch for one in self.remove([row_id]))
                else:
                    reason = getattr(error, "strerror", None) or str(error)
                    stayed.append((batch[0], reason))
        return stayed

    def _removal(self, row_id: str) -> RowChange:
        file = self.journal.file(row_id)
        assert file is not None, row_id
        entry = self.journal.take(row_id, file.take)
        assert entry is not None, row_id
        if entry.path is None or id_problem(row_id):
            return RowChange(replace(entry, status=Status.REMOVED))
        own = self.out / entry.path
        if own.is_symlink() or (own.exists() and not own.is_file()):
            raise RowError(f"{own} is not a regular file")
        home = take_name(row_id, entry.take, own.suffix)
        if own.is_file() and (own.stat().st_size != entry.bytes or (self.out / home).exists()):
            entry = self.commits.adopt(row_id) or entry
            home = take_name(row_id, entry.take, own.suffix)
        return RowChange(replace(entry, status=Status.REMOVED, path=home))

    def restore(self, row_ids: Iterable[str]) -> None:
        """Restore removed rows: the take that was current becomes current again.

        Raises:
            Interrupted, DiskFull, StoppedEarly: some rows are still removed.
        """
        waiting = iter(row_ids)
        while batch := list(islice(waiting, _BATCH)):
            signals.check()
            entries = []
            for row_id in batch:
                row = self.journal.row(row_id)
                entry = self.journal.take(row_id, row.take)
                if row.is_removed and entry is not None:
                    entries.append(replace(entry, status=Status.OK))
            with writing(self.out / TAKES, StoppedEarly, "removed rows cannot be restored"):
                self._make_current(*entries)

    def clean(self, before_s: float | None, approved: Takes = frozenset()) -> Droppable:
        """Delete alternative takes and the files of removed rows. Return what was deleted.

        Args:
            before_s: seconds since 1970; younger files stay. None: delete files of any age.
            approved: takes that stay.
        Raises:
            Interrupted, DiskFull, StoppedEarly: the same command deletes the rest.
        """
        from tts_cli.store.clean import drop

        return drop(self.out, self.journal, self.commits, before_s, approved)

    def can_restore(self, entry: JournalEntry) -> bool:
        """Return whether the file of a removed row is complete and its name is free."""
        suffix = audio_suffix(entry.path)
        if entry.error is not None or id_problem(entry.id):
            return False
        path = self.out / take_name(entry.id, entry.take, suffix)
        line = self.journal.line(entry.id, entry.take)
        if line is not None and not path.exists():  # maybe where an earlier version put it
            path = self.out / str(line.take.path)
        size = PlainFiles(self.out).size(path)
        if size is None or os.path.lexists(self.out / f"{entry.id}{suffix}"):
            return False
        return size == entry.bytes or (suffix == ".wav" and is_whole_wav(path))

    def has_files(self, row_id: str) -> bool:
        return any(os.path.lexists(self.out / name) for name in own_names(row_id))

    @cached_property
    def derived(self) -> DerivedFiles:
        """The record of the files derived from rows. Raises SetupError, OSError."""
        return DerivedFiles(self.out)

    def write_derived(
        self, row_id: str, suffix: str, data: bytes, audio: str, text: str = ""
    ) -> bool | None:
        """Write a file derived from a row's audio, atomically; see `DerivedFiles.claim`. Raises
        RowError, DiskFull, SetupError.

        Args:
            audio: SHA-256 of the row's audio.
            text: other input of the file.
        """
        name = f"{row_id}{suffix}"
        path = self.out / name
        with writing(path, RowError):
            self.writer.inside.make_room(path)
            is_written = self.derived.claim(name, data, audio, text)
            if is_written:
                write_atomic(path, data)
        return is_written

    def write_edited(
        self, row_id: str, suffix: str, data: bytes, audio: str, *, is_replaced: bool
    ) -> bool:
        """Write a derived file that a user has edited, so that no run replaces it. Return whether
        it was written. Raises RowError, DiskFull.

        Args:
            audio: SHA-256 of the row's audio.
            is_replaced: replace an existing file.
        """
        path = self.out / f"{row_id}{suffix}"
        if os.path.lexists(path) and not is_replaced:
            return False
        with writing(path, RowError):
            self.writer.inside.make_room(path)
            self.derived.note_edited(f"{row_id}{suffix}", audio)
            write_atomic(path, data)
        return True

    def set_speech_format(self, rate_hz: int, comment: str) -> None:
        """Set the native sample rate and the comment in files, if they were unknown before."""
        self._native_rate_hz, self._comment = rate_hz, comment
        vars(self).pop("writer", None)

    def reencode(
        self, jobs: Iterable[ReencodeJob], decode: Decode | None = None, source: Path | None = None
    ) -> Reencoded:
        """Convert files of existing takes to another format, rate or level.

        Args:
            decode: decodes codes to samples; None: no job needs it.
            source: the folder with the audio; None: this one.
        Raises:
            Interrupted, DiskFull, StoppedEarly: finished files stay; the same command makes the
                rest.
        """
        from tts_cli.store.reencode import reencode  # 30 ms that few commands need

        out = self.out if source is None else source
        return reencode(jobs, out, self.writer, self.commits, self._comment, decode)

    def merge(
        self,
        merger: Merger,
        origins: Origins,
        reports: list[dict[str, Any]],
        totals: list[FolderTotals | None],
    ) -> FolderTotals:
        """Commit the rows of other folders. Return the new totals of this folder.

        Args:
            reports: run.json of all folders, this one first.
        Raises:
            DiskFull, StoppedEarly, OSError: the same command merges the rest.
        """
        from tts_cli.store import merge

        self.open()
        folders = list(origins.folders)
        merge.merge_runs(folders)
        if sum(origins.taken.values()) > origins.taken[0]:
            for name in (CHECKS_NAME, REVIEWS_NAME, DERIVED_NAME):
                merge.write_lines(origins, name)
            merger.run(self.commits)
        sums = self.runs.totals(self.journal.totals())
        report = merge.merged_report(folders, reports, totals)
        write_report(self.out, with_folder(report, sums))
        return sums

    def totals(self) -> FolderTotals | None:
        """Return the totals of the folder; None if runs.jsonl cannot be read."""
        try:
            return self.runs.totals(self.journal.totals())
        except OSError as problem:
            log.warning("%s cannot be read: %s", self.runs.path, problem.strerror or problem)
            return None

    def start_run(self, report: Mapping[str, Any]) -> None:
        """Add a run's first line to runs.jsonl, before its first row: rows refer to it by its id,
        even if the run is killed. Raises DiskFull.
        """
        self.run_id = report["run_id"]
        try:
            self.runs.append(report)
        except OSError as problem:
            log.warning("this run is missing in runs.jsonl: %s", problem)

    def end_run(self, report: Mapping[str, Any], *, is_spoken: bool = True) -> dict[str, Any]:
        """Add a run's last line to runs.jsonl, if it has an id, and write run.json. Return its
        content. A failure to write is logged.

        Args:
            is_spoken: whether the run synthesized; run.json stays that of the last run that did.
        """
        if report["run_id"] is not None:
            try:
                self.runs.append(report)
            except (OSError, StoppedEarly) as problem:
                log.warning("this run is missing in runs.jsonl: %s", problem)
        whole = with_folder(report, self.totals())
        if not is_spoken:
            return whole
        try:
            write_report(self.out, whole)
        except (OSError, StoppedEarly) as problem:
            log.warning("run.json could not be written: %s", problem)
        return whole

    def update_totals(self) -> None:
        """Update the folder's totals in run.json, after a command that reports no run."""
        try:
            before = read_report(self.out)
            after = with_folder(before, self.totals())
            if before and after != before:
                write_report(self.out, after)
        except (OSError, StoppedEarly, SetupError) as problem:
            log.warning("%s keeps its old totals: %s", REPORT_NAME, problem)

    def unload(self) -> None:
        """Close the journal, so that `open` reads it again. The folder stays locked."""
        self.journal.close()
        self._forget()
        self._is_open = False

    def _forget(self) -> None:
        """Discard what was read before the folder was locked."""
        for name in ("journal", "runs", "writer", "commits", "results"):
            vars(self).pop(name, None)

    def _recover(self, marked: int | None) -> None:
        """Finish what a killed command committed, and upgrade files of earlier versions. Raises
        StoppedEarly, SetupError.
        """
        with writing(self.out, StoppedEarly, f"{self.out} cannot be repaired", _REPAIR):
            if marked is not None:
                self._mark.keep()
                if count := recover(self.out, self.journal, marked):
                    files = counted(count, "file", "files")
                    log.warning("finished what an interrupted command had begun: %s", files)
            elif self._has_crashed:
                remove_stale_parts(self.out)
            if self.journal.has_old_lines:
                crashed_ns = None if self._lock is None else self._lock.crashed_ns
                upgrade(self.out, self.journal, self.commits, crashed_ns)

    def _end(self, *, has_failed: bool) -> None:
        """Write takes.json, sync the files of rows, and remove the mark.

        Args:
            has_failed: the command ends with an error, so that another one is only logged.
        Raises:
            DiskFull, StoppedEarly: the next command finishes what was committed.
        """
        if self.commits.edited.count:
            files = counted(self.commits.edited.count, "changed file is", "changed files are")
            log.warning("%s kept in takes/: %s", files, self.commits.edited)
        try:
            write_list(self.out, self.journal)
        except (OSError, SetupError, StoppedEarly) as problem:  # it can be written again
            log.warning("%s is out of date: %s", LIST_NAME, problem)
        try:
            with writing(self.out, StoppedEarly, f"{self.out} cannot be synced", _REPAIR):
                self.commits.files.end()
                if not self.commits.is_broken:
                    self._mark.remove()
        except StoppedEarly as problem:
            if not has_failed:
                raise
            log.warning("%s", problem)


_BATCH = 256  # rows that are removed or restored with one fsync
_REPAIR = "check the permissions of the folder, and run the same command again"
LIST_NAME = "takes.json"
LIST_SCHEMA = 1


def write_list(out: Path, journal: Journal) -> None:
    """Write takes.json if a row has several takes. Raises DiskFull, OSError."""
    path = out / LIST_NAME
    chosen = ((take.id, _choice(take)) for take in journal.chosen() if take.is_ok)
    rows = [row for _, row in sorted(chosen, key=lambda one: natural_order(one[0]))]
    if not rows and not require_plain_file(path):
        return
    inside = ",\n".join(f"  {row}" for row in rows)
    data = f'{{"schema": {LIST_SCHEMA}, "choices": {{\n{inside}\n}}}}\n'.encode()
    if read_own(path, len(data) + 1) != data:
        write_atomic(path, data)


def _choice(take: JournalEntry) -> str:
    """Return an entry of takes.json: the current take of a row, and whether a user pinned it."""
    facts = {
        "take": take.take,  # [1, 2, ...] number of the take in the row's file
        "seed": take.seed,  # [number] seed of this take
        "sha256": take.sha256,  # SHA-256 of its audio file
        "held": take.role is Role.HELD,  # [true, false] whether a user pinned it
    }
    return f"{json.dumps(take.id)}: {json.dumps(facts)}"


def takes_bytes(out: Path) -> int:
    """Return the size of the files in `takes/`, without the sources of converted files."""
    total = 0
    for folder, _, names in os.walk(out / TAKES):
        for name in (one for one in names if SOURCE_MARK not in one):
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(folder, name)).st_size
    return total
