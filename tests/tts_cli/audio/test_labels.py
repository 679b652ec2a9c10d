"""Labels and cue sheets, read as their programs read them."""

from __future__ import annotations

import csv
import io
import re

from tts_cli.audio.labels import cue_sheet, labels
from tts_cli.audio.subtitles import TimedText

TEXTS = [TimedText('He said:\n"No,\tnever."', 0.65, 61.2345), TimedText("Größe", 3599.9996, 3601.0)]


def test_audacity_reads_three_cells_between_tabs() -> None:
    lines = [line.split("\t") for line in labels(TEXTS, "audacity").splitlines()]
    assert lines == [
        ["0.650000", "61.234500", 'He said: "No, never."'],
        ["3599.999600", "3601.000000", "Größe"],
    ]


def test_reaper_reads_regions_with_minutes() -> None:
    rows = list(csv.DictReader(io.StringIO(labels(TEXTS, "reaper"))))
    assert [row["#"] for row in rows] == ["R1", "R2"]
    assert rows[0]["Name"] == 'He said: "No, never."'
    assert (rows[0]["Start"], rows[0]["End"]) == ("0:00.650", "1:01.234")
    assert (rows[1]["Start"], rows[1]["Length"]) == ("60:00.000", "0:01.000")


def test_a_cue_sheet_has_a_file_and_a_track_per_chapter() -> None:
    text = cue_sheet('The "Ferry"', "", [("01-a.mp3", "One"), ("02-b.wav", "Two\nLines")])
    assert re.findall(r'FILE "(.*)" (\w+)', text) == [("01-a.mp3", "MP3"), ("02-b.wav", "WAVE")]
    assert re.findall(r'^ {4}TITLE "(.*)"$', text, re.MULTILINE) == ["One", "Two Lines"]
    assert text.startswith("TITLE \"The 'Ferry'\"\nFILE")
    assert re.findall(r"TRACK (\d\d) AUDIO", text) == ["01", "02"]
