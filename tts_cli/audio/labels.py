"""Labels of places in audio for other programs: Audacity, Reaper, players of cue sheets.

Sources: Audacity's manual, "Importing and Exporting Labels" (start, end and text between tabs);
Reaper's CSV of regions (#, Name, Start, End, Length); the CDRWIN user's guide (cue sheets: minutes,
seconds and frames of 1/75 s, at most 99 tracks).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from tts_cli.audio.subtitles import TimedText

SUFFIXES = {"audacity": "labels.txt", "reaper": "regions.csv"}  # of files next to a chapter
CUE = "cue"
MAX_TRACKS = 99


def labels(texts: Sequence[TimedText], form: str) -> str:
    if form == "audacity":
        lines = (f"{one.start_s:.6f}\t{one.end_s:.6f}\t{_line(one.text)}\n" for one in texts)
        return "".join(lines)
    buffer = io.StringIO()
    table = csv.writer(buffer, lineterminator="\n")
    table.writerow(("#", "Name", "Start", "End", "Length"))
    for number, one in enumerate(texts, 1):
        times = (_clock(s) for s in (one.start_s, one.end_s, one.end_s - one.start_s))
        table.writerow((f"R{number}", _line(one.text), *times))
    return buffer.getvalue()


def cue_sheet(title: str, author: str, tracks: Sequence[tuple[str, str]]) -> str:
    """Return a cue sheet of consecutive files. `tracks`: name of the file and title."""
    lines = [f'TITLE "{_quoted(title)}"']
    lines += [f'PERFORMER "{_quoted(author)}"'] if author else []
    for number, (name, track) in enumerate(tracks, 1):
        kind = "MP3" if name.endswith(".mp3") else "WAVE"
        lines += [f'FILE "{_quoted(name)}" {kind}', f"  TRACK {number:02d} AUDIO"]
        lines += [f'    TITLE "{_quoted(track)}"', "    INDEX 01 00:00:00"]
    return "".join(f"{line}\n" for line in lines)


def _clock(seconds: float) -> str:
    millis = round(seconds * 1000)
    return f"{millis // 60_000}:{millis // 1000 % 60:02d}.{millis % 1000:03d}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _quoted(text: str) -> str:
    return _line(text).replace('"', "'")
