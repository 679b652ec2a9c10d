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
        record = self._deliver(result)
        self.journal.append(record)
        self._count(record, dropped_s=result.dropped_s)

    def fail(self, row: BadRow) -> None:
        """Record a row that cannot be spoken. Raises DiskFull."""
        record = RowRecord(row.record_id, "failed", error=row.message)
        self.journal.append(record)
        self._count(record, is_bad=True)

    def _deliver(self, result: Result) -> RowRecord:
        started_s = time.perf_counter()
        queued_s = started_s if result.queued_s is None else result.queued_s
        record = record_of(result, 1000 * (started_s - queued_s))
        if result.samples is None:
            return record
        is_truncated = result.error is not None
        try:
            path = self.writer.write(result.row.id, result.samples, result.codes, is_truncated)
        except RowError as error:
            return replace(record, error=str(error))
        ended_s = time.perf_counter()
        total_s = ended_s - queued_s
        return replace(
            record,
            status="failed" if is_truncated else "ok",
            error=f"{result.error}; its audio is kept under truncated/" if is_truncated else None,
            path=path,
            frames=result.frames,
            audio_s=result.audio_s,
            vocoder_ms=result.vocoder_ms,
            write_ms=1000 * (ended_s - started_s),
            total_ms=1000 * total_s,
            rtf=total_s / result.audio_s,
        )

    def _count(self, record: RowRecord, *, dropped_s: float = 0.0, is_bad: bool = False) -> None:
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


def record_of(result: Result, total_ms: float) -> RowRecord:
    """The record of a result of which nothing is on disk."""
    request = result.row.request
    return RowRecord(
        result.row.id,
        "failed",
        error=result.error,
        finish_reason=result.finish_reason,
        voice=request.voice,
        seed=result.seed,
        attempts=result.attempts,
        text_chars=len(request.text),
        prompt_tokens=result.prompt_tokens,
        bucket=result.bucket,
        queue_ms=result.queue_ms,
        reference_ms=result.reference_ms,
        prefill_ms=result.prefill_ms,
        decode_ms=result.decode_ms,
        total_ms=total_ms,
        request_hash=result.row.request_hash,
    )
