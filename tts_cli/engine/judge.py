"""Judge the audio of a row: whether it stands still, repeats itself or goes on too long. It is
measured once, on the host, from samples and codes.

Whether a row whose attempt has ended is spoken again: one rule for every command that speaks.
"""

from __future__ import annotations

from dataclasses import dataclass

from tts_cli.audio.levels import Array, measure, runs
from tts_cli.config import RunConfig
from tts_cli.core import Finish, Kind, Levels, Remark
from tts_cli.plan.checkpoint import never_ends

SUSPECT_SILENCE_S = 2.0
SUSPECT_REPEAT_S = 1.0
STUCK_S = 4.0  # of either; pauses of released models are shorter
# Longer than this is too long for its text; where neither row nor flag gives a cap, the cap has
# three times the usual rate and 5 s.
LONG_SHARE = 2.0
LONG_S = 2.5


@dataclass(frozen=True)
class Verdict:
    """What was found in one row's audio."""

    levels: Levels
    audio_s: float
    usual_s: float  # what the text usually takes; 0: not known
    repeat_s: float  # longest run of one first code

    @property
    def is_stuck(self) -> bool:
        """Whether the speech stood still for too long to be a pause."""
        return max(self.levels.longest_silence_s, self.repeat_s) >= STUCK_S

    @property
    def remarks(self) -> list[Remark]:
        """What somebody should listen for; empty where nothing was found."""
        found, levels = [], self.levels
        if self.usual_s and self.audio_s > LONG_SHARE * self.usual_s + LONG_S:
            text = f"{self.audio_s:.1f} s long, expected about {self.usual_s:.1f} s"
            found.append(Remark(Kind.LONG, text))
        if levels.silence_inside_s >= SUSPECT_SILENCE_S:
            text = f"near silence for {levels.silence_inside_s:.1f} s"
            found.append(Remark(Kind.SILENCE, text))
        for seconds, where in ((levels.silence_start_s, "start"), (levels.silence_end_s, "end")):
            if seconds >= STUCK_S:  # less of it is a matter of taste
                text = f"near silence for {seconds:.1f} s at the {where}"
                found.append(Remark(Kind.SILENCE, text))
        if self.repeat_s >= SUSPECT_REPEAT_S:
            found.append(Remark(Kind.REPEATS, f"the same first code for {self.repeat_s:.1f} s"))
        return found


def judge(samples: Array, codes: Array, frame_s: float, usual_s: float) -> Verdict:
    """Measure a row.

    Args:
        samples: (n,) float32 in [-1, 1] or int16, n >= 1. codes: (F, K) integers, F >= 1.
        usual_s: what the row's text usually takes; 0: not known.
    """
    audio_s = len(codes) * frame_s
    starts, ends = runs(codes[1:, 0] == codes[:-1, 0])
    same = int((ends - starts).max(initial=0))
    return Verdict(
        levels=measure(samples, audio_s),
        audio_s=audio_s,
        usual_s=usual_s,
        repeat_s=(same + 1) * frame_s,
    )


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

    def is_runaway(self, finish: Finish | None) -> bool:
        """Whether an attempt that ended so is not to be taken for speech."""
        return finish is not None and finish.is_runaway and not self.accepts_truncated

    def again(self, finish: Finish | None, done: int, was_nan: bool, is_greedy: bool) -> bool:
        """Whether there is to be another attempt.

        Args:
            finish: how this one ended; None: with NaN or infinite values.
            done: attempts of this run before it; those that gave NaN count.
            was_nan: one of them did.
            is_greedy: the row draws nothing, so that another seed would change nothing.
        """
        if finish is None:
            return not was_nan
        return self.is_runaway(finish) and not is_greedy and done < self.retries
