"""Record spoken rows: their files and their lines of the journal. A row is recorded only when its
audio is safely on disk.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

from tts_cli.audio.encode import encoded
from tts_cli.core import BadRow, Encoded, Role, Spoken, Status, Task
from tts_cli.errors import RowError, StoppedEarly
from tts_cli.store.files import AudioWriter, WrittenFile
from tts_cli.store.take import Take, iso_time
from tts_cli.store.takes import Placed, TakeFolder
from tts_cli.text.pauses import without_pauses

log = logging.getLogger(__name__)
WRITERS = 24  # threads; they wait for the disk, which syncs for many at once
MAX_WAITING = 256  # calls, before a further one waits
_ASKED = ("voice", "language", "instruct")  # of a row, and resolved of a request


def bad_record(bad: BadRow, take: int, run_id: str | None = None) -> Take:
    """The line of a row that cannot be spoken."""
    known: dict[str, Any] = {}
    if bad.row is not None:
        known = {"character": bad.row.character, "extra": dict(bad.row.extra or {})}
        known |= {name: getattr(bad.request or bad.row, name) for name in _ASKED}
    return Take(
        bad.record_id,
        Status.FAILED,
        take=take,
        error=bad.message,
        run_id=run_id,
        text=bad.text,
        text_chars=len(bad.text or ""),
        **known,
    )


def _told(task: Task, spoken: Spoken) -> dict[str, Any]:
    """Fields of a line that any speech has, whoever keeps it."""
    request, need, text = task.request, task.need, task.row.text
    return vars(spoken.work) | {
        "finish_reason": spoken.finish,
        "text": text,
        "spoken_text": None if request.text == text else request.text,
        "text_chars": len(text),
        **{name: getattr(request, name) for name in _ASKED},
        "ref_sha256": None if need is None else need.ref_sha256,
        "seed": spoken.seed,
        "attempts": spoken.attempts,
        "remarks": list(spoken.remarks),
        "parts": list(spoken.parts),
    }


def _levels(spoken: Spoken) -> dict[str, Any]:
    return {} if spoken.levels is None else vars(spoken.levels)


def unkept(task: Task, spoken: Spoken, rate_hz: int) -> Take:
    """The line of speech that no folder keeps, as far as it can be judged by it."""
    samples, is_ok = spoken.samples, spoken.error is None
    return Take(
        task.id,
        Status.OK if is_ok else Status.FAILED,
        take=task.place.take,
        role=task.place.role,
        error=spoken.error,
        frames=spoken.frames,
        audio_s=0.0 if samples is None else len(samples) / rate_hz,
        **_told(task, spoken),
        **_levels(spoken),
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


@contextmanager
def writer_threads() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Yield a function that has calls made by threads, so that its caller does not wait for the
    disk. It raises what an earlier call has raised, and so does the end.
    """
    waiting: deque[Future[object]] = deque()
    with ThreadPoolExecutor(WRITERS, "writer") as pool:

        def write(call: Callable[[], object]) -> None:
            waiting.append(pool.submit(call))
            while waiting and (waiting[0].done() or len(waiting) > MAX_WAITING):
                waiting.popleft().result()

        yield write
        for one in waiting:
            one.result()


class Records:
    """Gives the rows of a run files and lines; any thread may call it. What is done with samples
    (`audio.encode`) can have been done by another process; all there is one of is in this one.

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
        self.comment = comment
        self.num_same = 0  # rows spoken again that came out as they were, byte for byte
        self._mutex = threading.Lock()
        self._zero = datetime.now(timezone.utc) - timedelta(seconds=time.perf_counter())

    def keep(self, task: Task, spoken: Spoken) -> Take:
        """See `Folder.keep`."""
        spoken = encoded(task, spoken, self.writer.make, self.comment)
        record, placed = self._put(task, spoken)
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
            with self._mutex:
                self.num_same += placed.is_same
        return record

    def _put(self, task: Task, spoken: Spoken) -> tuple[Take, Placed | None]:
        """Give a task's files their names, if there are any, and describe what happened."""
        error, placed = spoken.error, None
        place, files, request = task.place, spoken.encoded, task.request
        values = _told(task, spoken)
        started_s = time.perf_counter()
        if files is not None:
            is_truncated = error is not None
            try:
                if is_truncated:
                    file = self.writer.put(task.id, files, True, place.file_take(True))
                else:
                    placed = self.takes.put(self.writer, task.id, files, place)
                    file, place = placed.file, placed.place
            except RowError as problem:
                log.debug("row %s cannot be written", task.id, exc_info=True)
                error = str(problem)
            else:
                error = f"{error}; its audio is in truncated/" if is_truncated else None
                write_ms = spoken.encode_ms + 1000 * (time.perf_counter() - started_s)
                values |= self._of_file(task, spoken, files, file, write_ms)
        error = spoken.unwritable or error
        queued_s, need = spoken.queued_s, task.need
        record = Take(
            task.id,
            Status.OK if error is None else Status.FAILED,
            take=place.take,
            role=place.role,
            error=error,
            run_id=self.run_id,
            started=None if queued_s is None else self._time(queued_s),
            character=task.row.character,
            extra=dict(task.row.extra or {}),
            clone_mode=request.clone_mode or (None if need is None else need.mode),
            latency_ms=0.0 if queued_s is None else 1000 * (time.perf_counter() - queued_s),
            request_hash=task.request_hash,
            delivery_hash=self.writer.delivery_hash,
            content_hash=task.content_hash,
            worker=spoken.worker,
            **values,
        )
        return record, placed

    def _of_file(
        self, task: Task, spoken: Spoken, files: Encoded, file: WrittenFile, write_ms: float
    ) -> dict[str, Any]:
        """Fields of a line that tell of a file: its audio, and what was done to it."""
        parts, applied, work = list(spoken.parts), files.applied, spoken.work
        audio_s = files.num_samples / self.writer.native_rate_hz
        treated: dict[str, Any] = {}
        if applied is not None:
            audio_s += applied.added_s
            treated = {
                "applied": applied.as_dict(),
                "remarks": [*spoken.remarks, *files.remarks],
                "parts": moved(parts, applied.start_shift_s, audio_s),
            }
        own_ms = work.prefill_ms + work.decode_ms + work.vocoder_ms + write_ms
        return {
            "path": file.path,
            "bytes": file.bytes,
            "sha256": file.sha256,
            "sample_rate_hz": self.writer.rate_hz,
            "frames": spoken.frames,
            "frames_per_char": spoken.frames / max(1, len(without_pauses(task.row.text))),
            "audio_s": audio_s,
            "write_ms": write_ms,
            "rtf": own_ms / 1000 / audio_s,
            **_levels(spoken),
            **treated,
        }

    def _time(self, counted_s: float) -> str:
        """A reading of `perf_counter` as UTC, ISO 8601."""
        return iso_time(self._zero + timedelta(seconds=counted_s))
