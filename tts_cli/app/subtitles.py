"""Write subtitles beside the audio of rows: `<id>.srt` and `<id>.vtt`.

They are made of what is in the folder, once nothing is synthesized any more: the journal has the
text and the parts of a row, the file where speech begins and ends. So those that are missing, or
were made of other audio or another text, are made by the next run without synthesis. A file that
somebody has edited stays, and is reported where its row has changed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import soundfile

from tts_cli import signals
from tts_cli.audio.join import speech_span
from tts_cli.audio.pacing import pauses_in
from tts_cli.audio.subtitles import TimedText, split_at_parts, subtitles
from tts_cli.core import Finish, Row
from tts_cli.errors import DiskFull, RowError, SetupError
from tts_cli.events import Count
from tts_cli.named import counted
from tts_cli.plain import open_plain
from tts_cli.store.entry import JournalEntry
from tts_cli.store.files import file_sha256
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
    kept: Count = field(default_factory=Count)  # edited files of rows that have changed since


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
            _write(row, plan, made)
        except DiskFull:
            raise
        except (OSError, RowError, SetupError, soundfile.LibsndfileError) as error:
            made.failed += 1
            if made.failed <= MAX_TOLD:
                log.warning("row %s has no subtitles: %s", row.id, error)
    if made.failed:
        log.warning("subtitles of %s could not be written", counted(made.failed, "row"))
    warn_of_kept(made.kept)
    log.info("subtitles: %s written", counted(made.written, "file"))
    return made


def warn_of_kept(kept: Count) -> None:
    """Report files that somebody has edited, so that they were not written."""
    if kept.count:
        log.warning(
            "%s kept, not written: edited since, or of an earlier version: %s; delete one to have "
            "it made again",
            counted(kept.count, "file is", "files are"),
            kept,
        )


def _write(row: Row, plan: Plan, made: Made) -> None:
    """Write the files of one row."""
    folder = plan.folder
    take, audio = folder.journal.ok_take(row.id), folder.writer.path_of(row.id)
    if take is None or not audio.is_file() or not _is_of(take, row, plan):
        return
    sha256, markup = audio_digest(take, audio), plan.planner.care.markup or "(?!)"
    text = hashlib.sha256(f"{markup}\n{row.text}".encode()).hexdigest()
    forms = [f".{form}" for form in plan.config.subtitle_formats]
    forms = [form for form in forms if not folder.derived.is_for(f"{row.id}{form}", sha256, text)]
    if not forms:
        return
    texts = [] if take.finish_reason is Finish.WORDLESS else _spoken(row, take, audio)
    texts = [  # tags and marks that are not spoken are not shown
        replace(text, text=re.sub(markup, "", without_pauses(text.text))) for text in texts
    ]
    for form in forms:
        data = subtitles(texts, form.removeprefix(".")).encode()
        is_written = folder.write_derived(row.id, form, data, sha256, text)
        made.written += is_written is True
        if is_written is False:
            made.kept.add(f"{row.id}{form}")


def _is_of(take: JournalEntry, row: Row, plan: Plan) -> bool:
    """Whether the audio of a take says what stands in the manifest now."""
    if take.text == row.text:
        return True
    reading = plan.planner.care.read(row.text, row.language or plan.config.language)
    return reading.spoken == take.said


def audio_digest(take: JournalEntry, audio: Path) -> str:
    """The SHA-256 of a row's file: as it is recorded, but where its size shows that it is another.
    Raises OSError.
    """
    with open_plain(audio) as file:
        if take.sha256 and os.fstat(file.fileno()).st_size == take.bytes:
            return take.sha256
        return file_sha256(file)


def _spoken(row: Row, take: JournalEntry, audio: Path) -> list[TimedText]:
    """A row's text with its times in the file."""
    samples, rate_hz = soundfile.read(audio, dtype="float32")
    if samples.ndim > 1:
        samples = samples.mean(axis=1)
    start, end = speech_span(samples, rate_hz)
    pauses = pauses_in(samples[start:end], rate_hz, start / rate_hz)
    whole = TimedText(row.text, start / rate_hz, end / rate_hz, tuple(pauses))
    return split_at_parts(whole, take.parts, take.text)
