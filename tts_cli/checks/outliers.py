"""Find the takes that should be listened to, by a table of checks.

A take is compared with the usual values of its voice in its folder (`baselines.py`). A difference
counts if it is audible, and rare: a number of robust standard deviations.

Recognizers make errors, and with some voices more than with others. The limits of these checks
therefore follow the usual errors of the voice, between a minimum and a maximum. They count letters,
because a recognizer that does not know the text transcribes "the river was too wide" as "there ever
was you lied": every word wrong, two letters in five.

`samples/evidence/checking.md` has the share of planted faults that are found, and of false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tts_cli.checks.asr.compare import repeat_of
from tts_cli.checks.baselines import (
    CER,
    LENGTH,
    LEVEL,
    MOS,
    OF_AUDIO,
    PACE,
    SILENCE,
    SIMILARITY,
    WRONG_LETTERS,
    Evidence,
    RobustStats,
    VoiceBaselines,
    VoiceMeasure,
    letters_per_second,
    num_letters,
    pace,
)
from tts_cli.checks.verdicts import TakeVerdict, Transcript
from tts_cli.core import Finish, Kind, Remark
from tts_cli.store.entry import JournalEntry

MAX_WEIGHT = 10.0  # of a reason

# Kind -> its meaning, in the order in which the page lists them.
KINDS: dict[Kind, str] = {
    Kind.EARLY: "ended before its text can be over",
    Kind.CUT: "reached the maximum length",
    Kind.STUCK: "got stuck for seconds",
    Kind.LONG: "takes longer than expected for its text",
    Kind.FAST: "far faster than usual for its voice",
    Kind.SLOW: "far slower than usual for its voice",
    Kind.SILENCE: "near silence inside, or too long at an end",
    Kind.REPEATS: "the same sound for a long time",
    Kind.LOUD: "louder than usual for its voice",
    Kind.QUIET: "quieter than usual for its voice",
    Kind.CLIPPED: "samples at full scale",
    Kind.WORDS: "the transcript differs from the text, or is empty",
    Kind.GARBLED: "the transcript differs from the text for a whole passage",
    Kind.LESS: "the transcript is shorter than the text",
    Kind.MORE: "the transcript is longer than the text",
    Kind.DRIFT: "does not sound like its voice",
    Kind.QUALITY: "sounds worse than usual for its voice",
    Kind.OTHER: "a note of the run",
}
_END_KINDS = {Finish.EARLY: Kind.EARLY, Finish.MAX_FRAMES: Kind.CUT, Finish.STUCK: Kind.STUCK}

ABOVE, BELOW = 1, -1
Measure = Callable[[Evidence, VoiceBaselines], float | None]


def _value(side: int, value: float, usual: float) -> float:
    return side * value


def _difference(side: int, value: float, usual: float) -> float:
    return side * (value - usual)


def _ratio(side: int, value: float, usual: float) -> float:
    return float((max(value, 0.1) / usual) ** side) - 1


def _of(baseline: VoiceMeasure) -> Measure:
    return lambda one, found: baseline.measure(one)


def _digital_silence(one: Evidence, found: VoiceBaselines) -> float | None:
    take = one.take
    return MAX_WEIGHT if take.is_ok and take.frames and take.level_dbfs is None else None


def _silence(one: Evidence, found: VoiceBaselines) -> float | None:
    is_known = any(told.kind is Kind.SILENCE for told in one.take.remarks)
    return None if is_known else SILENCE.measure(one)


def _length(one: Evidence, found: VoiceBaselines, min_letters: int = 7) -> float | None:
    """Return the length of a transcript that is off the usual one by two short words or more."""
    length, stats = LENGTH.measure(one), found.stats(LENGTH, one)
    if length is None or stats is None or one.transcript is None:
        return None
    letters = abs(length - stats.median) * num_letters(one.transcript)[0]
    return length if letters >= min_letters else None


def _length_with_pace(side: int) -> Measure:
    """Return the length of a transcript if its take is as slow as a longer transcript implies,
    or as fast as a shorter one: 1.12 times, and 2 deviations, because some voices are twice
    as even as others.
    """

    def measure(one: Evidence, found: VoiceBaselines) -> float | None:
        times, deviations = pace_ratio(one, found)
        agrees = times**-side >= 1.12 and -side * deviations >= 2.0
        return _length(one, found) if agrees else None

    return measure


def _length_with_phrase(one: Evidence, found: VoiceBaselines) -> float | None:
    length = _length(one, found, min_letters=4)
    return length if length and one.transcript and repeated_phrase(one.transcript) else None


class Check(NamedTuple):
    """A rule by which a take is suspect.

    The size of a value is compared with a limit: `minimum`, or, if there is a `maximum`, `rare`
    deviations of the baseline, but at least the minimum and at most the maximum. The weight of a
    reason is size / limit.
    """

    kind: Kind
    measure: Measure  # None: the rule does not apply
    minimum: float
    text: str  # fields: see `_facts`
    baseline: VoiceMeasure | None = None  # the rule does not apply without usual values of it
    side: int = ABOVE  # of the usual value
    size: Callable[[int, float, float], float] = _value  # of side, value and usual value
    rare: float = 0.0  # deviations from the usual value
    maximum: float | None = None

    def reason(self, one: Evidence, found: VoiceBaselines) -> Remark | None:
        """Return the reason why a take is suspect by this rule, or None."""
        value = self.measure(one, found)
        stats = found.stats(self.baseline, one) if self.baseline else RobustStats(0.0, 0.0)
        if value is None or stats is None:
            return None
        size, limit = self.size(self.side, value, stats.median), self.minimum
        if self.maximum is not None:
            usual = stats.median if self.size is _value else 0.0
            limit = min(self.maximum, max(self.minimum, usual + self.rare * stats.spread))
        elif self.rare and self.side * stats.off(value) < self.rare:
            return None
        if size < limit:
            return None
        text = self.text.format_map(_facts(one, value, stats.median, size))
        return remark(self.kind, text, size / limit)


# Texts of checks; `_facts` has their fields.
_TIMES = "{times:.2f} times as %s as usual for {voice}, {rate:.1f} letters per second"
_LEVEL = "{value:.1f} dBFS; usual for {voice}: {usual:.1f}"
_PAUSE = "near silence for {value:.1f} s inside"
_FULL = "{percent:.1f} % of samples are at full scale"
_ERRORS = "{wer:.0f} % of {transcript.wanted} {transcript.unit} differ from the text"
_RUN = "{transcript.longest_wrong} {transcript.unit} wrong in a row"
_MORE = "{percent:.0f} % of the text's letters are in the transcript"
_LESS = f"only {_MORE}"
_TWICE = _MORE + ", '{phrase}' twice"
_UNLIKE = "similarity of {where} to its voice {value:.2f}; usual: {usual:.2f}"
_RATED = "{value:.1f} of 5; usual: {usual:.1f}"
# Of each kind, the first check that a take fails counts.
CHECKS = (
    Check(Kind.FAST, _of(PACE), 0.3, _TIMES % "fast", PACE, ABOVE, _ratio, 4.0),
    Check(Kind.SLOW, _of(PACE), 0.3, _TIMES % "slow", PACE, BELOW, _ratio, 4.0),
    Check(Kind.QUIET, _digital_silence, 1.0, "digital silence"),
    Check(Kind.LOUD, _of(LEVEL), 4.0, _LEVEL, LEVEL, ABOVE, _difference, 4.0),
    Check(Kind.QUIET, _of(LEVEL), 4.0, _LEVEL, LEVEL, BELOW, _difference, 4.0),
    Check(Kind.QUIET, _of(LEVEL), 45.0, "{value:.1f} dBFS", side=BELOW),
    Check(Kind.SILENCE, _silence, 0.8, _PAUSE, SILENCE, rare=4.0),
    Check(Kind.CLIPPED, lambda one, found: one.take.clipped_share, 0.001, _FULL),
    Check(Kind.WORDS, _of(CER), 0.25, _ERRORS, CER, rare=6.0, maximum=0.6),
    Check(Kind.GARBLED, _of(WRONG_LETTERS), 15.0, _RUN, WRONG_LETTERS, rare=6.0, maximum=30.0),
    Check(Kind.MORE, _length_with_phrase, 0.05, _TWICE, LENGTH, ABOVE, _difference),
    Check(Kind.MORE, _length_with_pace(ABOVE), 0.1, _MORE, LENGTH, ABOVE, _difference),
    Check(Kind.MORE, _length, 0.15, _MORE, LENGTH, ABOVE, _difference, 6.0, 0.2),
    Check(Kind.LESS, _length_with_pace(BELOW), 0.1, _LESS, LENGTH, BELOW, _difference),
    Check(Kind.LESS, _length, 0.15, _LESS, LENGTH, BELOW, _difference, 6.0, 0.2),
    Check(Kind.DRIFT, _of(SIMILARITY), 0.1, _UNLIKE, SIMILARITY, BELOW, _difference, 5.0, math.inf),
    Check(Kind.QUALITY, _of(MOS), 0.5, _RATED, MOS, BELOW, _difference, 4.0, math.inf),
)
# Kinds that only `check` can find.
MEASURED_KINDS = {check.kind for check in CHECKS if check.baseline in OF_AUDIO}


def _facts(one: Evidence, value: float, usual: float, size: float) -> dict[str, Any]:
    transcript, similarity = one.transcript, one.similarity
    return {
        "value": value,
        "percent": 100 * value,
        "usual": usual,
        "times": 1 + size,
        "voice": one.take.voice_name or "this voice",
        "rate": letters_per_second(one.take),
        "transcript": transcript,
        "wer": transcript and 100 * transcript.wer,
        "phrase": transcript and repeated_phrase(transcript),
        "where": "it" if similarity is None or similarity.lowest_part is None else "a piece",
    }


def outliers(one: Evidence, found: VoiceBaselines) -> list[Remark]:
    """Return the reasons to listen to a take, highest weight first; empty: it is not suspect."""
    failed: dict[Kind, Remark] = {}
    for check in CHECKS:
        if check.kind not in failed and (reason := check.reason(one, found)):
            failed[check.kind] = reason
    return sorted([*_of_run(one.take), *failed.values()], key=lambda reason: -reason.weight)


def _of_run(take: JournalEntry) -> Iterator[Remark]:
    kind = None if take.finish_reason is None else _END_KINDS.get(take.finish_reason)
    if kind is not None:
        seconds = f"{take.audio_s:.1f} s for {take.text_chars} characters"
        yield remark(kind, f"{KINDS[kind]}: {seconds}", MAX_WEIGHT / 2)
    for told in take.remarks:
        yield told if told.kind in KINDS else told._replace(kind=Kind.OTHER)


def reasons_now(
    take: JournalEntry, found: VoiceBaselines, verdict: TakeVerdict | None
) -> list[Remark]:
    """Return the reasons to listen to a take by the journal, and by what `check` measured of the
    same audio. `report` and `--only suspects` use it.

    Args:
        verdict: of this row and take, or None.
    """
    reasons = outliers(Evidence(take), found)
    if verdict is not None and verdict.fits(take.sha256):
        reasons += [reason for reason in verdict.reasons if reason.kind in MEASURED_KINDS]
    return sorted(reasons, key=lambda reason: -reason.weight)


def verdict_of(one: Evidence, sha256: str, found: VoiceBaselines) -> TakeVerdict:
    """Return the verdict about a take with this SHA-256, with everything that was measured."""
    reasons = tuple(outliers(one, found))
    return TakeVerdict(
        *(one.take.id, one.take.take, sha256, "suspect" if reasons else "ok", reasons),
        *(severity(reasons), one.transcript, one.similarity, one.mos),
    )


def rank(one: Evidence, found: VoiceBaselines) -> tuple[float, float]:
    """Return a sort key of takes, best first: the fewest errors, then the most usual pace."""
    error = 0.0 if one.transcript is None else round(one.transcript.cer, 2)
    return error, abs(pace_ratio(one, found)[0] - 1)


def pace_ratio(one: Evidence, found: VoiceBaselines) -> tuple[float, float]:
    """Return a take's pace divided by the usual pace of its voice, and the difference in
    deviations; (1, 0) if there is nothing to compare.
    """
    value, stats = pace(one.take), found.stats(PACE, one)
    if value is None or stats is None:
        return 1.0, 0.0
    return value / stats.median, stats.off(value)


def repeated_phrase(transcript: Transcript) -> str | None:
    """Return a phrase that was transcribed twice in succession, if the text has no more than
    half as many letters twice.
    """
    unit = transcript.unit
    gap, min_letters = (" ", 8) if unit == "words" else ("", 4)

    def repeat(texts: Iterable[str]) -> tuple[str, int]:
        text = gap.join(filter(None, texts))
        return repeat_of(text.split() if gap else list(text), unit) or ("", 0)

    phrase, letters = repeat(one.heard for one in transcript.segments)
    if letters < min_letters:
        return None
    wanted = repeat(one.wanted for one in transcript.segments)[1]
    return phrase if 2 * wanted <= letters else None


def severity(reasons: Iterable[Remark]) -> float:
    """Return the sum of the weights; 0: not suspect."""
    return sum(reason.weight for reason in reasons)


def remark(kind: Kind, text: str, weight: float) -> Remark:
    """Return a remark whose weight is within its bounds."""
    return Remark(kind, text, round(min(max(weight, 1.0), MAX_WEIGHT), 2))
