"""Commit the results of rows: their files are encoded and staged, and their entries appended."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace as replaced
from itertools import chain
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tts_cli.atomic import remove_part
from tts_cli.audio.encode import encoded
from tts_cli.core import Role
from tts_cli.errors import RowError, disk_full, is_disk_error
from tts_cli.store.commit import Commits, RowChange
from tts_cli.store.entry import JournalEntry, Moved
from tts_cli.store.files import CODES_SUFFIX, AudioWriter, audio_suffix, size_and_sha256
from tts_cli.store.records import result_entry

if TYPE_CHECKING:
    from tts_cli.core import Result, Task

log = logging.getLogger(__name__)


class ResultCommits:
    """Commits results into one output folder; several threads may use it.

    Args:
        comment: written into every file, see `tags.comment_of`.
    """

    def __init__(self, commits: Commits, writer: AudioWriter, comment: str) -> None:
        self._commits = commits
        self._writer = writer
        self._comment = comment
        self._out = commits.out

    def commit(
        self, results: Sequence[tuple[Task, Result]], run_id: str | None
    ) -> list[JournalEntry]:
        """Commit the results of different rows, with one write of the journal. A row that cannot be
        written is recorded as failed. Return the entries of the rows.

        Raises:
            DiskFull: no row was committed.
            StoppedEarly: the rows are committed, but their files cannot get their names.
        """
        changes: list[RowChange] = []
        try:
            for task, result in results:
                changes.append(self._change_of(task, result, run_id))
        except BaseException:
            for one in chain.from_iterable(change.staged for change in changes):
                remove_part(self._out / one.name)
            raise
        try:
            self._commits.commit(*changes)
        except (RowError, OSError) as problem:
            if isinstance(problem, OSError) and is_disk_error(problem):
                raise disk_full(problem, self._out / results[0][0].id) from problem
            if len(results) > 1:
                return [entry for one in results for entry in self.commit([one], run_id)]
            changes = [self._failure_of(*results[0], run_id, str(problem))]
            self._commits.commit(*changes)
        return [change.entry for change in changes]

    def _change_of(self, task: Task, result: Result, run_id: str | None) -> RowChange:
        """Encode and stage the files of a row. Return its change, which may be a failure. Raises
        DiskFull, StoppedEarly.
        """
        writer, started_s = self._writer, time.perf_counter()
        result = encoded(task, result, writer.make, self._comment)
        is_truncated, made = result.error is not None, result.encoded
        try:
            if made is not None:
                made = writer.staged(task.id, made, is_truncated, task.place.file_take)
            entry = result_entry(task, result, writer, run_id, started_s)
            if made is not None and not is_truncated and not task.place.is_new:
                entry = self._merged(entry)
        except (RowError, OSError) as problem:
            if made is not None:
                writer.drop(made)
            if isinstance(problem, OSError) and is_disk_error(problem):
                raise disk_full(problem, self._out / task.id) from problem
            return self._failure_of(task, result, run_id, str(problem))
        staged: list[Moved] = []
        if made is not None:
            path = str(entry.path)
            staged.append(Moved(str(made.audio), made.sha256, path))
            if made.codes is not None:
                codes = path.removesuffix(audio_suffix(path)) + CODES_SUFFIX
                staged.append(Moved(str(made.codes), made.codes_sha256, codes))
        return RowChange(entry, tuple(staged), is_new=task.place.is_new)

    def _failure_of(
        self, task: Task, result: Result, run_id: str | None, problem: str
    ) -> RowChange:
        """Return the change of a row that cannot be written."""
        log.debug("row %s cannot be written", task.id, exc_info=True)
        result = replaced(result, samples=None, codes=None, encoded=None, unwritable=problem)
        return RowChange(result_entry(task, result, self._writer, run_id, time.perf_counter()))

    def _merged(self, entry: JournalEntry) -> JournalEntry:
        """Return an entry as that of the current take if their audio is the same, byte for byte."""
        journal = self._commits.journal
        file = None if entry.role is Role.EXTRA else journal.file(entry.id)
        if file is None or file.take == entry.take or file.has_failed:
            return entry
        current = journal.take(entry.id, file.take)
        if current is None or current.path is None or current.sha256 != entry.sha256:
            return entry
        if size_and_sha256(self._out / current.path) != (entry.bytes, entry.sha256):
            return entry
        return replace(entry, take=file.take, role=Role.HELD if file.is_held else entry.role)
