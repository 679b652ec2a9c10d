"""Subtitles of spoken texts, as SRT and WebVTT.

Written here, because pysubs2 takes braces in a text for markup and drops what stands in them.

A text's first and last moment are those of its audio. A long one is shown in several cues, and when
one gives way to the next inside of it is estimated from letters; a note in WebVTT files says so,
SRT has no place for one.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

FORMATS = ("srt", "vtt")
MAX_CUE_CHARS = 84  # two lines
MAX_LINE_CHARS = 42
MAX_CUE_WIDE_CHARS = 32  # of scripts that have no spaces

_NOTE = (
    "NOTE Times where a text begins and ends are those of the audio. Times between two cues of one "
    "text are estimated from its letters."
)
_WORD = re.compile(r"\S+")
_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")


@dataclass(frozen=True)
class Spoken:
    """A text and when it is heard, in seconds."""

    text: str
    start_s: float
    end_s: float


def subtitles(texts: Iterable[Spoken], format: str) -> str:
    """A whole file.

    Args:
        texts: in order, none over the next one.
        format: one of FORMATS.
    """
    is_vtt = format == "vtt"
    point = "." if is_vtt else ","
    pieces = [f"WEBVTT\n\n{_NOTE}\n\n"] if is_vtt else []
    for number, cue in enumerate((cue for text in texts for cue in cues(text)), 1):
        start_ms = round(cue.start_s * 1000)
        end_ms = max(start_ms + 1, round(cue.end_s * 1000))
        times = f"{_clock(start_ms, point)} --> {_clock(end_ms, point)}"
        text = _two_lines(cue.text)
        text = html.escape(text, quote=False) if is_vtt else text
        pieces.append(f"{number}\n{times}\n{text}\n\n")
    return "".join(pieces)


def _clock(ms: int, point: str) -> str:
    """Milliseconds as hours, minutes, seconds and the rest."""
    seconds, rest = divmod(ms, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{point}{rest:03d}"


def cues(spoken: Spoken) -> Iterator[Spoken]:
    """A text in pieces that fit on a screen; times between them are estimated."""
    pieces = _pieces(" ".join(spoken.text.split()))
    letters = [max(1, sum(map(str.isalnum, piece))) for piece in pieces]
    length_s, total, before = spoken.end_s - spoken.start_s, sum(letters), 0
    for piece, count in zip(pieces, letters, strict=True):
        start_s = spoken.start_s + length_s * before / total
        before += count
        end_s = spoken.end_s if before == total else spoken.start_s + length_s * before / total
        yield Spoken(piece, start_s, end_s)


def _pieces(text: str) -> list[str]:
    """Pieces of about one length, cut at spaces; where there are none, anywhere."""
    limit = MAX_CUE_WIDE_CHARS if 2 * len(_WIDE.findall(text)) > len(text) else MAX_CUE_CHARS
    number = -(-len(text) // limit)
    pieces: list[str] = []
    while len(text) > limit:
        aim = min(limit, -(-len(text) // max(2, number)))
        place = _cut(text, aim, limit)
        pieces.append(text[:place].rstrip())
        text, number = text[place:].lstrip(), number - 1
    return [*pieces, text]


def _cut(text: str, aim: int, limit: int) -> int:
    """The space nearest to `aim`, one behind a comma or a stop before all others."""
    places = [place for place in range(1, min(limit, len(text) - 1) + 1) if text[place] == " "]
    good = [place for place in places if text[place - 1] in ",;:.!?" and 2 * place > aim]
    return min(good or places or [aim], key=lambda place: abs(place - aim))


def _two_lines(text: str) -> str:
    if len(text) <= MAX_LINE_CHARS or " " not in text:
        return text
    spaces = [found.start() - 1 for found in _WORD.finditer(text)][1:]
    place = min(spaces, key=lambda place: abs(2 * place - len(text)))
    return f"{text[:place]}\n{text[place + 1 :]}"
