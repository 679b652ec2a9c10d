"""Content of the page: a folder's rows as plain values for JSON.

Names are those of the journal. Usual and unknown values are left out of a row: most rows are fine,
and a page of thousands stays small.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from tts_cli.atomic import write_standalone
from tts_cli.checks.baselines import Evidence, VoiceBaselines, letters_per_second
from tts_cli.checks.folder_rows import FolderAudio, FolderRow, TakeFile, read_folder
from tts_cli.checks.outliers import KINDS, reasons_now, severity
from tts_cli.checks.page.build import build_page, spoken_by
from tts_cli.checks.page.charts import charts_of
from tts_cli.checks.reviews import read_decisions
from tts_cli.checks.verdicts import SCORES, TakeVerdict, Transcript, verdicts_by_take
from tts_cli.checks.waveform import LETTERS, outlines
from tts_cli.checks.word_times import WordTimes, read_words
from tts_cli.core import Finish, Remark
from tts_cli.errors import SetupError, writing
from tts_cli.named import counted
from tts_cli.store.entry import JournalEntry, iso_time
from tts_cli.store.files import JOURNAL_NAME
from tts_cli.store.lock import is_read_only
from tts_cli.store.orphans import read_book
from tts_cli.versions import versions

log = logging.getLogger(__name__)

PAGE_NAME = "report.html"
SCHEMA = 1
MIN_SILENCE_S = 0.5
MAX_EXTRAS = 20  # extra columns of a row
MAX_EXTRA = 200  # characters of their values
_PART = ("text_start", "text_end", "start_s", "end_s")


class _About(NamedTuple):
    runs: dict[str | None, int]
    outlines: dict[int, str | None]  # by the `id` of a `TakeFile`
    checks: dict[tuple[str, int], TakeVerdict]
    voices: VoiceBaselines
    chapters: dict[str, tuple[int, str]]  # by id: place in the book, title
    base: str
    is_served: bool


def write_page(out: Path, page: Path | None = None) -> tuple[Path, dict[str, Any]]:
    """Write the page of a folder, completely or not at all. Return its file and the totals of the
    folder.

    Args:
        page: its file; None: in the folder.
    Raises:
        UsageError, SetupError: the folder cannot be read, or the page cannot be written.
        DiskFull: no space; an earlier page stays.
    """
    folder = read_folder(out)
    if page is None and is_read_only(out):
        raise SetupError(f"{out}: is read-only", "choose a file for the page with --out PAGE")
    base = "" if page is None else os.path.relpath(out.resolve(), page.parent.resolve())
    address = f"{audio_url(base)}/" if base else ""
    content = content_of(folder, versions()["tts-cli"], address)
    totals: dict[str, Any] = content["totals"]
    if totals["garbage"]:
        lines = counted(totals["garbage"], "invalid line")
        log.warning("%s: ignored %s", out / JOURNAL_NAME, lines)
    if totals["missing"]:
        rows = counted(totals["missing"], "row has", "rows have")
        log.warning("%s: %s no audio file; the page shows which", out, rows)
    page = out / PAGE_NAME if page is None else page
    with writing(page, SetupError, remedy="check the folder's permissions"):
        write_standalone(page, build_page(content))
    return page, totals


def content_of(
    folder: FolderAudio, version: str | None, base: str = "", *, is_served: bool = False
) -> dict[str, Any]:
    """Return the data of the page.

    Args:
        version: of this tool.
        base: of the addresses of audio: the folder relative to the page; empty: the page is in it.
        is_served: for the server of `review`, which the page asks for decisions and waveforms.
    """
    voices = VoiceBaselines(Evidence(row.take) for row in folder.rows)
    checks = verdicts_by_take(folder.path)
    reasons = {
        row.id: reasons_now(row.take, voices, checks.get((row.id, row.take.take)))
        for row in folder.rows
    }
    runs = {run.get("run_id"): place for place, run in enumerate(folder.runs)}
    files = [file for row in folder.rows for file in row.files]
    paths = [None if file.path is None else folder.path / file.path for file in files]
    drawn = [None] * len(files) if is_served else outlines(paths)
    shown = dict(zip(map(id, files), drawn, strict=True))
    about = _About(runs, shown, checks, voices, _chapters(folder.path), base, is_served)
    decisions = () if is_served else read_decisions(folder.path)
    return {
        "schema": SCHEMA,
        "tool": version,
        "made": iso_time(datetime.now(timezone.utc)),
        "folder": {"path": str(folder.path.resolve()), "name": folder.path.resolve().name},
        "letters": LETTERS,
        "kinds": KINDS,
        "totals": _totals(folder, reasons),
        "runs": [_run(run) for run in folder.runs],
        "last": spoken_by(folder.last_run),
        "charts": charts_of(folder, checks),
        "decisions": list(map(msgspec.to_builtins, decisions)),
        "rows": [
            _row(row, reasons[row.id], about, read_words(folder.path, row.id))
            for row in folder.rows
        ],
    }


def audio_url(path: str) -> str:
    """Return a path as a relative URL that contains no scheme or query."""
    return "/".join(quote(part, safe="") for part in path.split("/"))


def _totals(folder: FolderAudio, reasons: dict[str, list[Remark]]) -> dict[str, Any]:
    ok = [row.take for row in folder.rows if row.take.is_ok]
    sums = [run["totals"] for run in folder.runs if "totals" in run]
    walls = [total.get("wall_s") for total in sums]
    wall_s = sum(wall for wall in walls if isinstance(wall, (int, float)))
    audio_s = sum(speech.audio_s for speech in ok)
    # Runs of an earlier version were not recorded.
    is_counted = wall_s > 0 and all(row.take.run_id is not None for row in folder.rows)
    return {
        "rows": len(folder.rows),
        "ok": len(ok),
        "failed": len(folder.rows) - len(ok),
        "suspect": sum(bool(reasons[speech.id]) for speech in ok),
        "audio_s": round(audio_s, 3),
        "wall_s": round(wall_s, 3) if is_counted else None,
        "xrt": _speed(sums),
        "voices": len({speech.voice_name for speech in ok if speech.voice}),
        "runs": len(folder.runs),
        "missing": sum(row.take.is_ok and row.file.path is None for row in folder.rows),
        "garbage": folder.num_garbage,
    }


def _speed(sums: list[dict[str, Any]]) -> float | None:
    """Return seconds of audio per second of the runs that ended. Killed runs have no time."""
    pairs = [(total.get("audio_s"), total.get("wall_s")) for total in sums]
    known = [pair for pair in pairs if all(isinstance(one, (int, float)) for one in pair)]
    audio_s, wall_s = (sum(one) for one in zip(*known, strict=True)) if known else (0, 0)
    return round(audio_s / wall_s, 3) if audio_s > 0 and wall_s > 0 else None


def _run(run: dict[str, Any]) -> dict[str, Any]:
    return {
        "run_id": run.get("run_id"),
        "started": run.get("started"),
        "model": _text(run.get("model", {}).get("source")),
        "command": spoken_by(run),
    }


def _row(
    row: FolderRow, reasons: Sequence[Remark], about: _About, times: WordTimes | None
) -> dict[str, Any]:
    speech = row.take
    if times is not None and times.text != speech.text:
        times = None
    rate = letters_per_second(speech) if speech.is_ok else None
    order, chapter = about.chapters.get(row.id, (None, None))
    values: dict[str, Any] = {
        "id": row.id,
        "status": speech.status,
        "voice": speech.voice_name,
        "character": speech.character,
        "extra": _extra(speech),
        "text": speech.text,
        "spoken_text": speech.spoken_text if speech.spoken_text != speech.text else None,
        "text_chars": None if speech.text is not None else speech.text_chars,
        "error": speech.error,
        "finish_reason": None if speech.finish_reason is Finish.EOS else speech.finish_reason,
        "language": None if speech.language == "auto" else speech.language,
        "instruct": speech.instruct,
        "attempts": speech.attempts if speech.attempts > 1 else None,
        "rate": None if rate is None else round(rate, 2),
        "level_dbfs": speech.level_dbfs,
        "peak_dbfs": speech.peak_dbfs,
        "clipped_share": speech.clipped_share or None,
        "silences_s": _silences(speech),
        "run": about.runs.get(speech.run_id) if speech.run_id else None,
        "place": row.file.place,
        "order": order,
        "chapter": chapter,
        "reasons": [list(reason) for reason in reasons],
        "severity": round(severity(reasons), 2),
        "parts": [[part[name] for name in _PART] for part in speech.parts],
        "chosen": row.chosen,
        "takes": [_take(file, row, about, times) for file in row.files],
    }
    return _known(values)


def _take(file: TakeFile, row: FolderRow, about: _About, times: WordTimes | None) -> dict[str, Any]:
    speech = file.take
    if (
        times is not None and times.sha256 != speech.sha256
    ):  # they are of another take, or of an earlier file
        times = None
    check, chosen = about.checks.get((row.id, speech.take)), row.take
    is_known = check is not None and check.fits(speech.sha256)
    heard, rated = (check.asr, check.mos) if check and is_known else (None, None)
    is_other = not speech.is_same_speech(chosen)
    reasons = [] if speech is chosen else reasons_now(speech, about.voices, check)
    values = {
        "take": speech.take,
        "seed": speech.seed,
        "sha256": speech.sha256,
        "audio_s": round(speech.audio_s, 3),
        "status": None if speech.is_ok else speech.status,
        "suspect": [kind for kind, *_ in reasons],
        "url": None if file.path is None else _address(file.path, row.id, speech, about),
        "is_older": file.is_older,
        "is_other": is_other,
        "said": speech.said if is_other else None,
        "written": speech.text if is_other else None,
        "waveform": about.outlines[id(file)],
        "level_dbfs": speech.level_dbfs,
        "asr": None if heard is None else _heard(heard),
        "mos": None if rated is None else [getattr(rated, name) for name in SCORES],
        "words": None if times is None else _words(times),
        "unsure": None if times is None else times.unsure,
    }
    return _known(values)


def _address(path: str, row_id: str, speech: JournalEntry, about: _About) -> str:
    """Return the address of a take's audio; in `review` a different one for each version of it."""
    if not about.is_served:
        return about.base + audio_url(path)
    return f"audio/{speech.take}/{audio_url(row_id)}?{(speech.sha256 or '')[:16]}"


def _chapters(out: Path) -> dict[str, tuple[int, str]]:
    """Return the index and the chapter of each row of a book."""
    found: dict[str, tuple[int, str]] = {}
    try:
        for number, chapter in enumerate(read_book(out)["chapters"], 1):
            for sentence in chapter["sentences"]:
                title = str(chapter["title"] or f"Chapter {number}")
                found[str(sentence["id"])] = len(found), title
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        log.warning("book.json is not valid, so the page shows no chapters: %s", error)
    return found


def _heard(heard: Transcript) -> dict[str, Any]:
    """Return a transcript: the text in segments, wrong ones with the transcript's words."""
    return {
        "error": round(heard.wer, 4),
        "unit": heard.unit,
        "longest": heard.longest_wrong,
        "by": heard.recognizer,
        "heard": [list(piece) if piece.is_wrong else [piece.wanted] for piece in heard.segments],
    }


def _words(times: WordTimes) -> list[int]:
    """Return four numbers per word: start and end in the text, in characters, and in the audio,
    in hundredths of a second.
    """
    return [
        figure
        for word in times.words
        for figure in (
            word.text_start,
            word.text_end,
            round(100 * word.start_s),
            round(100 * word.end_s),
        )
    ]


def _known(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that are not None, empty or false; 0 stays."""
    return {
        name: value
        for name, value in values.items()
        if not (value is None or value is False or value in ("", [], {}))
    }


def _extra(speech: JournalEntry) -> dict[str, str]:
    found = {}
    for name, value in list(speech.extra.items())[:MAX_EXTRAS]:
        text = value if isinstance(value, str) else json.dumps(value)
        if text:
            found[name[:MAX_EXTRA]] = text[:MAX_EXTRA]
    return found


def _silences(speech: JournalEntry) -> list[float] | None:
    """Return seconds at the start, inside and at the end, unless all are short."""
    silences = (speech.silence_start_s, speech.silence_inside_s, speech.silence_end_s)
    seconds = [value or 0.0 for value in silences]
    return [round(value, 2) for value in seconds] if max(seconds) >= MIN_SILENCE_S else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
