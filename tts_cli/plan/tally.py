"""What a manifest holds in all: counts, estimates, and what is said of it before anything is
spoken.

What a survey of a manifest found: what is left to do.

Rows that a message names: equal problems in one line, and of these the first in full, then a
count, however many there are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Row, are_joined
from tts_cli.errors import ManifestError, UsageError
from tts_cli.folder.take import Take
from tts_cli.manifest.speaker_names import SpeakerNames
from tts_cli.manifest.subtitle_rows import cue_length_s
from tts_cli.named import shown
from tts_cli.plan.room import Needs
from tts_cli.plan.standing import State
from tts_cli.plan.strays import Strays
from tts_cli.text.care import LANGUAGES
from tts_cli.text.pauses import has_pauses, sum_of_pauses, without_pauses
from tts_cli.text.words import SILENCE_S, are_latin, is_foreign, markup_in, usual_s
from tts_cli.voices.made import is_made

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest
    from tts_cli.core import BadRow, Piece, Row
    from tts_cli.plan.split_rule import SplitRule
    from tts_cli.text.care import TextCare


_PLAIN = re.compile(r"[A-Za-z ,.!?'\n-]*")  # no figures, no markup, no other letters
_MAX_STRANGERS = 100  # that a message lists


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
            named = ", ".join(map(shown, self.strangers[:_MAX_STRANGERS]))
            named += ", ..." * (len(self.strangers) > _MAX_STRANGERS)
            count = len(self.strangers)
            lines.append(f"{self.manifest}: {count} characters have no voice: {named}")
        return lines

    def require_good(self) -> None:
        """Raise ManifestError if any row is bad."""
        if self.bad_rows:
            raise ManifestError(
                f"{self.manifest}: {self.bad_rows} of {self.rows + self.bad_rows} rows are bad",
                remedy="mend them, or add --skip-invalid to speak the rest",
            )


class Tally:
    """Adds the rows of one manifest up.

    Args:
        is_described: `instruct` says whose voice a row has, though who speaks it takes none.
    """

    def __init__(
        self,
        manifest: str,
        config: RunConfig,
        info: ModelInfo,
        split_rule: SplitRule,
        care: TextCare,
        *,
        is_described: bool = False,
    ) -> None:
        self.summary = ManifestSummary(manifest)
        self._config = config
        self._info = info
        self._split_rule = split_rule
        self._care = care
        self._is_described = is_described
        self._remade, self._remade_s = 0, 0.0  # rows whose files are made of what is kept
        # Rows to be normalized, by a language that has no rules; None: nobody knows which it is.
        self._unread: Counter[str | None] = Counter()
        self._figures = 0  # rows with a figure that is left as written
        self._first_figure = ""  # it, and the id of its row
        self._ignored_instruct = 0
        self._whole: dict[str, tuple[int, str]] = {}  # why -> long rows in one, id of the first
        self._no_instruct = 0
        self._own_caps = 0  # rows to retry that --max-seconds does not reach
        self._first_capped = ""  # its id
        self._bad = NamedRows("bad rows")
        self._hopeless = NamedRows("rows that will fail", ending="; the row will fail")
        self._odd_recordings = NamedRows("rows with odd recordings to clone")
        self._marked_up = NamedRows("rows with markup that would be read aloud")
        self._is_latin = are_latin(info.languages)
        self._foreign = NamedRows("rows in letters that no language of this checkpoint has")
        self._no_pauses = NamedRows("rows whose pauses are left out")
        self._names = SpeakerNames()
        self._too_long = NamedRows("rows that take longer than their cues")
        self._unheard = NamedRows("rows described otherwise than their characters")
        self._first_wordless = ""  # its id

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
        found, info = self.summary, self._info
        found.rows += 1
        if request is None:
            return
        found.selected += 1
        found.chars += len(row.text)
        if len(row.text) > found.longest_chars:
            found.longest_id, found.longest_chars = row.id, len(row.text)
        if is_silent:
            self._first_wordless = self._first_wordless or row.id
            found.wordless += 1
            return
        care = self._care
        if care.is_normalized and (known := care.known(request.language)) not in LANGUAGES:
            self._unread[known] += 1
        has_marks = has_pauses(row.text)
        if has_marks and not has_pauses(request.text):
            self._no_pauses.add(row, "its pauses are left out: nothing keeps its voice behind them")
        text = without_pauses(request.text) if has_marks else request.text
        if _PLAIN.fullmatch(text) is None or "www." in text:
            self._add_odd(row, text, request.language)
        self._names.add(row.text)
        cue_s = None if row.extra is None else cue_length_s(row.extra)
        if cue_s is not None and (needed_s := usual_s(text)) > cue_s:
            late = f"takes about {needed_s:.1f} s, and its cue has {cue_s:.1f} s"
            self._too_long.add(row, late, kind="cue")
        if row.instruct is not None:
            self._ignored_instruct += not (info.takes_instruct or self._is_described)
        elif self._is_described and (info.needs_instruct or is_made(request.voice)):
            self._no_instruct += row.character is None

    def _add_odd(self, row: Row, text: str, language: str) -> None:
        """A row whose text has signs of something."""
        if figure := self._care.left_as_written(text, language):
            self._figures += 1
            self._first_figure = self._first_figure or f"{figure!r} of '{row.id}'"
        if self._is_latin and is_foreign(text):
            known = ", ".join(name for name in self._info.languages if name != "auto")
            problem = f"is in letters that this checkpoint does not speak, which has {known}"
            self._foreign.add(row, f"{problem}; name another by --model")
        for markup in markup_in(text, self._info.pace):
            self._marked_up.add(row, markup, kind=markup.kind)

    def add_hopeless(self, row: Row, problem: object) -> None:
        """A selected row that is certain to fail, alone: that is a warning."""
        self._hopeless.add(row, problem)

    def add_odd_recording(self, row: Row, problem: str) -> None:
        """A row whose recording can be cloned, and should not be."""
        self._odd_recordings.add(row, problem)

    def add_unheard(self, row: Row) -> None:
        """A row whose description of a voice nobody will hear: its character has another one."""
        self._unheard.add(row, f"its instruct is not that of the voice of {shown(row.character)}")

    def add_due(
        self, row: Row, request: SpeechRequest, pieces: Sequence[Piece], is_silent: bool
    ) -> None:
        """A row to speak, or to keep as silence; where it is only counted, perhaps without its one
        piece.
        """
        found = self.summary
        found.due += 1
        if self._config.retry_failed and self._config.max_seconds is not None:
            has_own = row.max_frames is not None or row.max_seconds is not None
            self._first_capped = self._first_capped or (row.id if has_own else "")
            self._own_caps += has_own
        found.audio_s += self._usual_s(request, pieces, is_silent)
        if are_joined(pieces):
            found.split += 1
            found.parts += len(pieces)
            found.audio_s += sum_of_pauses(request.text)
        elif not is_silent and (reason := self._split_rule.why_whole(request)):
            count, first = self._whole.get(reason, (0, row.id))
            self._whole[reason] = (count + 1, first)

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
            raise ManifestError(f"{found.manifest}: has no rows", remedy="write one row a line")
        audio_s, rows = found.audio_s + self._remade_s, found.due + found.takes + self._remade
        found.disk_bytes = estimate_disk_bytes(audio_s, rows, self._config, self._info)
        found.problems = self._bad.lines(found.manifest)
        found.warnings = self._warnings()
        return found

    def _warnings(self) -> list[str]:
        """What is wrong without making a row bad."""
        name = self.summary.manifest
        found = self._hopeless.lines(name) + self._odd_recordings.lines(name)
        found += self._foreign.lines(name) + self._marked_up.lines(name)
        found += self._no_pauses.lines(name) + self._unheard.lines(name)
        found += self._too_long.lines(name)
        if names := self._names.warning():
            found.append(f"{name}: {names}")
        if self.summary.wordless:
            fate = f"{SILENCE_S:g} s of silence each"
            if self._config.wordless == "fail":
                fate = "they will fail"
            found.append(
                f"{name}: {_counted(self.summary.wordless)} without any letter or digit, "
                f"'{self._first_wordless}' first: {fate}"
            )
        if self._own_caps:
            rows = "1 row gives" if self._own_caps == 1 else f"{self._own_caps} rows give"
            found.append(
                f"{name}: {rows} max_seconds or max_frames, '{self._first_capped}' first, which "
                f"wins over --max-seconds {self._config.max_seconds:g}: change it there"
            )
        for language, count in self._unread.items():
            why = f"in {language}, which has no rules for figures, and left as written"
            if language is None:
                why = "of no known language, and left as written; "
                why += "give --language, or name one by --normalize"
            found.append(f"{name}: {_counted(count)} {why}")
        if self._figures:
            found.append(
                f"{name}: figures that are not understood are left as written in {self._figures} "
                f"row{'s' * (self._figures > 1)}, {self._first_figure} first; a --lexicon "
                "can say them"
            )
        if self._ignored_instruct:
            found.append(
                f"{name}: {self._ignored_instruct} rows give instruct, which this checkpoint "
                "ignores; remove it or choose another checkpoint"
            )
        longest = None if self._info.pace is None else self._info.pace.longest_chars
        for reason, (count, first) in self._whole.items():
            found.append(
                f"{name}: {_counted(count)} longer than the about {longest} characters that this "
                f"checkpoint speaks well, '{first}' first, and spoken in one: {reason}; words may "
                "be lost"
            )
        limit = self._split_rule.limit
        if self.summary.split and longest is not None and limit > longest:
            found.append(
                f"{name}: --split {limit} allows longer parts than the about {longest} characters "
                "that this checkpoint speaks well; words may be lost"
            )
        if self._no_instruct:
            found.append(
                f"{name}: {self._no_instruct} rows give no instruct, so nothing describes their "
                "voice to this checkpoint"
            )
        return found


def _counted(rows: int) -> str:
    return "1 row is" if rows == 1 else f"{rows} rows are"


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
    unfixed: int = 0  # of those, spoken in a voice that nothing fixed, and now in a made one
    takes: int = 0  # more of rows, to be spoken beside their own
    with_takes: int = 0  # rows that these are of
    served: int = 0  # takes that count, of a run that did not come to its end
    one_take: int = 0  # rows that draw nothing, so that every take would be the same
    back: list[str] = field(default_factory=list)  # ids of State.BACK
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
            shown = ", ".join(self.foreign[:3]) + (", ..." if len(self.foreign) > 3 else "")
            raise UsageError(
                f"{shown}: in the folder without a line in timings.jsonl, so not of an earlier run",
                remedy="move them, choose another --out, or add --overwrite to replace them",
            )

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


MAX_SHOWN = 20  # problems told of one kind
MAX_ROWS_NAMED = 8  # rows that a problem names


@dataclass
class _Problem:
    """What some rows have in common."""

    file: str  # of the first one, as the next two; "" where a run has but one manifest
    said: str  # behind the manifest's name: line, id, what is wrong
    count: int = 1
    others: list[str] = field(default_factory=list)  # as a message names them


class NamedRows:
    """Rows of one manifest with one kind of problem.

    Args:
        ending: what follows the problem of each row, such as `; the row will fail`.
        more: what the others are called, such as `rows that do not fit`.
    """

    def __init__(self, more: str, ending: str = "") -> None:
        self.count = 0
        self._more = more
        self._ending = ending
        self._found: dict[str, _Problem] = {}  # the first ones, by what makes them equal

    def add(self, row: Row | BadRow, problem: object, kind: str | None = None) -> None:
        """Take in a row.

        Args:
            kind: what rows are told together by; None: the problem as it is said.
        """
        self.count += 1
        key = str(problem) if kind is None else kind
        found = self._found.get(key)
        if found is None:
            if len(self._found) < MAX_SHOWN:
                named = "" if row.id is None else f"id '{row.id}': "
                said = f"{row.line}: {named}{problem}{self._ending}"
                self._found[key] = _Problem(row.file, said)
            return
        found.count += 1
        if len(found.others) < MAX_ROWS_NAMED - 1:
            found.others.append(f"line {row.line}" if row.id is None else f"'{row.id}'")

    def lines(self, manifest: str) -> list[str]:
        """What is said of them."""
        lines = []
        for found in self._found.values():
            said = f"{found.file or manifest}:{found.said}"
            if found.others:
                rows = "1 more row" if found.count == 2 else f"{found.count - 1} more rows"
                more = ", ..." * (found.count > len(found.others) + 1)
                said += f"; {rows} alike: {', '.join(found.others)}{more}"
            lines.append(said)
        rest = self.count - sum(found.count for found in self._found.values())
        return [*lines, f"{manifest}: {rest} more {self._more}"] if rest else lines
