"""Subtitles of synthesized texts, as SRT and WebVTT.

Written without pysubs2, which removes braces from a text as markup.

The start and end of a text are exact, and so are those of its pieces if it was split. A text longer
than a screen becomes several cues; the times between them are estimated (`pacing.py`). A note at
the start of a WebVTT file lists the estimated times; SRT has no notes.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from tts_cli.audio.pacing import Pause, times_of
from tts_cli.text.split import sentences

MAX_CUE_CHARS = 84  # two lines
MAX_LINE_CHARS = 42
MAX_CUE_WIDE_CHARS = 32  # in scripts without spaces

_WORD = re.compile(r"\S+")
_TIMES = re.compile(r"^.*-->.*$", re.MULTILINE)
_MOMENT = re.compile(r"(?:([0-9]{1,4}):)?([0-9]{2}):([0-9]{2})([.,])([0-9]{3})")
_SIGN = re.compile(r"(?:([;:\u2013\u2014])|,)[\"'\u2019\u201d)\]]* (?![0-9])")
# Penalty of a cut, in characters of distance from the ideal position.
_SENTENCE, _CLAUSE, _COMMA, _NO_SIGN = 0, 10, 15, 40
_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")


@dataclass(frozen=True)
class TimedText:
    """A text and its time in the audio, in seconds."""

    text: str
    start_s: float
    end_s: float
    pauses: tuple[Pause, ...] = ()  # in its audio, and maybe around it


@dataclass(frozen=True)
class Cue:
    """The text on a screen, and its time, in seconds."""

    text: str
    start_s: float
    end_s: float
    is_start_estimated: bool = False
    is_end_estimated: bool = False


def split_at_parts(
    timed: TimedText, parts: Sequence[Mapping[str, Any]], text: str | None, offset_s: float = 0.0
) -> list[TimedText]:
    """Return a text piece by piece, with the exact times of its pieces.

    Args:
        parts: as in `JournalEntry`; empty: the row was not split.
        text: the text whose indices `parts` has. If it is not the text of `timed`, the parts are
            not used.
        offset_s: start of the row's audio on the clock of `timed`.
    """
    if len(parts) < 2 or text != timed.text:
        return [timed]
    cuts = [0, *(part["text_start"] for part in parts[1:]), len(text)]
    starts = [timed.start_s, *(offset_s + part["start_s"] for part in parts[1:])]
    ends = [*(offset_s + part["end_s"] for part in parts[:-1]), timed.end_s]
    edges = [edge for span in zip(starts, ends, strict=True) for edge in span]
    if cuts != sorted(cuts) or edges != sorted(edges):
        return [timed]
    return [
        replace(timed, text=text[start:end], start_s=start_s, end_s=end_s)
        for start, end, start_s, end_s in zip(cuts, cuts[1:], starts, ends, strict=False)
        if text[start:end].strip()
    ]


def subtitles(texts: Iterable[TimedText], format: str) -> str:
    """Return a subtitle file (`srt` or `vtt`) of texts in order, without overlaps."""
    is_vtt = format == "vtt"
    point = "." if is_vtt else ","
    found = [cue for text in texts for cue in cues(text)]
    pieces = [_head(found)] if is_vtt else []
    for number, cue in enumerate(found, 1):
        start_ms = round(cue.start_s * 1000)
        end_ms = max(start_ms + 1, round(cue.end_s * 1000))
        times = f"{clock(start_ms, point)} --> {clock(end_ms, point)}"
        text = _two_lines(cue.text)
        # SRT cannot escape its arrow, which readers take for a line of times.
        text = html.escape(text, quote=False) if is_vtt else text.replace("-->", "\u2192")
        pieces.append(f"{number}\n{times}\n{text}\n\n")
    return "".join(pieces)


def shifted(content: str, by_s: float, scale: float = 1.0) -> str:
    """Return a subtitle file, which a user may have edited, with its times multiplied and then
    shifted; none is before 0.
    """

    def moved(found: re.Match[str]) -> str:
        hours, minutes, seconds, point, ms = found.groups()
        second = 60 * (60 * int(hours or 0) + int(minutes)) + int(seconds)
        return clock(max(0, round((1000 * second + int(ms)) * scale + 1000 * by_s)), point)

    return _TIMES.sub(lambda line: _MOMENT.sub(moved, line.group()), content)


def _head(found: Sequence[Cue]) -> str:
    """Return the start of a WebVTT file, with a note on estimated times. It is not next to the
    cues, because pysubs2 and other readers take notes between cues for text.
    """
    starts = [str(number) for number, cue in enumerate(found, 1) if cue.is_start_estimated]
    ends = [str(number) for number, cue in enumerate(found, 1) if cue.is_end_estimated]
    if not starts:
        return "WEBVTT\n\nNOTE All times are those of the audio.\n\n"
    return (
        "WEBVTT\n\nNOTE Times are those of the audio, but for these, which are estimated:\n"
        f"starts of {' '.join(starts)}\nends of {' '.join(ends)}\n\n"
    )


def clock(ms: int, point: str = ".") -> str:
    """Format milliseconds as HH:MM:SS.mmm."""
    seconds, rest = divmod(ms, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{point}{rest:03d}"


def cues(timed: TimedText) -> Iterator[Cue]:
    """Yield a text in pieces that fit on a screen; the times between them are estimated."""
    text = " ".join(timed.text.split())
    pieces = _pieces(text)
    cuts = [text.index(pieces[0])]
    for before, piece in pairwise(pieces):
        cuts.append(text.index(piece, cuts[-1] + len(before)))
    between = times_of(text, cuts[1:], timed.start_s, timed.end_s, timed.pauses)
    starts = [timed.start_s, *(start_s for _, start_s in between)]
    ends = [*(end_s for end_s, _ in between), timed.end_s]
    last = len(pieces) - 1
    for index, (piece, start_s, end_s) in enumerate(zip(pieces, starts, ends, strict=True)):
        yield Cue(piece, start_s, end_s, index > 0, index < last)


def _pieces(text: str) -> list[str]:
    """Split a text into pieces of similar length, at spaces if it has any."""
    limit = MAX_CUE_WIDE_CHARS if 2 * len(_WIDE.findall(text)) > len(text) else MAX_CUE_CHARS
    if len(text) <= limit:
        return [text]
    detours = {found.end(): _CLAUSE if found[1] else _COMMA for found in _SIGN.finditer(text)}
    detours |= {part.start: _SENTENCE for part in sentences(text)}
    number, start = -(-len(text) // limit), 0
    pieces: list[str] = []
    while len(text) - start > limit:
        aim = min(limit, -(-(len(text) - start) // max(2, number)))
        end = _cut(text, start, start + aim, start + limit, detours)
        pieces.append(text[start:end].rstrip())
        start, number = end, number - 1
        start += len(text[start:]) - len(text[start:].lstrip())
    return [*pieces, text[start:]]


def _cut(text: str, start: int, aim: int, last: int, detours: Mapping[int, int]) -> int:
    """Return the best position near `aim` to start a cue, after a punctuation mark if possible."""
    last = min(last, len(text) - 1)
    places = [place + 1 for place in range(start + 1, last) if text[place] == " "]
    good = [place for place in places if 3 * (place - start) > aim - start]
    return min(
        good or places or [aim], key=lambda place: abs(place - aim) + detours.get(place, _NO_SIGN)
    )


def _two_lines(text: str) -> str:
    if len(text) <= MAX_LINE_CHARS or " " not in text:
        return text
    spaces = [found.start() - 1 for found in _WORD.finditer(text)][1:]
    place = min(spaces, key=lambda place: abs(2 * place - len(text)))
    return f"{text[:place]}\n{text[place + 1 :]}"
