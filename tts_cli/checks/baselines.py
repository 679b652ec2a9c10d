"""Usual values of a voice, by median and a robust standard deviation, which outliers do not move.

The length of speech is estimated from its text: letters, and `STOP_LETTERS` for every comma or full
stop inside it.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from statistics import median, quantiles
from typing import NamedTuple, TypeVar

from tts_cli.checks.verdicts import MosScores, Transcript, VoiceSimilarity
from tts_cli.core import Finish
from tts_cli.store.entry import JournalEntry
from tts_cli.text.pauses import without_pauses
from tts_cli.text.tables import script

K = TypeVar("K", bound=Hashable)

MIN_ROWS = 8  # of a voice
MIN_LETTERS = 20  # the length of shorter texts varies too much
STOP_LETTERS = 3.0  # that take as long as a stop inside a text
_JOINT_SLACK_S = 0.3  # silence that the ends of two parts add to a joint
_IDEOGRAPH_LETTERS = 3.0  # that take as long as one syllabic or logographic character
_NORMAL_MAD = 1.4826  # standard deviation of a normal distribution, in MADs (median deviations)
_NORMAL_QUARTILE = 0.6745  # quartile of a normal distribution, in standard deviations
_IDEOGRAPH = re.compile(f"[{script('kana', 'ideographs', 'more_ideographs', 'hangul')}]")
_STOP = re.compile(
    '[,;:.!?\u2026\u2013\u2014]+(?=[\\s"\u201d\u2019)])|[\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f]+'
)


class RobustStats(NamedTuple):
    median: float
    spread: float  # robust standard deviation

    @classmethod
    def of(cls, numbers: list[float]) -> RobustStats:
        """Return median and scaled median deviation."""
        middle = median(numbers)
        return cls(middle, _NORMAL_MAD * median(abs(number - middle) for number in numbers))

    @classmethod
    def of_errors(cls, numbers: list[float]) -> RobustStats:
        """Return the same with the spread of the upper quartile: most errors of a voice that a
        recognizer understands well are 0.
        """
        middle = median(numbers)
        return cls(middle, (quantiles(numbers, n=4)[2] - middle) / _NORMAL_QUARTILE)

    def off(self, value: float) -> float:
        return (value - self.median) / max(self.spread, 1e-9)


def usual_values(
    numbers: Mapping[K, list[float]], are_errors: bool = False
) -> dict[K, RobustStats]:
    """Return the statistics of each key that has enough numbers."""
    statistics = RobustStats.of_errors if are_errors else RobustStats.of
    return {key: statistics(found) for key, found in numbers.items() if len(found) >= MIN_ROWS}


class Evidence(NamedTuple):
    """Everything that was measured of a take; None: not measured."""

    take: JournalEntry
    transcript: Transcript | None = None
    similarity: VoiceSimilarity | None = None
    mos: MosScores | None = None


def letters_per_second(take: JournalEntry) -> float | None:
    """Return letters and digits per second of speech; None for short and unknown texts."""
    seconds = speech_s(take)
    return None if seconds is None else (take.letters or 0) / seconds


def pace(take: JournalEntry) -> float | None:
    """Return the same with stops counted as letters, and characters of syllabic or logographic
    scripts counted as several.
    """
    seconds = speech_s(take)
    if seconds is None:
        return None
    said = without_pauses(take.said or "").rstrip().rstrip(".!?\u3002\uff01\uff1f\u2026")
    letters = float(take.letters or 0)
    if not said.isascii():
        letters += (_IDEOGRAPH_LETTERS - 1) * len(_IDEOGRAPH.findall(said))
    return (letters + STOP_LETTERS * len(_STOP.findall(said))) / seconds


def speech_s(take: JournalEntry) -> float | None:
    """Return seconds of speech, without silence at the ends and between parts; None for short
    and unknown texts.
    """
    if take.finish_reason is Finish.WORDLESS or (take.letters or 0) < MIN_LETTERS:
        return None
    silent_s = (take.silence_start_s or 0.0) + (take.silence_end_s or 0.0)
    seconds = take.samples_s - silent_s - take.speed * sum(_gaps_s(take))
    return seconds if seconds > 0.2 else None


def unexpected_silence_s(take: JournalEntry) -> float:
    """Return the longest near-silence between two sounds, 0 if it can be a pause of the text or a
    joint of parts. Only the longest one is known, so that a shorter one next to a pause is missed.
    """
    gaps, silence_s = _gaps_s(take), take.silence_inside_s or 0.0
    is_asked = bool(gaps) and silence_s <= max(gaps) + _JOINT_SLACK_S
    return 0.0 if is_asked else silence_s


def _gaps_s(take: JournalEntry) -> list[float]:
    places = zip(take.parts, take.parts[1:], strict=False)
    return [max(0.0, after["start_s"] - part["end_s"]) for part, after in places]


def num_letters(transcript: Transcript) -> tuple[int, int]:
    wanted = sum(len(one.wanted.replace(" ", "")) for one in transcript.segments)
    return wanted, sum(len(one.heard.replace(" ", "")) for one in transcript.segments)


def length_ratio(transcript: Transcript) -> float:
    wanted, heard = num_letters(transcript)
    return heard / wanted if wanted else 1.0


def voice_of(take: JournalEntry) -> Hashable:
    """Return a key of the takes that should sound alike: those of a name, a recording, a row
    that others follow, or a description.
    """
    for name in ("voice", "ref_sha256", "anchor", "instruct"):
        if value := getattr(take, name):
            return name, value
    return "anchor", take.id  # of itself, or of those that follow it


def _script_of(one: Evidence) -> Hashable:
    """Return a key of a voice, and whether most of a text are signs for syllables or words."""
    said = one.take.said or ""
    has_signs = not said.isascii() and 3 * len(_IDEOGRAPH.findall(said)) > len(said)
    return one.take.voice_name, has_signs


def _recognizer_of(one: Evidence) -> Hashable:
    """Return a key of a voice and a recognizer, whose errors differ from those of others."""
    found = one.transcript
    return one.take.voice_name, found and found.recognizer, found and found.unit


class VoiceMeasure(NamedTuple):
    measure: Callable[[Evidence], float | None]
    key: Callable[[Evidence], Hashable]  # of the takes to compare with
    is_error: bool = False  # of a recognizer; a voice with few rows is compared with all voices


def _speech(measure: Callable[[JournalEntry], float | None]) -> Callable[[Evidence], float | None]:
    return lambda one: measure(one.take) if one.take.is_ok and one.take.frames else None


def _words(measure: Callable[[Transcript], float]) -> Callable[[Evidence], float | None]:
    return lambda one: None if one.transcript is None else measure(one.transcript)


PACE = VoiceMeasure(_speech(pace), _script_of)
LEVEL = VoiceMeasure(_speech(lambda take: take.level_dbfs), lambda one: one.take.voice_name)
SILENCE = VoiceMeasure(_speech(unexpected_silence_s), lambda one: one.take.voice_name)
CER = VoiceMeasure(_words(lambda found: found.cer), _recognizer_of, is_error=True)
WRONG_LETTERS = VoiceMeasure(
    _words(lambda found: found.wrong_letters), _recognizer_of, is_error=True
)
LENGTH = VoiceMeasure(_words(length_ratio), _recognizer_of, is_error=True)
SIMILARITY = VoiceMeasure(
    lambda one: one.similarity.lowest if one.similarity else None, lambda one: voice_of(one.take)
)
MOS = VoiceMeasure(lambda one: one.mos.mos if one.mos else None, lambda one: voice_of(one.take))
OF_AUDIO = (CER, WRONG_LETTERS, LENGTH, SIMILARITY, MOS)  # the journal does not have these
_ALL = (PACE, LEVEL, SILENCE, *OF_AUDIO)
_UNKNOWN = RobustStats(1.0, math.inf)  # of errors: any value is usual


class VoiceBaselines:
    """Usual values of every voice, by the takes of a folder that are current and ok."""

    def __init__(self, takes: Iterable[Evidence]) -> None:
        values: dict[VoiceMeasure, dict[Hashable, list[float]]] = {
            baseline: defaultdict(list) for baseline in _ALL
        }
        for one in takes:
            for baseline, by_voice in values.items():
                if (value := baseline.measure(one)) is not None:
                    by_voice[baseline.key(one)].append(value)
                    if baseline.is_error:
                        by_voice[None].append(value)
        self._stats = {
            baseline: usual_values(by_voice, baseline.is_error)
            for baseline, by_voice in values.items()
        }

    def stats(self, baseline: VoiceMeasure, one: Evidence) -> RobustStats | None:
        """Return the usual values for the voice of a take; None: too few rows."""
        found = self._stats[baseline]
        if baseline.is_error:
            return found.get(baseline.key(one)) or found.get(None) or _UNKNOWN
        return found.get(baseline.key(one))
