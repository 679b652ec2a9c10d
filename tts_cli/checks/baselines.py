"""What is usual for a voice, by median and MAD (median absolute deviation), which outliers do not
move.

How long speech takes is told by its text: letters, and `STOP_LETTERS` for every comma or full stop
inside it. With 3 of these 400 lines of the sample voice (2026-11-26) had rates with a robust
deviation of 8 (arthur), 7 and 11 %, by letters alone of 9, 9 and 11 %; 88 of the voice before it
had 4, 5 and 4 %. What both ends of a row cost differs in sign from voice to voice, so it is left
out: with 6 letters for it, and 5 for a stop, it was 10, 11 and 15 %, and 4, 6 and 5 %.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from statistics import median
from typing import NamedTuple, TypeVar

from tts_cli.core import Finish
from tts_cli.store.take import Take
from tts_cli.text.pauses import without_pauses

K = TypeVar("K", bound=Hashable)

MIN_ROWS = 8  # of a voice, to compare with
NORMAL_MAD = 1.4826  # a normal distribution's standard deviation is so many MADs
MIN_LETTERS = 20  # shorter texts take what they like
STOP_LETTERS = 3.0  # that would take as long as a stop inside
JOINT_SLACK_S = 0.3  # what the parts' own ends add to a joint
IDEOGRAPH_LETTERS = 3.0  # that take as long as one sign of a script of syllables or words
_IDEOGRAPH = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff]")
_STOP = re.compile(
    '[,;:.!?\u2026\u2013\u2014]+(?=[\\s"\u201d\u2019)])|[\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f]+'
)


class Usual(NamedTuple):
    """What rows of a voice have in common."""

    median: float
    spread: float  # robust standard deviation

    def off(self, value: float) -> float:
        """How many of its deviations a value is off; beyond any where all are the same."""
        distance = value - self.median
        return distance / max(self.spread, 1e-9) if distance else 0.0


class Voices:
    """The usual rate, level and silence of every voice.

    Args:
        speeches: all rows of a folder; those that are not ok do not count.
    """

    def __init__(self, speeches: Iterable[Take]) -> None:
        rates: dict[Hashable, list[float]] = defaultdict(list)
        levels: dict[Hashable, list[float]] = defaultdict(list)
        silences: dict[Hashable, list[float]] = defaultdict(list)
        for speech in speeches:
            if not speech.is_ok or not speech.frames:
                continue
            if (rate := pace(speech)) is not None:
                rates[_rate_key(speech)].append(rate)
            if speech.level_dbfs is not None:
                levels[speech.voice_name].append(speech.level_dbfs)
            silences[speech.voice_name].append(unasked_silence_s(speech))
        self._rates = usual(rates)
        self._levels = usual(levels)
        self._silences = usual(silences)

    def rate(self, speech: Take) -> Usual | None:
        """`pace` of this row's voice, in its kind of script; None: too few rows to tell."""
        return self._rates.get(_rate_key(speech))

    def level(self, speech: Take) -> Usual | None:
        """Of this row's voice, dBFS; None: too few rows to tell."""
        return self._levels.get(speech.voice_name)

    def silence(self, speech: Take) -> Usual | None:
        """`unasked_silence_s` of this row's voice; None: too few rows to tell."""
        return self._silences.get(speech.voice_name)


def usual(values: Mapping[K, list[float]]) -> dict[K, Usual]:
    """Median and robust deviation of what has numbers enough."""
    return {key: usual_of(found) for key, found in values.items() if len(found) >= MIN_ROWS}


def usual_of(numbers: list[float]) -> Usual:
    """Median and robust deviation of some numbers."""
    middle = median(numbers)
    return Usual(middle, NORMAL_MAD * median(abs(number - middle) for number in numbers))


def letters_a_second(speech: Take) -> float | None:
    """Letters and digits of what was said by seconds of speech; None where the text is short or not
    known.
    """
    seconds = speech_s(speech)
    return None if seconds is None else (speech.letters or 0) / seconds


def pace(speech: Take) -> float | None:
    """The same, with what stops take counted as letters; one sign of a script of
    syllables or words is as long as three letters.
    """
    seconds = speech_s(speech)
    if seconds is None:
        return None
    said = without_pauses(speech.said or "").rstrip().rstrip(".!?\u3002\uff01\uff1f\u2026")
    letters = float(speech.letters or 0)
    if not said.isascii():
        letters += (IDEOGRAPH_LETTERS - 1) * len(_IDEOGRAPH.findall(said))
    return (letters + STOP_LETTERS * len(_STOP.findall(said))) / seconds


def speech_s(speech: Take) -> float | None:
    """Seconds of speech, without silence at the ends and between parts; None where the text is
    short or not known.
    """
    if speech.finish_reason is Finish.WORDLESS or (speech.letters or 0) < MIN_LETTERS:
        return None
    silent_s = (speech.silence_start_s or 0.0) + (speech.silence_end_s or 0.0)
    seconds = speech.audio_s - speech.added_s - silent_s - sum(gaps_s(speech))
    return seconds if seconds > 0.2 else None


def gaps_s(speech: Take) -> list[float]:
    """Seconds between a row's parts: pauses that were asked for."""
    places = zip(speech.parts, speech.parts[1:], strict=False)
    return [max(0.0, behind["start_s"] - part["end_s"]) for part, behind in places]


def unasked_silence_s(speech: Take) -> float:
    """The longest near-silence between two sounds that no pause of the text and no joint of its
    parts accounts for. Only the longest of all is known: one in the shade of a longer pause is 0.
    """
    gaps = gaps_s(speech)
    silence_s = speech.silence_inside_s or 0.0
    is_asked = bool(gaps) and silence_s <= max(gaps) + JOINT_SLACK_S
    return 0.0 if is_asked else silence_s


def _rate_key(speech: Take) -> tuple[str | None, bool]:
    """Whose rates can be compared: one voice's, in scripts of letters or of syllables and words."""
    said = speech.said or ""
    if said.isascii():
        return speech.voice_name, False
    return speech.voice_name, 3 * len(_IDEOGRAPH.findall(said)) > len(said)
