"""Count what came of the rows of a run, report it, and say whether too many have failed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from tts_cli import startup
from tts_cli.core import BadRow, Finish, Role, Spoken, Task
from tts_cli.engine.session import SessionFacts
from tts_cli.errors import StoppedEarly
from tts_cli.events import Event
from tts_cli.named import counted
from tts_cli.plan.plan import Plan
from tts_cli.plan.strays import Strays
from tts_cli.store.entry import JournalEntry
from tts_cli.store.run_file import rounded
from tts_cli.store.store import Store

log = logging.getLogger(__name__)

MAX_REMEMBERED = 5
LENGTH_SLACK_S = 5.0


@dataclass
class Totals:
    """Sums over a run. Load, capture and wall time are apart: wall_s is speaking and writing.

    While rows are spoken `RunTally` counts under its lock; before and after the
    command's own thread fills in the rest.
    """

    rows: int = 0  # [rows] selected rows, including invalid and skipped ones
    ok: int = 0  # [rows] rows that were synthesized
    takes: int = 0  # [takes] takes synthesized in addition to the rows' own
    failed: int = 0  # [rows] rows that failed, including invalid ones
    skipped: int = 0  # [rows] rows that were already done
    # [rows] rows whose files were converted from audio or codes in the folder, without synthesis
    remade: int = 0
    # [rows] rows of the folder that are no longer in the manifest; not in any other total (since
    # 0.4)
    strays: int = 0
    removed: int = 0  # [rows] the `strays` that this run removed with `--prune` (since 0.4)
    retried: int = 0  # [rows] rows that needed more than one attempt
    frames: int = 0  # frames of the audio, without retries
    audio_s: float = 0.0  # length of the audio, without retries
    expected_s: float = 0.0  # usual length of the audio for these texts; 0: not known
    wordless: int = 0  # [rows] ok rows without a letter or digit, whose audio is silence
    suspect: int = 0  # [rows] ok rows that were flagged as suspect
    decoded_s: float = 0.0  # length of all generated audio, including runaways and retries
    wall_s: float = 0.0  # time for synthesizing and writing
    load_s: float = 0.0  # time to load the checkpoint, not in `wall_s`
    capture_s: float = 0.0  # time to allocate slots and capture graphs, not in `wall_s`
    references: int = 0  # [number] reference recordings that were encoded; several rows may use one
    reference_ms: float = 0.0  # time to encode the recordings, on the device
    # time to read, check and resample the recordings, while the device works
    reference_load_ms: float = 0.0
    graph_hits: int = 0  # [steps] steps that used a graph
    graph_misses: int = 0  # [steps] steps that had no graph
    peak_memory_bytes: int | None = None  # peak memory of the device; null: not measured
    is_interrupted: bool = False  # whether the run was stopped early
    # [rows] failed rows that were never synthesized, because they are invalid in the manifest
    bad_rows: int = 0
    # number of steps without a graph, by kind
    graph_misses_by: dict[str, int] = field(default_factory=dict)

    @property
    def xrt(self) -> float | None:
        """`audio_s` / `wall_s`, the effective speed; higher is better."""
        return self.audio_s / self.wall_s if self.wall_s and self.audio_s else None

    @property
    def is_length_off(self) -> bool:
        """Whether the kept audio is a third longer or shorter than its texts usually take. Short
        texts take what they like: the first seconds do not count.
        """
        off_s = abs(self.audio_s - self.expected_s)
        return self.expected_s > 0 and off_s > max(self.expected_s / 3, LENGTH_SLACK_S)

    @property
    def total_xrt(self) -> float | None:
        """`decoded_s` / `wall_s`."""
        return self.decoded_s / self.wall_s if self.wall_s and self.decoded_s else None

    @property
    def rtf(self) -> float | None:
        """`wall_s` / `audio_s`; lower is better."""
        return self.wall_s / self.audio_s if self.wall_s and self.audio_s else None

    def as_dict(self) -> dict[str, Any]:
        """What a report says of them."""
        sums = {**asdict(self), "xrt": self.xrt, "total_xrt": self.total_xrt, "rtf": self.rtf}
        return {name: rounded(value) for name, value in sums.items()}


def totals_of(plan: Plan, strays: Strays | None) -> Totals:
    """Return what there is to count before a row is synthesized."""
    num = plan.events.num
    kinds = (Event.PENDING, Event.FAILING, Event.DONE, Event.CONVERTED, Event.NOT_CONVERTED)
    return Totals(
        rows=sum(map(num, kinds)),
        failed=num(Event.NOT_CONVERTED),
        skipped=num(Event.DONE),
        remade=num(Event.CONVERTED),
        strays=0 if strays is None else strays.left.count,
        removed=0 if strays is None else strays.removed,
    )


def take_in(totals: Totals, facts: SessionFacts) -> None:
    """Take over what a session has counted, which has the same names there."""
    for name, value in vars(facts).items():
        if hasattr(totals, name):
            setattr(totals, name, value)


@dataclass
class Failures:
    """Rows that failed in this run; those that are bad in the manifest are not among them."""

    count: int = 0
    extras: int = 0  # of those, takes beside a row's own file
    runaways: int = 0  # of those, whose speech came to no end that can be right
    undrawn: int = 0  # of those, rows that failed before anything was drawn
    first: list[tuple[str, str]] = field(default_factory=list)  # id and reason of a few

    def add(self, record: JournalEntry) -> None:
        """Take in a row."""
        self.count += 1
        self.extras += record.role is Role.EXTRA
        self.runaways += record.is_runaway
        self.undrawn += record.is_unsampled
        if len(self.first) < MAX_REMEMBERED:
            self.first.append((_name(record), record.error or ""))


def _name(record: JournalEntry) -> str:
    """What messages call a row, or a take of it."""
    return f"{record.id}, take {record.take}" if record.role is Role.EXTRA else record.id


class RunTally:
    """Counts the rows that a folder keeps, at their ends; any thread may call it.

    Args:
        frame_s: seconds of audio in a frame.
        totals, failures: are counted up, under a lock of its own.
        failures_allowed: rows that may fail, beside those known to be bad; None: all.
        on_ok: gets every take that comes out well, one thread at a time; None: nobody does.
    """

    def __init__(
        self,
        folder: Store,
        frame_s: float,
        totals: Totals,
        failures: Failures,
        failures_allowed: int | None = None,
        on_ok: Callable[[JournalEntry], None] | None = None,
    ) -> None:
        self.folder = folder
        self.frame_s = frame_s
        self.totals = totals
        self.on_row: Callable[[Totals], None] = lambda _: None  # after every row, under that lock
        self.failures_allowed = failures_allowed
        self.failures = failures
        self._on_ok = on_ok
        self._mutex = threading.RLock()

    def keep(self, task: Task, spoken: Spoken) -> None:
        """Have what was spoken kept, and count it.

        Raises:
            DiskFull: nothing more can be written.
            StoppedEarly: this failure is one too many.
        """
        take = self.folder.commit_result(task, spoken)
        with self._mutex:
            totals = self.totals
            totals.decoded_s += spoken.frames_dropped * self.frame_s + take.audio_s
            totals.retried += take.attempts > 1
            if take.is_ok:
                self._count(take, spoken.usual_s)
                if self._on_ok is not None:
                    self._on_ok(take)
            else:
                totals.failed += 1
                self._tell(take)
            self.on_row(totals)
            failed = totals.failed - totals.bad_rows
            if self.failures_allowed is not None and failed > self.failures_allowed:
                rows = counted(failed, "row has", "rows have")
                raise StoppedEarly(
                    f"{rows} failed, more than --max-failures allows",
                    "see the last errors above, and run the same command again",
                )

    def fail(self, row: BadRow) -> None:
        """Have a row recorded that cannot be spoken, and count it. Raises DiskFull."""
        take = self.folder.commit_failure(row)
        with self._mutex:
            self.count_bad()
            if row.is_late:  # else the checks have told it
                self._tell(take)
            self.on_row(self.totals)

    def count_bad(self) -> None:
        """Count a row that cannot be spoken, and that is recorded."""
        with self._mutex:
            self.totals.failed += 1
            self.totals.bad_rows += 1

    def _count(self, take: JournalEntry, usual_s: float) -> None:
        totals, is_extra = self.totals, take.role is Role.EXTRA
        totals.ok += not is_extra
        totals.takes += is_extra
        totals.frames += take.frames
        totals.audio_s += take.audio_s
        totals.expected_s += usual_s
        totals.wordless += take.finish_reason is Finish.WORDLESS
        totals.suspect += bool(take.remarks)
        if totals.ok + totals.takes == 1:
            startup.reach("first_row_s")
        if log.isEnabledFor(logging.DEBUG):
            log.debug(
                "row %s: %.2f s of audio, %s, attempt %d, %s",
                _name(take),
                take.audio_s,
                take.finish_reason,
                take.attempts,
                ", ".join(take.suspect) or "nothing suspect",
            )

    def _tell(self, take: JournalEntry) -> None:
        self.failures.add(take)
        log.warning("row %s failed: %s", _name(take), take.error)
