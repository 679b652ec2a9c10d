"""Spoken rows to files, lines of the journal and sums. A row is recorded only when its audio is
safely on disk.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from tts_cli import startup
from tts_cli.audio.encode import RowFiles
from tts_cli.core import Finish, Role, SpeechRow, Status
from tts_cli.errors import RowError, StoppedEarly
from tts_cli.folder.files import AudioWriter, WrittenFile
from tts_cli.folder.journal import Journal
from tts_cli.folder.run_file import Totals, iso_time
from tts_cli.folder.take import Take
from tts_cli.folder.takes import Placed, TakeFolder
from tts_cli.manifest.row import BadRow
from tts_cli.text.pauses import without_pauses

log = logging.getLogger(__name__)

MAX_REMEMBERED = 5


@dataclass
class Failures:
    """Rows that failed in this run; those that are bad in the manifest are not among them."""

    count: int = 0
    extras: int = 0  # of those, takes beside a row's own file
    runaways: int = 0  # of those, whose speech came to no end that can be right
    first: list[tuple[str, str]] = field(default_factory=list)  # id and reason of a few

    def add(self, record: Take) -> None:
        """Take in a row."""
        self.count += 1
        self.extras += record.role is Role.EXTRA
        self.runaways += record.is_runaway
        if len(self.first) < MAX_REMEMBERED:
            self.first.append((_name(record), record.error or ""))


def _name(record: Take) -> str:
    """What messages call a row, or a take of it."""
    return f"{record.id}, take {record.take}" if record.role is Role.EXTRA else record.id


def bad_record(row: BadRow, run_id: str | None = None) -> Take:
    """The line of a row that cannot be spoken."""
    return Take(
        row.record_id,
        Status.FAILED,
        error=row.message,
        run_id=run_id,
        text=row.text,
        text_chars=len(row.text or ""),
    )


def moved(parts: list[dict[str, Any]], by_s: float, audio_s: float) -> list[dict[str, Any]]:
    """Parts in audio whose beginning was moved."""
    if not by_s:
        return parts
    return [
        part
        | {
            name: round(min(audio_s, max(0.0, part[name] + by_s)), 6)
            for name in ("start_s", "end_s")
        }
        for part in parts
    ]


class Recorder:
    """Takes the rows of a run at their ends; any thread may call it. What is done with samples
    (`RowFiles`) can have been done by another process; all there is one of is in this one.

    Args:
        run_id: of the run, for its lines; None: nothing is spoken.
        frame_s: seconds of audio in a frame.
        totals: are counted up, under a lock of the recorder's.
        on_row: called after every row, under the same lock.
        failures_allowed: rows that may fail, beside those known to be bad; None: all.
        extras: takes that are spoken of each row beside its own.
        comment: in every file, see `tags.synthetic`.
    """

    def __init__(
        self,
        writer: AudioWriter,
        journal: Journal,
        run_id: str | None,
        frame_s: float,
        totals: Totals,
        on_row: Callable[[Totals], None],
        failures_allowed: int | None = None,
        extras: int = 0,
        *,
        comment: str = "",
    ) -> None:
        self.writer = writer
        self.journal = journal
        self.run_id = run_id
        self.frame_s = frame_s
        self.totals = totals
        self.on_row = on_row
        self.failures_allowed = failures_allowed
        self.files = RowFiles(writer, comment)
        self.failures = Failures()
        self.takes = TakeFolder(writer.out, journal, extras)
        self.num_same = 0  # rows spoken again that came out as they were, byte for byte
        self._mutex = threading.Lock()
        self._zero = datetime.now(timezone.utc) - timedelta(seconds=time.perf_counter())

    def take(self, row: SpeechRow) -> None:
        """Make a row's files and record it.

        Raises:
            DiskFull: nothing more can be written.
            StoppedEarly: this failure is one too many.
        """
        self.files.make(row)
        self.put(row)

    def put(self, row: SpeechRow) -> None:
        """Give a row's files, once made, their names, and record it. Raises as `take`."""
        record, placed = self._put(row)
        self._record(record, placed, row.frames_dropped * self.frame_s, row.expected_s)

    def fail(self, row: BadRow) -> None:
        """Record a row that cannot be spoken. Raises DiskFull."""
        self._record(bad_record(row, self.run_id), is_bad=True, is_told=not row.is_late)

    def _put(self, row: SpeechRow) -> tuple[Take, Placed | None]:
        """Give a row's files their names, if there are any, and describe what happened."""
        error, file, placed = row.error, None, None
        place, made = row.place, row.made
        started_s = time.perf_counter()
        if made is not None:
            is_truncated = error is not None
            try:
                if is_truncated:
                    file = self.writer.put(row.id, made, True, place.file_take(True))
                else:
                    placed = self.takes.put(self.writer, row.id, made, place)
                    file, place = placed.file, placed.place
            except RowError as problem:
                log.debug("row %s cannot be written", row.id, exc_info=True)
                error = str(problem)
            else:
                error = f"{error}; its audio is kept under truncated/" if is_truncated else None
        error = row.unwritable or error
        ended_s = time.perf_counter()
        write_ms = row.make_ms + 1000 * (ended_s - started_s)
        request = row.request
        text = request.text if row.reading is None else row.reading.written
        values = vars(row.work) | {"remarks": row.remarks, "parts": row.part_records}
        if file is not None:
            assert made is not None
            values |= self._of_file(row, file, made.num_samples, text, write_ms)
        record = Take(
            row.id,
            Status.OK if error is None else Status.FAILED,
            take=place.take,
            role=place.role,
            error=error,
            finish_reason=row.finish_reason,
            run_id=self.run_id,
            started=None if row.queued_s is None else self._time(row.queued_s),
            text=text,
            spoken_text=None if row.reading is None else request.text,
            text_chars=len(text),
            character=row.character,
            extra=dict(row.extra or {}),
            voice=request.voice,
            language=request.language,
            instruct=request.instruct,
            ref_sha256=None if row.need is None else row.need.ref_sha256,
            clone_mode=request.clone_mode if request.clone is None else request.clone.mode,
            seed=row.seed,
            attempts=row.attempts,
            latency_ms=0.0 if row.queued_s is None else 1000 * (ended_s - row.queued_s),
            request_hash=row.request_hash,
            delivery_hash=self.writer.delivery_hash,
            content_hash=row.content_hash,
            worker=row.worker,
            **values,
        )
        return record, placed

    def _of_file(
        self, row: SpeechRow, file: WrittenFile, num_samples: int, text: str, write_ms: float
    ) -> dict[str, Any]:
        """Fields of a line that tell of a row's file: its audio, and what was done to it.

        Args:
            num_samples: that were spoken; parts have pauses between them.
        """
        audio_s = num_samples / self.writer.native_rate_hz
        treated: dict[str, Any] = {}
        if (applied := file.applied) is not None:
            audio_s += applied.added_s
            treated = {
                "applied": applied.as_dict(),
                "remarks": row.remarks + self.writer.treatment.misses(applied),
                "parts": moved(row.part_records, applied.start_shift_s, audio_s),
            }
        work = row.work
        own_ms = work.prefill_ms + work.decode_ms + work.vocoder_ms + write_ms
        return {
            "path": file.path,
            "bytes": file.bytes,
            "sha256": file.sha256,
            "sample_rate_hz": self.writer.rate_hz,
            "frames": row.frames,
            "frames_per_char": row.frames / max(1, len(without_pauses(text))),
            "audio_s": audio_s,
            "write_ms": write_ms,
            "rtf": own_ms / 1000 / audio_s,
            **({} if row.levels is None else vars(row.levels)),
            **treated,
        }

    def _time(self, counted_s: float) -> str:
        """A reading of `perf_counter` as UTC, ISO 8601."""
        return iso_time(self._zero + timedelta(seconds=counted_s))

    def _record(
        self,
        record: Take,
        placed: Placed | None = None,
        dropped_s: float = 0.0,
        expected_s: float = 0.0,
        *,
        is_bad: bool = False,
        is_told: bool = False,
    ) -> None:
        try:
            self.journal.append(*(() if placed is None else placed.first), record)
        except StoppedEarly:
            if placed is not None:
                self.takes.take_back(self.writer, record.id, placed)
            elif record.path is not None:
                take = record.take if record.role is Role.EXTRA else None
                self.writer.remove(record.id, is_truncated=True, take=take)
            raise
        if placed is not None:
            self.takes.settle(record.id, placed)
            startup.reach("first_row_s")
        with self._mutex:
            totals = self.totals
            totals.decoded_s += dropped_s + record.audio_s
            totals.retried += record.attempts > 1
            self.num_same += placed is not None and placed.is_same
            is_extra = record.role is Role.EXTRA
            if record.is_ok:
                totals.ok += not is_extra
                totals.takes += is_extra
                totals.frames += record.frames
                totals.audio_s += record.audio_s
                totals.expected_s += expected_s
                totals.wordless += record.finish_reason is Finish.WORDLESS
                totals.suspect += bool(record.remarks)
                log.debug(
                    "row %s: %.2f s of audio, %s, attempt %d, %s",
                    _name(record),
                    record.audio_s,
                    record.finish_reason,
                    record.attempts,
                    ", ".join(record.suspect) or "nothing suspect",
                )
            else:
                totals.failed += 1
                totals.bad_rows += is_bad
                if not is_told:
                    self.failures.add(record)
                    log.warning("row %s failed: %s", _name(record), record.error)
            self.on_row(totals)
            self._look_at_failures(is_bad)

    def _look_at_failures(self, is_bad: bool) -> None:
        """Stop where everything fails. Raises StoppedEarly."""
        failed = self.totals.failed - self.totals.bad_rows
        if is_bad or self.failures_allowed is None or failed <= self.failures_allowed:
            return
        raise StoppedEarly(
            f"{failed} rows have failed, more than --max-failures allows",
            remedy="see what the last ones say above, and run the same command again",
        )
