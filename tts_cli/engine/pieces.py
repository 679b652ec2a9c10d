"""Tasks opened into the pieces that they are spoken in, and closed again. On its way through the
engine each piece is by itself: it is judged and tried again alone, and batched with whatever else
is spoken. Behind the engine pieces are joined; one that is all of its task is handed on as it is.
Before they are joined they are held against each other: one that is far faster than the rest has
lost words, and is tried again.

Memory is bounded: a task of several pieces is opened only while those that are still to be spoken
are too few to keep the slots busy, and they are admitted in order, before shorter tasks, so that
the tasks opened first are closed first.

How fast the pieces of one text are spoken, beside each other.

A voice keeps its rate within a text, so a piece that is far faster than the others has lost words,
although it may be long enough for any voice. Of 151 pieces of the sample voice (18,900 characters),
150 were at 0.85 to 1.16 times the rate of the median; the last one, at 1.35, had lost the last 9 of
its 33 words.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from tts_cli.audio.join import JoinedPart, join
from tts_cli.audio.levels import measure
from tts_cli.core import Finish, Kind, Piece, Remark, Spoken, Task, Work
from tts_cli.engine.judge import RetryPolicy
from tts_cli.engine.scheduler import BatchSize

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.engine.attempt import Attempt
    from tts_cli.voices.stage import Voiced


log = logging.getLogger(__name__)

SLOTS_AHEAD = 1.5  # pieces still to be spoken, for each slot, that are enough
WAIT_S = 0.2  # between two looks at whether the run was stopped


@dataclass(eq=False)
class _Open:
    """A task whose pieces are being spoken."""

    num_left: int  # pieces not at their end
    spoken: dict[int, Spoken] = field(default_factory=dict)  # at their end, by their index
    next: dict[int, Attempt] = field(default_factory=dict)  # that they may have
    before: dict[int, Spoken] = field(default_factory=dict)  # tried again for their rate


class Pieces:
    """Takes tasks apart and puts them together. `opened` belongs to the thread that makes prompts,
    the rest to any.

    Args:
        batch: slots in use.
        policy: what becomes of pieces that are too fast, and of those that together are too long.
    """

    def __init__(self, info: ModelInfo, batch: BatchSize, policy: RetryPolicy) -> None:
        self.info = info
        self.batch = batch
        self.policy = policy
        self._open: dict[Task, _Open] = {}
        self._num_left = 0
        self._changed = threading.Condition()

    def opened(
        self, tasks: Iterable[Voiced], stop: threading.Event
    ) -> Iterator[tuple[Voiced, int]]:
        """Each task with the index of each of its pieces, once there is room. Ends early when
        `stop` is set.
        """
        for voiced in tasks:
            if voiced.task.is_joined and not self._begin(voiced.task, stop):
                return
            for index in range(len(voiced.task.pieces)):
                if stop.is_set():
                    return
                yield voiced, index

    def _begin(self, task: Task, stop: threading.Event) -> bool:
        """Open a task, once there is room; False when stopped."""
        with self._changed:
            while not self._changed.wait_for(self._has_room, WAIT_S):
                if stop.is_set():
                    return False
            self._open[task] = _Open(len(task.pieces))
            self._num_left += len(task.pieces)
        return True

    def _has_room(self) -> bool:
        return self._num_left < SLOTS_AHEAD * self.batch.rows

    def closed(
        self, task: Task, index: int, spoken: Spoken, last: Attempt | None
    ) -> tuple[Spoken | None, list[Attempt]]:
        """Take what came of a piece.

        Args:
            last: attempt that was made; None: no prompt could be.
        Returns:
            What came of the task, if this was the last of its pieces, and the attempts to be made
            instead, where some were too fast.
        """
        if not task.is_joined:
            return spoken, []
        if spoken.samples is not None and spoken.codes is not None:
            # It waits for the others: not with all that it was copied with.
            codes = spoken.codes.copy()
            spoken = replace(spoken, samples=spoken.samples.copy(), codes=codes)
        with self._changed:
            found = self._open[task]
            found.spoken[index] = spoken
            if last is not None:
                found.next[index] = last.next()
            found.num_left -= 1
            self._num_left -= 1
            self._changed.notify()
            if found.num_left:
                return None, []
            if again := self._again(task, found):
                found.num_left = len(again)
                self._num_left += len(again)
                return None, again
            del self._open[task]
        whole = joined(task, [found.spoken[at] for at in range(len(task.pieces))], self.info)
        most = task.most_frames
        if most is None or whole.frames <= most:
            return whole, []
        error = whole.error
        if error is None and self.policy.is_runaway(Finish.MAX_FRAMES):
            error = f"its pieces have {whole.frames} frames; the maximum is {most}"
        return replace(whole, finish=Finish.MAX_FRAMES, error=error), []

    def _again(self, task: Task, found: _Open) -> list[Attempt]:
        """What is to be made again of a spoken task, since it is too fast beside the rest; it is
        suspect where it cannot be.
        """
        spoken = found.spoken
        for index, before in found.before.items():
            if (now := spoken[index]).error is not None:  # what there was is better than nothing
                dropped, work = now.frames_dropped, now.work
                spoken[index] = replace(
                    before, attempts=now.attempts, frames_dropped=dropped, work=work
                )
        pieces = [spoken[index] for index in range(len(task.pieces))]
        if any(one.error is not None for one in pieces):
            return []
        too_fast = hurried(
            [one.frames * self.info.frame_s for one in pieces],
            [one.usual_s if one.finish is Finish.EOS else 0.0 for one in pieces],
        )
        again = [index for index in too_fast if self._can_repeat(found.next[index])]
        for index in again:
            found.before[index] = spoken[index]
            log.debug("row %s: was far too fast; retrying", found.next[index].name)
        if not again:  # else they are all held against each other once more
            for index, times in too_fast.items():
                text = f"{times:.2f} times as fast as the other pieces"
                remarks = (*pieces[index].remarks, Remark(Kind.FAST, text))
                spoken[index] = replace(pieces[index], remarks=remarks)
        return [found.next[index] for index in again]

    def _can_repeat(self, next: Attempt) -> bool:
        is_greedy = next.prompt.request.sampling.draws_nothing
        return self.policy.again(
            Finish.EARLY, next.number - 1 - next.first, next.was_nan, is_greedy
        )


def joined(task: Task, pieces: list[Spoken], info: ModelInfo) -> Spoken:
    """What came of a task whose pieces are all at their ends. It has audio if all of them have."""
    rate_hz = info.sample_rate_hz
    numbered = list(enumerate(pieces, 1))
    remarks = [
        remark._replace(text=f"piece {number}: {remark.text}")
        for number, piece in numbered
        for remark in piece.remarks
    ]
    errors = [f"piece {at} of {len(pieces)}: {one.error}" for at, one in numbered if one.error]
    whole = Spoken(
        error=errors[0] if errors else None,
        frames_dropped=sum(piece.frames_dropped for piece in pieces),
        seed=task.request.seed,
        attempts=max(piece.attempts for piece in pieces),
        remarks=tuple(remarks),
        usual_s=sum(piece.usual_s for piece in pieces),
        work=sum_of([piece.work for piece in pieces]),
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
            levels=measure(samples, len(samples) / rate_hz),
        )
    facts = zip(task.pieces, pieces, places, strict=True)
    return replace(whole, parts=tuple(part_facts(*one, rate_hz) for one in facts))


def part_facts(piece: Piece, spoken: Spoken, place: JoinedPart, rate_hz: int) -> dict[str, Any]:
    """What came of a piece as its task's line of the journal shows it."""
    return {
        # [characters] position of the first character of the piece in `text`, from 0
        "text_start": piece.written[0],
        "text_end": piece.written[1],  # [characters] position after the last character of the piece
        "start_s": round(place.start / rate_hz, 6),  # start of the piece in the audio
        "end_s": round(place.end / rate_hz, 6),  # end of the piece in the audio
        # [`paragraph`, `sentence`, `clause`, `word`, `pause`] unit of the text that ends after the
        # piece; null: the text ends
        "boundary": piece.boundary,
        "frames": spoken.frames,  # frames of the piece
        "seed": spoken.seed,  # [integer] seed of the piece
        "attempts": spoken.attempts,  # [number] attempts of the piece
        # [text] reason why the piece failed; only in failed pieces
        **({} if spoken.error is None else {"error": spoken.error}),
    }


def sum_of(works: list[Work]) -> Work:
    """What a task took: the work of its pieces. It waited until the first of them had a slot."""
    how = {"bucket": max, "queue_ms": min}  # and all others are added up
    all_of = {name: [vars(work)[name] for work in works] for name in vars(works[0])}
    return Work(**{name: how.get(name, sum)(values) for name, values in all_of.items()})


HURRIED = 1.25  # times the rate of the other pieces
LEAST_USUAL_S = 4.0  # shorter texts are said at any rate
LEAST_OTHERS = 3


def hurried(spoken_s: Sequence[float], usual_s: Sequence[float]) -> dict[int, float]:
    """Pieces that are too fast for their text.

    Args:
        spoken_s: seconds of each piece's speech.
        usual_s: what its text usually takes; 0: not known.
    Returns:
        How many times as fast as the median of the others, by the piece's index.
    """
    rates = {
        place: usual / spoken
        for place, (spoken, usual) in enumerate(zip(spoken_s, usual_s, strict=True))
        if spoken > 0 and usual >= LEAST_USUAL_S
    }
    found = {}
    for place, rate in rates.items():
        others = [other for at, other in rates.items() if at != place]
        if len(others) >= LEAST_OTHERS and rate > HURRIED * median(others):
            found[place] = rate / median(others)
    return found
