"""Results to files, lines of the journal and sums. A row is recorded only when its audio is safely
on disk.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from tts_cli.errors import RowError
from tts_cli.manifest.row import BadRow
from tts_cli.output.journal import Journal, RowRecord
from tts_cli.output.run_file import Totals
from tts_cli.output.writer import AudioWriter
from tts_cli.run.result import Result

log = logging.getLogger(__name__)


class Recorder:
    """Takes the results of a run; any thread may call it.

    Args:
        totals: are counted up, under a lock of the recorder's.
        on_row: called after every row, under the same lock.
    """

    def __init__(
        self,
        writer: AudioWriter,
        journal: Journal,
        totals: Totals,
        on_row: Callable[[Totals], None],
    ) -> None:
        self.writer = writer
        self.journal = journal
        self.totals = totals
        self.on_row = on_row
        self._mutex = threading.Lock()

    def take(self, result: Result) -> None:
        """Put a row's audio on disk and record it. Raises DiskFull."""
        self._record(self._write(result), result.dropped_s)

    def fail(self, row: BadRow) -> None:
        """Record a row that cannot be spoken. Raises DiskFull."""
        self._record(RowRecord(row.record_id, "failed", error=row.message), is_bad=True)

    def _write(self, result: Result) -> RowRecord:
        """Put a row's audio on disk, if there is any, and describe what happened."""
        row, error, path = result.row, result.error, None
        started_s = time.perf_counter()
        if result.samples is not None:
            is_truncated = error is not None
            try:
                path = self.writer.write(row.id, result.samples, result.codes, is_truncated)
            except RowError as problem:
                error = str(problem)
            else:
                error = f"{error}; its audio is kept under truncated/" if is_truncated else None
        ended_s = time.perf_counter()
        total_s = 0.0 if result.queued_s is None else ended_s - result.queued_s
        record = RowRecord(
            row.id,
            "ok" if error is None else "failed",
            error=error,
            finish_reason=result.finish_reason,
            voice=row.request.voice,
            seed=result.seed,
            attempts=result.attempts,
            text_chars=len(row.request.text),
            total_ms=1000 * total_s,
            request_hash=row.request_hash,
            **vars(result.work),
        )
        if path is None:
            return record
        return replace(
            record,
            path=path,
            frames=result.frames,
            audio_s=result.audio_s,
            write_ms=1000 * (ended_s - started_s),
            rtf=total_s / result.audio_s,
        )

    def _record(self, record: RowRecord, dropped_s: float = 0.0, *, is_bad: bool = False) -> None:
        self.journal.append(record)
        with self._mutex:
            totals = self.totals
            totals.decoded_s += dropped_s + record.audio_s
            totals.retried += record.attempts > 1
            if record.status == "ok":
                totals.ok += 1
                totals.frames += record.frames
                totals.audio_s += record.audio_s
            else:
                totals.failed += 1
                totals.bad_rows += is_bad
                log.warning("row %s failed: %s", record.id, record.error)
            self.on_row(totals)
