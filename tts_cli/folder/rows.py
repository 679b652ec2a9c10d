"""An output folder as a listener finds it: every row with its takes, over all runs.

Nothing is locked, repaired or written: a folder can be looked at while a run still fills it.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from tts_cli.core import Status
from tts_cli.errors import SetupError, UsageError
from tts_cli.folder.atomic import require_plain_file
from tts_cli.folder.journal import JOURNAL_NAME
from tts_cli.folder.run_file import REPORT_NAME, RUNS_NAME, last_of_runs
from tts_cli.listen.speech import Speech, speech_of
from tts_cli.manifest.ids import is_recorded_id

TAKES_FOLDER = "takes"
CHOICES_NAME = "takes.json"
FILE_ROLES = ("own", "held")  # of takes that are a row's file
_MAX_LINE_BYTES = 1 << 20
_MAX_FILE_BYTES = 1 << 26
STAGES = ("prefill", "decode", "vocoder", "write")


@dataclass(frozen=True)
class Take:
    """One speech of a row, and where its audio is."""

    speech: Speech
    path: str | None  # from the folder, of a file that is there; None: there is none
    is_older: bool = False  # the row failed, and this is the audio of a line before


@dataclass(frozen=True)
class Row:
    """A row with all of its takes, by number, and which of them counts."""

    id: str
    takes: list[Take]
    chosen: int  # place in `takes`

    @property
    def take(self) -> Take:
        """The one that counts."""
        return self.takes[self.chosen]

    @property
    def speech(self) -> Speech:
        """The line of the take that counts."""
        return self.take.speech


@dataclass
class SpokenFolder:
    """What `read_folder` found."""

    path: Path
    rows: list[Row]  # in the order of their first lines
    runs: list[dict[str, Any]]  # last lines of runs.jsonl, the first run first
    last_run: dict[str, Any]  # run.json; empty: there is none
    # Run id -> seconds of prefill, decode, vocoder and write, over all lines of that run.
    stages_s: dict[str, list[float]] = field(default_factory=dict)
    num_garbage: int = 0  # lines of the journal that make no sense


def read_folder(out: Path) -> SpokenFolder:
    """Read journal, runs and choices, and look which audio is there.

    Raises:
        UsageError: there is no such folder, or nothing was ever spoken into it.
        SetupError: its files cannot be read.
    """
    journal = out / JOURNAL_NAME
    try:
        if not out.is_dir():
            raise UsageError(f"{out}: is no folder", remedy="give the folder of a run, its --out")
        if not require_plain_file(journal):
            raise UsageError(
                f"{out}: has no {JOURNAL_NAME}, so nothing was spoken into it",
                remedy="give the folder of a run, its --out",
            )
        folder = SpokenFolder(out, [], _runs(out), _object(out / REPORT_NAME))
        lines = _lines(journal, folder)
        folder.rows = list(_rows(out, lines))
    except OSError as error:
        raise SetupError(
            f"{error.filename or out}: {error.strerror or error}",
            remedy="check the permissions of the folder and its files",
        ) from error
    return folder


@dataclass
class _Lines:
    """The lines of one row and take that matter."""

    last: Speech
    last_ok: Speech | None


def _lines(journal: Path, folder: SpokenFolder) -> dict[str, dict[int, _Lines]]:
    """The last lines of every take of every row; sums up the stages of all lines by run."""
    found: dict[str, dict[int, _Lines]] = {}
    counted: set[tuple[str, str | None, str | None]] = set()
    stages_ms: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(STAGES))
    for place, values in enumerate(_json_lines(journal)):
        speech = speech_of(values, place)
        if speech is None:
            folder.num_garbage += 1
            continue
        attempt = (speech.id, speech.run_id, speech.started)
        if speech.run_id is not None and attempt not in counted:
            counted.add(attempt)  # a line that only tells of a choice repeats the figures
            sums = stages_ms[speech.run_id]
            for stage, ms in enumerate(speech.stages_ms):
                sums[stage] += ms
        takes = found.setdefault(speech.id, {})
        if speech.status == Status.GONE:
            takes.pop(speech.take, None)
            if not takes:
                del found[speech.id]
            continue
        before = takes.get(speech.take)
        last_ok = speech if speech.is_ok else before.last_ok if before else None
        takes[speech.take] = _Lines(speech, last_ok)
    folder.stages_s = {run: [ms / 1000 for ms in sums] for run, sums in stages_ms.items()}
    return found


def _rows(out: Path, lines: dict[str, dict[int, _Lines]]) -> Iterator[Row]:
    choices = _choices(out)
    for row_id, by_number in lines.items():
        numbers = sorted(by_number)
        if len(numbers) == 1:
            yield Row(row_id, [_single(out, by_number[numbers[0]])], 0)
            continue
        speeches = [by_number[number].last for number in numbers]
        chosen = _chosen(out, speeches, choices.get(row_id))
        takes = [
            Take(speech, _take_path(out, speech, is_chosen=place == chosen))
            for place, speech in enumerate(speeches)
        ]
        if takes[chosen].path is None and not speeches[chosen].is_ok:
            takes[chosen] = _with_older(out, speeches, speeches[chosen])
        yield Row(row_id, takes, chosen)


def _single(out: Path, lines: _Lines) -> Take:
    """The one take of a row. A row that failed may still have the audio of an earlier line."""
    speech, older = lines.last, lines.last_ok
    if _is_there(out, speech.path):
        return Take(speech, speech.path)
    if not speech.is_ok and older is not None and _is_there(out, older.path):
        return Take(speech, older.path, is_older=True)
    return Take(speech, None)


def _with_older(out: Path, speeches: list[Speech], failed: Speech) -> Take:
    """A take that failed, with what the row's file still is."""
    for suffix in {_suffix(speech) for speech in speeches if speech.is_ok and speech.path}:
        if _is_there(out, own := f"{failed.id}{suffix}"):
            return Take(failed, own, is_older=True)
    return Take(failed, None)


def _take_path(out: Path, speech: Speech, is_chosen: bool) -> str | None:
    """Where a take of several lies: by its number, the chosen one also under the row's name."""
    if speech.path is None:
        return None
    own = f"{speech.id}{_suffix(speech)}"
    paths = [f"{TAKES_FOLDER}/{speech.id}/{speech.take}{_suffix(speech)}", speech.path]
    if is_chosen:
        paths.append(own)
    else:  # the row's own name is that of the chosen take alone
        paths = [path for path in paths if path != own]
    return next((path for path in paths if _is_there(out, path)), None)


def _chosen(out: Path, speeches: list[Speech], choice: int | None) -> int:
    """Which take counts: the last that was made the row's file, or was to be; where lines tell
    nothing of it, the choice in `takes.json`, the one that the row's file is, or the last.
    """
    made = [speech for speech in speeches if speech.role in FILE_ROLES]
    if made:
        return speeches.index(max(made, key=lambda speech: speech.place))
    numbers = [speech.take for speech in speeches]
    if choice in numbers:
        return numbers.index(choice)
    spoken = [place for place, speech in enumerate(speeches) if speech.is_ok and speech.path]
    for place in reversed(spoken):
        speech = speeches[place]
        own = f"{speech.id}{_suffix(speech)}"
        if _is_there(out, own) and _is_audio_of(out / own, speech):
            return place
    return max(spoken or range(len(speeches)), key=lambda place: speeches[place].place)


def _suffix(speech: Speech) -> str:
    return PurePosixPath(speech.path or "").suffix


def _is_audio_of(path: Path, speech: Speech) -> bool:
    if speech.sha256 is None or path.stat().st_size != speech.num_bytes:
        return False
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest() == speech.sha256


def _is_there(out: Path, path: str | None) -> bool:
    """Whether a plain file is there; a pipe would wait for ever."""
    if path is None:
        return False
    try:
        return stat.S_ISREG(os.stat(out / path).st_mode)
    except (OSError, ValueError):
        return False


def _choices(out: Path) -> dict[str, int]:
    """Row id -> number of the chosen take, of `takes.json`."""
    entries = _object(out / CHOICES_NAME).get("choices")
    if not isinstance(entries, dict):
        return {}
    numbers = {
        row_id: entry.get("take")
        for row_id, entry in entries.items()
        if is_recorded_id(row_id) and isinstance(entry, dict)
    }
    return {row_id: take for row_id, take in numbers.items() if isinstance(take, int)}


def _runs(out: Path) -> list[dict[str, Any]]:
    path = out / RUNS_NAME
    if not require_plain_file(path):
        return []
    return last_of_runs(values for values in _json_lines(path) if isinstance(values, dict))


def _object(path: Path) -> dict[str, Any]:
    """A file's JSON object; empty where there is none that makes sense."""
    if not require_plain_file(path):
        return {}
    with open(path, "rb") as file:
        raw = file.read(_MAX_FILE_BYTES)
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _json_lines(path: Path) -> Iterator[Any]:
    """Every line's content, None for one that is no JSON; a torn last line is left out."""
    with open(path, "rb") as file:
        while raw := file.readline(_MAX_LINE_BYTES):
            if not raw.strip():
                continue
            try:
                yield json.loads(raw)
            except (ValueError, RecursionError):
                if raw.endswith(b"\n"):
                    yield None
