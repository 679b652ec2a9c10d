"""Rows that are spoken in parts. On its way through the engine each part is a row of its own: it is
judged and tried again alone, and batched with whatever else is spoken. Behind the engine the parts
are put together, and their row comes to its end as any other. Before, they are held against each
other: one that is far faster than the rest has lost words, and is tried again (`listen/rate.py`).

Memory is bounded: a row is opened only while the parts that are still to be spoken are too few to
keep the slots busy, and parts are admitted in order, before shorter rows, so that the rows opened
first are closed first.

How fast the parts of one text are spoken, beside each other.

A voice keeps its rate within a text, so a part that is far faster than the others has lost words,
although it may be long enough for any voice. Of 151 parts of the sample voice (18,900 characters),
150 were at 0.85 to 1.16 times the rate of the median; the last one, at 1.35, had lost the last 9 of
its 33 words.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tts_cli.audio.join import JoinedPart, Pauses, join
from tts_cli.audio.levels import measure
from tts_cli.core import Finish, Kind, PlannedPart, Remark, SpeechRow, Work
from tts_cli.engine.judge import RetryPolicy
from tts_cli.engine.scheduler import BatchSize
from tts_cli.text.boundaries import Boundary
from tts_cli.text.reading import Reading

if TYPE_CHECKING:
    from models.base import ModelInfo


SLOTS_AHEAD = 1.5  # parts still to be spoken, for each slot, that are enough
WAIT_S = 0.2  # between two looks at whether the run was stopped
# What an attempt at a part leaves in it.
OUTCOME = ("error", "finish_reason", "seed", "frames", "samples", "codes", "levels", "remarks")


class Finished(NamedTuple):
    """What follows from a part at its end."""

    whole: SpeechRow | None  # its row, put together, if it was the last one
    again: list[SpeechRow]  # parts of its row that are to be spoken once more


@dataclass(eq=False)
class _Open:
    """A row whose parts are being spoken."""

    row: SpeechRow
    parts: list[SpeechRow]
    num_left: int  # parts not at their end
    # Parts that are spoken again for their rate, as they were before.
    before: dict[SpeechRow, SpeechRow] = field(default_factory=dict)


class LongRows:
    """Takes rows apart and puts them together. `open` belongs to the thread that makes prompts,
    the rest to any.

    Args:
        batch: slots in use.
        policy: what becomes of a row whose parts together are more than its cap.
    """

    def __init__(
        self, info: ModelInfo, batch: BatchSize, pauses: Pauses, policy: RetryPolicy
    ) -> None:
        self.info = info
        self.batch = batch
        self.pauses = pauses
        self.policy = policy
        self._open: dict[SpeechRow, _Open] = {}
        self._num_left = 0
        self._changed = threading.Condition()

    def open(self, row: SpeechRow, stop: threading.Event) -> list[SpeechRow]:
        """The parts of a row, once there is room; none when stopped."""
        made = row.part_attempts_before or (0,) * len(row.parts)
        parts = [
            SpeechRow(
                f"{row.id}, part {number} of {len(row.parts)}",
                replace(part.request, clone=row.request.clone),
                error=row.error,
                part_of=row,
                is_first_part=number == 1,
                attempts_before=before,
            )
            for number, (part, before) in enumerate(zip(row.parts, made, strict=True), 1)
        ]
        with self._changed:
            while not self._changed.wait_for(self._has_room, WAIT_S):
                if stop.is_set():
                    return []
            self._open[row] = _Open(row, parts, len(parts))
            self._num_left += len(parts)
        return list(parts)

    def _has_room(self) -> bool:
        return self._num_left < SLOTS_AHEAD * self.batch.rows

    def finish(self, part: SpeechRow) -> Finished:
        """Take a part at its end."""
        row = part.part_of
        assert row is not None
        with self._changed:
            found = self._open[row]
            found.num_left -= 1
            self._num_left -= 1
            self._changed.notify()
            if found.num_left:
                return Finished(None, [])
            if again := self._again(found):
                found.num_left = len(again)
                self._num_left += len(again)
                return Finished(None, again)
            del self._open[row]
        put_together(row, found.parts, self.info, self.pauses)
        if row.most_frames is not None and row.frames > row.most_frames:
            row.finish_reason = Finish.MAX_FRAMES
            if row.error is None and self.policy.is_runaway("max_frames"):
                row.error = f"its parts have {row.frames} frames, {row.most_frames} are allowed"
        return Finished(row, [])

    def _again(self, found: _Open) -> list[SpeechRow]:
        """Parts of a spoken row that are too fast beside the others; they are suspect where they
        cannot be tried again.
        """
        for part, before in found.before.items():
            if part.error is not None:  # what there was is better than nothing
                vars(part).update({name: vars(before)[name] for name in OUTCOME})
        if any(part.error is not None for part in found.parts):
            return []
        spoken_s = [part.frames * self.info.frame_s for part in found.parts]
        is_ended = [part.finish_reason is Finish.EOS for part in found.parts]
        usual_s = [
            ended * part.expected_s for ended, part in zip(is_ended, found.parts, strict=True)
        ]
        too_fast = {
            found.parts[place]: times for place, times in hurried(spoken_s, usual_s).items()
        }
        again = [part for part in too_fast if self._can_repeat(part)]
        for part in again:
            found.before[part] = copy.copy(part)
        if not again:  # else they are all held against each other once more
            for part, times in too_fast.items():
                text = f"{times:.2f} times as fast as the other parts"
                part.remarks = [*part.remarks, Remark(Kind.FAST, text)]
        return again

    def _can_repeat(self, part: SpeechRow) -> bool:
        """Whether a part that is too fast may have another attempt."""
        is_greedy = part.request.sampling.draws_nothing
        made = part.attempts - part.attempts_before  # in this run
        return self.policy.is_again("early", made, part.has_been_nan, is_greedy)


def put_together(row: SpeechRow, parts: list[SpeechRow], info: ModelInfo, pauses: Pauses) -> None:
    """Give a row what came of its parts. It has audio if all of them have."""
    rate_hz = info.sample_rate_hz
    row.queued_s = min((part.queued_s for part in parts if part.queued_s is not None), default=None)
    row.attempts = max(part.attempts for part in parts)
    row.frames_dropped = sum(part.frames_dropped for part in parts)
    row.expected_s = sum(part.expected_s for part in parts)
    row.work = sum_of([part.work for part in parts], row)
    numbered = list(enumerate(parts, 1))
    row.remarks = [
        remark._replace(text=f"part {number}: {remark.text}")
        for number, part in numbered
        for remark in part.remarks
    ]
    failed = [
        f"part {number} of {len(parts)}: {part.error}" for number, part in numbered if part.error
    ]
    row.error = failed[0] if failed else None
    places = [JoinedPart(0, 0)] * len(parts)
    samples = [part.samples for part in parts if part.samples is not None]
    codes = [part.codes for part in parts if part.codes is not None]
    if len(samples) == len(parts):
        reasons = [part.finish_reason for part in parts if part.finish_reason is not Finish.EOS]
        row.finish_reason = reasons[0] if reasons else Finish.EOS
        row.samples, places = join(
            samples,
            [behind(part) for part in row.parts[:-1]],
            rate_hz,
            pauses,
            row.parts[0].pause_before_s,
            row.parts[-1].pause_after_s,
        )
        row.codes = np.concatenate(codes)
        row.frames = len(row.codes)
        row.levels = measure(row.samples, len(row.samples) / rate_hz)
    row.part_records = [
        part_record(plan, part, place, rate_hz, row.reading)
        for plan, part, place in zip(row.parts, parts, places, strict=True)
    ]


def behind(part: PlannedPart) -> Boundary | float:
    """What lies behind a part that is not the last one: the pause its text marks comes first."""
    if part.pause_after_s is not None:
        return part.pause_after_s
    assert part.span.boundary is not None, part
    return part.span.boundary


def boundary_label(part: PlannedPart) -> str | None:
    """What the journal calls it."""
    if part.pause_after_s is not None:
        return "pause"
    return None if part.span.boundary is None else part.span.boundary.label


def part_record(
    plan: PlannedPart, part: SpeechRow, place: JoinedPart, rate_hz: int, reading: Reading | None
) -> dict[str, Any]:
    """A part as the row's line of the journal shows it: its text as written."""
    start, end = plan.span.start, plan.span.end
    if reading is not None:
        start, end = reading.written_place(start), reading.written_place(end)
    return {
        "text_start": start,
        "text_end": end,
        "start_s": round(place.start / rate_hz, 6),
        "end_s": round(place.end / rate_hz, 6),
        "boundary": boundary_label(plan),
        "frames": part.frames,
        "seed": part.seed,
        "attempts": part.attempts,
        **({} if part.error is None else {"error": part.error}),
    }


def sum_of(works: list[Work], row: SpeechRow) -> Work:
    """What a row took: the work of its parts. It waited until the first of them had a slot."""
    return Work(
        prompt_tokens=sum(work.prompt_tokens for work in works),
        bucket=max(work.bucket for work in works),
        queue_ms=min(work.queue_ms for work in works),
        reference_ms=0.0 if row.encoding is None else row.encoding.milliseconds,
        prefill_ms=sum(work.prefill_ms for work in works),
        decode_ms=sum(work.decode_ms for work in works),
        vocoder_ms=sum(work.vocoder_ms for work in works),
    )


HURRIED = 1.25  # times the rate of the other parts
LEAST_USUAL_S = 4.0  # shorter texts are said at any rate
LEAST_OTHERS = 3


def hurried(spoken_s: Sequence[float], usual_s: Sequence[float]) -> dict[int, float]:
    """Parts that are too fast for their row.

    Args:
        spoken_s: seconds of each part's speech. usual_s: what its text usually takes; 0: not known.
    Returns:
        How many times as fast as the median of the others, by the part's place.
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
