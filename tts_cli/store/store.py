"""An output folder, held by one owner at a time."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tts_cli import signals
from tts_cli.atomic import (
    read_own,
    remove_stale_parts,
    require_plain_file,
    write_atomic,
)
from tts_cli.audio.encode import encoded
from tts_cli.audio.file import is_whole_wav
from tts_cli.audio.tags import synthetic
from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Encoded, Role, Status
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
from tts_cli.sources.ids import TAKES, TRUNCATED, id_problem, natural_order
from tts_cli.store.commit import Commits, RowChange, StagedFile
from tts_cli.store.derived import DERIVED_NAME, DerivedFiles
from tts_cli.store.files import (
    CHECKS_NAME,
    CODES_SUFFIX,
    JOURNAL_NAME,
    ROW_SUFFIXES,
    SOURCE_MARK,
    AudioWriter,
    PlainFiles,
    audio_suffix,
    facts_of,
    prepare_folder,
    take_name,
)
from tts_cli.store.journal import Journal
from tts_cli.store.lock import FolderLock
from tts_cli.store.mark import FolderMark, require_journal
from tts_cli.store.mend import BOOK_NAME
from tts_cli.store.records import Entries, bad_record
from tts_cli.store.recover import recover
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
    from tts_cli.core import Result, Task
    from tts_cli.store.clean import Droppable
    from tts_cli.store.merge import Merger, Origins
    from tts_cli.store.reencode import Decode, Reencoded, ReencodeJob
    from tts_cli.store.take import Take

log = logging.getLogger(__name__)


class Store:
    """An output folder. Its promises:

    - A folder that is only read is neither locked nor repaired, and nothing is written there.
    - A folder that is written to is locked first, then recovered from a crash, and only then read.
      Nothing is created on disk before `hold` or `begin`, unless it has a journal already.
    - All changes of rows are commits (`commit.py`): whole, durable, and nothing is overwritten.
    - A target of `merge` is locked before anything is written.
    - Leaving the `with` brings takes.json up to date and releases the lock, whatever happened.

    Args:
        out: None: there is none, so that every row is new.
        info: of the model; None: nothing is synthesized.
    """

    def __init__(self, out: Path | None, config: RunConfig, info: ModelInfo | None = None) -> None:
        self.is_anywhere = out is not None
        self.out = Path() if out is None else out
        self.is_new = not self.is_anywhere or not self.is_there(self.out)
        self._config = config
        self._native_rate_hz, self._comment = 0, ""
        if info is not None:
            self.speech_is(info.sample_rate_hz, synthetic(info))
        self.run_id: str | None = None  # of the run that synthesizes, once it is recorded
        self._mutex = threading.Lock()  # of what is created on first use
        self._stack = ExitStack()
        self._lock: FolderLock | None = None
        self._is_open = False

    @staticmethod
    def is_there(out: Path) -> bool:
        """Whether rows of a folder may be done already."""
        return os.path.lexists(out / JOURNAL_NAME)

    @classmethod
    def look(cls, out: Path) -> Store:
        """One that is only read.

        Raises:
            UsageError: nothing was spoken into it.
            SetupError: its journal is no plain file.
        """
        if not require_plain_file(out / JOURNAL_NAME):
            raise UsageError(f"{out}: has no {JOURNAL_NAME}", "give an output folder of `synth`")
        return cls(out, RunConfig())

    @classmethod
    def at(cls, out: Path, config: RunConfig, info: ModelInfo | None = None) -> Store:
        """One to write to, in a `with`. One with a journal is begun there; any other is only looked
        at until `begin`, so that nothing is made where a manifest turns out to be bad.
        """
        return cls(out, config, info)

    @classmethod
    @contextmanager
    def unchanged(cls, out: Path, config: RunConfig) -> Iterator[Store]:
        """Lock a folder to read it; it is only changed where a killed command left something."""
        store = cls(out, config)
        with store._stack:
            store.hold()
            if store._mark.left_at() is not None or store._has_crashed:
                store.begin()
            try:
                yield store
            finally:
                if store._is_open:
                    store._end(has_failed=True)

    def __enter__(self) -> Store:
        if not self.is_new:
            self.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._stack:
            if self._is_open:  # a folder that cannot be synced is worse than a row that failed
                self._end(has_failed=kind is not None and not issubclass(kind, RowError))

    @cached_property
    def journal(self) -> Journal:
        """Its lines; none where there is no journal yet."""
        if self.is_new:  # its path may be none that can be asked about
            return Journal(None)
        return Journal(self.out, is_read_only=True, has_sums=self._config.verify_files)

    @cached_property
    def runs(self) -> RunLog:
        """Its runs."""
        return RunLog(self.out)

    @cached_property
    def writer(self) -> AudioWriter:
        """What writes the files of rows. Raises UsageError, SetupError: they cannot be had so."""
        return AudioWriter(self.out, self._config, self._native_rate_hz)

    @cached_property
    def commits(self) -> Commits:
        """What changes the files of rows; the folder is open."""
        return Commits(self.out, self.journal, self._mark, self._config.most_takes)

    @cached_property
    def _mark(self) -> FolderMark:
        return FolderMark(self.out)

    @cached_property
    def _entries(self) -> Entries:
        return Entries(self.writer, self.run_id)

    @property
    def _has_crashed(self) -> bool:
        """Whether the command that held the lock before was killed."""
        return self._lock is not None and self._lock.crashed_ns is not None

    @property
    def is_book(self) -> bool:
        """Whether a book was synthesized into it."""
        return (self.out / BOOK_NAME).is_file()

    def keep(self, task: Task, spoken: Result) -> Take:
        """Commit the result of a task; any thread may call it. What cannot be written for a reason
        of its own is recorded as failed.

        Raises:
            DiskFull: nothing more can be written, and nothing of this row was.
            StoppedEarly: the row is committed, but its files cannot get their names.
        """
        with self._mutex:
            entries, commits, writer = self._entries, self.commits, self.writer
        started_s = time.perf_counter()
        spoken = encoded(task, spoken, writer.make, self._comment)
        is_truncated, made = spoken.error is not None, spoken.encoded
        try:
            if made is not None:
                made = writer.staged(task.id, made, is_truncated, task.place.file_take)
            entry = entries.timed(entries.of(task, spoken), spoken, started_s)
            if made is not None and not is_truncated:
                entry = self._merged(entry)
            commits.commit(RowChange(entry, () if made is None else _staged(entry, made)))
        except (RowError, OSError) as problem:
            if made is not None and not commits.is_broken:
                writer.drop(made)
            if isinstance(problem, OSError) and is_disk_error(problem):
                raise disk_full(problem, self.out / task.id) from problem
            log.debug("row %s cannot be written", task.id, exc_info=True)
            entry = entries.timed(entries.failed(task, spoken, str(problem)), spoken, started_s)
            self.journal.append(entry)
        return entry

    def _merged(self, entry: Take) -> Take:
        """An entry, as that of the current take where it came out byte for byte the same."""
        file = None if entry.role is Role.EXTRA else self.journal.file(entry.id)
        if file is None or file.take == entry.take or file.has_failed:
            return entry
        current = self.journal.take(entry.id, file.take)
        if current is None or current.path is None or current.sha256 != entry.sha256:
            return entry
        if facts_of(self.out / current.path) != (entry.bytes, entry.sha256):
            return entry
        return replace(entry, take=file.take, role=Role.HELD if file.is_held else entry.role)

    def fail(self, row: BadRow) -> Take:
        """Record a row that cannot be synthesized. Raises DiskFull."""
        take = bad_record(row, self.journal.row(row.record_id).take_to_write(), self.run_id)
        self.commits.commit(RowChange(take))
        return take

    def hold(self) -> None:
        """Make the folder and lock it, unless that is done.

        Raises:
            UsageError, SetupError, FolderLocked: it cannot be had.
        """
        if self._lock is not None:
            return
        prepare_folder(self.out)
        if (self.out / REPORT_NAME).is_dir():
            raise UsageError(
                f"{self.out / REPORT_NAME}: is a folder", "move it, or choose another --out"
            )
        self._lock = self._stack.enter_context(FolderLock(self.out, self._config.take_over))
        if self.is_new and self.is_there(self.out):
            raise FolderLocked(
                f"another run has written into {self.out} in the meantime",
                remedy="run the same command again",
            )

    def begin(self) -> None:
        """Make the folder, lock it, mend what a crash has left and open the journal, as far as that
        is not done.

        Raises:
            UsageError, SetupError: it cannot be had.
            StoppedEarly: it cannot be mended.
        """
        if self._is_open:
            return
        try:
            self.hold()
            self._forget()
            for name in (LIST_NAME, CHECKS_NAME, BOOK_NAME, DERIVED_NAME):
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
        """Make a take the current one of its row, whatever later settings are. Returns whether that
        changes anything.

        Raises:
            RowError: its file is missing, or not what was recorded.
            DiskFull: nothing has changed.
        """
        if problem := id_problem(row_id):
            raise RowError(f"row '{row_id}' {problem}")
        entry, file = self.journal.take(row_id, take), self.journal.file(row_id)
        if entry is None:
            raise RowError(f"row '{row_id}' has no take {take}")
        path = self.out / str(entry.path)
        found = facts_of(path)
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

    def _make_current(self, *entries: Take) -> None:
        """Make takes in `takes/` the current ones of their rows."""
        changes = []
        for entry in entries:
            moved = self.commits.moved_back(entry)
            entry = replace(entry, path=f"{entry.id}{audio_suffix(entry.path)}")
            changes.append(RowChange(entry, moved=moved))
        self.commits.commit(*changes)

    def remove(self, row_ids: Iterable[str]) -> list[tuple[str, str]]:
        """Remove rows: their files become takes. Returns the ids of those that cannot be removed,
        and why.

        Raises:
            Interrupted, DiskFull, StoppedEarly: the others stay; run again, it goes on.
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
        """The change that removes a row. Raises RowError, OSError."""
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
        """Make the takes current again that rows had when they were removed.

        Raises:
            Interrupted, DiskFull, StoppedEarly: the others stay removed.
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

    def clean(self, before_s: float | None) -> Droppable:
        """Drop alternative takes and the files of removed rows. Returns what was dropped.

        Args:
            before_s: seconds since 1970; younger files stay. None: all ages.
        Raises:
            Interrupted, DiskFull, StoppedEarly: run again, it goes on.
        """
        from tts_cli.store.clean import drop

        return drop(self.out, self.journal, self.commits, before_s)

    def can_come_back(self, entry: Take) -> bool:
        """Whether the file of a row that was removed is there and whole, and its name is free."""
        suffix = audio_suffix(entry.path)
        if entry.error is not None or id_problem(entry.id):
            return False
        path = self.out / take_name(entry.id, entry.take, suffix)
        line = self.journal.line(entry.id, entry.take)
        if line is not None and not path.exists():  # where an earlier version left it
            path = self.out / str(line.take.path)
        size = PlainFiles(self.out).size(path)
        if size is None or os.path.lexists(self.out / f"{entry.id}{suffix}"):
            return False
        return size == entry.bytes or (suffix == ".wav" and is_whole_wav(path))

    def has_files(self, row_id: str) -> bool:
        """Whether a row has any file of its own."""
        names = (f"{front}{row_id}{one}" for front in ("", f"{TRUNCATED}/") for one in ROW_SUFFIXES)
        return any(os.path.lexists(self.out / name) for name in names)

    @cached_property
    def derived(self) -> DerivedFiles:
        """Files made of the audio of rows. Raises SetupError, OSError."""
        return DerivedFiles(self.out)

    def put_beside(
        self, row_id: str, suffix: str, data: bytes, audio: str, text: str = ""
    ) -> bool | None:
        """Write a file beside a row's audio, whole or not at all; see `DerivedFiles.claim`.

        Args:
            audio: SHA-256 of the audio that it is for.
            text: what else it depends on.
        Raises:
            RowError, DiskFull, SetupError
        """
        name = f"{row_id}{suffix}"
        path = self.out / name
        with writing(path, RowError):
            self.writer.inside.make_room(path)
            is_written = self.derived.claim(name, data, audio, text)
            if is_written:
                write_atomic(path, data)
        return is_written

    def copy_beside(
        self, row_id: str, suffix: str, data: bytes, audio: str, *, is_replaced: bool
    ) -> bool:
        """Write what somebody has edited, so that no run will replace it. Whether it is written.

        Args:
            audio: see `put_beside`.
            is_replaced: a file that is there already, which is kept otherwise.
        Raises:
            RowError, DiskFull
        """
        path = self.out / f"{row_id}{suffix}"
        if os.path.lexists(path) and not is_replaced:
            return False
        with writing(path, RowError):
            self.writer.inside.make_room(path)
            self.derived.note_edited(f"{row_id}{suffix}", audio)
            write_atomic(path, data)
        return True

    def speech_is(self, rate_hz: int, comment: str) -> None:
        """Set the native rate and the tag of files, where they are known late."""
        self._native_rate_hz, self._comment = rate_hz, comment
        vars(self).pop("writer", None)

    def reencode(
        self, jobs: Iterable[ReencodeJob], decode: Decode | None = None, source: Path | None = None
    ) -> Reencoded:
        """Make files in another format, rate or level, of the same speech.

        Args:
            decode: gives samples of codes; None where no job is of codes.
            source: the folder that has the audio; None: this one.
        Raises:
            Interrupted, DiskFull, StoppedEarly: what was made is kept; run again, it goes on.
        """
        from tts_cli.store.reencode import Reencoder  # 30 ms that few commands need

        out = self.out if source is None else source
        return Reencoder(out, self.writer, self.commits, self._comment, decode).run(jobs)

    def merge(
        self,
        merger: Merger,
        origins: Origins,
        reports: list[dict[str, Any]],
        totals: list[FolderTotals | None],
    ) -> FolderTotals:
        """Commit the rows of other folders. Returns the totals of the folder then.

        Args:
            reports: of all folders, this one first.
            totals: of all folders.
        Raises:
            DiskFull, StoppedEarly, OSError: run again, it goes on.
        """
        from tts_cli.store import merge

        self.begin()
        folders = list(origins.folders)
        merge.write_runs(folders)
        if sum(origins.taken.values()) > origins.taken[0]:
            for name in (CHECKS_NAME, DERIVED_NAME):
                merge.write_lines(origins, name)
            merger.run(self.commits)
        sums = self.runs.totals(self.journal.rows())
        report = merge.merged_report(folders, reports, totals)
        write_report(self.out, with_folder(report, sums))
        return sums

    def totals(self) -> FolderTotals | None:
        """What the folder holds; None where runs.jsonl cannot be read."""
        try:
            return self.runs.totals(self.journal.rows())
        except OSError as problem:
            log.warning("%s cannot be read: %s", self.runs.path, problem.strerror or problem)
            return None

    def note_run(self, report: Mapping[str, Any]) -> None:
        """Add a run's first line to runs.jsonl, before a row of it is recorded: by its id rows are
        known to be of these manifests, even if the run is killed. Raises DiskFull.
        """
        self.run_id = report["run_id"]
        try:
            self.runs.append(report)
        except OSError as problem:
            log.warning("this run is missing in runs.jsonl: %s", problem)

    def end_run(self, report: Mapping[str, Any], *, is_spoken: bool = True) -> dict[str, Any]:
        """Add a run's last line to runs.jsonl, if it has an id, and write run.json, which stays
        that of the last run that spoke. A failure is told. Returns what run.json is to hold.
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

    def renew_totals(self) -> None:
        """Bring what run.json says of the folder up to date, where no run is reported."""
        try:
            before = read_report(self.out)
            after = with_folder(before, self.totals())
            if before and after != before:
                write_report(self.out, after)
        except (OSError, StoppedEarly, SetupError) as problem:
            log.warning("%s keeps its old totals: %s", REPORT_NAME, problem)

    def rest(self) -> None:
        """Forget what the lines say, of a folder that stays held; `begin` reads them again."""
        self.journal.close()
        self._forget()
        self._is_open = False

    def _forget(self) -> None:
        """What was learnt of a folder that was looked at only."""
        for name in ("journal", "runs", "writer", "commits", "_entries"):
            vars(self).pop(name, None)

    def _recover(self, marked: int | None) -> None:
        """Finish what a crash has left, and convert the files of earlier versions. Raises
        StoppedEarly, SetupError.

        Args:
            marked: see `FolderMark.left_at`.
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
        """Write `takes.json`, sync the files of rows, and remove the mark.

        Args:
            has_failed: an error ends the command, so that another one is only logged.
        Raises:
            DiskFull, StoppedEarly: the next command finishes what was committed.
        """
        if self.commits.edited.count:
            files = counted(self.commits.edited.count, "changed file is", "changed files are")
            log.warning("%s kept in takes/: %s", files, self.commits.edited)
        try:
            write_list(self.out, self.journal)
        except (OSError, SetupError, StoppedEarly) as problem:  # the journal has all of it
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


def _staged(entry: Take, made: Encoded) -> tuple[StagedFile, ...]:
    """The staged files of an entry, with the names that they get."""
    path = str(entry.path)
    files = [(made.audio, path, made.sha256)]
    if made.codes is not None:
        codes = path.removesuffix(audio_suffix(path)) + CODES_SUFFIX
        files.append((made.codes, codes, str(made.codes_sha256)))
    return tuple(StagedFile(str(part), name, sha256) for part, name, sha256 in files)


def write_list(out: Path, journal: Journal) -> None:
    """Write `takes.json`, if a row has several takes. Raises DiskFull, OSError."""
    path = out / LIST_NAME
    chosen = ((take.id, _choice(take)) for take in journal.chosen() if take.is_ok)
    rows = [row for _, row in sorted(chosen, key=lambda one: natural_order(one[0]))]
    if not rows and not require_plain_file(path):
        return
    inside = ",\n".join(f"  {row}" for row in rows)
    data = f'{{"schema": {LIST_SCHEMA}, "choices": {{\n{inside}\n}}}}\n'.encode()
    if read_own(path, len(data) + 1) != data:
        write_atomic(path, data)


def _choice(take: Take) -> str:
    """An entry of `takes.json`: the current take of a row, and whether a user pinned it."""
    facts = {
        "take": take.take,  # [1, 2, ...] number of the take in the row's file
        "seed": take.seed,  # [number] seed of this take
        "sha256": take.sha256,  # SHA-256 of its audio file
        "held": take.role is Role.HELD,  # [true, false] whether a user pinned it
    }
    return f"{json.dumps(take.id)}: {json.dumps(facts)}"


def room_of_takes(out: Path) -> int:
    """Bytes of the files in `takes/`, sources of converted files left out."""
    total = 0
    for folder, _, names in os.walk(out / TAKES):
        for name in (one for one in names if SOURCE_MARK not in one):
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(folder, name)).st_size
    return total
