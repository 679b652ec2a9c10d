"""A line of `timings.jsonl`, and the only decoder of such lines.

Lines may be of any version, and other programs may have rewritten them. Lines of this version are
decoded strictly, which is fast. Other lines are read field by field: a field of the wrong type or
out of bounds is unknown, and no id and no path leads out of the folder.

`samples/evidence/render.py` makes the guide's page of fields from the comments on the fields.
"""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, field
from msgspec.structs import asdict, fields, force_setattr, replace

from tts_cli.atomic import parse_line
from tts_cli.core import FilePace, Finish, Kind, Remark, Role, Status
from tts_cli.sources.ids import is_recorded_id, voice_label
from tts_cli.text.pauses import without_pauses

# Schema of new lines. Lines of 2 and 3 are converted while they are read: 3 had `unfinished` and
# another word for removed rows; 2 had no `remarks`, which are derived from its sentences. Lines of
# 1 have no `schema`, and derived seeds of 63 bits; lines of 0 have one hash for request and
# delivery, and no `delivery_hash`. 0 and 1 were never published.
SCHEMA = 4
PUBLISHED = 2  # the first of them that was
MAX_REMARKS = 20
MAX_PARTS = 1000
MAX_MOVED = 100
MAX_EDITS = 100_000
MAX_EXACT = 2**53  # jq, pandas and browsers read no larger whole number
MAX_AUDIO_S = 2**32
MAX_TAKE = 2**20 - 1

Whole = Annotated[int, Meta(ge=0, lt=MAX_EXACT)]
Number = Annotated[int, Meta(ge=1, le=MAX_TAKE)]
Amount = Annotated[float, Meta(ge=0, lt=MAX_EXACT)]
Signed = Annotated[float, Meta(gt=-MAX_EXACT, lt=MAX_EXACT)]
Seconds = Annotated[float, Meta(ge=0, lt=MAX_AUDIO_S)]


class Moved(NamedTuple):
    """A file of a row that a commit moves; names are relative to the folder."""

    name: str
    sha256: str | None  # None: whatever it contains
    target: str | None  # its new name; None: it is removed


class JournalEntry(msgspec.Struct, frozen=True):
    """One line of `timings.jsonl`: the result of one take of a row. Times are wall milliseconds.

    Prefill, decode and vocoder run for many rows together: prefill_ms, decode_ms and vocoder_ms are
    this row's share by its own steps, without waiting. None is unknown, or does not apply to a row
    that was not synthesized.
    """

    # id of the row; `#7` is line 7 if it has no valid id, `#b.csv:7` if there are several manifests
    id: str
    status: Status  # result of the row
    take: Number = 1  # [1, 2, ...] number of the take
    role: Role = Role.OWN  # relation of this take to the row's file
    schema: Whole = SCHEMA  # [4] version of the format of the line, see below
    # hash of the input of the model: text, voice, settings, seed and checkpoint
    request_hash: str = ""
    # hash of format, subtype, sample rate, loudness, high-pass, trim and padding of the file
    delivery_hash: str = ""
    bytes: Whole = 0  # size of the audio file; 0 if there is none
    sha256: str | None = None  # SHA-256 of the audio file
    # SHA-256 of the file of codes; null: no codes were saved, or by an earlier version (since 0.4)
    codes_sha256: str | None = None
    # `user`: a user made or edited the file; null: tts-cli made it (since 0.4)
    origin: str | None = None
    frames: Whole = 0  # codec frames of the audio, without retries; 0 without audio
    # length of the audio, after trimming and padding; for a split row, with the pauses between
    # pieces
    audio_s: Seconds = 0.0
    content_hash: str = ""  # hash that shows whether a pinned take still matches its row
    # path of the audio file when the line was written, relative to the folder; the file of a take
    # that is no longer current is `takes/ID/NUMBER`, with the same suffix
    path: str | None = None
    sample_rate_hz: Whole | None = None  # sample rate of the audio file
    error: str | None = None  # reason for the failure, as text for people
    finish_reason: Finish | None = None  # reason why synthesis ended
    # [list of lists] things to listen for: kind, text and weight of each remark (since 0.4)
    remarks: list[Remark] = field(default_factory=list)
    # id of the run, as in `runs.jsonl`; null: added after the run died, or by an earlier version
    run_id: str | None = None
    # [time] time when the prompt was ready and the row was queued; null: it was never queued
    started: str | None = None
    text: str | None = None  # text as in the manifest, without invisible characters
    # text that the model got, after lexicon and normalizer, with plain spaces; null: same as `text`
    spoken_text: str | None = None
    # [list of lists] edits that made `spoken_text` of `text`: start, end [characters] and the words
    # (since 0.4)
    edits: Annotated[list[tuple[Whole, Whole, str]], Meta(max_length=MAX_EDITS)] = field(
        default_factory=list
    )
    text_chars: Whole = 0  # length of `text`
    character: str | None = None  # character from the manifest; a cast gives it a voice
    # other columns of the manifest, with `--extra keep`
    extra: dict[str, Any] = field(default_factory=dict)
    # speaker of the checkpoint, name of a voice file, or `.voices/NAME` for a generated voice
    voice: str | None = None
    language: str | None = None  # language from the manifest or settings; may be `auto`
    instruct: str | None = None  # style instruction, or description of the voice
    # SHA-256 of the row's reference recording; null for voice files and generated voices
    ref_sha256: str | None = None
    # only in earlier versions: id of the row that has the voice of this row
    anchor: str | None = None
    # only in earlier versions: digest of the audio and text of that row
    anchor_digest: str | None = None
    clone_mode: str | None = None  # [`icl`, `xvec`] method of cloning; null without cloning
    # [hex] only in earlier versions: the second checkpoint, if it synthesized the row or some
    # pieces (since 0.3)
    clone_model: str | None = None
    # seed of the attempt in the file; the seeds of pieces are derived from it
    seed: Whole | None = None
    # number of all attempts, including earlier failed runs; for a split row, of the piece with most
    # attempts
    attempts: Whole = 0
    # [list of objects] pieces of a long row that was split; empty: it was not split
    parts: list[dict[str, Any]] = field(default_factory=list)
    # root mean square of all samples; 0 is a full-scale square wave; null: digital silence
    level_dbfs: Signed | None = None
    peak_dbfs: Signed | None = None  # level of the loudest sample
    clipped_share: Amount | None = None  # share of samples at full scale
    silence_start_s: Amount | None = None  # near-silence before the first sound
    silence_end_s: Amount | None = None  # near-silence after the last sound
    silence_inside_s: Amount | None = None  # longest near-silence between two sounds
    # post-processing of the samples before encoding; null: none
    applied: dict[str, Any] | None = None
    source: dict[str, Any] | None = None  # source of the file; null: the row was synthesized for it
    # [list of lists] files that the commit of this line moved: name, SHA-256 and new name (since
    # 0.4)
    moved: Annotated[list[Moved], Meta(max_length=MAX_MOVED)] = field(default_factory=list)
    # [frames] `frames` divided by the characters of `text`, not counting pause marks
    frames_per_char: Amount | None = None
    # number of the worker that synthesized the row, from 1; null without `--workers` (since 0.3)
    worker: Whole | None = None
    prompt_tokens: Whole = 0  # [tokens] length of the prompt
    bucket: Whole = 0  # [rows] largest batch size while the row was in progress
    queue_ms: Amount = 0.0  # time from queueing to a free slot; for a split row, of the first piece
    reference_ms: Amount = 0.0  # time to encode a reference; counted for the first row that uses it
    prefill_ms: Amount = 0.0  # time to process the prompt: the row's share of its group
    decode_ms: Amount = 0.0  # time to generate frames: the row's share of its steps
    vocoder_ms: Amount = 0.0  # time from frames to samples: the row's share of its batch
    write_ms: Amount = 0.0  # time to encode, write and sync the file
    # time from queueing to the file on disk, including waits for other rows
    latency_ms: Amount = 0.0
    # (prefill + decode + vocoder + write) / audio: the cost of the row; lower is better
    rtf: Amount | None = None

    @property
    def is_ok(self) -> bool:
        return self.status is Status.OK

    @property
    def shown(self) -> str:
        """The row's name in messages, with the take's number unless the take is the row's own."""
        return f"{self.id}, take {self.take}" if self.role is Role.EXTRA else self.id

    @property
    def is_runaway(self) -> bool:
        """Whether the audio does not contain all of the text."""
        return self.finish_reason is not None and self.finish_reason.is_runaway

    @property
    def is_early(self) -> bool:
        """Whether its hashes and seeds are from versions that were never published."""
        return self.schema < PUBLISHED

    @property
    def said(self) -> str | None:
        """The text that the model got."""
        return self.text if self.spoken_text is None else self.spoken_text

    def is_same_speech(self, other: JournalEntry) -> bool:
        """Whether both takes have the same words and the same voice."""
        return (self.said, self.voice_name) == (other.said, other.voice_name)

    @property
    def is_unsampled(self) -> bool:
        """Whether it failed before sampling, so that other seeds cannot help."""
        return not self.is_ok and not self.attempts

    @property
    def letters(self) -> int | None:
        """Number of letters and digits that the model got."""
        if self.said is None:
            return None
        said = without_pauses(self.said)
        if said.isascii():  # most are, and are asked several times
            return len(said.encode().translate(None, _SIGNS))
        return sum(map(str.isalnum, said))

    @property
    def voice_name(self) -> str | None:
        """The voice's name in messages; a generated voice without its folder."""
        return voice_label(self.voice)

    @property
    def samples_s(self) -> float:
        """Length of its audio as synthesized, without padding, trimming and change of pace."""
        pads_s = self._applied("pad_start_s") + self._applied("pad_end_s")
        cut_s = self._applied("trimmed_start_s") + self._applied("trimmed_end_s")
        return (self.audio_s - pads_s) * self.speed + cut_s

    @property
    def shift_s(self) -> float:
        """How much later its audio starts than as synthesized."""
        return self._applied("pad_start_s") - self._applied("trimmed_start_s") / self.speed

    @property
    def speed(self) -> float:
        return self._applied("speed") or 1.0

    @property
    def pace(self) -> FilePace:
        fit_s, is_own = self._applied("fit_s"), (self.applied or {}).get("is_own_pace") is True
        return FilePace(1.0 if fit_s else self.speed, fit_s or None, is_own)

    def _applied(self, name: str) -> float:
        value = self.applied.get(name) if self.applied else None
        return 0.0 if value is None else _of_kind(value, Seconds) or 0.0

    @property
    def suspect(self) -> list[str]:
        """[list of text] `remarks` as text for people; empty: no remarks."""
        return [remark.text for remark in self.remarks]

    @classmethod
    def decode(cls, raw: builtins.bytes) -> JournalEntry | None:
        """Decode a complete line of the file; None: it is invalid."""
        try:
            take = _decode(raw)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return cls.of(parse_line(raw))
        is_simple = take.request_hash and take.delivery_hash and _are_sound(take.remarks)
        is_previous = take.schema == _PREVIOUS and take.is_ok and _PREVIOUS_BYTES in raw
        if not is_simple or not (is_previous or (take.schema == SCHEMA and _OURS in raw)):
            return cls.of(parse_line(raw))
        if is_previous:
            force_setattr(take, "schema", SCHEMA)
        if not is_recorded_id(take.id, take.status):
            return None
        if take.path is not None and not _PLAIN_PATH.fullmatch(take.path):
            force_setattr(take, "path", inner_path(take.path))
        if take.parts:
            force_setattr(take, "parts", sound_parts(take.parts))
        return take

    @classmethod
    def of(cls, values: Mapping[str, Any] | None) -> JournalEntry | None:
        """Read the values of a line, see `parse_line`; None: it is invalid. Missing fields and
        fields of another type get their defaults, except for those that identify the take.
        """
        if values is None:
            return None
        if (
            values.get("status") == _REMOVED_BEFORE
        ):  # other takes of a removed row are only not current now
            status = Status.OK if values.get("error") is None else Status.FAILED
            status = status if values.get("role") == Role.EXTRA.value else Status.REMOVED
            values = {**values, "status": status.value}
        try:
            known = asdict(msgspec.convert(values, cls))
        except msgspec.ValidationError:
            known = {n: v for n, kind in _KINDS if (v := _of_kind(values.get(n), kind)) is not None}
        given = {name for name in _IDENTIFYING if name in values}
        if not given <= known.keys() or not given >= {"id", "status", "request_hash"}:
            return None
        if not is_recorded_id(known["id"], known["status"]):
            return None
        if "schema" not in given:
            known["schema"] = int("delivery_hash" in given)
        elif known["schema"] and "delivery_hash" not in given:
            return None
        elif PUBLISHED <= known["schema"] < SCHEMA:
            known["schema"] = SCHEMA
        known["path"] = inner_path(values.get("path"))
        known["parts"] = sound_parts(values.get("parts"))
        known["remarks"] = _remarks(values)
        if values.get("unfinished") is not None or known.get("error") in _UNFINISHED:
            known["attempts"] = max(1, known.get("attempts", 0))  # its run died, so it is retried
        return cls(**known)

    def as_values(self) -> dict[str, Any]:
        """Return the fields of a line, with rounded numbers."""
        stored = msgspec.structs.astuple(self)
        values = dict(zip(FIELDS, (*stored[:_PLACE], self.suspect, *stored[_PLACE:]), strict=True))
        for name, digits in _DIGITS.items():
            if value := values[name]:
                values[name] = round(value, digits)
        return values

    def to_line(self) -> str:
        return _ENCODER.encode(self.as_values()) + "\n"


class EntryFacts(msgspec.Struct, frozen=True):
    """The fields of a line for the index; decoding takes a third of the time of all fields."""

    id: str
    status: Status
    request_hash: str
    delivery_hash: str
    schema: Whole
    take: Number = 1
    role: Role = Role.OWN
    bytes: Whole = 0
    sha256: str | None = None
    audio_s: Seconds = 0.0
    origin: str | None = None
    is_early = False

    @classmethod
    def decode(cls, raw: builtins.bytes) -> EntryFacts | JournalEntry | None:
        """Decode a complete line of the file; None: it is invalid."""
        try:
            facts = _decode_facts(raw)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return JournalEntry.decode(raw)
        is_known = facts.schema in (SCHEMA, _PREVIOUS) and facts.request_hash
        if not is_known or not facts.delivery_hash or not is_recorded_id(facts.id, facts.status):
            return JournalEntry.decode(raw)
        return facts


def user_entry(base: JournalEntry, number: int, found: tuple[int, str], path: str) -> JournalEntry:
    """Return the entry of a file that a user made, as an alternative take.

    Args:
        base: the take that the file was made from.
        found: size and SHA-256 of the file.
    """
    suffix = PurePosixPath(path).suffix
    is_delivered = suffix == PurePosixPath(base.path or "").suffix
    return replace(
        base,
        take=number,
        role=Role.EXTRA,
        status=Status.OK,
        error=None,
        origin="user",
        path=path,
        bytes=found[0],
        sha256=found[1],
        codes_sha256=None,
        delivery_hash=base.delivery_hash if is_delivered else "",
        applied=base.applied if is_delivered else None,
        source=base.source if is_delivered else None,
    )


@dataclass(frozen=True)
class CopiedLine:
    """A line of any schema, copied with some changed values. Unknown fields are preserved."""

    take: JournalEntry
    values: Mapping[str, Any]  # all values of the line

    @classmethod
    def decode(cls, raw: bytes) -> CopiedLine | None:
        """Decode a complete line of the file; None: it is invalid."""
        take, values = JournalEntry.decode(raw), parse_line(raw)
        return None if take is None or values is None else cls(take, values)

    def changed(self, **changes: Any) -> CopiedLine:
        return CopiedLine(replace(self.take, **changes), {**self.values, **changes})

    def to_line(self) -> str:
        """Return the line with its unknown fields; an unpublished schema stays."""
        names = ("id", "status", "take", "role") if self.take.is_early else FIELDS
        known = {name: value for name, value in self.take.as_values().items() if name in names}
        others = {name: value for name, value in self.values.items() if name != "unfinished"}
        return _ENCODER.encode({**known, **others, **known}) + "\n"


# Errors of lines of schema 2 whose run died before the row was finished.
REPLACED = "the run ended while its file was replaced"
_UNFINISHED = {
    REPLACED,
    "its line was torn by a crash",
    "the run died before this row was recorded",
}
# Kinds of the remarks of schema 2: the first pattern that matches their text.
_OLD_KINDS = (
    (re.compile(r"level "), Kind.LEVEL),
    (re.compile(r"noise floor "), Kind.NOISE_FLOOR),
    (re.compile(r".*expected"), Kind.LONG),
    (re.compile(r".*times as fast"), Kind.FAST),
    (re.compile(r".*silence"), Kind.SILENCE),
    (re.compile(r".*first code"), Kind.REPEATS),
)
_decode = msgspec.json.Decoder(JournalEntry).decode
_decode_facts = msgspec.json.Decoder(EntryFacts).decode
# Fields that identify the take: if one of them is invalid, so is the line.
_IDENTIFYING = ("id", "status", "take", "role", "schema", "request_hash", "delivery_hash")
_KINDS = tuple((entry.name, entry.type) for entry in fields(JournalEntry))
# Names of the fields in a line.
FIELDS = tuple(
    name
    for entry in fields(JournalEntry)
    for name in (("suspect", "remarks") if entry.name == "remarks" else (entry.name,))
)
_PLACE = FIELDS.index("suspect")  # which is made from the field after it
# Decimals of numbers with a fraction.
_DIGITS = {
    name: 3 if name.endswith(("_ms", "_dbfs")) else 6
    for name, kind in _KINDS
    if "float" in str(kind)
}
_ENCODER = json.JSONEncoder(allow_nan=False)  # `json.dumps` makes one for each line
_OURS = b'"schema": %d, ' % SCHEMA
_REMOVED_BEFORE = "gone"  # `status` of removed rows in schema 3
_PREVIOUS = 3
_PREVIOUS_BYTES = b'"schema": %d, ' % _PREVIOUS
_SIGNS = bytes(code for code in range(128) if not chr(code).isalnum())
_PLAIN_PATH = re.compile(r"[\w-][\w.-]*(?:/[\w-][\w.-]*)*")


def _are_sound(remarks: list[Remark]) -> bool:
    if not remarks:
        return True
    return len(remarks) <= MAX_REMARKS and all(1 <= remark.weight <= 10 for remark in remarks)


def _of_kind(value: Any, kind: Any) -> Any:
    """Return a JSON value if it is valid for a field; else None."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None


def inner_path(value: Any) -> str | None:
    """Return a relative path with `/` between its parts; None: it leads out of the folder."""
    if not isinstance(value, str) or not value or "\0" in value or "\\" in value:
        return None
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or not path.name:
        return None
    return path.as_posix()


def iso_time(moment: datetime) -> str:
    """Format a time of UTC for our files: 2026-11-22T13:05:00.250Z."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


class _Span(msgspec.Struct):
    text_start: Whole
    text_end: Whole
    start_s: Seconds
    end_s: Seconds


_Spans = Annotated[list[_Span], Meta(max_length=MAX_PARTS)]


def sound_parts(value: Any) -> list[dict[str, Any]]:
    try:
        msgspec.convert(value, _Spans)
    except msgspec.ValidationError:
        return []
    return list(value)


def _remarks(values: Mapping[str, Any]) -> list[Remark]:
    """Return the remarks of a line; earlier versions had only their texts."""
    given = values.get("remarks", values.get("suspect"))
    entries = given[:MAX_REMARKS] if isinstance(given, list) else []
    if "remarks" in values:
        return [remark for remark in map(_remark, entries) if remark is not None]
    texts = [text for text in entries if isinstance(text, str)]
    kinds = (next((kind for one, kind in _OLD_KINDS if one.match(t)), Kind.OTHER) for t in texts)
    return [Remark(kind, text) for kind, text in zip(kinds, texts, strict=True)]


def _remark(entry: Any) -> Remark | None:
    """Read a remark, possibly of an unknown kind from a later version; None: it is invalid."""
    if not isinstance(entry, list) or len(entry) < 2 or not isinstance(entry[1], str):
        return None
    kind = Kind.named(entry[0]) if isinstance(entry[0], str) else Kind.OTHER
    weight = entry[2] if len(entry) > 2 and isinstance(entry[2], (int, float)) else 2.0
    return Remark(kind, entry[1], float(min(max(weight, 1), 10)))
