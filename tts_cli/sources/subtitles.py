"""Read subtitles as rows: one row per cue of an .srt, .vtt, .ass or .sbv file, by pysubs2.

A cue's times become the extra columns `start_s` and `end_s`, and its lines one text. A cue without
words, such as the name of a sound, is a silent row.
"""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, TextIO

from tts_cli.errors import ManifestError
from tts_cli.extras import load
from tts_cli.sources.archive import read_bounded
from tts_cli.sources.dialect import OpenLines
from tts_cli.sources.item import Item

log = logging.getLogger(__name__)

_FIRST_LINES = 50
MAX_FILE_CHARS = 64 << 20
# A line with the times of a cue, in .srt and .vtt.
CUE_TIMES = re.compile(r"\s*(?:\d+:)?\d{1,2}:\d{2}[,.]\d{1,3}\s+-->\s+(?:\d+:)?\d{1,2}:\d{2}[,.]\d")
_SHORT_TIME = re.compile(r"(?<![\d:])(\d{1,2}:\d{2}[,.]\d{1,3})(?![\d:])")  # without hours
_SBV_TIMES = re.compile(r"^(\d+:\d\d:\d\d\.\d{3}),(?=\d+:\d\d:\d\d\.\d{3}[ \t\r]*$)", re.MULTILINE)
_CUE_ID = re.compile(r"(?<=\n)([ \t\r]*\n)[^\n]+(?=\n[^\n]*-->)")  # the name of a cue in .vtt
_SPEAKER_CHANGE = re.compile(r"[>\uff1e]{2,3}\s*")  # at the start of a line
_TIMES_LINE = re.compile(r"^.*-->.*$", re.MULTILINE)
_WORD_TIME = re.compile(r"<(?:\d+:)?\d{1,2}:\d{2}[,.]\d{1,3}>")  # of karaoke
_VOICE = re.compile(r"<v(?:\.[^\s>]*)?\s+([^<>]+)>")  # the speaker, in .vtt
_OVERRIDE = re.compile(r"\{\\[^{}]*\}")  # as in {\an8}; .srt files have them too
_TAG = re.compile(r"<rt>[^<]*(?:</rt>)?|</?[A-Za-z][^<>]*>")  # <rt> is a reading
SILENT = "\u266a"
_SOUNDS = re.compile(r"(?:\s|[\u2669-\u266c#*~-]|\[[^\[\]]*\]|\([^()]*\))*")
_SIGNS = (CUE_TIMES, _SBV_TIMES, re.compile(r"\[Script Info\]\s*$"))
_CUE = re.compile(rf"{CUE_TIMES.pattern}|\s*(?:Dialogue|Comment):")


def has_cues(open_lines: OpenLines) -> bool:
    with open_lines() as lines:
        first = islice(lines.each(), _FIRST_LINES)
        return any(any(one.match(line) for one in _SIGNS) for line in first)


def cue_length_s(extra: Mapping[str, Any]) -> float | None:
    try:
        return float(extra["end_s"]) - float(extra["start_s"])
    except (KeyError, TypeError, ValueError):
        return None


def subtitle_items(file: TextIO, name: str) -> Iterator[Item]:
    """Return an item per cue of a text, in which bytes that are not UTF-8 are lone surrogates.
    Raises ManifestError, and SetupError without pysubs2.
    """
    pysubs2 = load("subtitles", "pysubs2", f"{name}: reading subtitles")
    data = read_bounded(file, MAX_FILE_CHARS, name).removeprefix("\ufeff")
    data = data.encode(errors="surrogateescape").decode(errors="replace")
    text, num_timed = _WORD_TIME.subn("", _SBV_TIMES.sub(r"\1 --> ", data))
    if text.startswith("WEBVTT"):
        text = _CUE_ID.sub(r"\1", text)
    text = _TIMES_LINE.sub(lambda line: _SHORT_TIME.sub(r"00:\1", line[0]), text)
    try:
        cues = pysubs2.SSAFile.from_string(text, keep_unknown_html_tags=True)
    except (pysubs2.exceptions.Pysubs2Error, ValueError, OverflowError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ManifestError(
            f"{name}: cannot be read as subtitles: {reason}",
            remedy="save it as .srt or .vtt again, in UTF-8",
        ) from error
    numbered = enumerate(text.split("\n"), 1)
    lines = [number for number, line in numbered if _CUE.match(line)]
    lines += [1] * (len(cues) - len(lines))
    num_silent, last = 0, []
    for cue, line in zip(cues, lines, strict=False):
        if cue.is_comment:
            continue
        plain = cue.plaintext
        if cues.format in ("srt", "vtt"):  # in which {E} is text
            plain = _OVERRIDE.sub("", cue.text).replace(r"\N", "\n").replace(r"\h", " ")
        lines_said = map(str.strip, html.unescape(_TAG.sub("", plain)).splitlines())
        said = [_SPEAKER_CHANGE.sub("", line) for line in lines_said]
        fresh = [line for line in said if line not in last] if num_timed else said
        last = said  # captions of YouTube with times of words repeat a line above the next one
        if voice := _VOICE.search(cue.text):
            cue.name = html.unescape(voice[1]).strip()
        text = " ".join(" ".join(fresh).split())
        is_silent = cue.is_drawing or _SOUNDS.fullmatch(text) is not None
        num_silent += is_silent
        values = {"text": SILENT if is_silent else text.strip("\u2669\u266a\u266b\u266c ")}
        extra = {"start_s": f"{cue.start / 1000:g}", "end_s": f"{cue.end / 1000:g}"}
        yield Item(line, values, extra, cue.name)
    if num_silent:
        log.info("%s: %d cues without words stay silent", name, num_silent)
