"""The threads of one run on a loaded model: tasks in, results out.

One thread makes prompts, the caller's thread runs the engine, and writer threads wait for samples,
measure them, and retry them or pass on their results. `tts_cli/README.md` lists the queues.
"""

from __future__ import annotations

import logging
import math
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from models.base import RequestError
from tts_cli.audio.file import NOT_FINITE
from tts_cli.core import Finish, Keep, Result, Task
from tts_cli.engine.load import Loaded, ScopedSetting, on_device
from tts_cli.engine.loop import Engine
from tts_cli.engine.pieces import Attempt, AudioMetrics, Pieces, RetryPolicy, measure
from tts_cli.errors import StoppedEarly, first_line, is_device_lost
from tts_cli.plan.room import too_long
from tts_cli.seeds import attempt_seed
from tts_cli.voices.needs import Cloning
from tts_cli.voices.voice_loader import TaskWithVoice, VoiceLoader

log = logging.getLogger(__name__)

READY_ATTEMPTS = 256  # attempts with prompts, ready for the engine's window
FINISHED_FRAMES = 32_768  # frames of finished attempts, before the engine waits; 126 MB of int16
# Threads that measure and write; they wait for the disk most of the time. With more of them the
# engine's thread waits for Python: 4,096 short lines on an H200 take 5.9 s with three, and 7.3 s
# with eight. Compressed formats and filters need eight, because they work without Python's lock.
WRITERS = 3
ENCODERS = 8
MAX_GROUP = 32  # attempts that a writer thread takes at once, and rows of one commit
GROUP_FRAMES = 4096  # frames of these, not counting the last attempt; 16 MB of int16
WAIT_S = 0.2  # between two checks whether the run was stopped
SWITCH_S = 0.001  # longest time that another thread can run Python while the engine waits
SWITCHES = ScopedSetting(sys.getswitchinterval, sys.setswitchinterval, SWITCH_S)


class FinishedQueue:
    """Finished attempts in order. It is full at `max_frames` frames, without the last attempt."""

    def __init__(self, max_frames: int, num_threads: int) -> None:
        self._max_frames = max_frames
        self._num_threads = num_threads
        self._frames = 0
        self._attempts: deque[Attempt] = deque()
        self._is_closed = False
        lock = threading.Lock()  # guards the fields above
        self._has_room = threading.Condition(lock)
        self._has_attempt = threading.Condition(lock)

    def put(self, attempt: Attempt) -> None:
        """Add an attempt. Waits while the queue is full."""
        with self._has_room:
            while self._frames >= self._max_frames:
                self._has_room.wait()
            self._attempts.append(attempt)
            self._frames += attempt.frames
            self._has_attempt.notify()

    def get(self) -> list[Attempt]:
        """Remove the oldest attempts, one thread's share of the queue. Waits for one. An empty list
        means that the queue is closed.
        """
        with self._has_attempt:
            while not self._attempts and not self._is_closed:
                self._has_attempt.wait()
            count = min(MAX_GROUP, math.ceil(len(self._attempts) / self._num_threads))
            group: list[Attempt] = []
            frames = 0
            while len(group) < count and frames < GROUP_FRAMES:
                group.append(self._attempts.popleft())
                frames += group[-1].frames
            self._frames -= frames
            self._has_room.notify()
            return group

    def close(self) -> None:
        with self._has_attempt:
            self._is_closed = True
            self._has_attempt.notify_all()


class SpeechRun:
    """One pass over tasks, on a model that is prepared for them.

    Args:
        keep: receives the result of every task. Several threads call it: the writers, and the
            prompt thread for tasks without a prompt.
        cloning: finds the voices of tasks that clone; None: no task does, or tasks have them.
        is_int16: samples are int16, made on the device, instead of float32.
        writers: number of writer threads, and of concurrent calls of `keep`.
    """

    def __init__(
        self,
        loaded: Loaded,
        keep: Keep,
        policy: RetryPolicy,
        *,
        cloning: Cloning | None = None,
        is_int16: bool = False,
        writers: int = WRITERS,
    ) -> None:
        self.model = loaded.model
        self.device = loaded.device
        self.keep = keep
        self.policy = policy
        self.room = loaded.room
        self.writers = writers
        self.stage = None if cloning is None else VoiceLoader(cloning, loaded.voices)
        self.pieces = Pieces(self.model.info, loaded.batch, policy)
        self.input: queue.Queue[Attempt | None] = queue.Queue(READY_ATTEMPTS)
        self._finished = FinishedQueue(FINISHED_FRAMES, writers)
        self.engine = Engine(
            loaded.model,
            loaded.device,
            loaded.batch,
            self.input,
            self._finished.put,
            self._retry,
            chore=loaded.voices.encode_pending if self.model.info.can_clone else None,
            is_int16=is_int16,
        )
        self._mutex = threading.Lock()  # guards the next field
        self._error: BaseException | None = None  # the first error of any thread

    def speak(self, tasks: Iterable[Task | TaskWithVoice | None]) -> None:
        """Synthesize tasks; a separate thread advances their iterator.

        Args:
            tasks: some may have their voices; None: no task has come for a while.
        Raises:
            StoppedEarly: the device is lost, or has no memory for even one row.
            Exception: the first error of any thread, after all threads have ended.
        """
        threads = [threading.Thread(target=self._make_prompts, args=(tasks,), name="prompts")]
        threads += [
            threading.Thread(target=self._write, name=f"writer-{number}")
            for number in range(self.writers)
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
                self._finished.close()
                for thread in threads:
                    thread.join()
                is_lost = self._error is not None and is_device_lost(self._error)
                if not is_whole and not is_lost:  # free the slots of unfinished rows
                    with self.engine.streams.frames():
                        self.model.release(list(range(num_slots)))
        if self._error is not None:
            raise _as_stop(self._error)

    def stop(self) -> None:
        """Ask every thread to end after its current work. Thread-safe."""
        self.engine.stop.set()

    def _fail(self, error: BaseException) -> None:
        with self._mutex:
            self._error = self._error or error
        self.stop()

    def _make_prompts(self, tasks: Iterable[Task | TaskWithVoice | None]) -> None:
        """Body of the prompt thread."""
        stop = self.engine.stop
        try:
            if self.stage is not None:
                tasks = self.stage.attach(tasks, stop)
            for voiced, index in self.pieces.opened(tasks, stop):
                first = self._first(voiced, index)
                if isinstance(first, Attempt):
                    self._offer(first)
                    continue
                whole, _ = self.pieces.close(voiced.task, index, first, None)
                if whole is not None:
                    self.keep([(voiced.task, whole)])
            self._offer(None)
        except BaseException as error:
            self._fail(error)

    def _offer(self, attempt: Attempt | None) -> None:
        """Put an attempt, or None for the end, into the input queue when it has room."""
        while not self.engine.stop.is_set():
            try:
                self.input.put(attempt, timeout=WAIT_S)
                return
            except queue.Full:
                continue

    def _first(self, voiced: TaskWithVoice, index: int) -> Attempt | Result:
        """Return the first attempt at a piece, or its result if no prompt can be made."""
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
            prompt = self.model.prompt(request)
            problem = too_long(prompt.num_tokens, request.max_frames, self.model.info)
            if problem is None and self.room is not None:
                problem = self.room.problem(prompt)
            if problem is not None:
                raise RequestError(problem)
        except RequestError as error:
            log.debug("row %s has no prompt", task.name, exc_info=True)
            return Result(error=str(error), seed=piece.request.seed)
        return Attempt(task, index, prompt, first, first, None if index else ticket, queued_s)

    def _retry(self, attempt: Attempt) -> Attempt | None:
        """Return the next attempt at a piece, or None. The engine calls it for finished attempts,
        and a writer thread for audio that is stuck.
        """
        if attempt.finish is Finish.EOS and attempt.frames < attempt.piece.least_frames:
            attempt.finish = Finish.EARLY
        if not self.policy.has_another(attempt, attempt.finish):
            return None
        log.debug(
            "row %s: attempt %d ended after %d frames (%s); retrying with another seed",
            attempt.name,
            attempt.number,
            attempt.frames,
            attempt.finish or "nan",
        )
        return attempt.next()

    def _write(self) -> None:
        """Body of a writer thread: measure finished attempts, and pass on the results of complete
        tasks. After an error it still empties the queue, so that the engine does not wait for room.
        """
        has_failed = False
        while group := self._finished.get():
            if has_failed:
                continue
            try:
                if results := list(filter(None, map(self._measure, group))):
                    self.keep(results)
            except BaseException as error:
                has_failed = True
                self._fail(error)

    def _measure(self, attempt: Attempt) -> tuple[Task, Result] | None:
        """Measure a finished attempt, and retry it if necessary. Return its task's result, or
        None.
        """
        attempt.wait()
        metrics = None
        if attempt.samples is not None and attempt.codes is not None and not attempt.is_noise:
            samples, codes = attempt.samples.numpy(), attempt.codes.numpy()
            metrics = measure(samples, codes, self.model.info.frame_s, attempt.piece.usual_s)
            if attempt.finish is Finish.EOS and metrics.is_stuck:
                attempt.finish = Finish.STUCK
                if (retry := self._retry(attempt)) is not None:
                    self.engine.retries.put([retry])
                    return None
        result = self._result(attempt, metrics)
        whole, retries = self.pieces.close(attempt.task, attempt.index, result, attempt)
        self.engine.retries.put(retries)
        return None if whole is None else (attempt.task, whole)

    def _result(self, attempt: Attempt, metrics: AudioMetrics | None) -> Result:
        """Return the result of a piece from its last attempt. Without metrics it has no audio."""
        result = Result(
            attempt.finish,
            frames_dropped=attempt.frames_dropped,
            seed=attempt.prompt.request.seed,
            attempts=attempt.made,
            usual_s=attempt.piece.usual_s,
            work=attempt.work(),
            queued_s=attempt.queued_s,
        )
        if metrics is None or attempt.samples is None or attempt.codes is None:
            return replace(result, error=NOT_FINITE if attempt.is_noise else attempt.trouble)
        is_runaway = self.policy.is_runaway(attempt.finish)
        return replace(
            result,
            error=self._runaway(attempt, metrics) if is_runaway else None,
            samples=attempt.samples.numpy(),
            codes=attempt.codes.numpy(),
            frames=attempt.frames,
            levels=metrics.levels,
            remarks=tuple(metrics.remarks),
        )

    def _runaway(self, attempt: Attempt, metrics: AudioMetrics) -> str:
        tries = f" in {attempt.made} attempts" if attempt.made > 1 else ""
        if attempt.made > attempt.number:
            tries += ", the last of which returned NaN or infinite values"
        frames = "1 frame" if attempt.frames == 1 else f"{attempt.frames} frames"
        length = f"{frames} ({attempt.frames * self.model.info.frame_s:.1f} s)"
        if attempt.finish is Finish.EARLY:
            least = attempt.piece.least_frames
            return f"its audio ended after {length}{tries}; its text takes at least {least} frames"
        if attempt.finish is Finish.STUCK:
            details = ", ".join(remark.text for remark in metrics.remarks)
            return f"its audio got stuck: {details}{tries}"
        return f"its audio did not end within {length}{tries}"


def _as_stop(error: BaseException) -> BaseException:
    """Return a lost device as StoppedEarly, and other errors unchanged."""
    if not is_device_lost(error):
        return error
    stop = StoppedEarly(
        f"the device failed: {first_line(error)}",
        remedy="finished rows are safe; check the device and run the same command again",
    )
    stop.__cause__ = error
    return stop
