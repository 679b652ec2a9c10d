"""Whether a take is suspect: by what the journal measured, and by what a recogniser heard in it.

Recognisers err, and on some voices more than on others, so what was heard is compared with what is
usual for that voice in this folder (median and MAD), between bounds: below the lower one nothing is
suspect, above the upper one everything is. What counts is

- `words`: letters wrong, all in all: another text, or none that can be understood;
- `garbled`: letters wrong in one stretch, which the mean of a long row hides;
- `more`, `less`: more or fewer letters were heard than the text has: words said twice, or lost. A
  smaller difference counts where the row is also slower, or faster, than its voice.

Letters, because a recogniser without the text in mind hears "the river was too wide" as "there ever
was you lied": every word wrong, two letters in five. On 240 sentences of the sample voice, 100 of
them with planted faults (`tests/e2e/planted_faults.py --texts choose`, pocketsphinx, 2026-11-22),
good rows had a letter error of up to 0.46 where another text has 0.70 and more, at most 17 wrong
letters in a row, and 0.87 to 1.11 times the letters of their text, where words said twice make 1.12
to 1.6 and a cut 0.52 to 0.87.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import NamedTuple

from tts_cli.listen.speech import Speech
from tts_cli.listen.suspicion import MOST, rate_off, reasons_of
from tts_cli.listen.usual import Usual, Voices, usual
from tts_cli.output.checks import Check, Heard, Reason

RARE = 6.0  # robust deviations; a recogniser's errors have long tails


HEARD_KINDS = ("words", "garbled", "less", "more")  # of reasons that only `check` can give


class Bounds(NamedTuple):
    """Between which a limit may lie, and the least deviation that is taken for usual."""

    least: float
    most: float
    spread: float

    def limit(self, found: Usual | None) -> float:
        """Above which a value is suspect."""
        if found is None:
            return self.most
        usually = found.median + RARE * max(found.spread, self.spread)
        return min(self.most, max(self.least, usually))


LETTER_ERROR = Bounds(0.25, 0.55, 0.04)
WRONG_LETTERS = Bounds(12, 20, 1.5)
LENGTH = Bounds(0.15, 0.2, 0.02)  # off the usual one
# Where the rate says the same: so many deviations off, and this share of the letters.
RATE_OFF = 1.5
LENGTH_WITH_RATE = 0.08
LEAST_LETTERS = 4  # more or fewer, for any length to count


class Ears:
    """What a recogniser usually gets wrong of every voice.

    Args:
        heard: the takes that are rows' files, with what was heard.
    """

    def __init__(self, heard: Iterable[tuple[Speech, Heard]]) -> None:
        values: dict[str, dict[Hashable, list[float]]] = {
            name: defaultdict(list) for name in ("error", "run", "length")
        }
        for speech, found in heard:
            for key in (_key(speech, found), None):  # None: all voices
                values["error"][key].append(found.letter_error)
                values["run"][key].append(found.wrong_letters)
                values["length"][key].append(length_of(found))
        self._usual = {name: usual(found) for name, found in values.items()}

    def usual(self, name: str, speech: Speech, heard: Heard) -> Usual | None:
        """Of this row's voice, else of all; None: too few rows to tell."""
        found = self._usual[name]
        return found.get(_key(speech, heard)) or found.get(None)


def judged(speech: Speech, voices: Voices, check: Check | None) -> list[Reason]:
    """Why a take should be listened to, by the journal and by what `check` noted of this audio: the
    one answer of `report` and `--only suspects`. A line about other audio says nothing.

    Args:
        check: of this row and take; None: there is none.
    """
    found = reasons_of(speech, voices)
    if check is not None and check.fits(speech.sha256):
        found += [reason for reason in check.reasons if reason.kind in HEARD_KINDS]
    return sorted(found, key=lambda reason: -reason.weight)


def judge(speech: Speech, voices: Voices, heard: Heard | None, ears: Ears | None) -> list[Reason]:
    """Why a take should be listened to, the weightiest first; empty: it is fine."""
    found = reasons_of(speech, voices)
    if heard is not None and ears is not None:
        found += of_words(speech, voices, heard, ears)
    return sorted(found, key=lambda reason: -reason.weight)


def of_words(speech: Speech, voices: Voices, heard: Heard, ears: Ears) -> list[Reason]:
    """What is wrong with the words."""
    found = []
    limit = LETTER_ERROR.limit(ears.usual("error", speech, heard))
    if heard.letter_error >= limit:
        text = f"{100 * heard.error:.0f} % of {heard.num_wanted} {heard.unit} not as in the text"
        found.append(_reason("words", text, heard.letter_error / limit))
    limit = WRONG_LETTERS.limit(ears.usual("run", speech, heard))
    if heard.wrong_letters >= limit:
        text = f"{heard.longest_wrong} {heard.unit} wrong in a row"
        found.append(_reason("garbled", text, heard.wrong_letters / limit))
    return [*found, *_of_length(speech, voices, heard, ears)]


def _of_length(speech: Speech, voices: Voices, heard: Heard, ears: Ears) -> Iterable[Reason]:
    usually = ears.usual("length", speech, heard)
    length = length_of(heard)
    off = length - (1.0 if usually is None else usually.median)
    wanted = num_letters(heard)[0]
    if abs(off) * wanted < LEAST_LETTERS:
        return
    spread = None if usually is None else Usual(0.0, usually.spread)
    limit = LENGTH.limit(spread)
    rate = rate_off(speech, voices)
    is_backed = (rate <= -RATE_OFF) if off > 0 else (rate >= RATE_OFF)
    if is_backed:
        limit = LENGTH_WITH_RATE
    if abs(off) >= limit:
        more = "more" if off > 0 else "less"
        text = f"{100 * length:.0f} % of the text's letters were heard"
        yield _reason(more, text, abs(off) / limit)


def num_letters(heard: Heard) -> tuple[int, int]:
    """Letters of the text, and of what was heard."""
    wanted = sum(len(stretch.wanted.replace(" ", "")) for stretch in heard.stretches)
    found = sum(len(stretch.heard.replace(" ", "")) for stretch in heard.stretches)
    return wanted, found


def length_of(heard: Heard) -> float:
    """Letters heard by letters of the text."""
    wanted, found = num_letters(heard)
    return found / wanted if wanted else 1.0


def _key(speech: Speech, heard: Heard) -> Hashable:
    return speech.voice, heard.recogniser, heard.unit


def _reason(kind: str, text: str, weight: float) -> Reason:
    return Reason(kind, text, round(min(max(weight, 1.0), MOST), 2))
