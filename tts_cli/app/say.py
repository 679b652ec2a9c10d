"""Synthesize one text: the row of a manifest, in a temporary folder."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tts_cli.app.align import SKIPPED, FolderAlignment
from tts_cli.app.look import Screen
from tts_cli.app.synthesize import synthesize
from tts_cli.checks.verdicts import TakeVerdict, verdicts_by_take
from tts_cli.checks.word_times import WordTimes, read_words
from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Finish, Result, Row, Task
from tts_cli.errors import ManifestError, RowError
from tts_cli.sources.item import ManifestFile
from tts_cli.sources.row import build_row
from tts_cli.store.entry import JournalEntry
from tts_cli.store.store import Store
from tts_cli.voices.generated import is_made
from tts_cli.voices.voice_store import VoiceStore

log = logging.getLogger(__name__)

ROW_ID = "say"


def row_of(text: str, fields: Mapping[str, str | int | None], config: RunConfig) -> Row:
    values = {"id": ROW_ID, "text": text, **fields}
    row = build_row(values, line=1, number=1, folder="", strips_markup=config.strip_markup)
    if isinstance(row, BadRow):
        raise ManifestError(row.message.replace("split it into several rows", "use tts-cli book"))
    return row


def say(
    row: Row, config: RunConfig, screen: Screen, name: str = ROW_ID
) -> tuple[bytes, dict[str, Any]]:
    """Synthesize a row. Return the content of the audio file, and its facts.

    `verified` is set with `--verify`, and `words` with `--words`: a `WordTimes`, or None if the
    words were not found. `name` is the stem of the file's name.

    Raises:
        ManifestError, RowError: the row is invalid, or its synthesis failed.
        UsageError, SetupError: a setting does not fit, or the checkpoint is missing.
    """
    source = ManifestFile("<text>", "jsonl", "", given=(row,))
    results: list[Result] = []

    def remember(task: Task, result: Result, take: JournalEntry) -> None:
        results.append(result)

    with tempfile.TemporaryDirectory(prefix="tts-cli-") as temporary:
        out = Path(temporary)
        voices = VoiceStore(config.voice_dir, out=config.made_voices or out)
        config = replaced(config, out=config.made_voices, made_voices=None)
        try:
            result = synthesize(source, config, out, screen, [remember], voices=voices)
        except ManifestError:
            raise ManifestError("the text cannot be synthesized", remedy="see above") from None
        if result.error is not None:
            raise result.error
        entry = Store.read_only(out).journal.ok_take(ROW_ID)
        if entry is None:
            raise _failure(results, out)
        data = (out / str(entry.path)).read_bytes()
        check = None
        if result.verified is not None and entry.finish_reason is not Finish.WORDLESS:
            check = verdicts_by_take(out)[ROW_ID, entry.take]
        words = None if result.words is None else _words(result.words, out, name)
    remarks = entry.remarks if check is None else check.reasons
    for remark in remarks:
        log.warning("suspect, listen to it: %s", remark.text)
    return data, {
        "audio_s": round(entry.audio_s, 6),
        "bytes": len(data),
        "sample_rate_hz": entry.sample_rate_hz,
        "voice": None if is_made(entry.voice) else entry.voice,
        "language": entry.language,
        "seed": entry.seed,
        "attempts": entry.attempts,
        "finish_reason": entry.finish_reason,
        "parts": len(entry.parts),
        "text": row.text,
        "spoken_text": entry.said,
        "suspect": [remark.text for remark in remarks],
        "applied": entry.applied,
        "verified": None if check is None else _verified(check),
        "words": words,
    }


def _failure(results: list[Result], out: Path) -> RowError:
    """Return why the row failed, from the results of all attempts; none: it is invalid."""
    if results and results[0].error is not None:
        is_cut_off = results[0].samples is not None
        remedy = "try another --seed, or accept the audio with --accept-truncated"
        return RowError(results[0].error, remedy if is_cut_off else None)
    (entry, *_) = Store.read_only(out).journal.takes()
    return RowError(str(entry.error))


def _verified(check: TakeVerdict) -> dict[str, Any]:
    return {
        "recogniser": None if check.asr is None else check.asr.recognizer,
        "take": check.take,
        "verdict": check.verdict,
        "heard": None if check.asr is None else check.asr.text,
    }


def _words(aligned: FolderAlignment, out: Path, name: str) -> WordTimes | None:
    """Return the row's word times under another name, or None, with a warning."""
    found = read_words(out, ROW_ID)
    if found is not None:
        return replace(found, id=name)
    reasons = [reason for _, reason in aligned.problems]
    reasons += [text for kind, text in SKIPPED.items() if aligned.events.num(kind)]
    log.warning("no word times: %s", *reasons)
    return None
