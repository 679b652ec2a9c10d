"""Write subtitles next to the audio of rows: `<id>.srt` and `<id>.vtt`.

They are made from what the folder has: the journal has the text and the pieces of a row, and its
audio shows where speech begins and ends. So the next run makes those that are missing or out of
date without synthesizing. A file that a user edited stays, and is reported if its row has changed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import soundfile

from tts_cli import signals
from tts_cli.audio.join import speech_span
from tts_cli.audio.pacing import pauses_in
from tts_cli.audio.subtitles import TimedText, split_at_parts, subtitles
from tts_cli.core import Finish, Row
from tts_cli.errors import DiskFull, RowError, SetupError
from tts_cli.events import Count, Event, Events
from tts_cli.named import counted
from tts_cli.plain import open_plain
from tts_cli.store.entry import JournalEntry
from tts_cli.store.files import file_sha256
from tts_cli.text.pauses import without_pauses

if TYPE_CHECKING:
    from tts_cli.plan.plan import Plan

log = logging.getLogger(__name__)

MAX_NAMED = 5  # rows without subtitles that warnings name


def write_row_subtitles(plan: Plan) -> Events:
    """Write the subtitles of `RunConfig.subtitles` that are missing or out of date.

    Rows whose audio is not of their present text get none. Returns the counts of written files,
    files that a user edited, and rows without subtitles. Raises DiskFull, Interrupted.
    """
    events = Events()
    for row in plan.texts():
        signals.check()
        try:
            _write(row, plan, events)
        except DiskFull:
            raise
        except (OSError, RowError, SetupError, soundfile.LibsndfileError) as error:
            events.add(Event.NOT_DERIVED, row.id)
            if events.num(Event.NOT_DERIVED) <= MAX_NAMED:
                log.warning("row %s has no subtitles: %s", row.id, error)
    if failed := events.num(Event.NOT_DERIVED):
        log.warning("subtitles of %s could not be written", counted(failed, "row"))
    warn_of_edited(events.of(Event.EDITED_FILE))
    log.info("subtitles: %s written", counted(events.num(Event.DERIVED), "file"))
    return events


def warn_of_edited(edited: Count) -> None:
    if edited.count:
        log.warning(
            "%s kept, not written: edited since, or of an earlier version: %s; delete one to have "
            "it made again",
            counted(edited.count, "file is", "files are"),
            edited,
        )


def _write(row: Row, plan: Plan, events: Events) -> None:
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
    texts = [  # tags and marks that are not read aloud are not shown
        replace(text, text=re.sub(markup, "", without_pauses(text.text))) for text in texts
    ]
    for form in forms:
        data = subtitles(texts, form.removeprefix(".")).encode()
        is_written = folder.write_derived(row.id, form, data, sha256, text)
        if is_written is not None:
            kind = Event.DERIVED if is_written else Event.EDITED_FILE
            events.add(kind, f"{row.id}{form}")


def _is_of(take: JournalEntry, row: Row, plan: Plan) -> bool:
    """Whether the audio of a take contains the text that the manifest has now."""
    if take.text == row.text:
        return True
    reading = plan.planner.care.read(row.text, row.language or plan.config.language)
    return reading.spoken == take.said


def audio_digest(take: JournalEntry, audio: Path) -> str:
    """Return the SHA-256 of a row's file: the recorded one if its size fits. Raises OSError."""
    with open_plain(audio) as file:
        if take.sha256 and os.fstat(file.fileno()).st_size == take.bytes:
            return take.sha256
        return file_sha256(file)


def _spoken(row: Row, take: JournalEntry, audio: Path) -> list[TimedText]:
    samples, rate_hz = soundfile.read(audio, dtype="float32")
    if samples.ndim > 1:
        samples = samples.mean(axis=1)
    start, end = speech_span(samples, rate_hz)
    pauses = pauses_in(samples[start:end], rate_hz, start / rate_hz)
    whole = TimedText(row.text, start / rate_hz, end / rate_hz, tuple(pauses))
    return split_at_parts(whole, take.parts, take.text)
