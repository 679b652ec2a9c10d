"""How fast the parts of one text are spoken, beside each other.

A voice keeps its rate within a text, so a part that is far faster than the others has lost words,
although it may be long enough for any voice. Of 151 parts of the sample voice (18,900 characters),
150 were at 0.85 to 1.16 times the rate of the median; the last one, at 1.35, had lost the last 9 of
its 33 words.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

HURRIED = 1.25  # times the rate of the other parts
LEAST_USUAL_S = 4.0  # shorter texts are said at any rate
LEAST_OTHERS = 3


def hurried(spoken_s: Sequence[float], usual_s: Sequence[float]) -> dict[int, float]:
    """Parts that are too fast for their row.

    Args:
        spoken_s: seconds of each part's speech. usual_s: what its text usually takes; 0: not known.
    Returns:
        How many times as fast as the median of the others, by the part's place.
    """
    rates = {
        place: usual / spoken
        for place, (spoken, usual) in enumerate(zip(spoken_s, usual_s, strict=True))
        if spoken > 0 and usual >= LEAST_USUAL_S
    }
    found = {}
    for place, rate in rates.items():
        others = [other for at, other in rates.items() if at != place]
        if len(others) >= LEAST_OTHERS and rate > HURRIED * median(others):
            found[place] = rate / median(others)
    return found
