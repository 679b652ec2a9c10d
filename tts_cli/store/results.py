"""Results of rows: their journal entries, and their commits.

The files of a result are encoded and staged, and its entry is appended. Silent and invalid rows are
committed by separate threads (`committer_threads`).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace as replaced
from datetime import datetime, timedelta, timezone
from itertools import chain
from typing import Any

from msgspec.structs import replace

from tts_cli.atomic import remove_part
from tts_cli.audio.encode import encoded
from tts_cli.core import BadRow, Encoded, Result, Role, Status, Task
from tts_cli.errors import RowError, disk_full, is_disk_error
from tts_cli.store.commit import Commits, RowChange
from tts_cli.store.entry import JournalEntry, Moved, iso_time
from tts_cli.store.files import CODES_SUFFIX, AudioWriter, audio_suffix, size_and_sha256
from tts_cli.text.pauses import without_pauses

log = logging.getLogger(__name__)

COMMITTERS = 24  # threads; they wait for the disk, which syncs for many concurrently
MAX_WAITING = 256  # calls, before a further one waits


def invalid_entry(bad: BadRow, take: int, run_id: str | None) -> JournalEntry:
    known: dict[str, Any] = {}
    if bad.row is not None:
        known = {"character": bad.row.character, "extra": dict(bad.row.extra or {})}
        asked = bad.request or bad.row
        known |= {"voice": asked.voice, "language": asked.language, "instruct": asked.instruct}
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
    request, need, text = task.request, task.need, task.row.text
    return vars(spoken.work) | {
        "finish_reason": spoken.finish,
        "text": text,
        "spoken_text": None if request.text == text else request.text,
        "edits": list(task.edits),
        "text_chars": len(text),
        "voice": request.voice,
        "language": request.language,
        "instruct": request.instruct,
        "ref_sha256": None if need is None else need.ref_sha256,
        "seed": spoken.seed,
        "attempts": spoken.attempts,
        "remarks": list(spoken.remarks),
        "parts": list(spoken.parts),
    }


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
        **({} if spoken.levels is None else vars(spoken.levels)),
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


def result_entry(
    task: Task, spoken: Result, writer: AudioWriter, run_id: str | None, started_s: float
) -> JournalEntry:
    """Return the entry of a result whose files, if any, are staged now.

    Args:
        run_id: None: the results belong to no run.
        started_s: `perf_counter` when the encoded files were there.
    """
    files, request, need = spoken.encoded, task.request, task.need
    error, values = spoken.error, _result_fields(task, spoken)
    if files is not None:
        values |= _file_fields(task, spoken, files, writer)
        error = f"{error}; its audio is in truncated/" if error is not None else None
    error = spoken.unwritable or error
    now_s, started = time.perf_counter(), None
    extra = dict(task.row.extra or {})
    if task.row.lexicon is not None:  # so that a change of it is seen
        extra["lexicon"] = task.row.lexicon
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
        extra=extra,
        clone_mode=request.clone_mode or (None if need is None else need.mode),
        request_hash=task.request_hash,
        delivery_hash=writer.delivery_hash_of(task.pace),
        content_hash=task.content_hash,
        worker=spoken.worker,
        **values,
    )


def _file_fields(task: Task, spoken: Result, files: Encoded, writer: AudioWriter) -> dict[str, Any]:
    parts, applied, text = list(spoken.parts), files.applied, task.row.text
    if "[" in text:
        text = without_pauses(text)
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
        "frames_per_char": spoken.frames / max(1, len(text)),
        "audio_s": audio_s,
        **({} if spoken.levels is None else vars(spoken.levels)),
        **treated,
    }


@contextmanager
def committer_threads() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Yield a function that runs a call in another thread, so that its caller does not wait for the
    disk. The function and the end of the block raise the error of an earlier call.
    """
    waiting: deque[Future[object]] = deque()
    with ThreadPoolExecutor(COMMITTERS, "committer") as pool:

        def write(call: Callable[[], object]) -> None:
            waiting.append(pool.submit(call))
            while waiting and (waiting[0].done() or len(waiting) > MAX_WAITING):
                waiting.popleft().result()

        yield write
        for one in waiting:
            one.result()


class ResultCommits:
    """Commits results into one output folder; several threads may use it."""

    def __init__(self, commits: Commits, writer: AudioWriter, comment: str) -> None:
        self._commits = commits
        self._writer = writer
        self._comment = comment
        self._out = commits.out

    def commit(
        self, results: Sequence[tuple[Task, Result]], run_id: str | None = None
    ) -> list[JournalEntry]:
        """Commit the results of different rows with one write of the journal, and return their
        entries. A row that cannot be written is recorded as failed.

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
        """Encode and stage a row; the change may be a failure. Raises DiskFull, StoppedEarly."""
        writer = self._writer
        result = encoded(task, result, writer.make, self._comment)
        started_s = time.perf_counter()
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
        log.debug("row %s cannot be written", task.id, exc_info=True)
        result = replaced(result, samples=None, codes=None, encoded=None, unwritable=problem)
        return RowChange(result_entry(task, result, self._writer, run_id, time.perf_counter()))

    def _merged(self, entry: JournalEntry) -> JournalEntry:
        """Give an entry the current take's number if both have the same audio, byte for byte."""
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
