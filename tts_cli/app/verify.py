"""`--verify`: transcribe rows during synthesis, retry suspect rows, and use the best takes.

For a folder the result is that of four commands: `synth`, `check --asr`, `synth --only suspects
--takes N`, and `check --asr --pick best`. Verdicts are final once all rows are transcribed, because
the baselines of a voice need all rows. Until then `checks.jsonl` has verdicts by fixed limits,
written as soon as a take is transcribed, so that a killed run transcribes nothing twice.
"""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from msgspec import structs

from tts_cli import signals
from tts_cli.app import device
from tts_cli.app.check import CheckedTake, FolderCheck, open_recognizer, require_packages
from tts_cli.app.look import Screen
from tts_cli.app.totals import Hook, ResultRecorder
from tts_cli.atomic import open_to_append
from tts_cli.audio.file import encode
from tts_cli.checks.asr.recognizer import AsrRequest, AsrResult
from tts_cli.checks.asr.transcriber import Transcriber
from tts_cli.checks.baselines import Evidence, VoiceBaselines
from tts_cli.checks.outliers import rank, verdict_of
from tts_cli.checks.verdicts import TakeVerdict, Transcript
from tts_cli.config import RunConfig
from tts_cli.core import Result, Step, Task
from tts_cli.engine.session import Session, make_ready
from tts_cli.errors import Cancelled, StoppedEarly, writing
from tts_cli.events import Event
from tts_cli.named import counted
from tts_cli.plan.plan import Plan
from tts_cli.plan.resolve import Resolver
from tts_cli.store.entry import JournalEntry
from tts_cli.store.files import CHECKS_NAME
from tts_cli.store.results import unstored_entry

log = logging.getLogger(__name__)

Begin = Callable[[], None]

IDLE_S = 0.25  # wait for a further take before an incomplete batch is transcribed
LOOK_S = 0.05  # interval of checking whether all takes are transcribed


class TranscriberThread:
    """A recognizer and its thread. Raises SetupError if the recognizer is not available."""

    def __init__(self, config: RunConfig, text: Any, step: Step) -> None:
        device = config.verify_device or config.device
        require_packages()
        with step("loading the recognizer"):
            self.recognizer = open_recognizer(replace(config, asr=config.verify, device=device))
        self.transcriber = Transcriber(self.recognizer.identity, text)
        self._requests: SimpleQueue[AsrRequest] = SimpleQueue()
        self._waiting: dict[int, Callable[[AsrResult], None]] = {}
        self._num_put = 0
        self._is_over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="transcriber", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def put(self, path: Path, take: JournalEntry, receive: Callable[[AsrResult], None]) -> bool:
        """Queue a take, and return whether it can be transcribed. One thread at a time may call it.

        `receive` is called in the recognizer's thread with the result.
        """
        if self.transcriber.skipped(take) is not None:
            return False
        place, self._num_put = self._num_put, self._num_put + 1
        self._waiting[place] = receive
        self._requests.put(self.transcriber.request(place, path, take))
        return True

    def forget(self) -> None:
        self._waiting.clear()
        with suppress(Empty):
            while True:
                self._requests.get_nowait()

    def finish(self) -> None:
        """Wait until all takes are transcribed. Raises as `require`, and Interrupted."""
        while self._waiting and self._thread.is_alive():
            self._is_over.wait(LOOK_S)
            signals.check()
        self.require()

    def require(self) -> None:
        """Raise the error that ended the thread: StoppedEarly, DiskFull."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()
        self.recognizer.close()

    def _run(self) -> None:
        try:
            for answer in self.recognizer.run(self._asked()):
                receive = self._waiting.get(answer.place)
                if receive is not None:
                    receive(answer)
                    self._waiting.pop(answer.place, None)
        except BaseException as error:
            self._error = error

    def _asked(self) -> Iterator[AsrRequest | None]:
        while not self._is_over.is_set():
            try:
                yield self._requests.get(timeout=IDLE_S)
            except Empty:
                yield None
        if self._waiting:
            raise Cancelled("the recognizer was stopped")  # do not wait for the rest


class Verified(NamedTuple):
    """The rows after `--verify`. All fields except `heard` include rows of earlier runs."""

    recognizer: str
    rows: int
    heard: int  # takes transcribed by this run
    mended: list[str]  # ids of rows that are fine after a retry
    again: int  # rows that were synthesized again
    suspects: list[CheckedTake]  # the worst first
    failed: list[str]  # ids
    tried: list[str]  # ids of suspects, see `app.check.UnfixedRows`

    @property
    def right(self) -> int:
        return self.rows - len(self.mended) - len(self.suspects) - len(self.failed)

    def as_dict(self) -> dict[str, Any]:
        return {
            "recogniser": self.recognizer,
            "rows": self.rows,
            "heard": self.heard,
            "right": self.right,
            "again": self.again,
            "mended": self.mended,
            "suspect": [one.row.id for one in self.suspects],
            "failed": self.failed,
        }


class Verification:
    """Checks the rows of a folder during a run, and retries suspect rows at its end. Raises
    SetupError if the recognizer is not available.
    """

    def __init__(self, plan: Plan, screen: Screen, hooks: Sequence[Hook]) -> None:
        self._plan = plan
        self._screen = screen
        self.hooks = (*hooks, self.on_result)
        text = plan.planner.care.facts()
        self._thread = TranscriberThread(plan.config, text, screen.step)
        self._num_heard = 0  # takes transcribed by this run
        self._has_begun = False
        self.retake_s = 0.0  # time for synthesizing rows again
        self.is_spoken = False  # whether rows were synthesized again
        self.is_served = False  # whether an interrupted run had done so

    def on_result(self, task: Task, result: Result, take: JournalEntry) -> None:
        """Queue a new take. A hook of the run."""
        if take.is_ok:
            self._put(self._plan.folder.out / str(take.path), take, None)

    def _put(self, path: Path, take: JournalEntry, before: CheckedTake | None) -> None:
        """Queue a take. `before` has the earlier checks of it; None: it is new."""
        self._thread.put(path, take, partial(self._write, take, before))

    def begin(self) -> None:
        """Start transcribing, first the takes that earlier runs left. Raises SetupError."""
        if self._has_begun:
            return
        self._has_begun = True
        for one in self._found().judged:
            if one.is_named and not self._thread.transcriber.has_made(one.heard):
                self._put(one.path, one.file.take, one)
        self._thread.begin()

    def end(self, session: Callable[[], Session], begin: Begin) -> Verified:
        """Judge all rows, synthesize suspect ones again, judge these, and choose the best takes.

        Args:
            session: returns the session, which may not have started yet.
            begin: records the start of the run.
        Raises:
            Interrupted, StoppedEarly, SetupError, DiskFull: the same command continues.
        """
        plan = self._plan
        self.begin()
        found = self._verdicts()
        suspects, failed = _ids(found.suspects), self._failed(found)
        if suspects or failed:
            self._retry({*suspects, *failed}, session, begin)
            found = self._verdicts()
            found.pick(nullcontext(plan.folder))
        still_failed = self._failed(found)
        bad = {*_ids(found.suspects), *still_failed}
        for row_id in set(failed) - set(still_failed):
            plan.events.add(Event.FIXED, row_id)
        is_again = self.is_spoken or self.is_served
        return Verified(
            self._thread.recognizer.identity.name,
            rows=sum(plan.has(row.id) for row in found.folder.rows),
            heard=self._num_heard,
            mended=[row_id for row_id in (*suspects, *failed) if row_id not in bad],
            again=len(suspects) + len(failed) if is_again else 0,
            suspects=found.suspects,
            failed=still_failed,
            tried=[row.id for row in found.unfixed().tried if row.take.is_ok],
        )

    def close(self) -> None:
        self._thread.close()

    def _found(self) -> FolderCheck:
        return FolderCheck(self._plan.folder.out, names=self._plan.has)

    def _verdicts(self) -> FolderCheck:
        """Wait for all transcripts, and check all takes against the baselines of all rows."""
        with self._screen.step("transcribing the last rows"):
            self._thread.finish()
        found = self._found()
        found.write()
        return found

    def _failed(self, found: FolderCheck) -> list[str]:
        return [row.id for row in found.failed if self._plan.has(row.id)]

    def _retry(self, ids: set[str], opened: Callable[[], Session], begin: Begin) -> None:
        retakes = self._plan.config.retakes
        if not retakes:
            return
        plan = self._plan.again(ids, retakes)
        plan.read()
        self.is_served = plan.events.num(Event.SERVED) > 0
        if not plan.needs_model:
            return
        rows = counted(len(ids), "row is", "rows are")
        num_takes = plan.num_pending + plan.num_takes
        log.info("%s retried, with %d takes", rows, num_takes)
        device.require_device(plan.config)
        session = opened()
        make_ready(session, plan.needs, self._screen.step)
        if plan.folder.run_id is None:
            begin()
        self.is_spoken = True
        events, frame_s = self._plan.events, plan.info.frame_s
        recorder = ResultRecorder(plan.folder, frame_s, events, hooks=self.hooks, is_retake=True)
        started_s = time.perf_counter()
        try:
            with self._screen.progress(num_takes) as shown:
                recorder.on_row = shown.update
                with signals.stopping(session.stop):
                    session.speak(plan.due(recorder.keep, lambda row: None), recorder.keep)
        finally:
            self.retake_s = time.perf_counter() - started_s

    def _write(self, take: JournalEntry, before: CheckedTake | None, answer: AsrResult) -> None:
        """Append a transcript to checks.jsonl, with a verdict by fixed limits and earlier scores of
        the same audio. Raises StoppedEarly, DiskFull.
        """
        if answer.problem is not None:
            log.warning("row %s could not be transcribed: %s", take.id, answer.problem)
            return
        transcript = self._thread.transcriber.transcript(take, answer)
        check = verdict_of(Evidence(take, transcript), answer.sha256, VoiceBaselines(()))
        if before is not None and answer.sha256 == before.sha256:
            check = structs.replace(check, similarity=before.similarity, mos=before.mos)
        path = self._plan.folder.out / CHECKS_NAME
        with writing(path, StoppedEarly), open(open_to_append(path), "ab") as file:
            file.write(check.to_line().encode())  # `end` replaces the file
        self._num_heard += 1


def _ids(found: list[CheckedTake]) -> list[str]:
    return [one.row.id for one in found]


KeepChecked = Callable[[Task, Result, TakeVerdict | None], None]

BASELINE_ROWS = 32  # first rows of a stream, whose baselines apply to all rows
STALL_S = 1.0  # without a further row, earlier rows do not wait for more baselines
WAIT_S = 0.1  # interval of checking for rows to retry


@dataclass(eq=False)
class _Take:
    task: Task
    result: Result
    entry: JournalEntry
    transcript: Transcript | None = None
    sha256: str = ""

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.entry, self.transcript)


@dataclass(eq=False)
class _Row:
    task: Task
    takes: list[_Take] = field(default_factory=list)
    num_waiting: int = 1  # takes that are not synthesized and transcribed yet


class StreamVerifier:
    """`--verify` without a folder, for one stream of a `Speaker`.

    The baselines come from the first rows, so these wait for each other. All rows are checked
    against them, whatever the order of their transcripts. A session synthesizes the tasks that
    `tasks` yields and passes their results to `on_results`.

    Args:
        planner: resolves the further takes.
        look_ahead: maximum number of rows that can wait for each other.
        keep: called with the best take of a row and its verdict.
    """

    def __init__(
        self, thread: TranscriberThread, planner: Resolver, look_ahead: int, keep: KeepChecked
    ) -> None:
        self._thread = thread
        self._planner = planner
        self._num_firsts = min(look_ahead, BASELINE_ROWS)
        self._keep = keep
        self._folder = tempfile.TemporaryDirectory(prefix="tts-cli-")
        self._mutex = threading.RLock()  # guards the fields below
        self._rows: dict[Task, _Row] = {}  # pending rows, by the task of each of their takes
        self._firsts: list[_Row] = []
        self._baselines: VoiceBaselines | None = None  # None: too few rows yet
        self._suspects: SimpleQueue[_Row] = SimpleQueue()  # rows to retry

    def tasks(self, tasks: Iterable[Task | None]) -> Iterator[Task | None]:
        """Yield tasks, and takes of suspect rows, until all rows are done. Raises StoppedEarly."""
        came_s = time.perf_counter()
        for task in tasks:
            if task is not None:
                came_s = time.perf_counter()
                with self._mutex:
                    self._rows[task] = row = _Row(task)
                    if self._baselines is None and len(self._firsts) < self._num_firsts:
                        self._firsts.append(row)
            yield task
            yield from self._retries(time.perf_counter() - came_s > STALL_S)
        while self._rows:
            yield from self._retries(True, WAIT_S)
            yield None

    def on_results(self, results: Sequence[tuple[Task, Result]]) -> None:
        """Receive the results of takes. Thread-safe."""
        for task, result in results:
            self._add(task, result)

    def _add(self, task: Task, result: Result) -> None:
        rate_hz = self._planner.info.sample_rate_hz
        take = _Take(task, result, unstored_entry(task, result, rate_hz))
        path = Path(self._folder.name) / f"{task.row.number}.{task.place.take}.wav"
        samples = None if result.error is not None else result.samples
        if samples is not None:
            path.write_bytes(encode(samples, rate_hz, "wav", "PCM_16"))
        with self._mutex:
            self._rows[task].takes.append(take)
            receive = partial(self._add_transcript, take, path)
            if samples is None or not self._thread.put(path, take.entry, receive):
                self._count(take)

    def close(self) -> None:
        self._thread.forget()
        self._folder.cleanup()

    def _retries(self, has_stalled: bool, wait_s: float = 0.0) -> Iterator[Task]:
        """Yield the tasks of rows to retry now."""
        self._thread.require()
        with self._mutex:
            self._judge(has_stalled)
        with suppress(Empty):
            while True:
                row = self._suspects.get(wait_s > 0, wait_s)
                for task in self._planner.again(row.task, self._planner.config.retakes):
                    with self._mutex:
                        self._rows[task] = row
                    yield task

    def _add_transcript(self, take: _Take, path: Path, answer: AsrResult) -> None:
        if answer.problem is not None:
            log.warning("row %s could not be transcribed: %s", take.task.name, answer.problem)
        else:
            take.transcript = self._thread.transcriber.transcript(take.entry, answer)
            take.sha256 = answer.sha256
        path.unlink(missing_ok=True)
        with self._mutex:
            self._count(take)

    def _count(self, take: _Take) -> None:
        """Count a take as measured. The caller holds the mutex, as for the methods below."""
        if (row := self._rows.get(take.task)) is not None:
            row.num_waiting -= 1
            self._judge(has_stalled=False)

    def _judge(self, has_stalled: bool) -> None:
        """Check the rows that have all transcripts, once there are baselines."""
        rows = dict.fromkeys(self._rows.values())
        is_known = not any(row.num_waiting for row in self._firsts)
        baselines = self._baselines
        if baselines is None:
            is_whole = len(self._firsts) == self._num_firsts and is_known
            if not is_whole and (not has_stalled or any(row.num_waiting for row in rows)):
                return
            baselines = VoiceBaselines(row.takes[0].evidence for row in self._firsts)
            self._baselines = baselines if is_whole else None
        for row in rows:
            if not row.num_waiting:
                self._decide(row, baselines)

    def _decide(self, row: _Row, baselines: VoiceBaselines) -> None:
        takes = sorted(row.takes, key=lambda take: take.task.place.take)
        checks = [verdict_of(take.evidence, take.sha256, baselines) for take in takes]
        good = [
            (rank(take.evidence, baselines), place)
            for place, (take, check) in enumerate(zip(takes, checks, strict=True))
            if take.result.error is None and not check.is_suspect
        ]
        first, retakes = takes[0].result, self._planner.config.retakes
        is_hopeless = first.samples is None and not first.attempts  # its prompt does not fit
        draws = not row.task.request.sampling.draws_nothing
        if not good and len(takes) == 1 and retakes and draws and not is_hopeless:
            row.num_waiting = retakes
            self._suspects.put(row)
            return
        best = min(good)[1] if good else 0
        for take in takes:
            del self._rows[take.task]
        self._keep(takes[best].task, takes[best].result, checks[best])
