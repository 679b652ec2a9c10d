"""Check a manifest's rows before any weight is read: fields, unique ids, and what the checkpoint
can synthesize. Give characters their voices, and select rows for `--only`.
"""

from __future__ import annotations

import fnmatch
import heapq
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tts_cli.audio.file import check_format
from tts_cli.audio.treatment import PostProcessing
from tts_cli.checks.baselines import Evidence, VoiceBaselines
from tts_cli.checks.outliers import reasons_now
from tts_cli.checks.reviews import Reviews, State
from tts_cli.checks.verdicts import read_verdicts
from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Row
from tts_cli.errors import RowError, SetupError, UsageError
from tts_cli.named import first_few, nearest, shown
from tts_cli.plain import read_given
from tts_cli.sources.cast import Cast, read_cast, with_character
from tts_cli.sources.ids import IdTable, fold_id, id_hash
from tts_cli.sources.item import Manifest
from tts_cli.sources.mapping import RowProblem, as_flag, parse_map
from tts_cli.sources.open import read_rows
from tts_cli.store.files import JOURNAL_NAME, REVIEWS_NAME
from tts_cli.store.store import Store
from tts_cli.text.languages import named_language
from tts_cli.voices.voice_store import VoiceStore, name_problem

if TYPE_CHECKING:
    from models.base import ModelInfo


MAX_PATH_BYTES = 4096  # PATH_MAX of Linux
PATH_EXTRAS = 80  # folder of runaways, suffix and temporary name around an id
_MAX_NAMES = 20  # voices or languages a message lists
_LINE_BITS = 40


class CheckedRows:
    """The rows of a manifest, valid or invalid. Ids are compared by a table of 24 to 48 bytes per
    row.

    Args:
        edits: rows in place of those of the manifest, by id.
    """

    def __init__(
        self, source: Manifest, validator: RowValidator, edits: Mapping[str, Row] | None = None
    ) -> None:
        self._source = source
        self._edits = edits or {}
        self.validator = validator
        self._places = IdTable()  # hash of a folded id -> manifest and first line that has it
        self.has_nameless = False  # whether a row has no usable id
        names = [one.name for one in source.all]
        self._file_bits = {name: index << _LINE_BITS for index, name in enumerate(names)}

    def read(self) -> Iterator[Row | BadRow]:
        """Yield the rows in order, any number of times.

        Raises:
            ManifestError: the manifest cannot be read.
            StoppedEarly: it has changed since the first reading.
        """
        out = self.validator.config.out or ""
        longest = MAX_PATH_BYTES - len(os.fsencode(out)) - PATH_EXTRAS
        rows: Iterable[Row | BadRow] = read_rows(self._source)
        if self._edits:
            rows = (self._edits.get(row.id or "", row) for row in rows)
        for row in rows:
            if row.id is not None:
                place = row.line if not row.file else row.line | self._file_bits[row.file]
                first = self._places.setdefault(id_hash(fold_id(row.id)), place)
                if first != place:
                    row = _bad(row, self._taken(row.id, first), has_id=False)
            if row.id is None:
                self.has_nameless = True
                self._places.setdefault(id_hash(fold_id(row.record_id)), row.line)
                yield row
                continue
            row_id = row.id
            if isinstance(row, Row):
                row = self.validator.validated(row)
            if 4 * len(row_id) > longest and len(row_id.encode("utf-8", "surrogatepass")) > longest:
                row = _bad(row, f"its path in --out is longer than {MAX_PATH_BYTES} bytes")
            yield row

    def has_id(self, row_id: str) -> bool:
        """Return whether a row that was read has this id, ignoring letter case."""
        return self.has_key(id_hash(fold_id(row_id)))

    def has_key(self, key: int) -> bool:
        """Return whether this is the `id_hash` of the folded id of a row that was read."""
        return self._places.get(key) is not None

    def _taken(self, row_id: str, place: int) -> str:
        line = place & ((1 << _LINE_BITS) - 1)
        by = f"line {line}"
        if len(self._source.all) > 1:
            by = f"{self._source.all[place >> _LINE_BITS].name}:{line}"
        return f"id '{row_id}' is already used by {by} (letter case is ignored); make ids unique"


def _bad(row: Row | BadRow, problem: str, has_id: bool = True) -> BadRow:
    row_id = row.id if has_id else None
    whole = row if isinstance(row, Row) else row.row
    return BadRow(row.line, row.number, row_id, problem, row.text, file=row.file, row=whole)


def require_speakable(info: ModelInfo) -> None:
    """Raise SetupError if a checkpoint cannot synthesize any row."""
    if info.needs_reference and not info.can_clone:
        raise SetupError(
            "a Base checkpoint clones a reference recording, and this copy cannot: "
            f"{info.needs or 'its encoders are missing'}",
            remedy="download the complete checkpoint, or use a CustomVoice or VoiceDesign one",
        )


def require_possible(config: RunConfig, info: ModelInfo) -> None:
    """Check the settings without a manifest. Raises UsageError, SetupError: they suit no row."""
    require_speakable(info)
    check_format(config.format, config.subtype, config.sample_rate or info.sample_rate_hz)
    PostProcessing.of(config).require_packages()


def check_settings(config: RunConfig, info: ModelInfo, voices: VoiceStore) -> None:
    """Check settings that depend on the checkpoint. Raises UsageError."""
    if config.voice is not None and (problem := _voice_problem(config.voice, info, voices)):
        raise UsageError(f"--{problem}")
    if problem := _name_problem("language", config.language, info):
        raise UsageError(f"--{problem}")
    seconds = config.max_seconds
    if seconds is not None and (problem := _seconds_problem(seconds, info)):
        raise UsageError(f"--max-seconds {problem}")


def _voice_problem(value: str, info: ModelInfo, voices: VoiceStore) -> str | None:
    """Return why a voice cannot be used, or None. A checkpoint that clones takes names of voice
    files, others take names of speakers.
    """
    if not info.takes_voice_files:
        problem = _name_problem("voice", value, info)
        if problem and voices.path_of(value) is not None:
            problem += f"; a voice file has that name, but a {info.type} checkpoint cannot clone"
        return problem
    try:
        voices.require(value, info)
    except RowError as error:
        return f"voice: {error}"
    return None


_ELSE = {  # the probable intention
    "voice": "; for the speaker of a story use the field character, with --cast",
    "language": "; for others choose another --model",
}


def _name_problem(field: str, value: str, info: ModelInfo) -> str | None:
    valid = list(info.voices if field == "voice" else info.languages)
    if field == "language":
        value = named_language(value, info.languages)
    if value.casefold() in (entry.casefold() for entry in valid):
        return None
    if not valid:
        return f"{field}: a {info.type} checkpoint has no named voices; leave it out"
    close = nearest(value, valid)
    advice = f"did you mean '{close}'? " if close else ""
    listed = first_few(valid, _MAX_NAMES)
    more = _ELSE[field]
    return f"{field}: {shown(value)} is unknown; {advice}the checkpoint has {listed}{more}"


def _seconds_problem(seconds: float, info: ModelInfo) -> str | None:
    if seconds / info.frame_s < 1 - 1e-6:
        return f"{seconds:g} s is less than one frame ({info.frame_s:g} s)"
    if seconds > info.max_positions * info.frame_s:
        return (
            f"{seconds:g} s is more than the maximum of this checkpoint, "
            f"{info.max_positions * info.frame_s:g} s"
        )
    return None


_MAX_CAST = 20
_MAX_REMEMBERED = 4096
_MAX_VOICELESS = 1000


class RowValidator:
    """Gives rows the voices of their characters, and checks whether the checkpoint can synthesize
    them.

    Args:
        makes_voices: voices are generated for rows and characters that have none.
    Raises:
        UsageError: a setting or the cast asks for something that the checkpoint does not have, or
            the cast cannot be read.
    """

    def __init__(self, config: RunConfig, info: ModelInfo, *, makes_voices: bool = False) -> None:
        self.config = config
        self.info = info
        self.voices = VoiceStore(config.voice_dir)
        check_settings(config, info, self.voices)
        self.cast = Cast() if config.cast is None else read_cast(config.cast)
        self.voiceless: dict[str, None] = {}  # characters without a voice, in order
        self._is_voice_needed = info.needs_reference and config.voice is None and not makes_voices
        self._makes_voices = makes_voices and config.free_voice != "each"
        self._could_make = makes_voices and not self._makes_voices
        self._find = lru_cache(_MAX_REMEMBERED)(self._character)
        for name, row in self.cast.characters.items():
            if problem := self._problem(row):
                raise UsageError(f"{self.cast.places[name]}: [{name}] {problem}")

    def validated(self, row: Row) -> Row | BadRow:
        """Return a row with its character's voice, or the invalid row with its problem.
        Recordings are checked later, when the row is resolved.
        """
        try:
            row = row if row.character is None else self._with_voice(row, row.character)
        except RowProblem as error:
            return _bad(row, str(error))
        if problem := self._problem(row):
            return _bad(row, problem)
        if self._is_voice_needed and row.ref_audio is None and row.voice is None:
            only = "a base checkpoint needs a reference recording"
            return _bad(row, f"has no ref_audio and no voice, and {only}")
        return row

    def _problem(self, row: Row) -> str | None:
        info = self.info
        if row.ref_audio is not None and not info.can_clone:
            what = f"a {info.type} checkpoint cannot clone"
            if self.config.model is None:
                what = "the sample voice cannot clone"
            remedy = "leave it out, or give a Base checkpoint with --model"
            return f"has ref_audio, but {what}; {remedy}"
        if info.takes_voice_files and row.ref_audio is not None and row.voice is not None:
            return "has both ref_audio and voice; give only one"
        modes, mode = info.clone_modes, row.clone_mode
        if info.takes_voice_files and mode is not None and mode not in modes:
            only = f"this checkpoint clones only with {', '.join(modes)}"
            return f"clone_mode {mode}: {only}; give ref_text, the words of the reference"
        if row.voice is not None and (problem := _voice_problem(row.voice, info, self.voices)):
            return problem
        if row.language is not None and (problem := _name_problem("language", row.language, info)):
            return problem
        if row.max_frames is not None and row.max_frames > info.max_positions:
            return (
                f"max_frames: is {row.max_frames}, but the maximum of this checkpoint is "
                f"{info.max_positions}"
            )
        if row.max_seconds is not None and (problem := _seconds_problem(row.max_seconds, info)):
            return f"max_seconds: {problem}"
        return None

    def _with_voice(self, row: Row, name: str) -> Row:
        """Return a row with its character's voice. Raises RowProblem: the character is unknown."""
        character = self._find(name)
        if character is not None:
            return with_character(row, character)
        if self.cast.path is None and (self._makes_voices or row.voice or row.ref_audio):
            return row
        if len(self.voiceless) < _MAX_VOICELESS:
            self.voiceless[name] = None
        raise RowProblem(self._unknown(name))

    def _character(self, name: str) -> Row | None:
        """Return a character's fields; None: it is neither in the cast nor a speaker."""
        found = self.cast.find(name)
        if found is not None and (found.voice or found.ref_audio):
            return found
        speaker = self._speaker(name)
        if found is None and speaker is None:
            return None
        return replace(found or Row(1, 1, "", "."), voice=speaker)

    def _speaker(self, name: str) -> str | None:
        if self.info.takes_voice_files:
            return name if self.voices.path_of(name) is not None else None
        same = (voice for voice in self.info.voices if voice.casefold() == name.casefold())
        return next(same, None)

    def _unknown(self, name: str) -> str:
        names = [*self.cast.characters, *self.info.voices]
        close = nearest(name, names)
        advice = f"did you mean {shown(close)}? " if close else ""
        path = self.cast.path
        if path is None:
            columns = parse_map(self.config.map or "")
            column = next((key for key in columns if columns[key] == "character"), "character")
            made = "--free-voice one generates a voice for it; or " if self._could_make else ""
            flag = as_flag({**columns, column: ""})
            remedy = f"{made}{self._how_to_give_voice(name)}, or leave the column out: {flag}"
            return f"character {shown(name)} has no voice; {advice}{remedy}"
        listed = first_few(names, _MAX_CAST)
        return f"character {shown(name)} is not in {path}; {advice}it has {listed}"

    def _how_to_give_voice(self, name: str) -> str:
        field, value = "instruct", "DESCRIPTION"
        if self.info.takes_voice_files:
            field, value = "ref_audio", "FILE"
        elif self.info.voices:
            field, value = "voice", self.info.voices[0]
        key = json.dumps(name, ensure_ascii=not name.isprintable())
        cast = f'write {key}.{field} = "{value}" into a file for --cast'
        if field != "ref_audio" or name_problem(name):
            return cast
        flags = ["--model", str(self.config.model), "--ref-audio", "FILE"]
        if self.config.voice_dir is not None:
            flags += ["--voice-dir", str(self.config.voice_dir)]
        command = shlex.join(["tts-cli", "voices", "add", name, *flags])
        return f"make it a voice file, {command}, or {cast}"


SUSPECTS = "suspects"
REVIEWED = {"rejected": State.REJECTED, "retakes": State.RETAKE}  # words for --only
_MAX_FILE_BYTES = 1 << 28
_MAX_NAMED = 5  # names in a message
_NUM_NEAREST = 3
_WILD = re.compile(r"[*?[]")


class RowFilter:
    """The rows that `--only` selects: by id, pattern or file of ids, as suspects, or by a review.

    Args:
        values: `RunConfig.only`; empty: every row is selected.
        out: the output folder, which knows the suspects, or None.
    Raises:
        UsageError: a file of ids cannot be read, or the suspects are not known.
    """

    def __init__(self, values: Sequence[str], out: Path | None) -> None:
        self.is_given = bool(values)
        self._ids: dict[str, bool] = {}  # folded -> whether a row has it
        self._patterns: list[tuple[str, re.Pattern[str]]] = []
        self._met: set[str] = set()
        self._marked: set[int] = set()  # hashes of ids
        for name in _names(values):
            if name == SUSPECTS:
                self._marked |= suspects_of(out)
            elif name in REVIEWED:
                self._marked |= reviewed(out, name)
            elif _WILD.search(name):
                self._patterns.append((name, re.compile(fnmatch.translate(fold_id(name)))))
            else:
                self._ids[fold_id(name)] = False

    @classmethod
    def these(cls, ids: Iterable[str]) -> RowFilter:
        """Select the rows of these ids; none of them is a pattern."""
        found = cls((), None)
        found.is_given, found._marked = True, set(map(id_hash, ids))
        return found

    def selects(self, row_id: str) -> bool:
        """Return whether a row is selected, and remember which names were met."""
        if not self.is_given:
            return True
        folded = fold_id(row_id)
        is_named = folded in self._ids
        if is_named:
            self._ids[folded] = True
        for name, pattern in self._patterns:
            if pattern.fullmatch(folded):
                is_named = True
                self._met.add(name)
        return is_named or id_hash(row_id) in self._marked

    def require_rows(self, manifest: str, ids: Iterable[str]) -> None:
        """Raise UsageError with the nearest ids if no row has one of the names."""
        strays = [name for name, has_met in self._ids.items() if not has_met]
        strays += [name for name, _ in self._patterns if name not in self._met]
        if not strays:
            return
        found = list(ids) if len(strays) > 1 else ids
        advice = [f"'{name}'{nearest_ids(name, found)}" for name in strays[:_MAX_NAMED]]
        more = f" and {len(strays) - _MAX_NAMED} more" if len(strays) > _MAX_NAMED else ""
        raise UsageError(f"--only: {manifest} has no row {', '.join(advice)}{more}")


def _with_journal(out: Path | None, name: str) -> Path:
    path = None if out is None else out / JOURNAL_NAME
    if out is None or path is None or not path.is_file():
        raise UsageError(
            f"--only {name}: {path or 'no --out'}: has no journal with such rows",
            remedy="synthesize the manifest into --out first",
        )
    return out


def reviewed(out: Path | None, name: str) -> set[int]:
    """Return the id hashes of rows whose current take has a state of `REVIEWED`. Raises
    UsageError (no journal or no decisions), SetupError.
    """
    out = _with_journal(out, name)
    if not (out / REVIEWS_NAME).is_file():
        raise UsageError(
            f"--only {name}: {out} has no {REVIEWS_NAME}, so nothing was decided yet",
            remedy=f"first run: {shlex.join(['tts-cli', 'review', str(out)])}",
        )
    reviews, journal = Reviews(out), Store.read_only(out).journal
    takes = journal.takes()
    return {id_hash(take.id) for take in takes if reviews.state(take) is REVIEWED[name]}


def suspects_of(out: Path | None) -> set[int]:
    """Return the id hashes of rows that failed or whose current take is suspect, as in `tts-cli
    report`: by the entry, compared with its voice in this folder, and by a verdict in
    `checks.jsonl` about the same audio. The journal is read twice, not held in memory. Raises
    UsageError (no journal), SetupError.
    """
    out = _with_journal(out, SUSPECTS)
    checks = {
        (id_hash(check.id), check.take): check for check in read_verdicts(out) if check.is_suspect
    }
    journal = Store.read_only(out).journal
    voices = VoiceBaselines(map(Evidence, journal.takes()))
    found: set[int] = set()
    for take in journal.takes():
        key = id_hash(take.id)
        if not take.is_ok or reasons_now(take, voices, checks.get((key, take.take))):
            found.add(key)
    return found


def _names(values: Sequence[str]) -> Iterator[str]:
    """Yield the names in the values of `--only`. Raises UsageError."""
    for value in values:
        names = value.split(",")
        if value.startswith("@"):
            names = _read(value[1:])
        yield from filter(None, map(str.strip, names))
    if values and not any(value.strip(", ") for value in values):
        raise UsageError("--only is empty", remedy="give the id of a row, or leave it out")


def _read(path: str) -> list[str]:
    try:
        text = read_given(path, _MAX_FILE_BYTES).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"--only @{path}: cannot be read: {reason}") from error
    names = [line.strip() for line in text.splitlines()]
    names = [name for name in names if name and not name.startswith("#")]
    if not names:
        raise UsageError(f"--only @{path}: contains no id", remedy="write one id per line")
    return names


def nearest_ids(name: str, ids: Iterable[str]) -> str:
    """Return the advice about the ids most similar to a name."""
    matcher = SequenceMatcher(b=name, autojunk=False)

    def likeness(row_id: str) -> float:
        return max(ratio(part) for part in {fold_id(row_id), fold_id(row_id.rpartition("/")[2])})

    def ratio(text: str) -> float:
        matcher.set_seq1(text)
        return matcher.ratio() if matcher.real_quick_ratio() > 0.5 else 0.0

    best = heapq.nlargest(_NUM_NEAREST, ((likeness(row_id), row_id) for row_id in ids))
    close = [f"'{row_id}'" for ratio, row_id in best if ratio > 0.5]
    return f" (nearest: {', '.join(close)})" if close else ""
