"""Decide whether a take is suspect, by what the journal measured and a recogniser heard.

Recognisers err, and on some voices more than on others, so what was heard is compared with what is
usual for that voice in this folder (median and MAD), between bounds: below the lower one nothing is
suspect, above the upper one everything is. What counts is

- `words`: letters wrong, all in all: another text, or none that can be understood;
- `garbled`: letters wrong in one stretch, which the mean of a long row hides;
- `more`, `less`: more or fewer letters were heard than the text has: words said twice, or lost. A
  smaller difference counts where the row is also far slower, or faster, than its voice, and the
  least where a phrase was heard twice in a row (`asr/compare.py`).

Letters, because a recogniser without the text in mind hears "the river was too wide" as "there ever
was you lied": every word wrong, two letters in five.

The figures below were chosen on lines of the sample voice heard by pocketsphinx
(`tests/e2e/planted_faults.py`). `--texts plain`, 740 lines, 21 to 118 characters long (2026-11-22):
good rows had a letter error of up to 0.54 (but for three, up to 0.77), speech of another text 0.71
and more; at most 23 letters wrong in a row; and 0.81 to 1.18 times the letters of their text (but
for four). What counts as heard twice, on 80 lines of `--texts hands` that were spoken with three or
four words twice (2026-11-23): 74 are found, as many as when any two equal words heard within a few
words of each other counted; held against the text that they were spoken from, and with 70 good
lines of `plain`, 3 of 150 are suspect, none for a phrase. There were 7, 5 of them for a phrase.

The sample voice is another one since 2026-11-26, and half as even. The same bounds find 100 of 100
faults on `--texts show`, as on the old voice, and called 9 of 434 good rows suspect, 4 of them by a
rate that was within 2 deviations of usual (`RATE_RARE`): now 99 and 5; on 600 lines of `plain` 30
of 30 faults, and 2 of 570 good rows instead of 3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from statistics import median, quantiles
from typing import NamedTuple

from tts_cli.checks.asr.compare import repeat_of
from tts_cli.checks.baselines import MIN_ROWS, Usual, Voices, usual
from tts_cli.checks.similarity import voice_of
from tts_cli.checks.suspicion import rate_of, reasons_of, remark, severity
from tts_cli.checks.verdicts import OK, SUSPECT, Check, Heard, Likeness, Opinion
from tts_cli.core import Kind, Remark
from tts_cli.store.take import Take

RARE = 6.0  # deviations; a recogniser's errors have long tails
QUARTILE = 0.6745  # of a normal distribution, in its deviations
# Only by `check`.
HEARD_KINDS = (Kind.WORDS, Kind.GARBLED, Kind.LESS, Kind.MORE, Kind.DRIFT, Kind.QUALITY)


class Bounds(NamedTuple):
    """Between which a limit may lie."""

    least: float
    most: float

    def limit(self, found: Usual | None) -> float:
        """Above which a value is suspect."""
        if found is None:
            return self.most
        return min(self.most, max(self.least, found.median + RARE * found.spread))


LETTER_ERROR = Bounds(0.25, 0.6)
WRONG_LETTERS = Bounds(15, 30)
LENGTH = Bounds(0.15, 0.2)  # off the usual one
LEAST_LETTERS = 7  # more or fewer, for any length to count: two short words
# A smaller difference counts where the rate says the same: so many times as fast or slow as usual,
# and so many deviations off, because some voices are twice as even as others.
RATE_TIMES, RATE_RARE = 1.12, 2.0
LENGTH_WITH_RATE = 0.1
# So many letters, or characters, twice in a row are a phrase said again, where the text has no
# more than half as many twice, and this much more was heard.
TWICE = {"words": 8, "characters": 4}
LENGTH_WITH_PHRASE, LEAST_WITH_PHRASE = 0.05, 4
# Of a cosine: so many deviations below its voice's usual one, and so much. No released encoder was
# at hand, so these two are no more than what is far from usual.
DRIFT_RARE, DRIFT = 5.0, 0.1
# The same of a predicted opinion, of 1 to 5: 70 good rows of the sample voice are at most 3.4
# deviations below; noise 10 dB below the speech is 4.3 to 6.5 (2026-11-25).
QUALITY_RARE, QUALITY = 4.0, 0.5


class Ears:
    """What a recogniser usually gets wrong of every voice. The deviation is taken from the upper
    quartile: of a voice that is mostly understood without an error, the median one says nothing.

    Args:
        heard: the takes that are rows' files, with what was heard.
    """

    def __init__(self, heard: Iterable[tuple[Take, Heard]]) -> None:
        values: dict[str, dict[Hashable, list[float]]] = {
            name: defaultdict(list) for name in ("error", "run", "length")
        }
        for speech, found in heard:
            for key in (_key(speech, found), None):  # None: all voices
                values["error"][key].append(found.letter_error)
                values["run"][key].append(found.wrong_letters)
                values["length"][key].append(length_of(found))
        self._usual = {
            name: {key: _upper(numbers) for key, numbers in of.items() if len(numbers) >= MIN_ROWS}
            for name, of in values.items()
        }

    def usual(self, name: str, speech: Take, heard: Heard) -> Usual | None:
        """Of this row's voice, else of all; None: too few rows to tell."""
        found = self._usual[name]
        return found.get(_key(speech, heard)) or found.get(None)


def _upper(numbers: list[float]) -> Usual:
    """Median, and the deviation by the upper quartile."""
    middle = median(numbers)
    return Usual(middle, (quantiles(numbers, n=4)[2] - middle) / QUARTILE)


def judged(speech: Take, voices: Voices, check: Check | None) -> list[Remark]:
    """Why a take should be listened to, by the journal and by what `check` noted of this audio: the
    one answer of `report` and `--only suspects`. A line about other audio says nothing.

    Args:
        check: of this row and take; None: there is none.
    """
    found = reasons_of(speech, voices)
    if check is not None and check.fits(speech.sha256):
        found += [reason for reason in check.reasons if reason.kind in HEARD_KINDS]
    return sorted(found, key=lambda reason: -reason.weight)


class UsualFigures:
    """Rows held against what is usual of a figure of which more is better, voice by voice.

    Args:
        found: the takes that are rows' files, with their figures.
        rare, least: so many deviations below its voice's usual one, and so much, is suspect.
    """

    def __init__(self, found: Iterable[tuple[Take, float]], rare: float, least: float) -> None:
        values: dict[Hashable, list[float]] = defaultdict(list)
        for speech, figure in found:
            values[voice_of(speech)].append(figure)
        self._usual = usual(values)
        self._rare, self._least = rare, least

    def below(self, speech: Take, figure: float) -> tuple[float, float] | None:
        """What its voice usually has, and by how many times the limit a row is below that; None:
        by less than once, or there are too few rows to tell.
        """
        usually = self._usual.get(voice_of(speech))
        if usually is None:
            return None
        times = (usually.median - figure) / max(self._least, self._rare * usually.spread)
        return (usually.median, times) if times >= 1 else None


def likeness_beside(found: Iterable[tuple[Take, Likeness]]) -> UsualFigures:
    """How like its voice every voice's rows usually are."""
    return UsualFigures(((speech, lowest(drift)) for speech, drift in found), DRIFT_RARE, DRIFT)


def opinions_beside(found: Iterable[tuple[Take, Opinion]]) -> UsualFigures:
    """How every voice's rows are usually rated."""
    return UsualFigures(((speech, opinion.mos) for speech, opinion in found), QUALITY_RARE, QUALITY)


def lowest(drift: Likeness) -> float:
    """The similarity that counts: of the part that is least like its voice."""
    return drift.similarity if drift.lowest_part is None else drift.lowest_part


def verdict_of(
    speech: Take,
    sha256: str,
    voices: Voices,
    heard: tuple[Heard, Ears] | None,
    drift: tuple[Likeness, UsualFigures] | None = None,
    opinion: tuple[Opinion, UsualFigures] | None = None,
) -> Check:
    """A take's verdict, with all that it was given by.

    Args:
        sha256: of the audio that is judged.
        heard: what was heard in it, and what usually is; None: no recogniser listened.
        drift: how like its voice it is, and rows usually are; None: that was not measured.
        opinion: how it is rated, and rows usually are; None: it was not.
    """
    found = reasons_of(speech, voices)
    if heard is not None:
        found += of_words(speech, voices, *heard)
    if drift is not None:
        likeness, beside = drift
        if below := beside.below(speech, lowest(likeness)):
            where = "a piece" if likeness.lowest_part is not None else "it"
            text = (
                f"similarity of {where} to its voice {lowest(likeness):.2f}; usual: {below[0]:.2f}"
            )
            found.append(remark(Kind.DRIFT, text, below[1]))
    if opinion is not None:
        rated, beside = opinion
        if below := beside.below(speech, rated.mos):
            text = f"{rated.mos:.1f} of 5; usual: {below[0]:.1f}"
            found.append(remark(Kind.QUALITY, text, below[1]))
    reasons = tuple(sorted(found, key=lambda reason: -reason.weight))
    return Check(
        speech.id,
        speech.take,
        sha256,
        SUSPECT if reasons else OK,
        reasons,
        severity(reasons),
        None if heard is None else heard[0],
        None if drift is None else drift[0],
        None if opinion is None else opinion[0],
    )


def rank(speech: Take, heard: Heard | None, voices: Voices) -> tuple[float, float]:
    """Of takes without a remark the lowest is the best: the least wrong one, then the one whose
    rate is the most usual.
    """
    error = 0.0 if heard is None else round(heard.letter_error, 2)
    return error, abs(rate_of(speech, voices)[0] - 1)


def of_words(speech: Take, voices: Voices, heard: Heard, ears: Ears) -> list[Remark]:
    """What is wrong with the words."""
    found = []
    limit = LETTER_ERROR.limit(ears.usual("error", speech, heard))
    if heard.letter_error >= limit:
        text = f"{100 * heard.error:.0f} % of {heard.wanted} {heard.unit} differ from the text"
        found.append(remark(Kind.WORDS, text, heard.letter_error / limit))
    limit = WRONG_LETTERS.limit(ears.usual("run", speech, heard))
    if heard.wrong_letters >= limit:
        text = f"{heard.longest_wrong} {heard.unit} wrong in a row"
        found.append(remark(Kind.GARBLED, text, heard.wrong_letters / limit))
    return [*found, *_of_length(speech, voices, heard, ears)]


def _of_length(speech: Take, voices: Voices, heard: Heard, ears: Ears) -> Iterable[Remark]:
    usually = ears.usual("length", speech, heard)
    length = length_of(heard)
    off = length - (1.0 if usually is None else usually.median)
    letters = off * num_letters(heard)[0]
    is_more = off >= LENGTH_WITH_PHRASE and letters >= LEAST_WITH_PHRASE
    twice = said_twice(heard) if is_more else None
    if twice is None and abs(letters) < LEAST_LETTERS:
        return
    limit = LENGTH.limit(None if usually is None else Usual(0.0, usually.spread))
    times, rare = rate_of(speech, voices)
    if off > 0:  # more was heard, so it should be slower
        times, rare = 1 / times, -rare
    if twice is not None:
        limit = LENGTH_WITH_PHRASE
    elif times >= RATE_TIMES and rare >= RATE_RARE:
        limit = LENGTH_WITH_RATE
    if abs(off) >= limit:
        text = f"only {100 * length:.0f} % of the text's letters are in the transcript"
        text += f", '{twice}' twice" if twice else ""
        yield remark(Kind.MORE if off > 0 else Kind.LESS, text, abs(off) / limit)


def said_twice(heard: Heard) -> str | None:
    """A phrase that was heard twice in a row, where the text has none of the kind."""
    found = repeat_of(_units(heard, "heard"), heard.unit)
    if found is None or found.num_letters < TWICE[heard.unit]:
        return None
    wanted = repeat_of(_units(heard, "wanted"), heard.unit)
    if wanted is not None and 2 * wanted.num_letters > found.num_letters:
        return None
    return found.phrase


def _units(heard: Heard, side: str) -> list[str]:
    """Words or characters that were wanted, or heard."""
    gap = " " if heard.unit == "words" else ""
    text = gap.join(filter(None, (getattr(piece, side) for piece in heard.stretches)))
    return text.split() if gap else list(text)


def num_letters(heard: Heard) -> tuple[int, int]:
    """Letters of the text, and of what was heard."""
    wanted = sum(len(stretch.wanted.replace(" ", "")) for stretch in heard.stretches)
    found = sum(len(stretch.heard.replace(" ", "")) for stretch in heard.stretches)
    return wanted, found


def length_of(heard: Heard) -> float:
    """Letters heard by letters of the text."""
    wanted, found = num_letters(heard)
    return found / wanted if wanted else 1.0


def _key(speech: Take, heard: Heard) -> Hashable:
    return speech.voice_name, heard.recogniser, heard.unit
