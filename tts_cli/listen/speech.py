"""One take of a row, as its line of `timings.jsonl` tells it.

Lines may be of any version, and may have been rewritten by anyone: what is not of its type is taken
for unknown, and no path leads out of the folder.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from tts_cli.core import Status
from tts_cli.manifest.ids import is_recorded_id, voice_label
from tts_cli.text.pauses import without_pauses

_STATUSES = [status.value for status in Status]
MAX_TEXTS = 20  # of a list, such as `suspect`
MAX_PARTS = 1000
MAX_EXACT = 2**53  # browsers read no larger whole number


class Part(NamedTuple):
    """What a long row was spoken in: characters of its text, seconds of its audio."""

    text_start: int
    text_end: int
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Speech:
    """Fields as in `tts_cli/folder/README.md`; None: not told."""

    id: str
    take: int
    status: str  # ok, failed or gone
    place: int  # of its line in the journal
    role: str | None = None  # own, held or extra, of the takes of a row
    path: str | None = None  # of the audio, from the folder, inside it
    num_bytes: int = 0
    sha256: str | None = None
    frames: int = 0
    audio_s: float = 0.0
    error: str | None = None
    finish_reason: str | None = None
    suspect: tuple[str, ...] = ()
    run_id: str | None = None
    started: str | None = None
    text: str | None = None
    spoken_text: str | None = None
    text_chars: int = 0
    voice: str | None = None
    language: str | None = None
    instruct: str | None = None
    ref_sha256: str | None = None
    anchor: str | None = None
    seed: int | None = None
    attempts: int = 0
    parts: tuple[Part, ...] = ()
    level_dbfs: float | None = None
    peak_dbfs: float | None = None
    clipped_share: float | None = None
    silence_start_s: float = 0.0
    silence_end_s: float = 0.0
    silence_inside_s: float = 0.0
    added_s: float = 0.0  # silence put on the ends afterwards, less what was cut off there
    # Milliseconds of this row's share: prefill, decode, vocoder, write.
    stages_ms: tuple[float, float, float, float] = field(default=(0.0, 0.0, 0.0, 0.0))

    @property
    def is_ok(self) -> bool:
        """Whether it counts as done."""
        return self.status == "ok"

    @cached_property
    def letters(self) -> int | None:
        """Letters and digits of what was said."""
        return None if self.said is None else sum(map(str.isalnum, without_pauses(self.said)))

    @property
    def said(self) -> str | None:
        """What the model was given."""
        return self.text if self.spoken_text is None else self.spoken_text


def speech_of(values: Any, place: int) -> Speech | None:
    """A line's content as a `Speech`; None for what is no row's line."""
    if not isinstance(values, dict) or values.get("status") not in _STATUSES:
        return None
    row_id, take = values.get("id"), values.get("take", 1)
    if not is_recorded_id(row_id, values["status"]) or _whole(take) is None:
        return None
    seed = _whole(values.get("seed"))
    names = ("prefill_ms", "decode_ms", "vocoder_ms", "write_ms")
    prefill, decode, vocoder, write = (_number(values.get(name)) or 0.0 for name in names)
    return Speech(
        id=row_id,
        take=take,
        status=values["status"],
        place=place,
        role=_text(values.get("role")),
        path=inner_path(values.get("path")),
        num_bytes=_whole(values.get("bytes")) or 0,
        sha256=_text(values.get("sha256")),
        frames=_whole(values.get("frames")) or 0,
        audio_s=_number(values.get("audio_s")) or 0.0,
        error=_text(values.get("error")),
        finish_reason=_text(values.get("finish_reason")),
        suspect=_texts(values.get("suspect")),
        run_id=_text(values.get("run_id")),
        started=_text(values.get("started")),
        text=_text(values.get("text")),
        spoken_text=_text(values.get("spoken_text")),
        text_chars=_whole(values.get("text_chars")) or 0,
        voice=voice_label(_text(values.get("voice"))),
        language=_text(values.get("language")),
        instruct=_text(values.get("instruct")),
        ref_sha256=_text(values.get("ref_sha256")),
        anchor=_text(values.get("anchor")),
        seed=seed if seed is not None and seed < MAX_EXACT else None,
        attempts=_whole(values.get("attempts")) or 0,
        parts=_parts(values.get("parts")),
        level_dbfs=_signed(values.get("level_dbfs")),
        peak_dbfs=_signed(values.get("peak_dbfs")),
        clipped_share=_number(values.get("clipped_share")),
        silence_start_s=_number(values.get("silence_start_s")) or 0.0,
        silence_end_s=_number(values.get("silence_end_s")) or 0.0,
        silence_inside_s=_number(values.get("silence_inside_s")) or 0.0,
        added_s=_added_s(values.get("applied")),
        stages_ms=(prefill, decode, vocoder, write),
    )


def inner_path(value: Any) -> str | None:
    """A path below the folder with `/` between its parts; None for any other."""
    if not isinstance(value, str) or not value or "\0" in value or "\\" in value:
        return None
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or not path.name:
        return None
    return path.as_posix()


def _added_s(applied: Any) -> float:
    """What padding and trimming have changed of a file's length, seconds."""
    if not isinstance(applied, dict):
        return 0.0
    ends = ("start_s", "end_s")
    added = sum(_number(applied.get(f"pad_{end}")) or 0.0 for end in ends)
    return added - sum(_number(applied.get(f"trimmed_{end}")) or 0.0 for end in ends)


def _parts(value: Any) -> tuple[Part, ...]:
    """All parts, or none where one makes no sense."""
    if not isinstance(value, list) or len(value) > MAX_PARTS:
        return ()
    found = []
    for entry in value:
        if not isinstance(entry, dict):
            return ()
        first, behind = _whole(entry.get("text_start")), _whole(entry.get("text_end"))
        start_s, end_s = _number(entry.get("start_s")), _number(entry.get("end_s"))
        if first is None or behind is None or start_s is None or end_s is None:
            return ()
        found.append(Part(first, behind, start_s, end_s))
    return tuple(found)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(text for text in value[:MAX_TEXTS] if isinstance(text, str))


def _whole(value: Any) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and value >= 0 else None


def _number(value: Any) -> float | None:
    """A number that is not negative."""
    number = _signed(value)
    return number if number is not None and number >= 0 else None


def _signed(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < MAX_EXACT and math.isfinite(value) else None
