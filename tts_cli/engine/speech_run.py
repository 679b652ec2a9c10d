"""The threads of a run on a loaded model: tasks go in, speech comes out. No manifest, no output
file and no signal comes in here.

Three kinds of threads work beside each other: one makes prompts, the caller's own runs the engine,
which on a CPU has another for the vocoder, and takers wait for samples, judge and hand on.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from models.base import Prompt, RequestError, SpeechRequest
from tts_cli.audio.file import NOT_FINITE
from tts_cli.core import Finish, Keep, Spoken, Task, Work
from tts_cli.engine.attempt import Attempt, AttemptQueue, EndedAttempts
from tts_cli.engine.judge import RetryPolicy, Verdict, judge
from tts_cli.engine.load import HeldSetting, Loaded, on_device
from tts_cli.engine.loop import Engine
from tts_cli.engine.pieces import Pieces
from tts_cli.errors import StoppedEarly, first_line, is_device_lost
from tts_cli.plan.room import too_long
from tts_cli.seeds import attempt_seed
from tts_cli.voices.needs import Cloning
from tts_cli.voices.stage import Voiced, VoiceStage

log = logging.getLogger(__name__)

READY_ATTEMPTS = 256  # with prompts, kept for the engine's window
ENDED_FRAMES = 32_768  # waiting for a taker before the engine is slowed down; 126 MB of int16
TAKERS = 24  # most of their time is waiting for the disk
SWITCH_S = 0.001  # longest that another thread keeps the engine's from running Python
SWITCHES = HeldSetting(sys.getswitchinterval, sys.setswitchinterval, SWITCH_S)


class SpeechRun:
    """One pass over tasks, on a model that is prepared for them.

    Args:
        keep: gets every task at its end, from several threads at once: those of the takers, and the
            one that makes prompts for tasks that none can be made of.
        cloning: finds the voices of tasks that need one; None where no task does.
        is_int16: samples are int16, made on the device, instead of float32.
        takers: threads that hand tasks on, each once the others do not keep up; as many calls of
            `keep` can wait for a disk at once.
    """

    def __init__(
        self,
        loaded: Loaded,
        keep: Keep,
        policy: RetryPolicy,
        *,
        cloning: Cloning | None = None,
        is_int16: bool = False,
        takers: int = TAKERS,
    ) -> None:
        self.model = loaded.model
        self.device = loaded.device
        self.keep = keep
        self.policy = policy
        self.room = loaded.room
        self.takers = takers
        self.stage = VoiceStage(cloning, loaded.voices)
        self.pieces = Pieces(self.model.info, loaded.batch, policy)
        self._ended = EndedAttempts(ENDED_FRAMES, takers)
        self.engine = Engine(
            loaded.model,
            loaded.device,
            loaded.batch,
            AttemptQueue(READY_ATTEMPTS),
            self._lend,
            self._retry,
            chore=loaded.voices.encode_pending if self.model.info.can_clone else None,
            is_int16=is_int16,
        )
        self._mutex = threading.Lock()
        self._error: BaseException | None = None  # the first failure of a helper thread

    def speak(self, tasks: Iterable[Task | Voiced | None]) -> None:
        """Speak tasks; their iterator is advanced in a thread of its own.

        Args:
            tasks: some may have their voices; None among them: none has come for a while.
        Raises:
            StoppedEarly: the device is lost, or has no memory for even one row.
            Exception: the first error of any thread, after all have ended.
        """
        threads = [threading.Thread(target=self._make_prompts, args=(tasks,), name="prompts")]
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

    @property
    def num_behind(self) -> int:
        """Pieces that have left their slots and are not handed on yet, about."""
        return self.engine.vocoder.num_waiting + len(self._ended)

    def _clear(self, num_slots: int) -> None:
        """Free the slots of rows that were left unfinished, for the session's next run."""
        if self._error is None or not is_device_lost(self._error):
            with self.engine.streams.frames():
                self.model.release(list(range(num_slots)))

    def _fail(self, error: BaseException) -> None:
        with self._mutex:
            self._error = self._error or error
        self.stop()

    def _make_prompts(self, tasks: Iterable[Task | Voiced | None]) -> None:
        """A thread."""
        stop, queue = self.engine.stop, self.engine.queue
        try:
            for voiced, index in self.pieces.opened(self.stage.attach(tasks, stop), stop):
                begun = self._begin(voiced, index)
                ready = [begun] if isinstance(begun, Attempt) else []
                if isinstance(begun, Spoken):
                    whole, ready = self.pieces.closed(voiced.task, index, begun, None)
                    if whole is not None:
                        self.keep(voiced.task, whole)
                for attempt in ready:
                    queue.put(attempt, stop)
            queue.close(stop)
        except BaseException as error:
            self._fail(error)

    def _begin(self, voiced: Voiced, index: int) -> Attempt | Spoken:
        """The first attempt at a piece, or what comes of it where no prompt can be made."""
        queued_s = time.perf_counter()
        task, voice, ticket, problem = voiced
        piece = task.pieces[index]
        first, request = piece.attempts_before + 1, piece.request
        if voice is not None:
            request = replace(request, clone=voice)
        if first > 1:
            request = replace(request, seed=attempt_seed(request.seed, first))
        try:
            if problem is not None:
                raise RequestError(problem)
            prompt = self._prompt(request)
        except RequestError as error:
            log.debug("row %s has no prompt", task.name, exc_info=True)
            return Spoken(error=str(error), seed=piece.request.seed)
        return Attempt(task, index, prompt, first, first, None if index else ticket, queued_s)

    def _prompt(self, request: SpeechRequest) -> Prompt:
        """A request laid out for the model. Raises RequestError."""
        prompt = self.model.prompt(request)
        if problem := too_long(prompt.num_tokens, request.max_frames, self.model.info):
            raise RequestError(problem)
        if self.room is not None and (problem := self.room.problem(prompt)):
            raise RequestError(problem)
        return prompt

    def _retry(self, attempt: Attempt) -> Attempt | None:
        """The next attempt at a piece; called by the engine when one has ended, and by a taker for
        what only the audio shows.
        """
        if attempt.finish is Finish.EOS and attempt.frames < attempt.piece.least_frames:
            attempt.finish = Finish.EARLY
        is_greedy = attempt.prompt.request.sampling.draws_nothing
        done = attempt.number - attempt.first
        if not self.policy.again(attempt.finish, done, attempt.was_nan, is_greedy):
            return None
        log.debug(
            "row %s: attempt %d ended after %d frames (%s); retrying with another seed",
            attempt.name,
            attempt.number,
            attempt.frames,
            attempt.finish or "nan",
        )
        return attempt.next()

    def _lend(self, attempt: Attempt) -> None:
        """The engine's sink, which its vocoder's thread may call as well."""
        self.engine.queue.lend()
        self._ended.put(attempt)

    def _hand_on(self, number: int) -> None:
        """A taker. After a failure it goes on taking attempts, so that nobody waits for room."""
        has_failed = False
        while (attempt := self._ended.get(number)) is not None:
            if has_failed:
                continue
            try:
                self._settle(attempt)
            except BaseException as error:
                has_failed = True
                self._fail(error)

    def _settle(self, attempt: Attempt) -> None:
        """Judge an attempt once its audio is there: it is made again, or ends its piece."""
        attempt.wait()
        verdict = None
        if attempt.samples is not None and attempt.codes is not None and not attempt.is_noise:
            samples, codes = attempt.samples.numpy(), attempt.codes.numpy()
            usual_s = attempt.piece.usual_s
            verdict = judge(samples, codes, self.model.info.frame_s, usual_s)
            if attempt.finish is Finish.EOS and verdict.is_stuck:
                attempt.finish = Finish.STUCK
                if (again := self._retry(attempt)) is not None:
                    self.engine.queue.settle([again])
                    return
        task, spoken = attempt.task, self._spoken(attempt, verdict)
        whole, more = self.pieces.closed(task, attempt.index, spoken, attempt)
        self.engine.queue.settle(more)
        if whole is not None:
            self.keep(task, whole)

    def _spoken(self, attempt: Attempt, verdict: Verdict | None) -> Spoken:
        """What came of the last attempt at a piece; without a verdict no audio did."""
        work = Work(
            prompt_tokens=attempt.prompt.num_tokens,
            bucket=attempt.bucket,
            queue_ms=1000 * (attempt.admitted_s - attempt.queued_s),
            reference_ms=0.0 if attempt.ticket is None else attempt.ticket.milliseconds,
            prefill_ms=attempt.prefill_ms,
            decode_ms=attempt.decode_ms,
            vocoder_ms=attempt.vocoder_ms,
        )
        spoken = partial(
            Spoken,
            attempt.finish,
            frames_dropped=attempt.frames_dropped,
            seed=attempt.prompt.request.seed,
            attempts=attempt.made,
            usual_s=attempt.piece.usual_s,
            work=work,
            queued_s=attempt.queued_s,
        )
        if verdict is None or attempt.samples is None or attempt.codes is None:
            return spoken(error=NOT_FINITE if attempt.is_noise else attempt.trouble)
        is_runaway = self.policy.is_runaway(attempt.finish)
        return spoken(
            error=self._runaway(attempt, verdict) if is_runaway else None,
            samples=attempt.samples.numpy(),
            codes=attempt.codes.numpy(),
            frames=attempt.frames,
            levels=verdict.levels,
            remarks=tuple(verdict.remarks),
        )

    def _runaway(self, attempt: Attempt, verdict: Verdict) -> str:
        tries = f" in {attempt.made} attempts" if attempt.made > 1 else ""
        if attempt.made > attempt.number:
            tries += ", the last of which returned NaN or infinite values"
        frames = "1 frame" if attempt.frames == 1 else f"{attempt.frames} frames"
        length = f"{frames} ({attempt.frames * self.model.info.frame_s:.1f} s)"
        if attempt.finish is Finish.EARLY:
            least = attempt.piece.least_frames
            return f"its audio ended after {length}{tries}; its text takes at least {least} frames"
        if attempt.finish is Finish.STUCK:
            told = ", ".join(remark.text for remark in verdict.remarks)
            return f"its audio got stuck: {told}{tries}"
        return f"its audio did not end within {length}{tries}"


def _as_stop(error: BaseException) -> BaseException:
    """A lost device as the early stop it is; any other error as it came."""
    if not is_device_lost(error):
        return error
    stop = StoppedEarly(
        f"the device failed: {first_line(error)}",
        remedy="finished rows are safe; check the device and run the same command again",
    )
    stop.__cause__ = error
    return stop
