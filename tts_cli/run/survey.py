"""Check a whole manifest before any weight is read: rows, ids against each other, the checkpoint.

`checked_rows` streams the verdicts and is used for the first look and again when rows are spoken,
so both see the same bad rows. Its memory is one compact table of id hashes, 24 to 48 bytes a row.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from tts_cli.config import RunConfig
from tts_cli.errors import ManifestError, RowError, SetupError, UsageError
from tts_cli.manifest.ids import IdTable, fold_id, id_hash, is_in_shard
from tts_cli.manifest.markup import markup_in
from tts_cli.manifest.reader import Source, read_rows
from tts_cli.manifest.request import build_request, frame_cap, usual_s
from tts_cli.manifest.row import BadRow, Row, nearest, shown
from tts_cli.manifest.words import SILENCE_S, is_wordless
from tts_cli.run.model_source import prompt_counter
from tts_cli.run.named_rows import MAX_SHOWN, NamedRows
from tts_cli.run.needs import most_tokens, room_problem
from tts_cli.voices.folder import VoiceFolder
from tts_cli.voices.resolve import Cloning, ReferenceFiles

if TYPE_CHECKING:
    from models.base import ModelInfo

MAX_PATH_BYTES = 4096  # PATH_MAX of Linux
PATH_EXTRAS = 80  # folder of runaways, suffix and temporary name around an id
_MAX_NAMES = 20  # voices or languages a message lists


@dataclass
class ManifestSummary:
    """What a manifest holds; the counts of chars, audio and disk cover the selected rows."""

    manifest: str
    rows: int = 0  # good rows
    selected: int = 0  # of those, left after --shard and --limit
    wordless: int = 0  # of those, without any letter or digit
    chars: int = 0
    longest_id: str = ""
    longest_chars: int = 0
    audio_s: float = 0.0  # estimate
    disk_bytes: int = 0  # estimate
    warnings: list[str] = field(default_factory=list)
    bad_rows: int = 0
    bad: list[BadRow] = field(default_factory=list)  # the first 20

    def bad_lines(self) -> list[str]:
        """The report of bad rows: the first 20 in full, then a count."""
        lines = [bad_row_line(self.manifest, row) for row in self.bad]
        if self.bad_rows > len(self.bad):
            lines.append(f"{self.manifest}: {self.bad_rows - len(self.bad)} more bad rows")
        return lines

    def require_good(self) -> None:
        """Raise ManifestError if any row is bad."""
        if self.bad_rows:
            raise ManifestError(
                f"{self.manifest}: {self.bad_rows} of {self.rows + self.bad_rows} rows are bad",
                remedy="mend them, or add --skip-invalid to speak the rest",
            )


def bad_row_line(manifest: str, row: BadRow) -> str:
    """One bad row as a message names it: file, line, id, reason."""
    named = f"id '{row.id}': " if row.id is not None else ""
    return f"{manifest}:{row.line}: {named}{row.message}"


def checked_rows(source: Source, config: RunConfig, info: ModelInfo) -> Iterator[Row | BadRow]:
    """Every row with its final verdict, in order.

    Raises:
        ManifestError: the file cannot be used at all.
        UsageError: `--voice` or `--language` is not one of the checkpoint's.
    """
    voices = VoiceFolder(config.voices)
    check_settings(config, info, voices)
    longest = MAX_PATH_BYTES - len(os.fsencode(config.out or "")) - PATH_EXTRAS
    lines = IdTable()  # hash of a folded id -> line it stands on
    for row in read_rows(source):
        if row.id is not None:
            key = id_hash(fold_id(row.id))
            first = lines.get(key)
            if first is not None:
                yield BadRow(row.line, row.number, None, _taken(row.id, first), row.text)
                continue
            lines.put(key, row.line)
        if isinstance(row, Row) and (problem := row_problem(row, config, info, voices)):
            row = BadRow(row.line, row.number, row.id, problem, row.text)
        elif len(row.record_id.encode("utf-8", "surrogatepass")) > longest:
            problem = f"its path in --out is longer than the {MAX_PATH_BYTES} bytes a path may have"
            row = BadRow(row.line, row.number, row.id, problem, row.text)
        yield row


def _taken(row_id: str, line: int) -> str:
    return f"id '{row_id}' is taken by line {line} (letter case is ignored); make ids unique"


def select_rows(rows: Iterable[Row | BadRow], config: RunConfig) -> Iterator[Row | BadRow]:
    """The rows of this run's shard, at most `--limit` of them, bad rows counted."""
    mine = (row for row in rows if is_in_shard(row.record_id, config.shard))
    return islice(mine, config.limit)


def require_speakable(info: ModelInfo) -> None:
    """Raise SetupError for a checkpoint that can speak no row at all."""
    if info.needs_reference and not info.can_clone:
        raise SetupError(
            "a Base checkpoint speaks only by cloning a reference recording, and this one cannot: "
            f"{info.needs or 'its encoders are missing'}",
            remedy="get the whole checkpoint, or use a CustomVoice or VoiceDesign one",
        )


def check_settings(config: RunConfig, info: ModelInfo, voices: VoiceFolder) -> None:
    """Check the flags that name something of the checkpoint. Raises UsageError."""
    if config.voice is not None and (problem := _voice_problem(config.voice, info, voices)):
        raise UsageError(f"--{problem}")
    if problem := _name_problem("language", config.language, info):
        raise UsageError(f"--{problem}")
    problem = _seconds_problem(config.max_seconds, info)
    if problem:
        raise UsageError(f"--max-seconds {problem}")


def row_problem(row: Row, config: RunConfig, info: ModelInfo, voices: VoiceFolder) -> str | None:
    """Why the checkpoint cannot speak this row, or None.

    A reference recording is not looked at: one that cannot be used fails its row when it is spoken.
    """
    if problem := _clone_problem(row, config, info):
        return problem
    if row.voice is not None and (problem := _voice_problem(row.voice, info, voices)):
        return problem
    if row.language is not None and (problem := _name_problem("language", row.language, info)):
        return problem
    if row.max_frames is not None and row.max_frames > info.max_positions:
        return f"max_frames: is {row.max_frames}, the checkpoint holds {info.max_positions}"
    if problem := _seconds_problem(row.max_seconds, info):
        return f"max_seconds: {problem}"
    return None


def _clone_problem(row: Row, config: RunConfig, info: ModelInfo) -> str | None:
    if row.ref_audio is not None and not info.can_clone:
        what = f"a {info.type} checkpoint cannot clone"
        if config.model is None:
            what = "the sample voice cannot clone"
        return f"gives ref_audio, but {what}; leave it out, or name a Base checkpoint by --model"
    if not info.takes_voice_files:
        return None
    if row.ref_audio is not None and row.voice is not None:
        return "gives both ref_audio and voice; give one"
    if row.clone_mode is not None and row.clone_mode not in info.clone_modes:
        return (
            f"clone_mode {row.clone_mode}: this checkpoint clones by {', '.join(info.clone_modes)} "
            "only; give ref_text, what the reference says"
        )
    if not info.needs_reference:
        return None
    if row.ref_audio is None and row.voice is None and config.voice is None:
        return (
            "gives no ref_audio and no voice, and a base checkpoint speaks only in a reference's "
            "voice"
        )
    return None


def _voice_problem(value: str, info: ModelInfo, voices: VoiceFolder) -> str | None:
    """A checkpoint that clones takes the names of voice files, the others those of speakers."""
    if not info.takes_voice_files:
        problem = _name_problem("voice", value, info)
        if problem and voices.find(value) is not None:
            problem += f"; a voice file has that name, but a {info.type} checkpoint cannot clone"
        return problem
    try:
        voices.require(value, info)
    except RowError as error:
        return f"voice: {error}"
    return None


def _name_problem(field: str, value: str, info: ModelInfo) -> str | None:
    valid = list(info.voices if field == "voice" else info.languages)
    if value.casefold() in (entry.casefold() for entry in valid):
        return None
    if not valid:
        return f"{field}: a {info.type} checkpoint has no named voices; leave it out"
    close = nearest(value, valid)
    advice = f"did you mean '{close}'? " if close else ""
    listed = ", ".join(valid[:_MAX_NAMES]) + (", ..." if len(valid) > _MAX_NAMES else "")
    return f"{field}: {shown(value)} is unknown; {advice}the checkpoint has {listed}"


def _seconds_problem(seconds: float | None, info: ModelInfo) -> str | None:
    if seconds is None:
        return None
    if seconds / info.frame_s < 1 - 1e-6:
        return f"{seconds:g} s is less than one frame ({info.frame_s:g} s)"
    if seconds > info.max_positions * info.frame_s:
        return f"{seconds:g} s is more than the {info.max_positions * info.frame_s:g} s it can hold"
    return None


def check_manifest(source: Source, config: RunConfig, info: ModelInfo) -> ManifestSummary:
    """Judge every row of a manifest and sum up.

    Raises:
        ManifestError: the file cannot be used at all, or has no rows.
        UsageError: a flag does not fit the checkpoint.
    """
    tally = _Tally(ManifestSummary(source.name), config, info)
    for row in checked_rows(source, config, info):
        tally.add(row)
    summary = tally.summary
    if not summary.rows and not summary.bad_rows:
        raise ManifestError(f"{source.name}: has no rows", remedy="write one row a line")
    summary.disk_bytes = estimate_disk_bytes(summary.audio_s, summary.selected, config, info)
    summary.warnings = tally.warnings()
    return summary


class _Tally:
    """Adds the rows of one manifest up."""

    def __init__(self, summary: ManifestSummary, config: RunConfig, info: ModelInfo) -> None:
        self.summary = summary
        self._config = config
        self._info = info
        self._taken = 0  # rows, good or bad, that --shard and --limit leave
        self._ignored_instruct = 0
        self._long = 0
        self._first_long = ""  # its id
        self._no_instruct = 0
        self._references = ReferenceFiles(config.ref_root)
        self._bad_references = NamedRows(
            "rows with references that cannot be used", ending="; the row will fail"
        )
        self._cloning = Cloning(config, info)
        self._too_long = NamedRows("rows that do not fit", ending="; the row will fail")
        self._marked_up = NamedRows("rows with markup that would be read aloud")
        self._first_wordless = ""  # its id

    def add(self, row: Row | BadRow) -> None:
        found, limit = self.summary, self._config.limit
        is_mine = is_in_shard(row.record_id, self._config.shard)
        is_mine = is_mine and (limit is None or self._taken < limit)
        self._taken += is_mine
        if isinstance(row, BadRow):
            found.bad_rows += 1
            if len(found.bad) < MAX_SHOWN:
                found.bad.append(row)
            return
        found.rows += 1
        if not is_mine:
            return
        found.selected += 1
        found.chars += len(row.text)
        if len(row.text) > found.longest_chars:
            found.longest_id, found.longest_chars = row.id, len(row.text)
        found.audio_s += estimate_audio_s(row, self._config, self._info)
        pace = self._info.pace
        if is_wordless(row.text, pace):
            self._first_wordless = self._first_wordless or row.id
            found.wordless += 1
            return
        if pace is not None and pace.is_long(row.text):
            self._first_long = self._first_long or row.id
            self._long += 1
        if markup := markup_in(row.text, pace):
            self._marked_up.add(row, f"{markup} would be read aloud; remove it")
        has_instruct = row.instruct is not None
        self._ignored_instruct += has_instruct and not self._info.takes_instruct
        self._no_instruct += not has_instruct and self._info.needs_instruct
        self._add_reference(row)
        self._add_length(row)

    def _add_reference(self, row: Row) -> None:
        """Look at a reference's header; what is wrong with it is a warning."""
        if row.ref_audio is None or not self._info.can_clone:
            return
        try:
            self._references.header(row.ref_audio)
        except RowError as error:
            self._bad_references.add(row, error)

    def _add_length(self, row: Row) -> None:
        """A row that cannot fit is a warning; it fails alone."""
        info, config = self._info, self._config
        if not info.can_clone:  # most rows end here, before anything is built of them
            texts = most_tokens(row.text) + most_tokens(row.instruct or "")
            if info.prompt_overhead + texts + frame_cap(row, config, info) <= info.max_positions:
                return
        request = build_request(row, config, info)
        try:
            least = self._cloning.least(request)
        except RowError:
            return  # said of the row already
        count = partial(prompt_counter, config)
        if problem := room_problem(request, info, least, count):
            self._too_long.add(row, problem)

    def warnings(self) -> list[str]:
        """What is wrong without making a row bad."""
        name = self.summary.manifest
        found = [
            line
            for rows in (self._bad_references, self._too_long, self._marked_up)
            for line in rows.lines(name)
        ]
        if self.summary.wordless:
            fate = f"{SILENCE_S:g} s of silence each"
            if self._config.wordless == "fail":
                fate = "they will fail"
            found.append(
                f"{name}: {_counted(self.summary.wordless)} without any letter or digit, "
                f"'{self._first_wordless}' first: {fate}"
            )
        if self._ignored_instruct:
            found.append(
                f"{name}: {self._ignored_instruct} rows give instruct, which this checkpoint "
                "ignores; remove it or choose another checkpoint"
            )
        pace = self._info.pace
        if self._long and pace is not None:
            found.append(
                f"{name}: {_counted(self._long)} longer than the about {pace.longest_chars} "
                f"characters that this checkpoint speaks well, '{self._first_long}' first; words "
                "may be lost: split the text"
            )
        if self._no_instruct:
            found.append(
                f"{name}: {self._no_instruct} rows give no instruct, so nothing describes their "
                "voice to this checkpoint"
            )
        return found


def _counted(rows: int) -> str:
    return "1 row is" if rows == 1 else f"{rows} rows are"


def estimate_audio_s(row: Row, config: RunConfig, info: ModelInfo) -> float:
    """A guess of the row's audio length in seconds, never above its cap."""
    spoken = row.text if info.pace is None else info.pace.without_markup(row.text)
    seconds = SILENCE_S if is_wordless(spoken) else usual_s(spoken)
    if row.max_seconds is not None:
        return min(seconds, row.max_seconds)
    if row.max_frames is not None:
        return min(seconds, row.max_frames * info.frame_s)
    return seconds if config.max_seconds is None else min(seconds, config.max_seconds)


def estimate_disk_bytes(audio_s: float, rows: int, config: RunConfig, info: ModelInfo) -> int:
    """A guess of the bytes `rows` files with `audio_s` seconds in all will take."""
    rate_hz = config.sample_rate or info.sample_rate_hz
    width = {"PCM_16": 2, "PCM_24": 3, "FLOAT": 4}[config.subtype]
    per_second = {
        "wav": float(rate_hz * width),
        "flac": 0.65 * rate_hz * width,
        "ogg": 10_000.0,
        "mp3": 10_000.0,
    }[config.format]
    per_row = 4096 + 700  # a partly used block, a line of timings.jsonl
    if config.save_codes:
        per_row += 4096
        per_second += 2 * info.num_codebooks / info.frame_s
    return int(audio_s * per_second + rows * per_row)
