"""Subtitles of spoken texts, as SRT and WebVTT.

Written here, because pysubs2 takes braces in a text for markup and drops what stands in them.

A text's first and last moment are those of its audio, and where it was spoken in parts, those of
the parts. What is longer than a screen holds is shown in several cues; when one gives way to the
next is estimated, see `pacing`. A note in front of a WebVTT file says which times are; SRT has no
place for one.
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
MAX_CUE_WIDE_CHARS = 32  # of scripts that have no spaces

_WORD = re.compile(r"\S+")
_TIMES = re.compile(r"^.*-->.*$", re.MULTILINE)
_MOMENT = re.compile(r"(?:([0-9]{1,4}):)?([0-9]{2}):([0-9]{2})([.,])([0-9]{3})")
_SIGN = re.compile(r"(?:([;:\u2013\u2014])|,)[\"'\u2019\u201d)\]]* (?![0-9])")
# Characters that a cut there is worse than one where a sentence ends.
_SENTENCE, _CLAUSE, _COMMA, _NO_SIGN = 0, 10, 15, 40
_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")


@dataclass(frozen=True)
class SpokenText:
    """A text and when it is heard, in seconds."""

    text: str
    start_s: float
    end_s: float
    pauses: tuple[Pause, ...] = ()  # heard in it, and perhaps around it


@dataclass(frozen=True)
class Cue:
    """What a screen shows at once, and when, in seconds."""

    text: str
    start_s: float
    end_s: float
    is_start_estimated: bool = False
    is_end_estimated: bool = False


def in_parts(
    spoken: SpokenText, parts: Sequence[Mapping[str, Any]], text: str | None, offset_s: float = 0.0
) -> list[SpokenText]:
    """A text that was spoken in parts, part by part: a part's edges are those of the audio.

    Args:
        parts: as the journal has them, see `Take`; none: it was spoken in one.
        text: that their places count in. Where it is another one, they say nothing.
        offset_s: when the row's audio begins on the clock of `spoken`.
    """
    if len(parts) < 2 or text != spoken.text:
        return [spoken]
    cuts = [0, *(part["text_start"] for part in parts[1:]), len(text)]
    starts = [spoken.start_s, *(offset_s + part["start_s"] for part in parts[1:])]
    ends = [*(offset_s + part["end_s"] for part in parts[:-1]), spoken.end_s]
    edges = [edge for span in zip(starts, ends, strict=True) for edge in span]
    if cuts != sorted(cuts) or edges != sorted(edges):
        return [spoken]
    return [
        replace(spoken, text=text[start:end], start_s=start_s, end_s=end_s)
        for start, end, start_s, end_s in zip(cuts, cuts[1:], starts, ends, strict=False)
        if text[start:end].strip()
    ]


def subtitles(texts: Iterable[SpokenText], format: str) -> str:
    """A whole file.

    Args:
        texts: in order, none over the next one.
        format: srt or vtt.
    """
    is_vtt = format == "vtt"
    point = "." if is_vtt else ","
    found = [cue for text in texts for cue in cues(text)]
    pieces = [_head(found)] if is_vtt else []
    for number, cue in enumerate(found, 1):
        start_ms = round(cue.start_s * 1000)
        end_ms = max(start_ms + 1, round(cue.end_s * 1000))
        times = f"{clock(start_ms, point)} --> {clock(end_ms, point)}"
        text = _two_lines(cue.text)
        # SRT has no way to write its arrow, which readers take for a line of times.
        text = html.escape(text, quote=False) if is_vtt else text.replace("-->", "\u2192")
        pieces.append(f"{number}\n{times}\n{text}\n\n")
    return "".join(pieces)


def later(made: str, by_s: float) -> str:
    """A whole file, also one that somebody has mended, with all times later; none is before 0."""

    def moved(found: re.Match[str]) -> str:
        hours, minutes, seconds, point, ms = found.groups()
        second = 60 * (60 * int(hours or 0) + int(minutes)) + int(seconds)
        return clock(max(0, 1000 * second + int(ms) + round(1000 * by_s)), point)

    return _TIMES.sub(lambda line: _MOMENT.sub(moved, line.group()), made)


def _head(found: Sequence[Cue]) -> str:
    """The beginning of a WebVTT file. Which times are estimated stands here and not at the cues:
    pysubs2, and who knows what else, takes notes between cues for text.
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
    """Milliseconds as hours, minutes, seconds and the rest."""
    seconds, rest = divmod(ms, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{point}{rest:03d}"


def cues(spoken: SpokenText) -> Iterator[Cue]:
    """A text in pieces that fit on a screen; times between them are estimated."""
    text = " ".join(spoken.text.split())
    pieces = _pieces(text)
    cuts = [text.index(pieces[0])]
    for before, piece in pairwise(pieces):
        cuts.append(text.index(piece, cuts[-1] + len(before)))
    between = times_of(text, cuts[1:], spoken.start_s, spoken.end_s, spoken.pauses)
    starts = [spoken.start_s, *(start_s for _, start_s in between)]
    ends = [*(end_s for end_s, _ in between), spoken.end_s]
    last = len(pieces) - 1
    for index, (piece, start_s, end_s) in enumerate(zip(pieces, starts, ends, strict=True)):
        yield Cue(piece, start_s, end_s, index > 0, index < last)


def _pieces(text: str) -> list[str]:
    """Pieces of about one length, cut at spaces; where there are none, anywhere."""
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
    """The best place near to `aim` to begin a cue: one behind a sign is worth a detour."""
    last = min(last, len(text) - 1)
    places = [place + 1 for place in range(start + 1, last) if text[place] == " "]
    good = [place for place in places if 3 * (place - start) > aim - start]
    return min(
        good or places or [aim],
        key=lambda place: abs(place - aim) + detours.get(place, _NO_SIGN),
    )


def _two_lines(text: str) -> str:
    if len(text) <= MAX_LINE_CHARS or " " not in text:
        return text
    spaces = [found.start() - 1 for found in _WORD.finditer(text)][1:]
    place = min(spaces, key=lambda place: abs(2 * place - len(text)))
    return f"{text[:place]}\n{text[place + 1 :]}"
