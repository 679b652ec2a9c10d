"""What should be listened to first, by what the journal measured, with the figures that say so.

A row is compared with the other rows of its voice by median and MAD (median absolute deviation),
which outliers do not move. A difference counts where it is both rare, `RARE` robust standard
deviations, and large enough to be heard.
"""

from __future__ import annotations

from collections.abc import Iterable

from tts_cli.listen.speech import Speech
from tts_cli.listen.usual import Voices, letters_a_second, pace, unasked_silence_s
from tts_cli.listen.verdicts import Reason

RARE = 4.0
LEVEL_DB = 4.0
QUIET_DBFS = -45.0  # for any voice
RATE_TIMES = 1.3  # as fast as the voice usually speaks, or as slow
SILENCE_S = 0.8
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
    "words": "a recogniser heard another text, or none",
    "garbled": "a recogniser heard other words for a stretch",
    "less": "a recogniser heard less than the text",
    "more": "a recogniser heard more than the text",
    "drift": "sounds unlike its voice",
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


def reasons_of(speech: Speech, voices: Voices) -> list[Reason]:
    """Why a row should be listened to, the weightiest first; empty: nothing was noticed.

    Args:
        voices: what is usual in its folder.
    """
    found = [*_told(speech)]
    if speech.is_ok and speech.frames:
        found += [*_of_rate(speech, voices), *_of_level(speech, voices)]
        found += _of_silence(speech, voices)
    if (share := speech.clipped_share or 0.0) > CLIPPED_SHARE:
        text = f"{100 * share:.1f} % of samples are at full scale"
        found.append(_reason("clipped", text, share / CLIPPED_SHARE))
    return sorted(found, key=lambda reason: -reason.weight)


def rate_times(speech: Speech, voices: Voices) -> float:
    """How many times as fast as its voice usually a row is; 1: nothing to compare."""
    rate, usual = pace(speech), voices.rate(speech)
    return 1.0 if rate is None or usual is None else rate / usual.median


def _of_rate(speech: Speech, voices: Voices) -> Iterable[Reason]:
    rate, usual = pace(speech), voices.rate(speech)
    if rate is None or usual is None:
        return
    times = max(rate / usual.median, usual.median / max(rate, 0.1))
    if times >= RATE_TIMES and abs(usual.off(rate)) >= RARE:
        is_fast = rate > usual.median
        text = f"{times:.2f} times as {'fast' if is_fast else 'slow'} as {_name(speech)} usually"
        text += f", {letters_a_second(speech):.1f} letters a second"
        yield _reason("fast" if is_fast else "slow", text, (times - 1) / (RATE_TIMES - 1))


def _of_level(speech: Speech, voices: Voices) -> Iterable[Reason]:
    level, usual = speech.level_dbfs, voices.level(speech)
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


def _of_silence(speech: Speech, voices: Voices) -> Iterable[Reason]:
    silence, usual = unasked_silence_s(speech), voices.silence(speech)
    if usual is None or any("silence" in told for told in speech.suspect):
        return
    if silence >= SILENCE_S and usual.off(silence) >= RARE:
        text = f"near-silence for {silence:.1f} s inside"
        yield _reason("silence", text, silence / SILENCE_S)


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


def _name(speech: Speech) -> str:
    return speech.voice or "this voice"
