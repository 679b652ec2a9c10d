"""Journal entries of results, and the threads that write them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

from tts_cli.core import BadRow, Encoded, Result, Row, Status, Task
from tts_cli.store.entry import JournalEntry, iso_time
from tts_cli.store.files import AudioWriter
from tts_cli.text.pauses import without_pauses

WRITERS = 24  # threads; they wait for the disk, which syncs for many concurrently
MAX_WAITING = 256  # calls, before a further one waits
_ASKED = ("voice", "language", "instruct")  # of a row, and resolved of a request


def invalid_entry(bad: BadRow, take: int, run_id: str | None = None) -> JournalEntry:
    """Return the entry of a row that cannot be synthesized."""
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


def extra_of(row: Row) -> dict[str, Any]:
    """Return the extra columns of a row, and its own lexicon, so that a change of it is seen."""
    own = {} if row.lexicon is None else {"lexicon": row.lexicon}
    return {**(row.extra or {}), **own}


def _result_fields(task: Task, spoken: Result) -> dict[str, Any]:
    """Return the fields of any result, in a folder or not."""
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
    """Return the entry of a result that no folder stores, with the fields that checks need."""
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


def moved(
    parts: list[dict[str, Any]], by_s: float, audio_s: float, scale: float = 1.0
) -> list[dict[str, Any]]:
    """Return parts with their times in audio that was stretched by a factor, and then shifted."""
    if not by_s and scale == 1:
        return parts
    return [
        part
        | {
            name: round(min(audio_s, max(0.0, part[name] * scale + by_s)), 6)
            for name in ("start_s", "end_s")
        }
        for part in parts
    ]


@contextmanager
def writer_threads() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Yield a function that lets writer threads make a call, so that its caller does not wait for
    the disk. The function and the end of the block raise the error of an earlier call.
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


def result_entry(
    task: Task, spoken: Result, writer: AudioWriter, run_id: str | None, started_s: float
) -> JournalEntry:
    """Return the entry of a result whose files, if it has any, are staged now.

    Args:
        writer: of the files.
        run_id: None: the results belong to no run.
        started_s: `perf_counter` when the encoding of the files began.
    """
    files, request, need = spoken.encoded, task.request, task.need
    error, values = spoken.error, _result_fields(task, spoken)
    if files is not None:
        values |= _file_fields(task, spoken, files, writer)
        error = f"{error}; its audio is in truncated/" if error is not None else None
    error = spoken.unwritable or error
    now_s, started = time.perf_counter(), None
    if spoken.queued_s is not None:
        latency_s = now_s - spoken.queued_s
        started = iso_time(datetime.now(timezone.utc) - timedelta(seconds=latency_s))
        values["latency_ms"] = 1000 * latency_s
    if audio_s := values.get("audio_s"):
        values["write_ms"] = spoken.encode_ms + 1000 * (now_s - started_s)
        work_ms = values["prefill_ms"] + values["decode_ms"] + values["vocoder_ms"]
        values["rtf"] = (work_ms + values["write_ms"]) / 1000 / audio_s
    return JournalEntry(
        task.id,
        Status.OK if error is None else Status.FAILED,
        take=task.place.take,
        role=task.place.role,
        error=error,
        run_id=run_id,
        started=started,
        character=task.row.character,
        extra=extra_of(task.row),
        clone_mode=request.clone_mode or (None if need is None else need.mode),
        request_hash=task.request_hash,
        delivery_hash=writer.delivery_hash_of(task.pace),
        content_hash=task.content_hash,
        worker=spoken.worker,
        **values,
    )


def _file_fields(task: Task, spoken: Result, files: Encoded, writer: AudioWriter) -> dict[str, Any]:
    """Return the fields that describe a file: its audio, and its post-processing."""
    parts, applied = list(spoken.parts), files.applied
    audio_s = files.num_samples / writer.native_rate_hz
    treated: dict[str, Any] = {}
    if applied is not None:
        audio_s = applied.length_s(audio_s)
        treated = {
            "applied": applied.as_dict(),
            "remarks": [*spoken.remarks, *files.remarks],
            "parts": moved(parts, applied.start_shift_s, audio_s, 1 / applied.speed),
        }
    is_truncated = spoken.error is not None
    return {
        "path": writer.name_of(task.id, writer.suffix, is_truncated, task.place.file_take),
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
