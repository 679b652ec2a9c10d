"""Whether a row whose attempt has ended is spoken again: one rule for every command that speaks."""

from __future__ import annotations

from dataclasses import dataclass

from tts_cli.config import RunConfig
from tts_cli.run.model_source import never_ends

RUNAWAYS = ("max_frames", "early", "stuck")  # ends of speech that is not all of the text


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
