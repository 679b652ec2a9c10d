"""One `synth` run: rows to jobs in one thread, the engine in the main thread, outcomes to files in
others.

The manifest is streamed twice more after its check: once to see what is left to do and how long
the longest row is, once to speak. A row's record is appended to the journal only when its audio is
safely on disk.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from models.base import ModelInfo, RequestError
from tts_cli.config import RunConfig
from tts_cli.engine.job import Job, JobQueue, Outcome
from tts_cli.engine.loop import Engine
from tts_cli.errors import RowError, TtsCliError
from tts_cli.manifest.reader import Source
from tts_cli.manifest.request import build_request, retry_request
from tts_cli.manifest.row import BadRow
from tts_cli.output.audio_file import NOT_FINITE
from tts_cli.output.hashes import joint_hash, request_hash
from tts_cli.output.journal import Journal, RowRecord
from tts_cli.output.run_file import Totals
from tts_cli.output.writer import AudioWriter
from tts_cli.run.load import Session
from tts_cli.run.survey import checked_rows, select_rows
from tts_cli.voices.encode_queue import VoiceCache
from tts_cli.voices.resolve import Cloning, VoicedRow, VoiceStage

log = logging.getLogger(__name__)

PLANNED_ROWS = 256  # tokenised rows kept ready for the engine's window
WRITERS = 8  # most of a writer's time is waiting for the disk
SWITCH_S = 0.001  # longest that another thread keeps the engine's from running Python
UNWRITTEN_ROWS = 256  # outcomes waiting for a writer before the engine is slowed down
NAN_ERROR = "the model gave NaN or infinite values twice"


@dataclass(eq=False)
class PlannedRow(VoicedRow):
    """A row to speak, with the request of its first attempt."""

    has_been_nan: bool = False  # an attempt gave NaN or infinite values


@dataclass
class Survey:
    """What is left to do, and the sizes it needs."""

    pending: int = 0  # rows to speak
    bad: int = 0
    skipped: int = 0  # done by an earlier run, or left out by --retry-failed
    max_frames: int = 1
    max_positions: int = 1
    max_trailing: int = 0
    max_reference_frames: int = 0


@dataclass
class RowPlan:
    """Which rows of a manifest this run speaks; iterating gives each row's verdict."""

    source: Source
    config: RunConfig
    info: ModelInfo
    journal: Journal
    writer: AudioWriter

    def __post_init__(self) -> None:
        self.cloning = Cloning(self.config, self.info)

    def __iter__(self) -> Iterator[PlannedRow | BadRow | None]:
        """A row to speak, a bad row to record, or None for a row that is done."""
        rows = select_rows(checked_rows(self.source, self.config, self.info), self.config)
        for row in rows:
            if isinstance(row, BadRow):
                yield row
                continue
            request = build_request(row, self.config, self.info)
            try:
                need = self.cloning.need(request)
            except RowError as error:
                yield BadRow(row.line, row.number, row.id, str(error))
                continue
            digest = request_hash(request, self.info.identity, need.digest if need else None)
            planned = PlannedRow(row.id, request, digest, need)
            yield planned if self._is_due(planned) else None

    def survey(self) -> Survey:
        """Count, and bound the sizes."""
        found = Survey()
        for row in self:
            if row is None:
                found.skipped += 1
            elif isinstance(row, BadRow):
                found.bad += 1
            else:
                found.pending += 1
                request = row.request
                text = most_tokens(request.text) + self.info.prompt_overhead
                instruct = most_tokens(request.instruct or "")
                if row.need is not None:
                    text += row.need.num_bytes
                    frames = row.need.num_frames
                    instruct += frames
                    found.max_reference_frames = max(found.max_reference_frames, frames)
                found.max_frames = max(found.max_frames, request.max_frames)
                found.max_positions = max(found.max_positions, text + instruct + request.max_frames)
                is_auto = request.layout == "auto"
                layout = self.info.default_layout if is_auto else request.layout
                if layout == "streaming":
                    found.max_trailing = max(found.max_trailing, text)
        found.max_positions = min(found.max_positions, self.info.max_positions)
        found.max_frames = min(found.max_frames, self.info.max_positions)
        return found

    def _is_due(self, row: PlannedRow) -> bool:
        if self.config.overwrite:
            return True
        if self.config.retry_failed:
            return self.journal.status(row.id) == "failed"
        return not (self._is_recorded(row) and self.writer.exists(row.id))

    def _is_recorded(self, row: PlannedRow) -> bool:
        if not self.journal.is_joint(row.id):
            return self.journal.done(row.id, row.hash, self.writer.delivery_hash)
        ref_digest = row.need.digest if row.need else None
        joint = joint_hash(row.request, self.writer.delivery, self.info.identity, ref_digest)
        return self.journal.done(row.id, joint, None)


def most_tokens(text: str) -> int:
    """A byte is at most one token, once normalised as tokenizers do: NFC can lengthen a text."""
    return len(unicodedata.normalize("NFC", text).encode())


@dataclass
class Synthesis:
    """The threads of a run and what they share."""

    config: RunConfig
    info: ModelInfo
    session: Session
    plan: RowPlan
    totals: Totals
    on_row: Callable[[Totals], None]  # called after every row, from any thread
    accepts_truncated: bool = False
    error: BaseException | None = None  # the first failure of a helper thread
    _outcomes: queue.Queue[Outcome | None] = field(
        default_factory=lambda: queue.Queue(UNWRITTEN_ROWS)
    )
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.jobs = JobQueue(PLANNED_ROWS)
        self.voices = VoiceCache(self.session.model, self.session.device)
        self.stage = VoiceStage(self.plan.cloning, self.voices)
        self.engine = Engine(
            self.session.model,
            self.session.device,
            self.session.max_batch,
            self.jobs,
            self._outcomes.put,
            self._retry,
            chore=self.voices.encode_pending if self.info.can_clone else None,
            is_int16=self.plan.writer.takes_int16,
        )

    def run(self) -> None:
        """Speak everything. Raises the first error of any thread, after all have ended."""
        threads = [threading.Thread(target=self._guard, args=(self._plan_rows,), daemon=True)]
        writers = [
            threading.Thread(target=self._guard, args=(self._write_rows,), daemon=True)
            for _ in range(WRITERS)
        ]
        switch_s = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        for thread in threads + writers:
            thread.start()
        try:
            self.engine.run()
        finally:
            sys.setswitchinterval(switch_s)
            self.engine.stop.set()
            for _ in writers:
                self._outcomes.put(None)
            for thread in threads + writers:
                thread.join()
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """Ask every thread to end after what it has in hand."""
        self.engine.stop.set()

    def add_reference_totals(self) -> None:
        """What cloning took, once the run is over."""
        self.totals.references = self.voices.num_encoded
        self.totals.reference_ms = self.voices.encode_ms
        self.totals.reference_load_ms = 1000 * self.stage.load_s

    def _guard(self, work: Callable[[], None]) -> None:
        """Run a thread's work; a failure stops the run, and the writers go on taking outcomes."""
        try:
            work()
        except BaseException as error:
            with self._mutex:
                self.error = self.error or error
            self.stop()
            if work == self._write_rows:
                while self._outcomes.get() is not None:
                    pass

    def _plan_rows(self) -> None:
        for row in self.stage.attach(iter(self.plan), self.engine.stop):
            if self.engine.stop.is_set():
                break
            if isinstance(row, PlannedRow):
                self._plan_row(row)
            elif row is not None:
                record = RowRecord(row.record_id, "failed", error=row.message)
                self._record(record, is_bad=True)
        self.jobs.close(self.engine.stop)

    def _plan_row(self, row: PlannedRow) -> None:
        queued_s = time.perf_counter()
        if row.problem is not None:
            self._record(self._failure(row, row.problem))
            return
        try:
            prompt = self.session.model.plan(row.request)
            needed, room = prompt.num_tokens + row.request.max_frames, self.info.max_positions
            if needed > room:
                raise RequestError(
                    f"{prompt.num_tokens} prompt tokens and {row.request.max_frames} frames "
                    f"are more than the {room} positions of this checkpoint; split the text or "
                    "lower max_frames"
                )
        except RequestError as error:
            self._record(self._failure(row, str(error)))
            return
        self.jobs.put(Job(row, prompt, queued_s=queued_s), self.engine.stop)

    def _retry(self, job: Job, reason: str) -> Job | None:
        """The next attempt of a row: a runaway's up to --retries, one more after the first NaN."""
        request = job.prompt.request
        is_nan = reason == "nan"
        if is_nan:
            has_retry = not job.row.has_been_nan
            job.row.has_been_nan = True
        else:
            is_runaway = reason == "max_frames" and not self.accepts_truncated
            is_greedy = request.sampling.greedy and request.sampling.subtalker_greedy
            has_retry = is_runaway and not is_greedy and job.attempt <= self.config.retries
        if not has_retry:
            return None
        if not is_nan:
            with self._mutex:
                self.totals.decoded_s += request.max_frames * self.info.frame_s
        attempt = job.attempt + 1
        again = replace(job.prompt, request=retry_request(job.row.request, attempt))
        return Job(job.row, again, attempt, queued_s=job.queued_s)

    def _write_rows(self) -> None:
        while (outcome := self._outcomes.get()) is not None:
            outcome.wait()
            self._record(self._write(outcome))

    def _write(self, outcome: Outcome) -> RowRecord:
        """Put one row's audio on disk and describe what happened."""
        job, row = outcome.job, outcome.job.row
        request = job.prompt.request
        started_s = time.perf_counter()
        record = replace(
            self._failure(row, ""),
            seed=request.seed,
            attempts=outcome.attempts,
            prompt_tokens=job.prompt.num_tokens,
            bucket=job.bucket,
            queue_ms=1000 * (job.admitted_s - job.queued_s),
            reference_ms=0.0 if row.encoding is None else row.encoding.milliseconds,
            prefill_ms=outcome.prefill_ms,
            decode_ms=job.decode_ms,
            total_ms=1000 * (started_s - job.queued_s),
        )
        if outcome.samples is None or outcome.codes is None:
            error = NAN_ERROR if outcome.reason == "nan" else outcome.reason
            return replace(record, error=error)
        is_truncated = outcome.reason == "max_frames" and not self.accepts_truncated
        audio_s = outcome.frames * self.info.frame_s
        try:
            if outcome.is_bad is not None and bool(outcome.is_bad):
                raise RowError(NOT_FINITE)
            path = self.plan.writer.write(
                row.id, outcome.samples.numpy(), outcome.codes.numpy(), is_truncated
            )
        except RowError as error:
            return replace(record, error=str(error), finish_reason=outcome.reason)
        ended_s = time.perf_counter()
        total_s = ended_s - job.queued_s
        return replace(
            record,
            status="failed" if is_truncated else "ok",
            error=self._truncation(outcome) if is_truncated else None,
            finish_reason=outcome.reason,
            path=path,
            frames=outcome.frames,
            audio_s=audio_s,
            vocoder_ms=outcome.vocoder_ms,
            write_ms=1000 * (ended_s - started_s),
            total_ms=1000 * total_s,
            rtf=total_s / audio_s,
        )

    def _truncation(self, outcome: Outcome) -> str:
        tries = f" in {outcome.attempts} attempts" if outcome.attempts > 1 else ""
        if outcome.attempts > outcome.job.attempt:
            tries += ", the last of which gave NaN or infinite values"
        return (
            f"no end of speech within {outcome.frames} frames "
            f"({outcome.frames * self.info.frame_s:.1f} s){tries}; its audio is kept under "
            "truncated/"
        )

    def _failure(self, row: PlannedRow, error: str) -> RowRecord:
        request = row.request
        return RowRecord(
            row.id,
            "failed",
            error=error,
            voice=request.voice,
            seed=request.seed,
            text_chars=len(request.text),
            request_hash=row.hash,
            delivery_hash=self.plan.writer.delivery_hash,
        )

    def _record(self, record: RowRecord, is_bad: bool = False) -> None:
        self.plan.journal.append(record)
        with self._mutex:
            totals = self.totals
            totals.decoded_s += record.audio_s
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


def is_cuda_failure(error: BaseException) -> bool:
    """Whether an exception says that the device itself is lost."""
    return not isinstance(error, TtsCliError) and "CUDA error" in str(error)
