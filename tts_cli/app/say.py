"""Synthesize one text like a row of `synth`, without a folder or journal."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec.structs import replace as struct_replace

from tts_cli import signals, startup
from tts_cli.app.align import SpokenWords, aligner_of
from tts_cli.app.look import Screen
from tts_cli.app.run import make_missing_voices, session_of
from tts_cli.app.verify import HeardSession
from tts_cli.audio.encode import is_int16_enough, postprocess
from tts_cli.audio.file import check_format, encode
from tts_cli.audio.tags import Tags, comment_of
from tts_cli.audio.treatment import PostProcessing
from tts_cli.checks.asr.aligner import Aligner
from tts_cli.checks.verdicts import TakeVerdict
from tts_cli.checks.word_times import WordTimes
from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Result, Row, Task
from tts_cli.engine.session import make_ready
from tts_cli.errors import ManifestError, RowError
from tts_cli.events import Event
from tts_cli.plan.checkpoint import approved_info, require_consent
from tts_cli.plan.checks import require_possible
from tts_cli.plan.free_voices import who_speaks
from tts_cli.plan.plan import Plan
from tts_cli.plan.resolve import silence_of
from tts_cli.sources.item import ManifestFile
from tts_cli.sources.row import build_row
from tts_cli.store.entry import JournalEntry
from tts_cli.store.records import moved, unstored_entry
from tts_cli.voices.generated import is_made
from tts_cli.voices.voice_store import VoiceStore

log = logging.getLogger(__name__)


def row_of(text: str, fields: Mapping[str, str | int | None], config: RunConfig) -> Row:
    """The text as a row of a manifest. Raises ManifestError."""
    values = {"id": "say", "text": text, **fields}
    row = build_row(values, line=1, number=1, folder="", strips_markup=config.strip_markup)
    if isinstance(row, BadRow):
        raise ManifestError(row.message.replace("split it into several rows", "use tts-cli book"))
    return row


def say(
    row: Row, config: RunConfig, screen: Screen, name: str = "say"
) -> tuple[bytes, dict[str, Any]]:
    """Synthesize a row.

    Args:
        name: stem of the audio file's name.
    Returns:
        The content of the audio file, and its facts. `verified` is set with `--verify`, and `words`
        with `--words`: a `WordTimes`, or None if the words were not found.
    Raises:
        ManifestError, RowError: the row is invalid, or its synthesis failed.
        UsageError, SetupError: a setting does not fit, or the checkpoint is missing.
    """
    config, info, maker = who_speaks(config, approved_info(config))
    require_possible(config, info)
    require_consent(info.licence, config)
    opened = None if config.words is None else aligner_of(config.words, config, "--words")
    rate_hz, treatment = config.sample_rate or info.sample_rate_hz, PostProcessing.of(config)
    with ExitStack() as stack:
        folder = config.made_voices
        if folder is None:
            temporary = tempfile.TemporaryDirectory(prefix="tts-cli-")
            folder = Path(stack.enter_context(temporary))
        source = ManifestFile("<text>", "jsonl", "", given=(row,))
        plan = Plan(
            source, config, info, maker=maker, voices=VoiceStore(config.voice_dir, out=folder)
        )
        is_int16 = is_int16_enough(config.subtype, rate_hz, info.sample_rate_hz)
        heard = None
        if config.verify is not None:
            heard = HeardSession(config, plan.planner, screen.step)
            stack.enter_context(closing(heard))
        is_int16 = is_int16 and treatment.is_none
        task, spoken, check = spoken_of(plan, screen, heard, is_int16=is_int16)
    if spoken.samples is None:
        raise RowError(str(spoken.error))
    if spoken.error is not None:
        raise RowError(
            spoken.error, "try another --seed, or accept the audio with --accept-truncated"
        )
    samples, applied = postprocess(spoken.samples, info.sample_rate_hz, rate_hz, treatment)
    remarks = [*(spoken.remarks if check is None else check.reasons)]
    remarks += [] if applied is None else treatment.misses(applied)
    for remark in remarks:
        log.warning("suspect, listen to it: %s", remark.text)
    voice = None if is_made(task.request.voice) else task.request.voice
    tags = Tags(artist=voice or "", comment=comment_of(info))
    subtype = check_format(config.format, config.subtype, rate_hz)
    data = encode(samples, rate_hz, config.format, subtype, tags)
    audio_s, parts = len(spoken.samples) / info.sample_rate_hz, list(spoken.parts)
    if applied is not None:
        audio_s += applied.added_s
        parts = moved(parts, applied.start_shift_s, audio_s)
    signals.check()
    words = None
    if opened is not None:
        kept = unstored_entry(task, replace(spoken, parts=tuple(parts)), info.sample_rate_hz)
        suspect = [] if check is None else [remark.text for remark in check.reasons]
        words = words_of(struct_replace(kept, id=name), data, suspect, opened, plan, screen)
    return data, {
        "audio_s": round(audio_s, 6),
        "bytes": len(data),
        "sample_rate_hz": rate_hz,
        "voice": voice,
        "language": task.request.language,
        "seed": spoken.seed,
        "attempts": spoken.attempts,
        "finish_reason": spoken.finish,
        "parts": len(spoken.parts),
        "text": row.text,
        "spoken_text": task.request.text,
        "suspect": [remark.text for remark in remarks],
        "applied": None if applied is None else applied.as_dict(),
        "verified": None if heard is None or check is None else heard.facts(task, check),
        "words": words,
    }


def words_of(
    take: JournalEntry,
    data: bytes,
    suspect: list[str],
    opened: Callable[[], Aligner],
    plan: Plan,
    screen: Screen,
) -> WordTimes | None:
    """Return the word times of a take; None, with a warning: not found. Raises SetupError.

    Args:
        data: content of the audio file.
        suspect: reasons why the take is suspect.
        opened: see `aligner_of`.
    """
    words = SpokenWords(opened, plan.planner.care.facts(), screen.step)
    with closing(words):
        try:
            return words.of(take, lambda path: path.write_bytes(data), suspect)
        except RowError as error:
            log.warning("no word times: %s", error)
            return None


def spoken_of(
    plan: Plan, screen: Screen, heard: HeardSession | None, *, is_int16: bool
) -> tuple[Task, Result, TakeVerdict | None]:
    """Synthesize the one row of a plan. Returns its task, result and verdict. Raises ManifestError,
    RowError.

    Args:
        heard: checks the row; None: without `--verify`.
    """
    plan.read()
    screen.problems(plan)
    if plan.events.num(Event.INVALID):
        raise ManifestError("the text cannot be synthesized", remedy="see above")
    with closing(session_of(plan, is_int16=is_int16)) as session:
        if plan.voices.to_make():
            startup.use_device(plan.config.device)
            make_missing_voices(plan, session, screen.step)
            plan.read()
        task = next(iter(plan))
        if isinstance(task, BadRow):
            raise RowError(task.message)
        if task.is_silent:
            return task, silence_of(task, plan.info), None
        startup.use_device(plan.config.device)
        signals.check()
        make_ready(session, plan.needs, screen.step)
        made: list[tuple[Task, Result, TakeVerdict | None]] = []
        with signals.stopping(session.stop):
            if heard is None:
                session.speak([task], lambda *found: made.append((*found, None)))
            else:
                heard.speak(session, [task], lambda *found: made.append(found))
    return made[0] if made else (task, Result(), None)
