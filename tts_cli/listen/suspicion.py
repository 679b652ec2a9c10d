"""What should be listened to first, by what the journal measured, with the figures that say so.

A row is compared with the other rows of its voice by median and MAD (median absolute deviation),
which outliers do not move. A difference counts where it is both rare, `RARE` robust standard
deviations, and large enough to be heard.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median
from typing import NamedTuple, TypeVar

from tts_cli.listen.speech import Speech

K = TypeVar("K")

MIN_ROWS = 8  # of a voice, to compare with
RARE = 4.0
NORMAL_MAD = 1.4826  # a normal distribution's standard deviation is so many MADs
LEVEL_DB = 4.0
QUIET_DBFS = -45.0  # for any voice
RATE_SHARE = 0.35  # of the voice's usual rate
MIN_LETTERS = 20  # shorter texts take what they like
CLIPPED_SHARE = 0.001
MOST = 10.0  # what one reason adds to a row's suspicion at most

# Kind -> what it means, in the order they are listed.
KINDS: dict[str, str] = {
    "early": "ended before its text can be over",
    "cut": "reached its frame cap",
    "stuck": "stood still for seconds",
    "long": "takes longer than its text should",
    "fast": "far faster than its voice usually speaks",
    "slow": "far slower than its voice usually speaks",
    "silence": "near-silence inside, or long at an end",
    "repeats": "one sound for long",
    "loud": "louder than its voice usually is",
    "quiet": "quieter than its voice usually is",
    "clipped": "samples at full scale",
    "other": "something else that the run noticed",
}
_END_KINDS = {"early": "early", "max_frames": "cut", "stuck": "stuck"}
# Words of the run's own reasons (`run/verdict.py`, `run/long_rows.py`), in this order.
_REASONS = (
    ("expected", "long"),
    ("times as fast", "fast"),
    ("silence", "silence"),
    ("first code", "repeats"),
)
_IDEOGRAPH = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff]")


class Reason(NamedTuple):
    """Why a row is suspect."""

    kind: str
    text: str  # with figures
    weight: float  # 1: just so; `MOST` at most


class Usual(NamedTuple):
    """What rows of a voice have in common."""

    median: float
    spread: float  # robust standard deviation


class Voices:
    """The usual rate and level of every voice.

    Args:
        speeches: all rows of a folder; those that are not ok do not count.
    """

    def __init__(self, speeches: Iterable[Speech]) -> None:
        rates: dict[tuple[str | None, bool], list[float]] = defaultdict(list)
        levels: dict[str | None, list[float]] = defaultdict(list)
        for speech in speeches:
            if not speech.is_ok or not speech.frames:
                continue
            if (rate := letters_a_second(speech)) is not None:
                rates[_rate_key(speech)].append(rate)
            if speech.level_dbfs is not None:
                levels[speech.voice].append(speech.level_dbfs)
        self._rates = _usual(rates)
        self._levels = _usual(levels)

    def rate(self, speech: Speech) -> Usual | None:
        """Of this row's voice, in its kind of script; None: too few rows to tell."""
        return self._rates.get(_rate_key(speech))

    def level(self, speech: Speech) -> Usual | None:
        """Of this row's voice, dBFS; None: too few rows to tell."""
        return self._levels.get(speech.voice)

    def reasons(self, speech: Speech) -> list[Reason]:
        """Why a row should be listened to, the weightiest first; empty: nothing was noticed."""
        found = [*_told(speech)]
        if speech.is_ok and speech.frames:
            found += [*self._of_rate(speech), *self._of_level(speech)]
        if (share := speech.clipped_share or 0.0) > CLIPPED_SHARE:
            text = f"{100 * share:.1f} % of samples are at full scale"
            found.append(_reason("clipped", text, share / CLIPPED_SHARE))
        return sorted(found, key=lambda reason: -reason.weight)

    def _of_rate(self, speech: Speech) -> Iterable[Reason]:
        rate, usual = letters_a_second(speech), self.rate(speech)
        if rate is None or usual is None:
            return
        off = (rate - usual.median) / usual.median
        if abs(off) >= RATE_SHARE and abs(rate - usual.median) >= RARE * usual.spread:
            text = f"{rate:.1f} letters a second; {_name(speech)} usually {usual.median:.1f}"
            # Half the rate is as far off as twice of it.
            weight = abs(off) if off > 0 else usual.median / max(rate, 0.1) - 1
            yield _reason("fast" if off > 0 else "slow", text, weight / RATE_SHARE)

    def _of_level(self, speech: Speech) -> Iterable[Reason]:
        level, usual = speech.level_dbfs, self.level(speech)
        if level is None:
            yield _reason("quiet", "digital silence", MOST)
            return
        off = 0.0 if usual is None else level - usual.median
        is_rare = usual is not None and abs(off) >= max(LEVEL_DB, RARE * usual.spread)
        if usual is not None and is_rare:
            text = f"{level:.1f} dBFS; {_name(speech)} usually {usual.median:.1f}"
            yield _reason("loud" if off > 0 else "quiet", text, abs(off) / LEVEL_DB)
        elif level < QUIET_DBFS:
            yield _reason("quiet", f"{level:.1f} dBFS", QUIET_DBFS / level + 1)


def letters_a_second(speech: Speech) -> float | None:
    """Letters and digits of what was said by seconds of speech, without silence at the ends; None
    where the text is short or not known.
    """
    letters = speech.letters
    if speech.finish_reason == "wordless" or letters is None:
        return None
    seconds = speech.audio_s - speech.silence_start_s - speech.silence_end_s
    return letters / seconds if letters >= MIN_LETTERS and seconds > 0.2 else None


def severity(reasons: Iterable[Reason]) -> float:
    """One number to sort by; 0: not suspect."""
    return sum(reason.weight for reason in reasons)


def _told(speech: Speech) -> Iterable[Reason]:
    """What the run itself noticed."""
    kind = _END_KINDS.get(speech.finish_reason or "")
    if kind is not None:
        seconds = f"{speech.audio_s:.1f} s for {speech.text_chars} characters"
        yield _reason(kind, f"{KINDS[kind]}: {seconds}", MOST / 2)
    for text in speech.suspect:
        kind = next((kind for words, kind in _REASONS if words in text), "other")
        yield _reason(kind, text, 2.0)


def _reason(kind: str, text: str, weight: float) -> Reason:
    return Reason(kind, text, round(min(max(weight, 1.0), MOST), 2))


def _rate_key(speech: Speech) -> tuple[str | None, bool]:
    """Whose rates can be compared: one voice's, in scripts of letters or of syllables and words."""
    said = speech.said or ""
    if said.isascii():
        return speech.voice, False
    return speech.voice, 3 * len(_IDEOGRAPH.findall(said)) > len(said)


def _usual(values: Mapping[K, list[float]]) -> dict[K, Usual]:
    found = {}
    for key, numbers in values.items():
        if len(numbers) >= MIN_ROWS:
            middle = median(numbers)
            mad = median(abs(number - middle) for number in numbers)
            found[key] = Usual(middle, NORMAL_MAD * mad)
    return found


def _name(speech: Speech) -> str:
    return speech.voice or "this voice"
