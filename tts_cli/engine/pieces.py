"""Open tasks into attempts, and close them into results.

A task has one or more pieces, and a piece one or more attempts. Each piece is measured and retried
alone, and batched with the pieces of any task. When the last piece of a task is finished, their
rates are compared: the rate of a voice is stable within a text, so a piece that is far faster than
the others has lost words and is retried. Then the pieces are joined.

Memory is bounded: a task of several pieces is opened only while there are too few unfinished pieces
to fill the slots. Its pieces are admitted in order, before shorter tasks, so that the tasks opened
first are closed first.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from tts_cli.audio import levels
from tts_cli.audio.join import JoinedPart, join
from tts_cli.config import RunConfig
from tts_cli.core import Finish, Kind, Levels, Piece, Remark, Result, Task, Work
from tts_cli.engine.scheduler import BatchSize
from tts_cli.plan.checkpoint import never_ends
from tts_cli.seeds import attempt_seed
from tts_cli.voices.voice_loader import TaskWithVoice

if TYPE_CHECKING:
    import torch

    from models.base import ModelInfo, Prompt, SpeechRequest
    from models.device.spans import DeviceSpan
    from tts_cli.voices.encoding import VoiceFuture

log = logging.getLogger(__name__)

NOT_A_SAMPLE = -32768  # int16, below the range that `to_int16` uses: a sample that was not finite
FRAMES_PER_BYTE = 0.94  # typical speech: 0.075 s for a UTF-8 byte of text
NAN = "the model returned NaN or infinite values twice"
REFERENCE_END_FRAMES = 25  # frames of a reference that pieces after the first need

SUSPECT_SILENCE_S = 2.0
SUSPECT_REPEAT_S = 1.0
STUCK_S = 4.0  # of silence or repetition; pauses of released models are shorter
# Audio of more than LONG_SHARE * usual + LONG_S is too long for its text. Without a cap from the
# row or a flag, the cap is three times the usual length and 5 s.
LONG_SHARE = 2.0
LONG_S = 2.5

PIECES_PER_SLOT = 1.5  # unfinished pieces of joined tasks per slot, before no more are opened
WAIT_S = 0.2  # between two checks whether the run was stopped
TOO_FAST = 1.25  # times the rate of the other pieces
MIN_USUAL_S = 4.0  # the rate of shorter texts varies too much
MIN_OTHERS = 3


@dataclass(eq=False)
class Attempt:
    """One attempt at one piece. One thread owns it at a time: the prompt thread, then the engine,
    on a CPU the vocoder thread, then the writer thread that takes it from the queue.
    """

    # Set by the thread that creates the attempt.
    task: Task
    index: int  # of the piece in the task
    prompt: Prompt  # including the voice to clone
    number: int = 1  # from 1, counts attempts of earlier runs; determines the seed
    first: int = 1  # number of the first attempt of this run
    ticket: VoiceFuture | None = None  # of the voice, in the first task that names it
    queued_s: float = 0.0  # `perf_counter` when the first attempt's prompt was made
    was_nan: bool = False  # an earlier attempt returned NaN or infinite values
    frames_dropped: int = 0  # frames of earlier attempts
    fallback: Attempt | None = None  # an earlier attempt, used if this one has no audio
    # Set by the engine.
    admitted_s: float = 0.0  # `perf_counter`
    prefill: tuple[DeviceSpan, int] | None = None  # span, and the number of rows that share it
    decode_ms: float = 0.0  # this row's share of its steps
    bucket: int = 0  # the largest bucket it ran in
    finish: Finish | None = None  # None: no audio
    trouble: str | None = None  # reason for no audio
    frames: int = 0
    made: int = 0  # number of the last attempt, if later ones had no audio
    # Set by the engine; the vocoder replaces codes by their copy on the host and adds the rest.
    codes: torch.Tensor | None = None  # (F, K) int64
    samples: torch.Tensor | None = None  # (n,) float32 or int16
    vocoder: DeviceSpan | None = None  # of the batch it was decoded in
    vocoder_share: float = 1.0  # of that span, by frames
    copied: DeviceSpan | None = None  # after its end samples and codes are on the host

    def next(self) -> Attempt:
        number = max(self.number, self.made) + 1
        seed = attempt_seed(self.piece.request.seed, number)
        return Attempt(
            self.task,
            self.index,
            replace(self.prompt, request=replace(self.prompt.request, seed=seed)),
            number,
            self.first,
            self.ticket,
            self.queued_s,
            was_nan=self.was_nan or self.finish is None,
            frames_dropped=self.frames_dropped + (0 if self.finish is None else self.frames),
        )

    @property
    def piece(self) -> Piece:
        return self.task.pieces[self.index]

    @property
    def name(self) -> str:
        count = len(self.task.pieces)
        part = f", piece {self.index + 1} of {count}" if count > 1 else ""
        return f"{self.task.name}{part}"

    @property
    def estimated_frames(self) -> float:
        """Return the expected frames. The longest attempts are admitted first, but pieces of joined
        tasks come before all others, in order.
        """
        return math.inf if self.task.is_joined else estimated_frames(self.prompt.request)

    @property
    def reference_codes(self) -> torch.Tensor | None:
        """Codes (R, K) of the reference, which the vocoder decodes first, or None. Pieces after the
        first need only the end of it.
        """
        clone = self.prompt.request.clone
        if clone is None or clone.codes is None or not self.index:
            return None if clone is None else clone.codes
        return clone.codes[-REFERENCE_END_FRAMES:]

    @property
    def num_reference_frames(self) -> int:
        return 0 if self.reference_codes is None else len(self.reference_codes)

    def wait(self) -> None:
        """Wait until samples and codes are on the host."""
        if self.copied is not None:
            self.copied.wait()

    @property
    def is_noise(self) -> bool:
        """Whether int16 samples come from values that were not finite. Call `wait` first."""
        if self.samples is None:
            return False
        samples = self.samples.numpy()
        return samples.dtype == np.int16 and bool(samples.min(initial=0) == NOT_A_SAMPLE)

    def work(self) -> Work:
        """Return the time that the attempt took. Waits for the device."""
        prefill_ms = 0.0
        if self.prefill is not None:
            span, rows = self.prefill
            prefill_ms = span.milliseconds() / rows
        vocoder_ms = 0.0 if self.vocoder is None else self.vocoder.milliseconds()
        return Work(
            prompt_tokens=self.prompt.num_tokens,
            bucket=self.bucket,
            queue_ms=1000 * (self.admitted_s - self.queued_s),
            reference_ms=0.0 if self.ticket is None else self.ticket.milliseconds,
            prefill_ms=prefill_ms,
            decode_ms=self.decode_ms,
            # On a GPU frames ran at the same time, so it took longer than alone.
            vocoder_ms=vocoder_ms * self.vocoder_share,
        )


def estimated_frames(request: SpeechRequest) -> float:
    return min(request.max_frames, FRAMES_PER_BYTE * len(request.text.encode()))


@dataclass(frozen=True)
class AudioMetrics:
    levels: Levels
    audio_s: float
    usual_s: float  # usual length of the text; 0: unknown
    repeat_s: float  # longest run of one first code

    @property
    def is_stuck(self) -> bool:
        """Whether the audio made no progress for too long to be a pause."""
        return max(self.levels.longest_silence_s, self.repeat_s) >= STUCK_S

    @property
    def remarks(self) -> list[Remark]:
        found, measured = [], self.levels
        if self.usual_s and self.audio_s > LONG_SHARE * self.usual_s + LONG_S:
            text = f"{self.audio_s:.1f} s long, expected about {self.usual_s:.1f} s"
            found.append(Remark(Kind.LONG, text))
        if measured.silence_inside_s >= SUSPECT_SILENCE_S:
            text = f"near silence for {measured.silence_inside_s:.1f} s"
            found.append(Remark(Kind.SILENCE, text))
        ends = ((measured.silence_start_s, "start"), (measured.silence_end_s, "end"))
        for seconds, where in ends:
            if seconds >= STUCK_S:  # less is a matter of taste
                text = f"near silence for {seconds:.1f} s at the {where}"
                found.append(Remark(Kind.SILENCE, text))
        if self.repeat_s >= SUSPECT_REPEAT_S:
            found.append(Remark(Kind.REPEATS, f"the same first code for {self.repeat_s:.1f} s"))
        return found


def measure(
    samples: levels.Array, codes: levels.Array, frame_s: float, usual_s: float
) -> AudioMetrics:
    """Measure the audio of a piece.

    Args:
        samples: (n,) float32 in [-1, 1] or int16, n >= 1.
        codes: (F, K) integers, F >= 1.
        usual_s: usual length of the text; 0: unknown.
    """
    audio_s = len(codes) * frame_s
    starts, ends = levels.runs(codes[1:, 0] == codes[:-1, 0])
    repeats = int((ends - starts).max(initial=0))
    found = levels.measure(samples, audio_s)
    return AudioMetrics(found, audio_s, usual_s, (repeats + 1) * frame_s)


@dataclass(frozen=True)
class RetryPolicy:
    """Audio that is not all of its text is retried up to `retries` times; NaN is retried once."""

    retries: int
    accepts_truncated: bool = False  # every end is accepted

    @classmethod
    def of(cls, config: RunConfig) -> RetryPolicy:
        """Return the policy of a run. Random weights never end, so any end is accepted."""
        return cls(config.retries, config.accept_truncated or never_ends(config.model))

    def is_runaway(self, finish: Finish | None) -> bool:
        """Whether audio that finished this way is not all of its text."""
        return finish is not None and finish.is_runaway and not self.accepts_truncated

    def has_another(self, attempt: Attempt, finish: Finish | None) -> bool:
        """Whether another attempt follows. `finish` is None after NaN or infinite values."""
        if finish is None:
            return not attempt.was_nan
        if not self.is_runaway(finish) or attempt.prompt.request.sampling.draws_nothing:
            return False  # without draws another seed changes nothing
        done = max(attempt.number, attempt.made) - attempt.first  # including those with NaN
        return done < self.retries


@dataclass(eq=False)
class _OpenTask:
    """A joined task with unfinished pieces. Guarded by the lock of `Pieces`."""

    num_left: int  # unfinished pieces
    results: dict[int, Result] = field(default_factory=dict)  # of finished pieces, by index
    retries: dict[int, Attempt | None] = field(default_factory=dict)  # if they were too fast
    fast: dict[int, Result] = field(default_factory=dict)  # of pieces retried for their rate


class Pieces:
    """Open tasks into pieces, and close them into results.

    Only the prompt thread calls `opened`; any thread may call `close`. `policy` applies to pieces
    that are too fast, and to joined tasks that are too long.
    """

    def __init__(self, info: ModelInfo, batch: BatchSize, policy: RetryPolicy) -> None:
        self.info = info
        self.batch = batch
        self.policy = policy
        self._changed = threading.Condition()  # guards the fields below
        self._open: dict[Task, _OpenTask] = {}
        self._num_left = 0  # unfinished pieces of all open tasks

    def opened(
        self, tasks: Iterable[Task | TaskWithVoice | None], stop: threading.Event
    ) -> Iterator[tuple[TaskWithVoice, int]]:
        """Yield each task with the index of each of its pieces, as soon as the task may be opened.
        Ends early when `stop` is set. None among `tasks` means that no task has come for a while.
        """
        for task in tasks:
            if stop.is_set():
                return
            if task is None:
                continue
            voiced = TaskWithVoice(task) if isinstance(task, Task) else task
            if voiced.task.is_joined:
                self._open_joined(voiced.task, stop)
            for index in range(len(voiced.task.pieces)):
                if stop.is_set():
                    return
                yield voiced, index

    def _open_joined(self, task: Task, stop: threading.Event) -> None:
        def may_open() -> bool:
            return stop.is_set() or self._num_left < PIECES_PER_SLOT * self.batch.rows

        with self._changed:
            while not self._changed.wait_for(may_open, WAIT_S):
                pass
            self._open[task] = _OpenTask(len(task.pieces))
            self._num_left += len(task.pieces)

    def close(
        self, task: Task, index: int, result: Result, last: Attempt | None
    ) -> tuple[Result | None, list[Attempt]]:
        """Add the result of a piece. `last` is its last attempt; None: it had no prompt.

        Returns the result of the task if this was its last unfinished piece, else None; and retries
        of pieces that were too fast.
        """
        if not task.is_joined:
            return result, []
        if result.samples is not None and result.codes is not None:
            # Copied, because the slices would keep the whole batch of the vocoder in memory.
            codes = result.codes.copy()
            result = replace(result, samples=result.samples.copy(), codes=codes)
        with self._changed:
            opened = self._open[task]
            opened.results[index] = result
            if last is not None:
                has_another = self.policy.has_another(last, Finish.EARLY)
                opened.retries[index] = last.next() if has_another else None
            opened.num_left -= 1
            self._num_left -= 1
            self._changed.notify()
            if opened.num_left:
                return None, []
            if retries := self._retry_fast(task, opened):
                opened.num_left = len(retries)
                self._num_left += len(retries)
                return None, retries
            del self._open[task]
        whole = joined(task, [opened.results[at] for at in range(len(task.pieces))], self.info)
        most = task.most_frames
        if most is None or whole.frames <= most:
            return whole, []
        error = whole.error
        if error is None and self.policy.is_runaway(Finish.MAX_FRAMES):
            error = f"its pieces have {whole.frames} frames; the maximum is {most}"
        return replace(whole, finish=Finish.MAX_FRAMES, error=error), []

    def _retry_fast(self, task: Task, opened: _OpenTask) -> list[Attempt]:
        """Return retries of pieces that are too fast. A piece without another attempt gets a remark
        instead. The caller holds the lock.
        """
        results = opened.results
        for index, before in opened.fast.items():
            if (now := results[index]).error is not None:  # the fast audio is better than none
                results[index] = replace(
                    before, attempts=now.attempts, frames_dropped=now.frames_dropped, work=now.work
                )
        pieces = [results[index] for index in range(len(task.pieces))]
        if any(one.error is not None for one in pieces):
            return []
        fast = too_fast(
            [one.frames * self.info.frame_s for one in pieces],
            [one.usual_s if one.finish is Finish.EOS else 0.0 for one in pieces],
        )
        retries = [retry for index in fast if (retry := opened.retries.get(index)) is not None]
        for retry in retries:
            opened.fast[retry.index] = results[retry.index]
            log.debug("row %s: was far too fast; retrying", retry.name)
        if not retries:  # else all pieces are compared again after the retries
            for index, times in fast.items():
                text = f"{times:.2f} times as fast as the other pieces"
                remarks = (*pieces[index].remarks, Remark(Kind.FAST, text))
                results[index] = replace(pieces[index], remarks=remarks)
        return retries


def joined(task: Task, pieces: list[Result], info: ModelInfo) -> Result:
    """Return the result of a task from those of its pieces. It has audio if all of them have."""
    rate_hz = info.sample_rate_hz
    numbered = list(enumerate(pieces, 1))
    remarks = [
        remark._replace(text=f"piece {number}: {remark.text}")
        for number, piece in numbered
        for remark in piece.remarks
    ]
    errors = [f"piece {at} of {len(pieces)}: {one.error}" for at, one in numbered if one.error]
    whole = Result(
        error=errors[0] if errors else None,
        frames_dropped=sum(piece.frames_dropped for piece in pieces),
        seed=task.request.seed,
        attempts=max(piece.attempts for piece in pieces),
        remarks=tuple(remarks),
        usual_s=sum(piece.usual_s for piece in pieces),
        work=sum_of_work([piece.work for piece in pieces]),
        queued_s=min((one.queued_s for one in pieces if one.queued_s is not None), default=None),
    )
    places = [JoinedPart(0, 0)] * len(pieces)
    waves = [piece.samples for piece in pieces if piece.samples is not None]
    if len(waves) == len(pieces):
        pauses = [piece.pause_after_s or 0.0 for piece in task.pieces[:-1]]
        ends = task.pieces[0].pause_before_s, task.pieces[-1].pause_after_s
        samples, places = join(waves, pauses, rate_hz, *ends)
        codes = np.concatenate([piece.codes for piece in pieces if piece.codes is not None])
        reasons = [piece.finish for piece in pieces if piece.finish is not Finish.EOS]
        whole = replace(
            whole,
            finish=reasons[0] if reasons else Finish.EOS,
            samples=samples,
            codes=codes,
            frames=len(codes),
            levels=levels.measure(samples, len(samples) / rate_hz),
        )
    facts = zip(task.pieces, pieces, places, strict=True)
    return replace(whole, parts=tuple(part_facts(*one, rate_hz) for one in facts))


def part_facts(piece: Piece, result: Result, place: JoinedPart, rate_hz: int) -> dict[str, Any]:
    return {
        # [characters] position of the first character of the piece in `text`, from 0
        "text_start": piece.written[0],
        "text_end": piece.written[1],  # [characters] position after the last character of the piece
        "start_s": round(place.start / rate_hz, 6),  # start of the piece in the audio
        "end_s": round(place.end / rate_hz, 6),  # end of the piece in the audio
        # [`paragraph`, `sentence`, `clause`, `word`, `pause`] unit of the text that ends after the
        # piece; null: the text ends
        "boundary": piece.boundary,
        "frames": result.frames,  # frames of the piece
        "seed": result.seed,  # [integer] seed of the piece
        "attempts": result.attempts,  # [number] attempts of the piece
        # [text] reason why the piece failed; only in failed pieces
        **({} if result.error is None else {"error": result.error}),
    }


def sum_of_work(works: list[Work]) -> Work:
    """Return the work of a task from that of its pieces. It waited until the first had a slot."""
    how = {"bucket": max, "queue_ms": min}  # all others are added up
    all_of = {name: [vars(work)[name] for work in works] for name in vars(works[0])}
    return Work(**{name: how.get(name, sum)(values) for name, values in all_of.items()})


def too_fast(audio_s: Sequence[float], usual_s: Sequence[float]) -> dict[int, float]:
    """Return the pieces that are too fast, by index: their rate over the median of the others.

    Args:
        audio_s: seconds of each piece's audio.
        usual_s: usual seconds of each text; 0: unknown.
    """
    rates = {
        index: usual / audio
        for index, (audio, usual) in enumerate(zip(audio_s, usual_s, strict=True))
        if audio > 0 and usual >= MIN_USUAL_S
    }
    found = {}
    for index, rate in rates.items():
        others = [other for at, other in rates.items() if at != index]
        if len(others) >= MIN_OTHERS and rate > TOO_FAST * median(others):
            found[index] = rate / median(others)
    return found
