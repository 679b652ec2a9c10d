"""Rows in, spoken rows out: the threads of a run on a loaded model. No manifest, no output file and
no signal comes in here.

Whoever wants speech takes a `WarmModel`, makes room, and hands an iterator of rows to one of its
runs; each row comes to a callable at its end.
Three kinds of threads work beside each other: one makes prompts of rows, the caller's own runs the
engine, which on a CPU has another for the vocoder, and takers wait for samples and hand rows on.

A checkpoint in memory, with room for rows that can be made anew: what every command that speaks
and the library open, and where all their runs come from.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any

from models.base import Prompt, RequestError
from tts_cli.audio.file import NOT_FINITE
from tts_cli.audio.join import Pauses
from tts_cli.config import RunConfig
from tts_cli.core import Finish, SpeechRow, Work
from tts_cli.engine import load
from tts_cli.engine.attempt import Job, JobQueue
from tts_cli.engine.judge import RetryPolicy, judge
from tts_cli.engine.load import HeldSetting, Session, on_device
from tts_cli.engine.loop import Engine
from tts_cli.engine.pieces import LongRows
from tts_cli.engine.queues import EndedJobs
from tts_cli.errors import SetupError, StoppedEarly, first_line, is_device_lost
from tts_cli.folder.sources import PART_CONTEXT
from tts_cli.plan.planner import RowMaker
from tts_cli.plan.request import retry_request
from tts_cli.plan.room import Needs, too_long, usual_needs
from tts_cli.plan.split_rule import pauses_of
from tts_cli.text.words import usual_s
from tts_cli.voices.encoding import VoiceCache
from tts_cli.voices.needs import Cloning
from tts_cli.voices.stage import VoiceStage

if TYPE_CHECKING:
    from typing_extensions import Self

    from models.base import ModelInfo


log = logging.getLogger(__name__)

READY_JOBS = 256  # with prompts, kept for the engine's window
ENDED_JOBS = 256  # waiting for a taker before the engine is slowed down
SWITCH_S = 0.001  # longest that another thread keeps the engine's from running Python
NO_PAUSES = Pauses()
SWITCHES = HeldSetting(sys.getswitchinterval, sys.setswitchinterval, SWITCH_S)
NAN_ERROR = "the model gave NaN or infinite values twice"


class SpeechRun:
    """One pass over rows, on a session prepared for them.

    Args:
        take: gets every row at its end, from several threads at once: those of the takers, and the
            one that makes prompts for rows that none can be made of.
        cloning: finds the voices of rows that need one; None where no row does.
        is_int16: rows get int16 samples, made on the device, instead of float32.
        takers: threads that hand rows on, each once the others do not keep up; as many calls of
            `take` can wait for a disk at once.
        pauses: between the parts of long rows.
        voices: that earlier runs on the session encoded; None: it keeps none.
    """

    def __init__(
        self,
        session: Session,
        take: Callable[[SpeechRow], None],
        policy: RetryPolicy,
        *,
        cloning: Cloning | None = None,
        is_int16: bool = False,
        takers: int = 1,
        pauses: Pauses = NO_PAUSES,
        voices: VoiceCache | None = None,
    ) -> None:
        self.model = session.model
        self.device = session.device
        self.take = take
        self.policy = policy
        self.room = session.room
        self.takers = takers
        self.voices = voices or VoiceCache(session.model, session.device)
        self.stage = None if cloning is None else VoiceStage(cloning, self.voices)
        self.long_rows = LongRows(self.model.info, session.batch, pauses, policy)
        self._ended = EndedJobs(ENDED_JOBS, takers)
        self.engine = Engine(
            session.model,
            session.device,
            session.batch,
            JobQueue(READY_JOBS),
            self._lend,
            self._retry,
            chore=self.voices.encode_pending if self.model.info.can_clone else None,
            is_int16=is_int16,
        )
        self._mutex = threading.Lock()
        self._error: BaseException | None = None  # the first failure of a helper thread

    def run(self, rows: Iterable[SpeechRow | None]) -> None:
        """Speak rows; their iterator is advanced in a thread of its own.

        Args:
            rows: None among them: no row has come for a while. Only an iterator that waits for rows
                needs it, where they clone, see `VoiceStage.attach`.
        Raises:
            StoppedEarly: the device is lost, or has no memory for even one row.
            Exception: the first error of any thread, after all have ended.
        """
        threads = [threading.Thread(target=self._make_jobs, args=(rows,), name="prompts")]
        threads += [
            threading.Thread(target=self._hand_on, args=(number,), name=f"taker-{number}")
            for number in range(self.takers)
        ]
        num_slots = self.engine.batch.rows
        for thread in threads:
            thread.daemon = True
        with on_device(self.device), SWITCHES.held():
            for thread in threads:
                thread.start()
            is_whole = False
            try:
                self.engine.run()
                is_whole = not self.engine.scheduler.num_live
            except Exception as error:
                self._fail(error)
            finally:
                self.stop()
                self._ended.close()
                for thread in threads:
                    thread.join()
                if not is_whole:
                    self._clear(num_slots)
        if self._error is not None:
            raise _as_stop(self._error)

    def stop(self) -> None:
        """Ask every thread, from any thread, to end after what it has in hand."""
        self.engine.stop.set()

    def is_stopped(self) -> bool:
        """Whether the run is to end; the iterator of rows may look."""
        return self.engine.stop.is_set()

    @property
    def num_behind(self) -> int:
        """Rows and parts that have left their slots and are not handed on yet, about."""
        return self.engine.vocoder.num_waiting + len(self._ended)

    def reference_facts(self) -> dict[str, Any]:
        """What cloning took, under the names of `Totals`, once the run is over."""
        return {
            "references": self.voices.num_encoded,
            "reference_ms": self.voices.encode_ms,
            "reference_load_ms": 0.0 if self.stage is None else 1000 * self.stage.load_s,
        }

    def _clear(self, num_slots: int) -> None:
        """Free the slots of rows that were left unfinished, for the session's next run."""
        if self._error is None or not is_device_lost(self._error):
            with self.engine.streams.frames():
                self.model.release(list(range(num_slots)))

    def _fail(self, error: BaseException) -> None:
        with self._mutex:
            self._error = self._error or error
        self.stop()

    def _make_jobs(self, rows: Iterable[SpeechRow | None]) -> None:
        """The thread that makes prompts."""
        stop, jobs = self.engine.stop, self.engine.jobs
        try:
            for row in self._with_voices(rows):
                for spoken in self.long_rows.open(row, stop) if row.parts else [row]:
                    if stop.is_set():
                        break
                    job = self._job(spoken)
                    for ready in self._end(spoken) if job is None else [job]:
                        jobs.put(ready, stop)
                if stop.is_set():
                    break
            jobs.close(stop)
        except BaseException as error:
            self._fail(error)

    def _with_voices(self, rows: Iterable[SpeechRow | None]) -> Iterable[SpeechRow]:
        if self.stage is not None:
            return self.stage.attach(rows, self.engine.stop)
        return (row for row in rows if row is not None)

    def _job(self, row: SpeechRow) -> Job | None:
        """The first attempt at a row; None where no prompt can be made of it."""
        queued_s = time.perf_counter()
        try:
            prompt = self._prompt(row)
        except RequestError as error:
            log.debug("row %s has no prompt", row.id, exc_info=True)
            row.error = str(error)
            return None
        row.queued_s = queued_s
        self._estimate(row)
        attempt = row.attempts_before + 1
        if attempt > 1:
            prompt = replace(prompt, request=retry_request(row.request, attempt))
        return self._attempt(row, prompt, attempt)

    def _attempt(self, row: SpeechRow, prompt: Prompt, attempt: int) -> Job:
        is_later = row.part_of is not None and not row.is_first_part
        context = PART_CONTEXT if is_later else None
        return Job(row, prompt, attempt, row.part_of is not None, context)

    def _end(self, row: SpeechRow) -> list[Job]:
        """Hand on a row at its end, or the one that it was the last part of; see `_finish`."""
        whole, again = self._finish(row)
        if whole is not None:
            self.take(whole)
        return again

    def _finish(self, row: SpeechRow) -> tuple[SpeechRow | None, list[Job]]:
        """What to hand on of a row at its end, and the jobs of parts to be spoken once more."""
        if row.part_of is None:
            return row, []
        whole, parts = self.long_rows.finish(row)
        return whole, [self._again(part) for part in parts]

    def _again(self, part: SpeechRow) -> Job:
        """The next attempt at a part that came to its end too fast beside the others."""
        attempt = part.attempts + 1
        log.debug("row %s: attempt %d was far too fast; trying again", part.id, part.attempts)
        part.frames_dropped += part.frames
        prompt = self._prompt(part)
        return self._attempt(
            part, replace(prompt, request=retry_request(part.request, attempt)), attempt
        )

    def _estimate(self, row: SpeechRow) -> None:
        """How long the row's speech will be."""
        request, pace = row.request, self.model.info.pace
        if pace is not None:
            row.least_frames = max(row.least_frames, pace.least_frames(request.text))
            spoken = pace.without_markup(request.text)
            cap_s = request.max_frames * self.model.info.frame_s
            row.expected_s = min(cap_s, usual_s(spoken))

    def _prompt(self, row: SpeechRow) -> Prompt:
        """A row laid out for the model. Raises RequestError."""
        if row.error is not None:
            raise RequestError(row.error)
        prompt = self.model.prompt(row.request)
        if problem := too_long(prompt.num_tokens, row.request.max_frames, self.model.info):
            raise RequestError(problem)
        if self.room is not None and (problem := self.room.problem(prompt)):
            raise RequestError(problem)
        return prompt

    def _retry(self, job: Job) -> Job | None:
        """The next attempt of a row that has ended; called by the engine, and by a taker for what
        only the audio shows.
        """
        row: SpeechRow = job.row
        if job.reason == "eos" and job.frames < row.least_frames:
            job.reason = "early"
        is_greedy = row.request.sampling.draws_nothing
        made = job.attempt - row.attempts_before  # in this run
        if not self.policy.is_again(job.reason, made, row.has_been_nan, is_greedy):
            return None
        if job.reason == "nan":
            row.has_been_nan = True
        else:
            row.frames_dropped += job.frames
        attempt = job.attempt + 1
        log.debug(
            "row %s: attempt %d ended after %d frames (%s); trying again with another seed",
            row.id,
            job.attempt,
            job.frames,
            job.reason,
        )
        prompt = replace(job.prompt, request=retry_request(row.request, attempt))
        return self._attempt(row, prompt, attempt)

    def _lend(self, job: Job) -> None:
        """The engine's sink, which its vocoder's thread may call as well."""
        self.engine.jobs.lend()
        self._ended.put(job)

    def _hand_on(self, number: int) -> None:
        """A taker. After a failure it goes on taking jobs, so that nobody waits for room."""
        has_failed = False
        while (job := self._ended.get(number)) is not None:
            if has_failed:
                continue
            try:
                again = self._judge(job)
                if again is not None:
                    self.engine.jobs.settle([again])
                    continue
                whole, repeated = self._finish(self._settle(job))
                self.engine.jobs.settle(repeated)
                if whole is not None:
                    self.take(whole)
            except BaseException as error:
                has_failed = True
                self._fail(error)

    def _judge(self, job: Job) -> Job | None:
        """Measure a job's audio, once it is there. The next attempt, where there is to be one."""
        job.wait()
        row: SpeechRow = job.row
        if job.samples is None or job.codes is None or job.is_noise:
            return None
        samples, codes = job.samples.numpy(), job.codes.numpy()
        verdict = judge(samples, codes, self.model.info.frame_s, row.expected_s)
        row.levels, row.remarks = verdict.levels, verdict.remarks
        if job.reason != "eos" or not verdict.is_stuck:
            return None
        job.reason = "stuck"
        return self._retry(job)

    def _settle(self, job: Job) -> SpeechRow:
        """The row of a last job with what came of it."""
        row: SpeechRow = job.row
        assert row.queued_s is not None, "a row came to the engine without a prompt"
        row.seed, row.attempts = job.prompt.request.seed, job.attempts
        row.work = Work(
            prompt_tokens=job.prompt.num_tokens,
            bucket=job.bucket,
            queue_ms=1000 * (job.admitted_s - row.queued_s),
            reference_ms=0.0 if row.encoding is None else row.encoding.milliseconds,
            prefill_ms=job.prefill_ms,
            decode_ms=job.decode_ms,
            vocoder_ms=job.vocoder_ms,
        )
        if job.samples is None or job.codes is None:
            row.error = NAN_ERROR if job.reason == "nan" else job.reason
            return row
        row.finish_reason = Finish(job.reason)
        if job.is_noise:
            row.error = NOT_FINITE
            return row
        row.samples, row.codes, row.frames = job.samples.numpy(), job.codes.numpy(), job.frames
        if row.part_of is not None:  # it waits for the others: not with all that it was copied with
            row.samples, row.codes = row.samples.copy(), row.codes.copy()
        if self.policy.is_runaway(job.reason):
            row.error = self._runaway(job)
        return row

    def _runaway(self, job: Job) -> str:
        tries = f" in {job.attempts} attempts" if job.attempts > 1 else ""
        if job.attempts > job.attempt:
            tries += ", the last of which gave NaN or infinite values"
        frames = "1 frame" if job.frames == 1 else f"{job.frames} frames"
        length = f"{frames} ({job.frames * self.model.info.frame_s:.1f} s)"
        if job.reason == "early":
            least = job.row.least_frames
            return f"its speech ended after {length}, its text takes at least {least}{tries}"
        if job.reason == "stuck":
            told = ", ".join(remark.text for remark in job.row.remarks)
            return f"its speech stood still: {told}{tries}"
        return f"no end of speech within {length}{tries}"


def _as_stop(error: BaseException) -> BaseException:
    """A lost device as the early stop it is; any other error as it came."""
    if not is_device_lost(error):
        return error
    stop = StoppedEarly(
        f"the device failed: {first_line(error)}",
        remedy="finished rows are kept; check the device and run the same command again",
    )
    stop.__cause__ = error
    return stop


# Of the room there was, and of what the row needs, so that it does not grow row by row.
GROWTH, SPARE = 1.5, 1.25


class WarmModel:
    """A model, its slots, and the voices that its runs have encoded. One run at a time.

    Args:
        info: of the checkpoint, to whose licence there is consent; None: as it says itself.
    Raises:
        SetupError: it cannot be loaded.
    """

    def __init__(self, config: RunConfig, info: ModelInfo | None = None) -> None:
        self.config = config
        self.session = load.open_session(config)
        self.info = self.session.model.info if info is None else info
        self.in_use = threading.Lock()  # held by who speaks, where somebody else may close
        self.is_closed = False
        self._voices = VoiceCache(self.session.model, self.session.device)

    @cached_property
    def maker(self) -> RowMaker:
        """Makes rows of what it is given."""
        return RowMaker(self.config, self.info)

    def make_room(self, needs: Needs) -> None:
        """Make slots and capture graphs, instead of those there are. Raises SetupError."""
        load.prepare(self.session, needs)

    def has_room(self, row: SpeechRow) -> bool:
        """Whether the slots there are do for a row."""
        room = self.session.room
        return room is not None and self.maker.needs(row).fits(room)

    def grow(self, row: SpeechRow) -> str | None:
        """Make room for a row as well, while none is spoken; why that cannot be, or None."""
        needs, most, slots = self.maker.needs(row), self.info.max_positions, self.session.batch.rows
        room = self.session.room or usual_needs(self.config, self.info, rows=slots)
        positions = max(GROWTH * room.max_positions, SPARE * needs.max_positions)
        frames = max(GROWTH * room.max_frames, SPARE * needs.max_frames)
        wider = Needs(slots, min(most, int(positions)), min(most, int(frames)))
        wider = wider.joined(room).joined(needs)
        log.info("a row needs more room than there is: slots are made anew")
        load.drop_slots(self.session)
        try:
            self.make_room(wider)
        except SetupError as error:
            self.session.batch.rows = slots
            self.make_room(replace(room, rows=slots))
            return str(error)
        return None

    def new_cloning(self) -> Cloning:
        """Finds what rows clone; it remembers files, so each call has one of its own."""
        return self.maker.forget_files()

    def new_run(
        self,
        take: Callable[[SpeechRow], None],
        *,
        cloning: Cloning | None = None,
        is_int16: bool = False,
        takers: int = 1,
        policy: RetryPolicy | None = None,
    ) -> SpeechRun:
        """One pass over rows that there is room for, see `SpeechRun`; voices that earlier ones have
        encoded are known.
        """
        return SpeechRun(
            self.session,
            take,
            policy or RetryPolicy.of(self.config),
            cloning=cloning,
            is_int16=is_int16,
            takers=takers,
            pauses=pauses_of(self.config),
            voices=self._voices,
        )

    def close(self) -> None:
        """Drop the model and free the device's memory, once nobody is using it."""
        with self.in_use:
            if not self.is_closed:
                self.is_closed = True
                del self._voices
                self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
