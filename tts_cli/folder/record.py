"""A line of `timings.jsonl`. Its page is `README.md` beside this file; a test compares the two.

The first fields, up to `audio_s`, are what a later run must know of a row. They stand in this order
in front of the others, so that `table.py` need not read a line of ours to its end.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

# Of lines written now. Those of 1 have no `schema`: their derived seeds have 63 bits. Those of 0
# have no `delivery_hash` either: one hash stands for request and delivery.
SCHEMA = 2

OK, FAILED = "ok", "failed"
GONE = "gone"  # no manifest has the row any more: nothing but a run for it may look at the line
STATUSES = (OK, FAILED, GONE)

OWN = "own"  # what the manifest and the settings ask for; the row's file is this take
HELD = "held"  # somebody chose it: the row's file is this take, whatever seed a run has
EXTRA = "extra"  # spoken beside the row's own file
ROLES = (OWN, HELD, EXTRA)

REPLACING = "replacing"  # the only value of `unfinished` so far
REPLACING_ERROR = "the run ended while its file was replaced"  # alone in lines of before the field
_ENCODER = json.JSONEncoder(allow_nan=False)  # `json.dumps` makes one for each line


@dataclass(frozen=True)
class RowRecord:
    """One line of `timings.jsonl`. Times are wall milliseconds.

    Prefill, decode and vocoder run for many rows at once: prefill_ms, decode_ms and vocoder_ms are
    this row's share by its own steps, not the time the row had to wait for its batch. None is
    unknown, or what a row that was not spoken does not have.
    """

    id: str
    status: str  # ok, failed or gone
    take: int = 1  # which speech of the row
    role: str = OWN  # of that take among them, when the line was written
    schema: int = SCHEMA
    request_hash: str = ""  # what was spoken, and how it is delivered: see `hashes`
    delivery_hash: str = ""
    bytes: int = 0  # of the audio file
    sha256: str | None = None  # of the audio file
    frames: int = 0
    audio_s: float = 0.0
    content_hash: str = ""  # what was spoken, but for how it was drawn: see `hashes`
    path: str | None = None  # of the audio, relative to the output folder
    sample_rate_hz: int | None = None  # of the audio file
    error: str | None = None
    # A failed line that judges no speech: it says what its row is once the file of that sum has its
    # name, and stands alone only where the run died about then; see `takes.TakeFolder.repair`.
    unfinished: str | None = None
    # eos, max_frames, early (fewer frames than the text can take), stuck (stood still for 4 s),
    # wordless (nothing to speak in its text: silence without frames); None if it was not spoken to
    # an end.
    finish_reason: str | None = None
    # What the audio should be listened to for: too long, near-silence, one code for long.
    suspect: list[str] = field(default_factory=list)
    run_id: str | None = None  # None: noted for a run that died, or by an earlier version
    started: str | None = None  # UTC, ISO 8601, when it was queued; None: it never was
    text: str | None = None  # as the manifest has it
    spoken_text: str | None = None  # what the model was given; None: the text as it is
    text_chars: int = 0
    character: str | None = None  # as the manifest has it; a cast gives it a voice
    extra: dict[str, Any] = field(default_factory=dict)  # other columns of its, by --extra keep
    voice: str | None = None
    language: str | None = None
    instruct: str | None = None
    ref_sha256: str | None = None  # of the recording a row names
    anchor: str | None = None  # id of the row whose voice this one has, by --anchor
    anchor_digest: str | None = None  # of that row's speech
    clone_mode: str | None = None
    clone_model: str | None = None  # identity of what cloned its voice, by --clone-model
    seed: int | None = None  # of the attempt that was kept
    attempts: int = 0
    parts: list[dict[str, Any]] = field(default_factory=list)  # that it was spoken in; none: in one
    level_dbfs: float | None = None  # this and the next five: see `core.Levels`
    peak_dbfs: float | None = None
    clipped_share: float | None = None
    silence_start_s: float | None = None
    silence_end_s: float | None = None
    silence_inside_s: float | None = None
    applied: dict[str, Any] | None = None  # to the samples, see `Applied`; None: nothing
    source: dict[str, Any] | None = None  # what the file was made of again; None: it was spoken
    frames_per_char: float | None = None
    worker: int | None = None  # that spoke it, by --workers; None: the one process
    prompt_tokens: int = 0
    bucket: int = 0  # the largest batch it ran in
    queue_ms: float = 0.0  # from being queued to its slot
    reference_ms: float = 0.0  # encoding a reference, with the row that named it first
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    vocoder_ms: float = 0.0
    write_ms: float = 0.0
    latency_ms: float = 0.0  # from being queued to being on disk
    rtf: float | None = None  # (prefill + decode + vocoder + write) / audio, lower is better

    @classmethod
    def from_line(cls, values: Mapping[str, Any]) -> RowRecord:
        """A line that was read, of any version and written by anybody: fields it lacks, or that
        are not of their kind, have their defaults. `id` and `status` are texts.
        """
        known = {
            entry.name: values[entry.name]
            for entry in fields(cls)
            if entry.name in values and _is_of_kind(values[entry.name], str(entry.type))
        }
        if is_unfinished(values):
            known["unfinished"] = REPLACING
        return cls(**{"id": "", "status": "failed", **known})

    def to_line(self) -> str:
        """The record as one line of JSON; times to a microsecond."""
        values = dict(vars(self))
        for name, digits in _DIGITS.items():
            value = values[name]
            if value is not None:
                values[name] = round(value, digits)
        return _ENCODER.encode(values) + "\n"


def is_unfinished(line: Mapping[str, Any]) -> bool:
    """Whether a failed line tells of a file that was being replaced."""
    return line.get("unfinished") == REPLACING or line.get("error") == REPLACING_ERROR


# What fields with a fraction are rounded to.
_DIGITS = {
    entry.name: 3 if entry.name.endswith(("_ms", "_dbfs")) else 6
    for entry in fields(RowRecord)
    if "float" in str(entry.type)
}
_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "list": (list,),
    "dict": (dict,),
    "None": (type(None),),
}


def _is_of_kind(value: Any, kind: str) -> bool:
    """Whether a value of JSON is what an annotation of `RowRecord` allows, as far as lists."""
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        return False
    names = [name.split("[")[0].strip() for name in kind.split("|")]
    return isinstance(value, tuple(found for name in names for found in _KINDS[name]))


def parts_of(line: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts that a line tells; none where they make no sense."""
    parts = line.get("parts") or []
    numbers = ("text_start", "text_end", "start_s", "end_s")
    try:
        is_sound = all(isinstance(part[name], (int, float)) for part in parts for name in numbers)
        is_sound = is_sound and all(
            isinstance(part[name], int) for part in parts for name in numbers[:2]
        )
    except (TypeError, KeyError):
        return []
    return list(parts) if is_sound else []


@dataclass(frozen=True)
class CopiedLine:
    """A line once more, with some values changed; of any schema."""

    values: Mapping[str, Any]

    def to_line(self) -> str:
        """As `RowRecord.to_line`, with the fields in front that must be there."""
        front = {name: self.values[name] for name in ("id", "status", "take", "role")}
        return json.dumps({**front, **self.values}, allow_nan=False) + "\n"
