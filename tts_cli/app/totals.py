"""Commit the results of a run's rows, count them, and total the counts for run.json."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tts_cli import startup
from tts_cli.core import BadRow, Finish, Result, Role, Task
from tts_cli.engine.session import SessionFacts
from tts_cli.errors import DiskFull, StoppedEarly
from tts_cli.events import Event, Events
from tts_cli.named import counted
from tts_cli.store.entry import JournalEntry
from tts_cli.store.run_file import rounded
from tts_cli.store.store import Store

if TYPE_CHECKING:
    from tts_cli.plan.strays import Strays

log = logging.getLogger(__name__)

Hook = Callable[[Task, Result, JournalEntry], None]  # after the commit of a task's result

_OK = (Event.SYNTHESIZED, Event.TAKE, Event.RETAKE)
_ALL = (*_OK, Event.FAILED, Event.FAILED_RETAKE)


def run_totals(
    events: Events,
    facts: SessionFacts | None = None,
    *,
    wall_s: float = 0.0,
    is_interrupted: bool = False,
    strays: Strays | None = None,
) -> dict[str, Any]:
    """Return the totals of a run, as run.json has them.

    Args:
        facts: of the session; None: no model was opened.
        wall_s: time for synthesizing and writing, without loading and capture.
        strays: rows that the manifest no longer has; None: the run did not look for them.
    """
    num, facts = events.num, facts or SessionFacts()

    def total(fact: str, *kinds: Event) -> float:
        return sum(events.total(kind, fact) for kind in kinds)

    planned = (Event.PENDING, Event.FAILING, Event.DONE, Event.CONVERTED, Event.NOT_CONVERTED)
    audio_s = total("audio_s", *_OK)
    decoded_s = total("audio_s", *_ALL) + total("dropped_s", *_ALL)
    has_speed = bool(wall_s and audio_s)
    totals = {
        "rows": sum(map(num, planned)),  # [rows] selected rows, including invalid and skipped ones
        # [rows] rows that were synthesized
        "ok": num(Event.SYNTHESIZED) + num(Event.FIXED),
        # [takes] takes synthesized in addition to the rows' own
        "takes": num(Event.TAKE) + int(total("is_extra", Event.RETAKE)),
        "failed": num_failed(events),  # [rows] rows that failed, including invalid ones
        "skipped": num(Event.DONE),  # [rows] rows that were already done
        # [rows] rows whose files were converted from audio or codes in the folder, without
        # synthesis
        "remade": num(Event.CONVERTED),
        # [rows] rows of the folder that are no longer in the manifest; not in any other total
        # (since 0.4)
        "strays": 0 if strays is None else strays.left.count,
        # [rows] the `strays` that this run removed with `--prune` (since 0.4)
        "removed": 0 if strays is None else strays.removed,
        # [rows] rows that needed more than one attempt
        "retried": int(total("is_retried", *_ALL)),
        # [frames] frames of the audio, without retries
        "frames": int(total("frames", *_OK)),
        "audio_s": audio_s,  # [s] length of the audio, without retries
        # [s] usual length of the audio for these texts; 0: not known
        "expected_s": float(total("expected_s", *_OK)),
        # [rows] ok rows without a letter or digit, whose audio is silence
        "wordless": int(total("is_silent", Event.SYNTHESIZED, Event.TAKE)),
        # [rows] ok rows that were flagged as suspect
        "suspect": int(total("is_suspect", Event.SYNTHESIZED, Event.TAKE)),
        # [s] length of all generated audio, including runaways and retries
        "decoded_s": decoded_s,
        "wall_s": wall_s,  # [s] time for synthesizing and writing
        "load_s": facts.load_s,  # [s] time to load the checkpoint, not in `wall_s`
        # [s] time to allocate slots and capture graphs, not in `wall_s`
        "capture_s": facts.capture_s,
        # [number] reference recordings that were encoded; several rows may use one
        "references": facts.references,
        # [ms] time to encode the recordings, on the device
        "reference_ms": facts.reference_ms,
        # [ms] time to read, check and resample the recordings, while the device works
        "reference_load_ms": facts.reference_load_ms,
        "graph_hits": facts.graph_hits,  # [steps] steps that used a graph
        "graph_misses": facts.graph_misses,  # [steps] steps that had no graph
        # [bytes] peak memory of the device; null: not measured
        "peak_memory_bytes": facts.peak_memory_bytes,
        # [true, false] whether the run was stopped early
        "is_interrupted": is_interrupted,
        # [rows] failed rows that were never synthesized, because they are invalid in the manifest
        "bad_rows": num(Event.RECORDED_INVALID) + int(total("is_late", Event.FAILED)),
        # [object] number of steps without a graph, by kind
        "graph_misses_by": facts.graph_misses_by,
        # [s per s] `audio_s` / `wall_s`, the effective speed; higher is better.
        "xrt": audio_s / wall_s if has_speed else None,
        # [s per s] `decoded_s` / `wall_s`.
        "total_xrt": decoded_s / wall_s if wall_s and decoded_s else None,
        # [s per s] `wall_s` / `audio_s`; lower is better.
        "rtf": wall_s / audio_s if has_speed else None,
    }
    return {name: rounded(value) for name, value in totals.items()}


def num_failed(events: Events) -> int:
    """Return the number of rows that have failed so far, including invalid ones."""
    num = events.num
    return num(Event.FAILED) + num(Event.RECORDED_INVALID) - num(Event.FIXED)


def log_result(task: Task, result: Result, take: JournalEntry) -> None:
    """Log the result of a row, a failure as a warning. A hook of a run."""
    if not take.is_ok:
        log.warning("row %s failed: %s", take.shown, take.error)
    elif log.isEnabledFor(logging.DEBUG):
        suspect = ", ".join(take.suspect) or "nothing suspect"
        facts = f"{take.audio_s:.2f} s of audio, {take.finish_reason}, attempt {take.attempts}"
        log.debug("row %s: %s, %s", take.shown, facts, suspect)


class ResultRecorder:
    """Commits the results of a run's rows and counts them. Any thread may call it.

    Args:
        folder: open.
        frame_s: seconds of audio per frame.
        failures_allowed: rows that may fail besides the invalid ones; None: all.
        hooks: called after every commit, from one thread at a time.
        is_retake: rows are synthesized once more, so failures were counted before.
    """

    def __init__(
        self,
        folder: Store,
        frame_s: float,
        events: Events,
        failures_allowed: int | None = None,
        hooks: Sequence[Hook] = (log_result,),
        *,
        is_retake: bool = False,
    ) -> None:
        self.on_row: Callable[[int, int, float], None] = lambda *_: None  # see `Progress.update`
        self._folder, self._results = folder, folder.results
        self._frame_s = frame_s
        self._events = events
        self._failures_allowed = failures_allowed
        self._hooks = hooks
        self._is_retake = is_retake
        self._num_ended, self._num_failed, self._audio_s = 0, 0, 0.0
        self._mutex = threading.RLock()  # guards the counts, the hooks and `on_row`

    def keep(self, results: Sequence[tuple[Task, Result]]) -> None:
        """Commit the results of tasks, in one commit if possible. Raises DiskFull, and StoppedEarly
        if more rows failed than are allowed.
        """
        try:
            takes = self._results.commit(results, self._folder.run_id)
        except DiskFull:
            if len(results) == 1:
                raise
            for one in results:  # there may be space for some of them
                self.keep([one])
            return
        with self._mutex:
            for (task, result), take in zip(results, takes, strict=True):
                self._count(task, result, take)

    def _count(self, task: Task, result: Result, take: JournalEntry) -> None:
        """Count a committed result. The caller holds the mutex."""
        dropped_s = result.frames_dropped * self._frame_s
        if self._is_retake:
            kind = Event.RETAKE if take.is_ok else Event.FAILED_RETAKE
        elif take.is_ok:
            kind = Event.TAKE if take.role is Role.EXTRA else Event.SYNTHESIZED
        else:
            kind = Event.FAILED
        add_result(self._events, kind, take, dropped_s=dropped_s, expected_s=result.usual_s)
        if not self._audio_s:
            startup.reach("first_row_s")
        for hook in self._hooks:
            hook(task, result, take)
        self._show_row(is_ok=take.is_ok, audio_s=take.audio_s)
        if self._failures_allowed is not None:
            self._require_few_failures(self._failures_allowed)

    def fail(self, row: BadRow) -> None:
        """Commit that a row cannot be synthesized, unless it is recorded. Raises DiskFull."""
        take = None if self.is_recorded(row) else self._folder.commit_failure(row)
        with self._mutex:
            if row.is_late and take is not None:  # else the check of the manifest reported it
                add_result(self._events, Event.FAILED, take, is_late=True)
                log.warning("row %s failed: %s", take.shown, take.error)
            else:
                self._events.add(Event.RECORDED_INVALID)
            self._show_row(is_ok=False)

    def is_recorded(self, row: BadRow) -> bool:
        journal, row_id = self._folder.journal, row.record_id
        known = journal.row(row_id)
        take = journal.take(row_id, known.take_to_write()) if known.has_failed else None
        return take is not None and take.is_unsampled and take.text == row.text

    def _show_row(self, *, is_ok: bool, audio_s: float = 0.0) -> None:
        self._num_ended += 1
        self._num_failed += not is_ok
        self._audio_s += audio_s * is_ok
        self.on_row(self._num_ended, self._num_failed, self._audio_s)

    def _require_few_failures(self, allowed: int) -> None:
        failed = self._events.num(Event.FAILED) - int(self._events.total(Event.FAILED, "is_late"))
        if failed > allowed:
            rows = counted(failed, "row has", "rows have")
            raise StoppedEarly(
                f"{rows} failed, more than --max-failures allows",
                "see the last errors above, and run the same command again",
            )


def add_result(
    events: Events, kind: Event, take: JournalEntry, *, is_late: bool = False, **seconds: float
) -> None:
    """Count a result. Failed rows and takes are separate groups, so that their reasons are known.

    Args:
        is_late: the row cannot be synthesized, and the check of the manifest did not detect that.
        seconds: dropped_s, of generated audio that was discarded; expected_s, usual for the text.
    """
    is_failed = kind is Event.FAILED
    numbers = {
        "frames": take.frames,
        "audio_s": take.audio_s,
        "is_retried": take.attempts > 1,
        "is_extra": take.role is Role.EXTRA,
        "is_silent": take.finish_reason is Finish.WORDLESS,
        "is_suspect": bool(take.remarks),
        "is_runaway": take.is_runaway,
        "is_unsampled": take.is_unsampled,
        "is_late": is_late,
    }
    name, facts = take.shown, {"reason": take.error or ""}
    events.add(kind, name, group=name if is_failed else "", facts=facts, numbers=numbers | seconds)
