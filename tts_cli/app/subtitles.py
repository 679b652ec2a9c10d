"""Write subtitles beside the audio of rows: `<id>.srt` and `<id>.vtt`.

They are made of what lies in the folder, once nothing is spoken any more: the journal tells the
text and the parts of a row, the file where speech begins and ends. So those that are missing, or
older than the audio, are made by the next run without speaking, and a file that somebody has mended
since stays.
"""

from __future__ import annotations

import logging
import re
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import soundfile

from tts_cli import signals
from tts_cli.audio.join import speech
from tts_cli.audio.pacing import pauses_in
from tts_cli.audio.subtitles import SpokenText, in_parts, subtitles
from tts_cli.core import Finish, Row
from tts_cli.errors import DiskFull
from tts_cli.folder.atomic import write_atomic
from tts_cli.folder.files import AudioWriter
from tts_cli.folder.journal import Journal
from tts_cli.folder.take import Take
from tts_cli.named import counted
from tts_cli.text.pauses import without_pauses

if TYPE_CHECKING:
    from tts_cli.plan.plan import Plan

log = logging.getLogger(__name__)

MAX_TOLD = 5


@dataclass
class Made:
    """What became of the rows' subtitles."""

    written: int = 0  # files
    failed: int = 0  # rows


def write_row_subtitles(plan: Plan) -> Made:
    """Write the subtitles that `RunConfig.subtitles` asks for and that are missing or out of date.
    Rows without audio of their text have none.

    Raises:
        DiskFull: no room.
        Interrupted: a signal came.
    """
    made = Made()
    for row in plan.texts():
        signals.check()
        try:
            made.written += _write(row, plan, plan.folder.writer, plan.folder.journal)
        except DiskFull:
            raise
        except (OSError, soundfile.LibsndfileError) as error:
            made.failed += 1
            if made.failed <= MAX_TOLD:
                log.warning("row %s has no subtitles: %s", row.id, error)
    if made.failed:
        log.warning("subtitles of %s could not be written", counted(made.failed, "row"))
    log.info("subtitles: %s written", counted(made.written, "file"))
    return made


def _write(row: Row, plan: Plan, writer: AudioWriter, journal: Journal) -> int:
    """Write the files of one row. Returns how many."""
    take, audio = journal.ok_take(row.id), writer.path_of(row.id)
    if take is None or not audio.is_file() or not _is_of(take, row, plan):
        return 0
    since_ns = audio.stat().st_mtime_ns
    paths = {form: writer.sibling(row.id, form) for form in plan.config.subtitle_formats}
    if take.text == row.text:
        paths = {form: path for form, path in paths.items() if not is_newer(path, since_ns)}
    if not paths:
        return 0
    texts = [] if take.finish_reason is Finish.WORDLESS else _spoken(row, take, audio)
    markup = plan.planner.care.markup or "(?!)"
    texts = [  # tags and marks that are not spoken are not shown
        replace(text, text=re.sub(markup, "", without_pauses(text.text))) for text in texts
    ]
    for form, path in paths.items():
        write_atomic(path, subtitles(texts, form).encode())
    return len(paths)


def _is_of(take: Take, row: Row, plan: Plan) -> bool:
    """Whether the audio of a take says what stands in the manifest now."""
    if take.text == row.text:
        return True
    reading = plan.planner.care.read(row.text, row.language or plan.config.language)
    return reading.spoken == take.said


def is_newer(path: Path, since_ns: int) -> bool:
    """Whether there is a file that was written since."""
    try:
        found = path.stat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_mtime_ns >= since_ns


def _spoken(row: Row, take: Take, audio: Path) -> list[SpokenText]:
    """A row's text with its times in the file."""
    samples, rate_hz = soundfile.read(audio, dtype="float32")
    if samples.ndim > 1:
        samples = samples.mean(axis=1)
    start, end = speech(samples, rate_hz)
    pauses = pauses_in(samples[start:end], rate_hz, start / rate_hz)
    whole = SpokenText(row.text, start / rate_hz, end / rate_hz, tuple(pauses))
    return in_parts(whole, take.parts, take.text)
