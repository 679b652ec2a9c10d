"""Journal entries of results: which fields they have, and when the writer threads make them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from datetime import datetime, timedelta, timezone
from typing import Any

from msgspec.structs import replace

from tts_cli.core import BadRow, Encoded, Result, Status, Task
from tts_cli.store.entry import JournalEntry, iso_time
from tts_cli.store.files import AudioWriter
from tts_cli.text.pauses import without_pauses

WRITERS = 24  # threads; they wait for the disk, which syncs for many concurrently
MAX_WAITING = 256  # calls, before a further one waits
_ASKED = ("voice", "language", "instruct")  # of a row, and resolved of a request


def invalid_entry(bad: BadRow, take: int, run_id: str | None = None) -> JournalEntry:
    """The entry of a row that cannot be synthesized."""
    known: dict[str, Any] = {}
    if bad.row is not None:
        known = {"character": bad.row.character, "extra": dict(bad.row.extra or {})}
        known |= {name: getattr(bad.request or bad.row, name) for name in _ASKED}
    return JournalEntry(
        bad.record_id,
        Status.FAILED,
        take=take,
        error=bad.message,
        run_id=run_id,
        text=bad.text,
        text_chars=len(bad.text or ""),
        **known,
    )


def _result_fields(task: Task, spoken: Result) -> dict[str, Any]:
    """Fields that any result has, in a folder or not."""
    request, need, text = task.request, task.need, task.row.text
    return vars(spoken.work) | {
        "finish_reason": spoken.finish,
        "text": text,
        "spoken_text": None if request.text == text else request.text,
        "edits": list(task.edits),
        "text_chars": len(text),
        **{name: getattr(request, name) for name in _ASKED},
        "ref_sha256": None if need is None else need.ref_sha256,
        "seed": spoken.seed,
        "attempts": spoken.attempts,
        "remarks": list(spoken.remarks),
        "parts": list(spoken.parts),
    }


def _levels(spoken: Result) -> dict[str, Any]:
    return {} if spoken.levels is None else vars(spoken.levels)


def unstored_entry(task: Task, spoken: Result, rate_hz: int) -> JournalEntry:
    """The entry of a result that no folder stores, as far as it can be judged by it."""
    samples, is_ok = spoken.samples, spoken.error is None
    return JournalEntry(
        task.id,
        Status.OK if is_ok else Status.FAILED,
        take=task.place.take,
        role=task.place.role,
        error=spoken.error,
        frames=spoken.frames,
        audio_s=0.0 if samples is None else len(samples) / rate_hz,
        **_result_fields(task, spoken),
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


@dataclass(frozen=True)
class Entries:
    """Makes the entries of a run's results.

    Args:
        run_id: of the run; None: it has none.
    """

    writer: AudioWriter
    run_id: str | None
    _zero: datetime = field(
        default_factory=lambda: datetime.now(timezone.utc) - timedelta(seconds=time.perf_counter())
    )

    def of(self, task: Task, spoken: Result) -> JournalEntry:
        """The entry of a result whose files are encoded; `write_ms` is not known yet."""
        files, request, need = spoken.encoded, task.request, task.need
        error, values = spoken.error, _result_fields(task, spoken)
        if files is not None:
            values |= self._of_file(task, spoken, files)
            error = f"{error}; its audio is in truncated/" if error is not None else None
        error = spoken.unwritable or error
        queued_s = spoken.queued_s
        return JournalEntry(
            task.id,
            Status.OK if error is None else Status.FAILED,
            take=task.place.take,
            role=task.place.role,
            error=error,
            run_id=self.run_id,
            started=None if queued_s is None else self._time(queued_s),
            character=task.row.character,
            extra=dict(task.row.extra or {}),
            clone_mode=request.clone_mode or (None if need is None else need.mode),
            request_hash=task.request_hash,
            delivery_hash=self.writer.delivery_hash,
            content_hash=task.content_hash,
            worker=spoken.worker,
            **values,
        )

    def failed(self, task: Task, spoken: Result, error: str) -> JournalEntry:
        """The entry of a result whose files cannot be written."""
        return self.of(task, replaced(spoken, encoded=None, unwritable=error))

    def timed(self, take: JournalEntry, spoken: Result, started_s: float) -> JournalEntry:
        """The entry with its times, when its files are staged.

        Args:
            started_s: `perf_counter` when that began.
        """
        now_s = time.perf_counter()
        latency_ms = 0.0 if spoken.queued_s is None else 1000 * (now_s - spoken.queued_s)
        if not take.audio_s:
            return replace(take, latency_ms=latency_ms)
        write_ms = spoken.encode_ms + 1000 * (now_s - started_s)
        own_ms = take.prefill_ms + take.decode_ms + take.vocoder_ms + write_ms
        rtf = own_ms / 1000 / take.audio_s
        return replace(take, latency_ms=latency_ms, write_ms=write_ms, rtf=rtf)

    def _of_file(self, task: Task, spoken: Result, files: Encoded) -> dict[str, Any]:
        """Fields that describe a file: its audio, and what was done to it."""
        writer, parts, applied = self.writer, list(spoken.parts), files.applied
        audio_s = files.num_samples / writer.native_rate_hz
        treated: dict[str, Any] = {}
        if applied is not None:
            audio_s += applied.added_s
            treated = {
                "applied": applied.as_dict(),
                "remarks": [*spoken.remarks, *files.remarks],
                "parts": moved(parts, applied.start_shift_s, audio_s),
            }
        is_truncated = spoken.error is not None
        take = task.place.file_take
        return {
            "path": writer.name_of(task.id, writer.suffix, is_truncated, take),
            "bytes": files.num_bytes,
            "sha256": files.sha256,
            "codes_sha256": files.codes_sha256,
            "sample_rate_hz": writer.rate_hz,
            "frames": spoken.frames,
            "frames_per_char": spoken.frames / max(1, len(without_pauses(task.row.text))),
            "audio_s": audio_s,
            **_levels(spoken),
            **treated,
        }

    def _time(self, counted_s: float) -> str:
        """A reading of `perf_counter` as UTC, ISO 8601."""
        return iso_time(self._zero + timedelta(seconds=counted_s))
