"""What came of a row: its samples and codes, or why there are none, and what they took."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tts_cli.engine.job import Job
from tts_cli.output.audio_file import NOT_FINITE
from tts_cli.run.retry import RetryPolicy

if TYPE_CHECKING:
    import numpy as np

    from tts_cli.voices.stage import SpeechRow

NAN_ERROR = "the model gave NaN or infinite values twice"


@dataclass(frozen=True)
class Work:
    """What a row took, under the names of `RowRecord`. Times are milliseconds, the row's own share
    where rows run together.
    """

    prompt_tokens: int = 0
    bucket: int = 0  # the largest batch it ran in
    queue_ms: float = 0.0  # from the thread that makes prompts to its slot
    reference_ms: float = 0.0  # encoding a reference, with the row that named it first
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    vocoder_ms: float = 0.0


@dataclass(frozen=True, eq=False)
class Result:
    """The end of one row. With an error it may have samples nevertheless: speech that did not come
    to its end. It belongs to whoever takes it.
    """

    row: SpeechRow
    error: str | None  # None: the row came out well
    seed: int  # of the attempt that was kept
    finish_reason: str | None = None  # eos or max_frames; None if it was not spoken to an end
    attempts: int = 0
    samples: np.ndarray[Any, Any] | None = None  # (n,) float32, or int16 if the run wants them so
    codes: np.ndarray[Any, Any] | None = None  # (F, K) int64; there whenever samples are
    frames: int = 0
    audio_s: float = 0.0
    dropped_s: float = 0.0  # audio of attempts that were made again
    queued_s: float | None = None  # `perf_counter` when its turn came; None: it was not spoken
    work: Work = Work()


def refused(row: SpeechRow, error: str) -> Result:
    """The result of a row that never came to the engine."""
    return Result(row, error, row.request.seed)


def result_of(job: Job, policy: RetryPolicy, frame_s: float) -> Result:
    """The result of a row's last job. Waits for its samples."""
    job.wait()
    row: SpeechRow = job.row
    result = Result(
        row,
        error=NAN_ERROR if job.reason == "nan" else job.reason,
        seed=job.prompt.request.seed,
        attempts=job.attempts,
        dropped_s=row.frames_dropped * frame_s,
        queued_s=job.queued_s,
        work=Work(
            prompt_tokens=job.prompt.num_tokens,
            bucket=job.bucket,
            queue_ms=1000 * (job.admitted_s - job.queued_s),
            reference_ms=0.0 if row.encoding is None else row.encoding.milliseconds,
            prefill_ms=job.prefill_ms,
            decode_ms=job.decode_ms,
            vocoder_ms=job.vocoder_ms,
        ),
    )
    if job.samples is None or job.codes is None:
        return result
    result = replace(result, error=None, finish_reason=job.reason)
    if job.is_bad is not None and bool(job.is_bad):
        return replace(result, error=NOT_FINITE)
    return replace(
        result,
        error=_runaway(job, frame_s) if policy.is_runaway(job.reason) else None,
        samples=job.samples.numpy(),
        codes=job.codes.numpy(),
        frames=job.frames,
        audio_s=job.frames * frame_s,
    )


def _runaway(job: Job, frame_s: float) -> str:
    tries = f" in {job.attempts} attempts" if job.attempts > 1 else ""
    if job.attempts > job.attempt:
        tries += ", the last of which gave NaN or infinite values"
    return f"no end of speech within {job.frames} frames ({job.frames * frame_s:.1f} s){tries}"
