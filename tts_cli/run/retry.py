"""Whether a row whose attempt has ended is spoken again: one rule for every command that speaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tts_cli.config import RunConfig
from tts_cli.output.record import RowRecord
from tts_cli.run.model_source import never_ends

RUNAWAYS = ("max_frames", "early", "stuck")  # ends of speech that is not all of the text
_MOST_ATTEMPTS = 1 << 20  # that a line is believed


@dataclass(frozen=True)
class RetryPolicy:
    """Speech that is not all of its text is tried again up to `retries` times, a row gone wrong
    once.
    """

    retries: int
    accepts_truncated: bool = False  # any end is as good as another

    @classmethod
    def of(cls, config: RunConfig) -> RetryPolicy:
        """The rule of a run. Random weights never end their speech, so any end will do."""
        return cls(config.retries, config.accept_truncated or never_ends(config.model))

    def is_runaway(self, reason: str) -> bool:
        """Whether an attempt that ended for `reason` is not to be taken for speech."""
        return reason in RUNAWAYS and not self.accepts_truncated

    def is_again(self, reason: str, attempt: int, has_been_nan: bool, is_greedy: bool) -> bool:
        """Whether there is to be another attempt.

        Args:
            reason: why this one ended: eos, max_frames, early, stuck or nan.
            attempt: its number, from 1; those that gave NaN count.
            has_been_nan: an earlier one gave NaN or infinite values.
            is_greedy: the row draws nothing, so that another seed would change nothing.
        """
        if reason == "nan":
            return not has_been_nan
        return self.is_runaway(reason) and not is_greedy and attempt <= self.retries


def attempts_in_vain(record: RowRecord) -> int:
    """How many draws a failed row's line tells of. Another run goes on behind them: the same ones
    would end the same way.
    """
    return _count(record.attempts) if record.finish_reason in RUNAWAYS else 0


def attempts_at_parts(record: RowRecord, num_parts: int) -> tuple[int, ...]:
    """The same of each part of a row; none at parts that came out well, which nobody has kept. If
    all have, they were too long together, and all are drawn anew.
    """
    parts = record.parts
    if record.finish_reason not in RUNAWAYS or len(parts) != num_parts:
        return ()
    if not all(isinstance(part, dict) for part in parts):
        return ()
    have_failed = [part.get("error") is not None for part in parts]
    is_any = any(have_failed)
    return tuple(
        _count(part.get("attempts")) if has_failed or not is_any else 0
        for part, has_failed in zip(parts, have_failed, strict=True)
    )


def _count(value: Any) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value < _MOST_ATTEMPTS else 0
