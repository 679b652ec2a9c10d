"""Count what a manifest holds: rows, estimates, and what is reported before anything is spoken.

What a survey of a manifest found: what is left to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Row, are_joined
from tts_cli.errors import ManifestError, SetupError, UsageError
from tts_cli.named import counted, shown, some_of
from tts_cli.plan.notes import MAX_SHOWN, NamedRows, Told
from tts_cli.plan.room import Needs
from tts_cli.plan.standing import State
from tts_cli.plan.strays import Strays
from tts_cli.sources.speaker_names import SpeakerNames
from tts_cli.store.run_file import RunLog, read_report
from tts_cli.store.take import Take
from tts_cli.text.pauses import has_pauses, sum_of_pauses
from tts_cli.text.words import SILENCE_S, usual_s

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest
    from tts_cli.core import BadRow, Piece, Row


_MAX_STRANGERS = 100  # that a message lists
LEAST_PACE_S = 20.0  # of expected audio, before a folder's own pace is believed


@dataclass
class ManifestSummary:
    """What a manifest holds. Characters are those of the selected rows; audio and disk are of the
    rows to speak, which are all of these where no folder says more.
    """

    manifest: str
    rows: int = 0  # good rows
    selected: int = 0  # of those, left after --shard and --limit
    wordless: int = 0  # of those, without any letter or digit
    due: int = 0  # of those, to be spoken or kept as silence
    takes: int = 0  # more of them, to be spoken beside their own
    split: int = 0  # of those, to be spoken in parts
    parts: int = 0  # of those rows
    chars: int = 0
    longest_id: str = ""
    longest_chars: int = 0
    audio_s: float = 0.0  # estimate
    disk_bytes: int = 0  # estimate
    warnings: list[str] = field(default_factory=list)
    bad_rows: int = 0
    bad: list[BadRow] = field(default_factory=list)  # the first 20
    problems: list[str] = field(default_factory=list)  # of all, equal ones in one line
    strangers: list[str] = field(default_factory=list)  # characters without a voice
    made_voices: list[dict[str, Any]] = field(default_factory=list)  # see `FreeVoices.facts`

    def bad_lines(self) -> list[str]:
        """The report of bad rows: 20 problems in full, then a count, and all the characters that
        a cast lacks.
        """
        lines = list(self.problems)
        if len(self.strangers) > 1:
            named = some_of([*map(shown, self.strangers)], _MAX_STRANGERS)
            count = len(self.strangers)
            lines.append(f"{self.manifest}: {count} characters have no voice: {named}")
        return lines

    def require_good(self) -> None:
        """Raise ManifestError if any row is bad."""
        if self.bad_rows:
            raise ManifestError(
                f"{self.manifest}: {counted(self.bad_rows, 'invalid row')} of "
                f"{self.rows + self.bad_rows:,}",
                remedy="fix the rows above, or add --skip-invalid to synthesize the others",
            )


class Tally:
    """Adds the rows of one manifest up."""

    def __init__(self, manifest: str, config: RunConfig, info: ModelInfo) -> None:
        self.summary = ManifestSummary(manifest)
        self.told = Told()
        self._config = config
        self._info = info
        self._remade, self._remade_s = 0, 0.0  # rows whose files are made of what is kept
        self._bad = NamedRows("invalid rows")
        self._names = SpeakerNames()

    def add_bad(self, row: BadRow) -> None:
        """A row that cannot be used, selected or not."""
        self.summary.bad_rows += 1
        self._bad.add(row, row.message)
        if len(self.summary.bad) < MAX_SHOWN:
            self.summary.bad.append(row)

    def add_good(
        self, row: Row, request: SpeechRequest | None = None, is_silent: bool = False
    ) -> None:
        """A good row.

        Args:
            request: what is to be spoken; None: the row is not selected.
            is_silent: it has no words.
        """
        found = self.summary
        found.rows += 1
        if request is None:
            return
        found.selected += 1
        found.chars += len(row.text)
        if len(row.text) > found.longest_chars:
            found.longest_id, found.longest_chars = row.id, len(row.text)
        found.wordless += is_silent
        if not is_silent:
            self._names.add(row.text)

    def add_due(self, request: SpeechRequest, pieces: Sequence[Piece], is_silent: bool) -> None:
        """A row to speak, or to keep as silence; where it is only counted, perhaps without its one
        piece.
        """
        found = self.summary
        found.due += 1
        found.audio_s += self._usual_s(request, pieces, is_silent)
        if are_joined(pieces):
            found.split += 1
            found.parts += len(pieces)
            found.audio_s += sum_of_pauses(request.text)

    def add_remade(self, request: SpeechRequest) -> None:
        """A row whose file is made of what is kept: it needs room, and is not spoken."""
        self._remade += 1
        self._remade_s += estimate_audio_s(request, self._info)

    def add_takes(self, request: SpeechRequest, pieces: Sequence[Piece], count: int) -> None:
        """More takes of a row, to speak."""
        self.summary.takes += count
        self.summary.audio_s += count * self._usual_s(request, pieces)

    def _usual_s(
        self, request: SpeechRequest, pieces: Sequence[Piece], is_silent: bool = False
    ) -> float:
        if not pieces:
            return estimate_audio_s(request, self._info, is_silent)
        return sum(one.usual_s or estimate_audio_s(one.request, self._info) for one in pieces)

    def close(self) -> ManifestSummary:
        """The sums, once all rows are in. Raises ManifestError if there were none."""
        found = self.summary
        if not found.rows and not found.bad_rows:
            raise ManifestError(
                f"{found.manifest}: contains no rows", remedy="write one row per line"
            )
        if self._config.out is not None:
            found.audio_s *= measured_pace(self._config.out, self._info.identity) or 1.0
        audio_s, rows = found.audio_s + self._remade_s, found.due + found.takes + self._remade
        found.disk_bytes = estimate_disk_bytes(audio_s, rows, self._config, self._info)
        found.problems = self._bad.lines(found.manifest)
        found.warnings = self.told.lines(found.manifest, self._names.warning())
        return found


def estimate_audio_s(request: SpeechRequest, info: ModelInfo, is_silent: bool = False) -> float:
    """A guess of a row's audio length in seconds, never above its cap."""
    if is_silent and has_pauses(request.text):
        return sum_of_pauses(request.text)
    text = request.text if info.pace is None else info.pace.without_markup(request.text)
    seconds = SILENCE_S if is_silent else usual_s(text)
    return min(seconds, request.max_frames * info.frame_s)


def estimate_disk_bytes(audio_s: float, rows: int, config: RunConfig, info: ModelInfo) -> int:
    """A guess of the bytes `rows` files with `audio_s` seconds in all will take."""
    rate_hz = config.sample_rate or info.sample_rate_hz
    width = {"PCM_16": 2, "PCM_24": 3, "FLOAT": 4, "ULAW": 1, "ALAW": 1}[config.subtype]
    per_second = {
        "wav": float(rate_hz * width),
        "flac": 0.65 * rate_hz * width,
        "ogg": 10_000.0,
        "mp3": 10_000.0,
        "opus": 6_000.0,
    }[config.format]
    per_row = 4096 + 700  # a partly used block, a line of timings.jsonl
    if config.save_codes:
        per_row += 4096
        per_second += 2 * info.num_codebooks / info.frame_s
    return int(audio_s * per_second + rows * per_row)


MAX_NAMED = 4  # files or rows a message names


@dataclass
class Survey:
    """What is left to do."""

    summary: ManifestSummary
    needs: Needs = field(default_factory=Needs)  # of the rows to speak
    silent: int = 0  # rows without words, which need no model
    bad: int = 0  # selected rows to record as failed: bad ones, and those certain to fail
    hopeless: int = 0  # of those, good ones that are certain to fail
    skipped: int = 0  # done by an earlier run, or left out by --retry-failed
    due: Counter[State] = field(default_factory=Counter)  # pending rows, by what there is
    early: int = 0  # of those, of a version that was never published
    reread: int = 0  # of those, changed by what is taken out of texts now, or read otherwise
    older: int = 0  # done rows that another version, model or other settings made, and that stay
    refused: int = 0  # done rows that settings given now would change
    explicit: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)  # these: then and now
    unfixed: int = 0  # of those, spoken in a voice that nothing fixed, and now in a made one
    takes: int = 0  # more of rows, to be spoken beside their own
    with_takes: int = 0  # rows that these are of
    served: int = 0  # takes that count, of a run that did not come to its end
    one_take: int = 0  # rows that draw nothing, so that every take would be the same
    back: list[str] = field(default_factory=list)  # ids of State.BACK
    # Settings of the speech that the folder's last run had otherwise: then and now.
    unlike: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    strays: Strays | None = None  # of the folder, once they were looked for
    held: int = 0  # rows whose chosen takes hold
    fallen: Counter[str] = field(default_factory=Counter)  # by id, rows whose chosen do not
    foreign: list[str] = field(default_factory=list)  # files in the way of rows never recorded
    damaged: list[str] = field(default_factory=list)  # some ids of State.DAMAGED
    # Rows whose delivery alone is another one: to be made anew, by what of, and to be spoken again.
    kept: Counter[str] = field(default_factory=Counter)
    remade: int = 0  # once that was done
    unmade: list[Take] = field(default_factory=list)
    again: int = 0
    first_again: str = ""  # its id and why

    def require_own_files(self) -> None:
        """Raise UsageError if rows would replace files that no run is known to have written."""
        if self.foreign:
            raise UsageError(
                f"{some_of(self.foreign)}: in the folder, but not in timings.jsonl, so not "
                "from an earlier run",
                remedy="move them, choose another --out, or add --redo all to replace them",
            )

    @property
    def respoken(self) -> int:
        """Rows that are spoken again though they were done, for what the user has changed."""
        return self.due[State.CHANGED] - self.early - self.reread - self.unfixed

    @property
    def reasons(self) -> dict[str, int]:
        """Rows to speak, by what the folder holds of them."""
        apart = (State.KEPT, State.BACK)
        return {state.value: self.due[state] for state in State if state not in apart}

    @property
    def left(self) -> int:
        """Rows that the manifest no longer has, as far as they were looked for."""
        return 0 if self.strays is None else self.strays.left.count

    @property
    def needs_model(self) -> bool:
        """Whether anything is to be spoken."""
        return self.needs.rows > 0

    @property
    def pending(self) -> int:
        """Rows to speak, or to keep as silence."""
        return sum(self.due.values())


def measured_xrt(out: Path) -> float | None:
    """Audio seconds a wall second of the folder's last run, or None."""
    try:
        xrt = read_report(out)["totals"]["xrt"]
    except (OSError, SetupError, TypeError, KeyError):
        return None
    return float(xrt) if isinstance(xrt, (int, float)) and 0 < xrt < 1e9 else None


def measured_pace(out: Path, identity: str) -> float | None:
    """Return the seconds of audio per expected second, over a folder's runs with a model; None
    where they are too few seconds to tell.
    """
    audio_s = expected_s = 0.0
    try:
        for line in RunLog(out).lines():
            model, totals = line.get("model"), line.get("totals")
            if not isinstance(model, dict) or not isinstance(totals, dict):
                continue
            if model.get("identity") == identity:
                audio_s += float(totals["audio_s"])
                expected_s += float(totals["expected_s"])
    except (OSError, SetupError, TypeError, KeyError, ValueError):
        return None
    pace = audio_s / expected_s if expected_s >= LEAST_PACE_S else 0.0
    return pace if 0.1 < pace < 10 else None
