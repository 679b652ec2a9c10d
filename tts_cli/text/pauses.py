"""Pauses that an author writes into a text: `[pause 500ms]`, `[pause 1.5 s]`.

A mark gives exactly that much silence, and replaces the pause of a boundary. It needs a number and
a unit: bracketed words alone are style tags of Fish Speech.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tts_cli.text.normalized_text import ODD_SPACES

MAX_PAUSE_S = 60.0
MAX_SUM_S = 600.0  # of all pauses of a row, whose audio is held in memory

_SPACE = f"[ \t{ODD_SPACES}]"  # marks must match in the written and in the normalized text
_PAUSE = re.compile(
    rf"\[pause{_SPACE}+([0-9]{{1,9}}(?:\.[0-9]{{1,9}})?){_SPACE}?(ms|s)\]", re.IGNORECASE
)


@dataclass(frozen=True)
class UnbrokenText:
    start: int  # index of the first character
    end: int
    pause_after_s: float | None  # None: no mark follows


def segments(text: str) -> Iterator[UnbrokenText]:
    """Return the segments between pauses, without outer spaces; one before a pause may be empty."""
    start = 0
    for found in _PAUSE.finditer(text):
        yield _trimmed(text, start, found.start(), _seconds(found))
        start = found.end()
    yield _trimmed(text, start, len(text), None)


def has_pauses(text: str) -> bool:
    return _PAUSE.search(text) is not None


def pause_spans(text: str) -> list[tuple[int, int]]:
    return [found.span() for found in _PAUSE.finditer(text)] if "[" in text else []


def sum_of_pauses(text: str) -> float:
    return sum(map(_seconds, _PAUSE.finditer(text))) if "[" in text else 0.0


def without_pauses(text: str) -> str:
    """Replace each pause and the spaces around it by one space; none at the ends."""
    if not has_pauses(text):
        return text
    said = (text[stretch.start : stretch.end] for stretch in segments(text))
    return " ".join(filter(None, said))


def pause_problem(text: str) -> str | None:
    for found in _PAUSE.finditer(text):
        if _seconds(found) > MAX_PAUSE_S:
            return f"{found.group()} is longer than {MAX_PAUSE_S:g} s; shorten it"
    if (seconds := sum_of_pauses(text)) > MAX_SUM_S:
        return f"its pauses add up to {seconds:g} s; the maximum is {MAX_SUM_S:g} s; split it"
    return None


def _seconds(found: re.Match[str]) -> float:
    return float(found[1]) / (1000 if found[2].lower() == "ms" else 1)


def _trimmed(text: str, start: int, end: int, pause_after_s: float | None) -> UnbrokenText:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return UnbrokenText(start, end, pause_after_s)
