"""An output folder, held by one owner at a time."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tts_cli.audio.tags import synthetic
from tts_cli.config import RunConfig
from tts_cli.core import BadRow
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
from tts_cli.store.atomic import remove_stale_parts, require_plain_file, write_atomic
from tts_cli.store.derived import DERIVED_NAME, DerivedFiles
from tts_cli.store.files import CHECKS_NAME, JOURNAL_NAME, AudioWriter, Inside, prepare_folder
from tts_cli.store.journal import Journal
from tts_cli.store.lock import FolderLock
from tts_cli.store.mend import BOOK_NAME, unrecorded_rows
from tts_cli.store.records import Records, bad_record
from tts_cli.store.removed import Removed
from tts_cli.store.run_file import (
    REPORT_NAME,
    FolderTotals,
    RunLog,
    read_report,
    with_folder,
    write_report,
)
from tts_cli.store.takes import LIST_NAME, TakeFolder
from tts_cli.manifest.ids import REMOVED, TAKES
from tts_cli.named import counted

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.core import Spoken, Task
    from tts_cli.store.merge import Origins
    from tts_cli.store.recode import Decode, Order, Recoded
    from tts_cli.store.take import Take

log = logging.getLogger(__name__)


class Folder:
    """An output folder. What it promises:

    - One that is only looked at is neither locked nor mended, and nothing is written there.
    - One that is written to is locked first, then mended, whatever killed the run before, and only
      then read. Nothing is made on disk before `hold` or `begin`, unless rows were spoken into it.
    - A row that is kept has its files whole under their names, then its line fsynced (one fsync for
      all who wait), then the name of the row linked to it. No take is overwritten, and no number
      used twice. Where the line cannot be written, the files go again.
    - A file that is made anew of what is kept spares what it is made of, and what somebody edited.
    - What another folder is merged into is held before anything is written. Its journal is the old
      one or the new one, whole, and names files that are there.
    - Leaving the `with` brings takes.json up to date and gives the lock back, whatever happened.

    Args:
        out: None: there is none, so that every row is new.
        info: of what speaks; None: nothing does.
    """

    def __init__(self, out: Path | None, config: RunConfig, info: ModelInfo | None = None) -> None:
        self.is_anywhere = out is not None
        self.out = Path() if out is None else out
        self.is_new = not self.is_anywhere or not self.is_there(self.out)
        self._config = config
        self._native_rate_hz, self._comment = 0, ""
        if info is not None:
            self.speech_is(info.sample_rate_hz, synthetic(info))
        self.run_id: str | None = None  # of the run that speaks, once it is noted
        self._records: Records | None = None
        self._mutex = threading.Lock()
        self._stack = ExitStack()
        self._lock: FolderLock | None = None
        self._is_open = False

    @staticmethod
    def is_there(out: Path) -> bool:
        """Whether rows of a folder may be done already."""
        return os.path.lexists(out / JOURNAL_NAME)

    @classmethod
    def look(cls, out: Path) -> Folder:
        """One that is only read.

        Raises:
            UsageError: nothing was spoken into it.
            SetupError: its journal is no plain file.
        """
        if not require_plain_file(out / JOURNAL_NAME):
            raise UsageError(f"{out}: has no {JOURNAL_NAME}", "give an output folder of `synth`")
        return cls(out, RunConfig())

    @classmethod
    def at(cls, out: Path, config: RunConfig, info: ModelInfo | None = None) -> Folder:
        """One to write to, in a `with`. One with a journal is begun there; any other is only looked
        at until `begin`, so that nothing is made where a manifest turns out to be bad.
        """
        return cls(out, config, info)

    def __enter__(self) -> Folder:
        if not self.is_new:
            self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        with self._stack:
            if self._is_open:
                self._close_takes()

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
    def _inside(self) -> Inside:
        """Its subfolders, and no way out of it."""
        return Inside(self.out)

    @cached_property
    def _takes(self) -> TakeFolder:
        """Several takes of a row."""
        return TakeFolder(self.out, self.journal)

    @cached_property
    def _removed(self) -> Removed:
        """Rows that are gone."""
        return Removed(self.out, self.journal)

    @property
    def is_book(self) -> bool:
        """Whether a book was spoken into it."""
        return (self.out / BOOK_NAME).is_file()

    @property
    def records(self) -> Records:
        """What gives rows files and lines."""
        with self._mutex:
            if self._records is None:
                self._takes.extras = self._config.most_takes  # from now on a plan gives numbers
                self._records = Records(self.writer, self._takes, self.run_id, self._comment)
            return self._records

    @property
    def num_same(self) -> int:
        """Rows kept again that came out as they were, byte for byte."""
        return self.records.num_same

    def keep(self, task: Task, spoken: Spoken) -> Take:
        """Give what was spoken its files, its line and its name; any thread may call it.
        What cannot be written for a reason of its own is recorded as failed.

        Raises:
            DiskFull: nothing more can be written, and nothing of this row was.
            StoppedEarly: the row's name cannot be given to its take.
        """
        return self.records.keep(task, spoken)

    def fail(self, row: BadRow) -> Take:
        """Record a row that cannot be spoken. Raises DiskFull."""
        take = bad_record(row, self.journal.take_to_write(row.record_id), self.run_id)
        self.journal.append(take)
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
            self.journal = self._stack.enter_context(
                Journal(self.out, has_sums=self._config.verify_files)
            )
            self._mend()
            self._is_open = True
        except BaseException:
            self._stack.close()
            raise

    def choose(self, row_id: str, take: int) -> bool:
        """Make a take its row's file, for good. Whether that is anything new.

        Raises:
            RowError: its file is gone, or not what was recorded.
            DiskFull: nothing has changed.
        """
        return self._takes.choose(row_id, take)

    def mark(self, gone: Iterable[str] = (), back: Iterable[str] = ()) -> list[tuple[str, str]]:
        """Bring rows back that a manifest has again, and take rows out that none has any more,
        files and all. Returns the ids of those that cannot be moved out, and why.

        Raises:
            Interrupted, DiskFull, StoppedEarly: run again, it goes on.
        """
        self._removed.bring_back(back)
        return self._removed.take_out(gone)

    def can_come_back(self, take: Take) -> bool:
        """Whether the audio of a row that is gone, whose file the take was, is there and whole, and
        its place is free.
        """
        return self._removed.holds(take)

    def has_files(self, row_id: str) -> bool:
        """Whether there is anything of a row that could be moved out."""
        return self._removed.has_files(row_id)

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
            self._inside.make_room(path)
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
            self._inside.make_room(path)
            self.derived.note_edited(f"{row_id}{suffix}", audio)
            write_atomic(path, data)
        return True

    def speech_is(self, rate_hz: int, comment: str) -> None:
        """Say what is written here, where that is learnt late: the rate of what the model gave, and
        what files say of themselves.
        """
        self._native_rate_hz, self._comment = rate_hz, comment
        vars(self).pop("writer", None)

    def remake(
        self, orders: Iterable[Order], decode: Decode | None = None, kept_in: Path | None = None
    ) -> Recoded:
        """Make files in another format, rate or level, of the same speech.

        Args:
            decode: gives samples of codes; None where no order is of codes.
            kept_in: the folder that has what they are made of; None: this one.
        Raises:
            Interrupted, DiskFull, StoppedEarly: what was made is kept; run again, it goes on.
        """
        from tts_cli.store.recode import Recoder  # 30 ms that few commands need

        source = self.out if kept_in is None else kept_in
        return Recoder(source, self.writer, self._takes, self._comment, decode).run(orders)

    def merge(
        self,
        origins: Origins,
        reports: list[dict[str, Any]],
        totals: list[FolderTotals | None],
    ) -> FolderTotals:
        """Take in the lines of other folders' rows, whose files are here: the journal last of what
        counts. Returns what the folder holds then.

        Args:
            reports: of all folders, this one first.
            totals: of all folders.
        Raises:
            DiskFull, OSError: a file is as it was, or new; run again, it goes on.
        """
        from tts_cli.store import merge
        from tts_cli.store.merge_files import remove_runaways

        self.hold()
        folders = list(origins.folders)
        merge.write_runs(folders)
        if sum(origins.taken.values()) > origins.taken[0]:
            merge.write_checks(origins)
            merge.write_derived(folders)
            merge.write_journal(origins)
        self.begin()
        remove_runaways(self.out, self.journal.status)
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
        for name in ("journal", "runs", "writer", "_takes", "_removed"):
            vars(self).pop(name, None)

    def _mend(self) -> None:
        """Mend what a crash has left. Raises StoppedEarly."""
        crashed_ns = None if self._lock is None else self._lock.crashed_ns
        remove_stale_parts(self.out)
        if crashed_ns is not None or self._config.prune:
            self._mend_removed()
        if crashed_ns is not None:
            self.journal.append(*unrecorded_rows(self.out, crashed_ns, self.journal))
        self._mend_takes()

    def _mend_removed(self) -> None:
        """Move what a crash has left of the files of rows that are gone. Raises StoppedEarly."""
        try:
            self._removed.mend()
        except (OSError, RowError) as error:
            if isinstance(error, OSError) and is_disk_error(error):
                raise disk_full(error, self.out / REMOVED) from error
            raise StoppedEarly(
                f"a file of a removed row cannot be moved to {REMOVED}/: {error}",
                remedy="remove what is in its way, and run the same command again",
            ) from error

    def _mend_takes(self) -> None:
        """Make rows' files the takes that they are to be. Raises StoppedEarly."""
        try:
            mended = self._takes.repair()
        except OSError as error:
            if is_disk_error(error):
                raise disk_full(error, self.out / TAKES) from error
            raise StoppedEarly(
                f"the file of a pinned take cannot be restored: {error}",
                remedy="check the permissions of the folder",
            ) from error
        if mended:
            files = counted(mended, "file was", "files were")
            log.warning(
                "%s restored from %s/, because the current file was missing, damaged or not the "
                "pinned take",
                files,
                TAKES,
            )

    def _close_takes(self) -> None:
        """Write `takes.json`, and remove empty folders of takes. Failures are told: the journal has
        it all.
        """
        try:
            self._takes.prune()
            self._takes.write_list()
        except (OSError, SetupError, StoppedEarly) as problem:
            log.warning("%s is out of date: %s", LIST_NAME, problem)
