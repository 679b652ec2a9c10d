"""Spoken rows to files and lines of the journal. A row is recorded only when its audio is safely on
disk.
"""

from __future__ import annotations

import logging
import threading
import time
from datetime import datetime, timedelta, timezone
from typing import Any

from tts_cli import startup
from tts_cli.audio.encode import RowFiles
from tts_cli.core import Role, SpeechRow, Status
from tts_cli.errors import RowError, StoppedEarly
from tts_cli.folder.files import AudioWriter, WrittenFile
from tts_cli.folder.run_file import iso_time
from tts_cli.folder.take import Take
from tts_cli.folder.takes import Placed, TakeFolder
from tts_cli.manifest.row import BadRow
from tts_cli.text.pauses import without_pauses

log = logging.getLogger(__name__)


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


class Records:
    """Gives the rows of a run files and lines; any thread may call it. What is done with samples
    (`RowFiles`) can have been done by another process; all there is one of is in this one.

    Args:
        run_id: of the run, for its lines.
        comment: in every file, see `tags.synthetic`.
    """

    def __init__(
        self, writer: AudioWriter, takes: TakeFolder, run_id: str | None, comment: str
    ) -> None:
        self.writer = writer
        self.takes = takes
        self.journal = takes.journal
        self.run_id = run_id
        self.files = RowFiles(writer, comment)
        self.num_same = 0  # rows spoken again that came out as they were, byte for byte
        self._mutex = threading.Lock()
        self._zero = datetime.now(timezone.utc) - timedelta(seconds=time.perf_counter())

    def keep(self, row: SpeechRow) -> Take:
        """See `Folder.keep`."""
        self.files.make(row)
        record, placed = self._put(row)
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
                self.num_same += placed.is_same
        return record

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
