"""`checks.jsonl`: what `tts-cli check` found in the audio of a folder.

One line a take that was judged, the whole file written at once. A line holds for the audio it
names by its SHA-256 and for no other: where the journal has another sum for that row and take, the
line is stale and says nothing (`Check.fits`). `check` leaves such lines out when it writes.

The file may be of any version, and may have been rewritten by anyone: what is not of its type is
taken for unknown, lines that make no sense are passed over.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tts_cli.core import Kind, Remark
from tts_cli.errors import SetupError
from tts_cli.manifest.ids import is_recorded_id
from tts_cli.store.atomic import lines_in, write_atomic
from tts_cli.store.files import CHECKS_NAME

SCHEMA = 1
OK, SUSPECT = "ok", "suspect"
UNITS = ("words", "characters")
MAX_REASONS = 20
MAX_STRETCHES = 20_000
DECIMALS = 4  # of a share, so that a verdict is the same of what was heard and of what is read


class Stretch(NamedTuple):
    """What was wanted and what was heard there, word by word or character by character."""

    wanted: str  # empty: heard beside the text
    heard: str  # empty: not heard

    @property
    def is_wrong(self) -> bool:
        """Whether the two differ."""
        return self.wanted != self.heard


@dataclass(frozen=True)
class Heard:
    """What a recogniser heard in a take, held against its text."""

    recogniser: str  # the recognizer, and everything that its result depends on
    heard: str  # transcript of the recognizer
    # [share] wrong units divided by units of the text, may be above 1; null: no recognizer was used
    error: float
    unit: str  # [`words`, `characters`] unit of `error`, `wanted` and `longest_wrong`
    wanted: int  # [units] number of units of the text
    longest_wrong: int  # [units] most wrong units in succession, in the text or in the transcript
    # [share] `error` counted in letters and digits, so that a nearly right word counts little
    letter_error: float = 0.0
    wrong_letters: int = 0  # [letters] most wrong letters in one segment
    # [list of pairs] the whole text in order: segments as pairs of text and transcript
    stretches: tuple[Stretch, ...] = ()


@dataclass(frozen=True)
class Likeness:
    """How like its voice a take sounds, by a checkpoint's speaker encoder."""

    encoder: str  # identity of the checkpoint with the speaker encoder
    # [-1 to 1] cosine to the mean of its voice, by a speaker encoder; null: not measured
    similarity: float
    # [-1 to 1] lowest cosine of a segment of a long row; null: the row was not cut
    lowest_part: float | None = None


@dataclass(frozen=True)
class Opinion:
    """How people are likely to rate a take, as a model of others predicts it."""

    rated_by: str  # name and version of the model that predicts the scores (since 0.4)
    mos: float  # [1 to 5] overall score; null: not predicted (since 0.4)
    mos_signal: float  # [1 to 5] score of the speech signal (since 0.4)
    mos_background: float  # [1 to 5] score of the background, 5 for silence (since 0.4)
    mos_p808: float  # [1 to 5] overall score, from a model of ratings as in ITU-T P.808 (since 0.4)


@dataclass(frozen=True)
class Check:
    """One line of `checks.jsonl`. Without `asr` no recogniser has heard this audio, without `drift`
    nobody measured how like its voice it is, without `opinion` nobody predicted one; their fields
    stand in the line itself.
    """

    id: str  # id of the row
    take: int  # [1, 2, ...] number of the take, as in `timings.jsonl`
    sha256: str  # SHA-256 of the audio file that was checked
    verdict: str  # [`ok`, `suspect`] result of the check
    # [list of objects] `kind`, `text` and `weight` of each reason, highest weight first; empty: ok
    reasons: tuple[Remark, ...] = field(default=())
    severity: float = 0.0  # [number] sum of the weights; higher is worse
    asr: Heard | None = None
    drift: Likeness | None = None
    opinion: Opinion | None = None

    @property
    def is_suspect(self) -> bool:
        """Whether somebody should listen to it."""
        return self.verdict == SUSPECT

    def fits(self, sha256: str | None) -> bool:
        """Whether it was made of the audio with this sum."""
        return self.sha256 == sha256

    def to_line(self) -> str:
        """The line with its newline."""
        values: dict[str, Any] = {
            "id": self.id,
            "take": self.take,
            "schema": SCHEMA,  # [1] version of the line's format
            "sha256": self.sha256,
            "verdict": self.verdict,
            "severity": round(self.severity, 2),
            "reasons": [reason._asdict() for reason in self.reasons],
        }
        for part, names in ((self.asr, _HEARD), (self.drift, _DRIFT), (self.opinion, _OPINION)):
            for name in names:
                value = getattr(part, name, None)
                values[name] = round(value, _DIGITS[name]) if value and name in _DIGITS else value
        values["stretches"] = values["stretches"] or []
        return json.dumps(values, allow_nan=False) + "\n"


SCORES = tuple(Opinion.__dataclass_fields__)[1:]
# Fields of a line, as they stand in it.
_HEARD = (
    *("error", "unit", "wanted", "longest_wrong", "letter_error", "wrong_letters", "recogniser"),
    *("heard", "stretches"),
)
_DRIFT = ("similarity", "lowest_part", "encoder")
_OPINION = (*SCORES, "rated_by")
_DIGITS = dict.fromkeys(("error", "letter_error"), DECIMALS)
_DIGITS |= dict.fromkeys(("similarity", "lowest_part"), 4) | dict.fromkeys(SCORES, 2)


def read_checks(out: Path) -> Iterator[Check]:
    """All lines of a folder that make sense, in their order; none where there is no file. The last
    of an id and take counts.

    Raises:
        SetupError: the file is no plain file, or cannot be read.
    """
    path = out / CHECKS_NAME
    try:
        for raw in lines_in(path):
            try:
                check = check_of(json.loads(raw))
            except (ValueError, RecursionError):
                continue
            if check is not None:
                yield check
    except OSError as error:
        raise SetupError(
            f"{path}: {error.strerror or error}", remedy="check the file's permissions"
        ) from error


def checks_by_take(out: Path) -> dict[tuple[str, int], Check]:
    """The line that counts of each id and take. Raises SetupError."""
    return {(check.id, check.take): check for check in read_checks(out)}


def write_checks(out: Path, checks: Iterable[Check]) -> None:
    """Write the file, whole or not at all.

    Raises:
        DiskFull, OSError: nothing has changed.
    """
    write_atomic(out / CHECKS_NAME, "".join(check.to_line() for check in checks).encode())


def check_of(values: Any) -> Check | None:
    """A line's content; None for what is no check's line."""
    if not isinstance(values, dict) or values.get("verdict") not in (OK, SUSPECT):
        return None
    row_id, take, sha256 = values.get("id"), _whole(values.get("take")), values.get("sha256")
    if not is_recorded_id(row_id) or take is None or not isinstance(sha256, str):
        return None
    reasons = values.get("reasons")
    return Check(
        id=row_id,
        take=take,
        sha256=sha256,
        verdict=values["verdict"],
        reasons=tuple(_reasons(reasons if isinstance(reasons, list) else [])),
        severity=_number(values.get("severity")) or 0.0,
        asr=_heard(values),
        drift=_likeness(values),
        opinion=_opinion(values),
    )


def _reasons(values: list[Any]) -> Iterator[Remark]:
    for value in values[:MAX_REASONS]:
        if not isinstance(value, dict):
            continue
        kind, text, weight = value.get("kind"), value.get("text"), _number(value.get("weight"))
        if isinstance(kind, str) and isinstance(text, str):
            yield Remark(Kind.named(kind), text, weight or 1.0)


def _heard(values: dict[str, Any]) -> Heard | None:
    recogniser, heard, unit = (values.get(name) for name in ("recogniser", "heard", "unit"))
    error, wanted = _number(values.get("error")), _whole(values.get("wanted"))
    longest = _whole(values.get("longest_wrong"))
    if not isinstance(recogniser, str) or not isinstance(heard, str) or unit not in UNITS:
        return None
    if error is None or error < 0 or wanted is None or longest is None:
        return None
    return Heard(
        recogniser,
        heard,
        error,
        str(unit),
        wanted,
        longest,
        max(0.0, _number(values.get("letter_error")) or 0.0),
        _whole(values.get("wrong_letters")) or 0,
        _stretches(values.get("stretches")),
    )


def _stretches(value: Any) -> tuple[Stretch, ...]:
    """All of them, or none where one makes no sense."""
    if not isinstance(value, list) or len(value) > MAX_STRETCHES:
        return ()
    found = []
    for entry in value:
        if not isinstance(entry, list) or len(entry) != 2:
            return ()
        wanted, heard = entry
        if not isinstance(wanted, str) or not isinstance(heard, str):
            return ()
        found.append(Stretch(wanted, heard))
    return tuple(found)


def _likeness(values: dict[str, Any]) -> Likeness | None:
    encoder, similarity = values.get("encoder"), _number(values.get("similarity"))
    if not isinstance(encoder, str) or similarity is None:
        return None
    return Likeness(encoder, similarity, _number(values.get("lowest_part")))


def _opinion(values: dict[str, Any]) -> Opinion | None:
    by, scores = values.get("rated_by"), [_number(values.get(name)) for name in SCORES]
    known = [score for score in scores if score is not None]
    return Opinion(by, *known) if isinstance(by, str) and len(known) == len(scores) else None


def _whole(value: Any) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and value >= 0 else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 2**53 and math.isfinite(value) else None
