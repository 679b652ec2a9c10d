"""`checks.jsonl`: the results of `tts-cli check` for the takes of a folder.

There is one line per take, and the whole file is written in one piece. A line is about the audio
with its SHA-256 and no other (`TakeVerdict.fits`); `check` leaves out stale lines when it writes.

The file may be of any version and may be edited: a field of another type is unknown, and invalid
lines are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, field

from tts_cli.atomic import iter_file_lines, parse_line, write_atomic
from tts_cli.core import Kind, Remark
from tts_cli.errors import SetupError
from tts_cli.sources.ids import is_recorded_id
from tts_cli.store.files import CHECKS_NAME

SCHEMA = 1
OK, SUSPECT = "ok", "suspect"
MAX_REASONS = 20
MAX_SEGMENTS = 20_000
DECIMALS = 4  # of shares and similarities: verdicts do not change when they are read back
MOS_DECIMALS = 2

Count = Annotated[int, Meta(ge=0, lt=2**53)]
Share = Annotated[float, Meta(ge=0, lt=2**53)]
Score = Annotated[float, Meta(gt=-(2**53), lt=2**53)]


class Segment(NamedTuple):
    """A part of a text and its transcript, in words or characters."""

    wanted: str  # empty: not in the text
    heard: str  # empty: not in the transcript

    @property
    def is_wrong(self) -> bool:
        return self.wanted != self.heard


class Transcript(msgspec.Struct, frozen=True):
    # the recognizer, and everything that its result depends on
    recognizer: str = field(name="recogniser")
    text: str = field(name="heard")  # transcript of the recognizer
    # [share] wrong units divided by units of the text, may be above 1; null: no recognizer was used
    wer: Share = field(name="error")
    # [`words`, `characters`] unit of `error`, `wanted` and `longest_wrong`
    unit: Literal["words", "characters"]
    wanted: Count  # [units] number of units of the text
    longest_wrong: Count  # [units] most wrong units in succession, in the text or in the transcript
    # [share] `error` counted in letters and digits, so that a nearly right word counts little
    cer: Share = field(name="letter_error", default=0.0)
    wrong_letters: Count = 0  # [letters] most wrong letters in one segment
    # [list of pairs] the whole text in order: segments as pairs of text and transcript
    segments: Annotated[tuple[Segment, ...], Meta(max_length=MAX_SEGMENTS)] = field(
        name="stretches", default=()
    )


class VoiceSimilarity(msgspec.Struct, frozen=True):
    """Similarity of a take to its voice, by a checkpoint's speaker encoder."""

    encoder: str  # identity of the checkpoint with the speaker encoder
    # [-1 to 1] cosine to the mean of its voice, by a speaker encoder; null: not measured
    similarity: Score
    # [-1 to 1] lowest cosine of a segment of a long row; null: the row was not cut
    lowest_part: Score | None = None

    @property
    def lowest(self) -> float:
        return self.similarity if self.lowest_part is None else self.lowest_part


class MosScores(msgspec.Struct, frozen=True):
    """Ratings of a take by people, as a model predicts them."""

    rated_by: str  # name and version of the model that predicts the scores (since 0.4)
    mos: Score  # [1 to 5] overall score; null: not predicted (since 0.4)
    mos_signal: Score  # [1 to 5] score of the speech signal (since 0.4)
    mos_background: Score  # [1 to 5] score of the background, 5 for silence (since 0.4)
    mos_p808: Score  # [1 to 5] overall score, from a model of ratings as in ITU-T P.808 (since 0.4)


SCORES = MosScores.__struct_fields__[1:]
T = TypeVar("T")


class TakeVerdict(msgspec.Struct, frozen=True):
    """One line of `checks.jsonl`. The fields of `asr`, `similarity` and `mos` are in the line
    itself; each is None if it was not measured for this audio.
    """

    id: str  # id of the row
    take: Count  # [1, 2, ...] number of the take, as in `timings.jsonl`
    sha256: str  # SHA-256 of the audio file that was checked
    verdict: Literal["ok", "suspect"]  # [`ok`, `suspect`] result of the check
    # [list of objects] `kind`, `text` and `weight` of each reason, highest weight first; empty: ok
    reasons: tuple[Remark, ...] = ()
    severity: float = 0.0  # [number] sum of the weights; higher is worse
    asr: Transcript | None = None
    similarity: VoiceSimilarity | None = None
    mos: MosScores | None = None

    @property
    def is_suspect(self) -> bool:
        """Whether a user should listen to the take."""
        return self.verdict == SUSPECT

    def fits(self, sha256: str | None) -> bool:
        """Whether it is about the audio file with this digest."""
        return self.sha256 == sha256

    def to_line(self) -> str:
        values: dict[str, Any] = {
            "id": self.id,
            "take": self.take,
            "schema": SCHEMA,  # [1] version of the line's format
            "sha256": self.sha256,
            "verdict": self.verdict,
            "severity": round(self.severity, 2),
            "reasons": [reason._asdict() for reason in self.reasons],
        }
        parts = {Transcript: self.asr, VoiceSimilarity: self.similarity, MosScores: self.mos}
        for kind, part in parts.items():
            known = {} if part is None else msgspec.to_builtins(part)
            values |= dict.fromkeys(kind.__struct_encode_fields__) | known
        values["stretches"] = values["stretches"] or []
        return json.dumps(values, allow_nan=False) + "\n"


def read_verdicts(out: Path) -> Iterator[TakeVerdict]:
    """Yield a folder's valid lines; the last one of an id and take counts. Raises SetupError."""
    path = out / CHECKS_NAME
    try:
        yield from filter(None, map(verdict_of_line, iter_file_lines(path)))
    except OSError as error:
        raise SetupError(
            f"{path}: {error.strerror or error}", remedy="check the file's permissions"
        ) from error


def verdicts_by_take(out: Path) -> dict[tuple[str, int], TakeVerdict]:
    """Return the line that counts for each id and take. Raises SetupError."""
    return {(one.id, one.take): one for one in read_verdicts(out)}


def write_verdicts(out: Path, verdicts: Iterable[TakeVerdict]) -> None:
    """Write the file, completely or not at all. Raises DiskFull, OSError: nothing has changed."""
    write_atomic(out / CHECKS_NAME, "".join(one.to_line() for one in verdicts).encode())


def verdict_of_line(raw: bytes) -> TakeVerdict | None:
    """Return the content of a line; None: it is invalid."""
    values = parse_line(raw)
    if values is None or not is_recorded_id(values.get("id")):
        return None
    reasons, severity = values.get("reasons"), _part(values.get("severity"), float)
    found = reasons if isinstance(reasons, list) else []
    head = {name: values.get(name) for name in ("id", "take", "sha256", "verdict")}
    verdict = _part(head, TakeVerdict)
    return verdict and msgspec.structs.replace(
        verdict,
        reasons=tuple(filter(None, map(_reason, found[:MAX_REASONS]))),
        severity=severity or 0.0,
        asr=_part(values, Transcript),
        similarity=_part(values, VoiceSimilarity),
        mos=_part(values, MosScores),
    )


def _reason(values: Any) -> Remark | None:
    """Return one of the reasons. A kind of a later version becomes `other`."""
    found = _part(values, _Reason)
    return None if found is None else Remark(Kind.named(found.kind), found.text, found.weight)


class _Reason(msgspec.Struct):
    kind: str
    text: str
    weight: Score = 1.0


def _part(values: Any, kind: type[T]) -> T | None:
    """Return values as a type; None if that is not possible."""
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError:
        return None
