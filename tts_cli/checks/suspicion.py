"""Say which takes to listen to first and why, by what the journal measured.

A row is compared with the other rows of its voice by median and MAD (median absolute deviation),
which outliers do not move. A difference counts where it is both rare, `RARE` robust standard
deviations, and large enough to be heard.
"""

from __future__ import annotations

from collections.abc import Iterable

from tts_cli.checks.baselines import Voices, letters_a_second, pace, unasked_silence_s
from tts_cli.core import Finish, Kind, Remark
from tts_cli.store.take import Take

RARE = 4.0
LEVEL_DB = 4.0
QUIET_DBFS = -45.0  # for any voice
RATE_TIMES = 1.3  # as fast as the voice usually speaks, or as slow
SILENCE_S = 0.8
CLIPPED_SHARE = 0.001
MOST = 10.0  # what one reason adds to a row's suspicion at most

# Kind -> what it means, in the order they are listed.
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
_END_KINDS = {
    Finish.EARLY: Kind.EARLY,
    Finish.MAX_FRAMES: Kind.CUT,
    Finish.STUCK: Kind.STUCK,
}


def reasons_of(speech: Take, voices: Voices) -> list[Remark]:
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
        found.append(remark(Kind.CLIPPED, text, share / CLIPPED_SHARE))
    return sorted(found, key=lambda reason: -reason.weight)


def rate_of(speech: Take, voices: Voices) -> tuple[float, float]:
    """How many times as fast as its voice usually a row is, and by how many deviations it is
    faster; 1 and 0: there is nothing to compare.
    """
    rate, usual = pace(speech), voices.rate(speech)
    return (1.0, 0.0) if rate is None or usual is None else (rate / usual.median, usual.off(rate))


def _of_rate(speech: Take, voices: Voices) -> Iterable[Remark]:
    rate, usual = pace(speech), voices.rate(speech)
    if rate is None or usual is None:
        return
    times = max(rate / usual.median, usual.median / max(rate, 0.1))
    if times >= RATE_TIMES and abs(usual.off(rate)) >= RARE:
        is_fast = rate > usual.median
        text = f"{times:.2f} times as {'fast' if is_fast else 'slow'} as usual for {_name(speech)}"
        text += f", {letters_a_second(speech):.1f} letters per second"
        yield remark(Kind.FAST if is_fast else Kind.SLOW, text, (times - 1) / (RATE_TIMES - 1))


def _of_level(speech: Take, voices: Voices) -> Iterable[Remark]:
    level, usual = speech.level_dbfs, voices.level(speech)
    if level is None:
        yield remark(Kind.QUIET, "digital silence", MOST)
        return
    off = 0.0 if usual is None else level - usual.median
    is_rare = usual is not None and abs(off) >= max(LEVEL_DB, RARE * usual.spread)
    if usual is not None and is_rare:
        text = f"{level:.1f} dBFS; usual for {_name(speech)}: {usual.median:.1f}"
        yield remark(Kind.LOUD if off > 0 else Kind.QUIET, text, abs(off) / LEVEL_DB)
    elif level < QUIET_DBFS:
        yield remark(Kind.QUIET, f"{level:.1f} dBFS", QUIET_DBFS / level + 1)


def _of_silence(speech: Take, voices: Voices) -> Iterable[Remark]:
    silence, usual = unasked_silence_s(speech), voices.silence(speech)
    if usual is None or any(told.kind is Kind.SILENCE for told in speech.remarks):
        return
    if silence >= SILENCE_S and usual.off(silence) >= RARE:
        text = f"near silence for {silence:.1f} s inside"
        yield remark(Kind.SILENCE, text, silence / SILENCE_S)


def severity(reasons: Iterable[Remark]) -> float:
    """One number to sort by; 0: not suspect."""
    return sum(reason.weight for reason in reasons)


def _told(speech: Take) -> Iterable[Remark]:
    """What the run itself noticed."""
    kind = None if speech.finish_reason is None else _END_KINDS.get(speech.finish_reason)
    if kind is not None:
        seconds = f"{speech.audio_s:.1f} s for {speech.text_chars} characters"
        yield remark(kind, f"{KINDS[kind]}: {seconds}", MOST / 2)
    for told in speech.remarks:
        yield told if told.kind in KINDS else told._replace(kind=Kind.OTHER)


def remark(kind: Kind, text: str, weight: float) -> Remark:
    """One of a weight within bounds."""
    return Remark(kind, text, round(min(max(weight, 1.0), MOST), 2))


def _name(speech: Take) -> str:
    return speech.voice_name or "this voice"
