"""What can be said of a manifest's rows before any weight is read: each by itself, ids against each
other, and what the checkpoint can speak.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tts_cli.config import RunConfig
from tts_cli.errors import RowError, SetupError, UsageError
from tts_cli.manifest.ids import IdTable, fold_id, id_hash
from tts_cli.manifest.reader import Manifest, read_rows
from tts_cli.manifest.row import BadRow, Row, RowProblem, nearest, shown
from tts_cli.run.check.casting import Casting
from tts_cli.text.language_code import named_language
from tts_cli.voices.folder import VoiceFolder

if TYPE_CHECKING:
    from models.base import ModelInfo

MAX_PATH_BYTES = 4096  # PATH_MAX of Linux
PATH_EXTRAS = 80  # folder of runaways, suffix and temporary name around an id
_MAX_NAMES = 20  # voices or languages a message lists
_LINE_BITS = 40


class CheckedRows:
    """Every row of a manifest with its final verdict. It remembers one compact table of ids, 24 to
    48 bytes a row.

    Args:
        makes_voices: for rows that have none.
    Raises:
        UsageError: `--voice` or `--language` is not one of the checkpoint's, or the cast asks for
            what it does not have.
    """

    def __init__(
        self, source: Manifest, config: RunConfig, info: ModelInfo, *, makes_voices: bool = False
    ) -> None:
        self._source = source
        self._config = config
        self._info = info
        self._voices = VoiceFolder(config.voices)
        self._places = IdTable()  # hash of a folded id -> manifest and first line it stands on
        self.has_nameless = False  # rows that were read without an id of their own
        names = [one.name for one in source.all]
        self._file_bits = {name: index << _LINE_BITS for index, name in enumerate(names)}
        check_settings(config, info, self._voices)
        self._makes_voices = makes_voices
        self.casting = Casting(config, info, self._voices, self._setting_problem, makes_voices)

    def read(self, wanted: Sequence[int] | None = None) -> Iterator[Row | BadRow]:
        """The rows in order, or those that are wanted, see `read_rows`; again, with the same
        verdicts.

        Raises:
            ManifestError: the file cannot be used at all.
            StoppedEarly: it is not what it was when it was read first.
        """
        longest = MAX_PATH_BYTES - len(os.fsencode(self._config.out or "")) - PATH_EXTRAS
        for row in read_rows(self._source, wanted):
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
            if isinstance(row, Row) and row.character is not None:
                try:
                    row = self.casting.played(row)
                except RowProblem as error:
                    row = _bad(row, str(error))
            if isinstance(row, Row) and (problem := self._problem(row)):
                row = _bad(row, problem)
            elif len(row.record_id) * 4 > longest and _num_bytes(row.record_id) > longest:
                problem = f"its path in --out is longer than the {MAX_PATH_BYTES} bytes of any path"
                row = _bad(row, problem)
            yield row

    def has_id(self, row_id: str) -> bool:
        """Whether a row that was read has this id, letter case ignored, or is recorded under it."""
        return self.has_key(id_hash(fold_id(row_id)))

    def has_key(self, key: int) -> bool:
        """Whether this is the `id_hash` of the folded id of a row that was read."""
        return self._places.get(key) is not None

    def _problem(self, row: Row) -> str | None:
        return row_problem(row, self._config, self._info, self._voices, self._makes_voices)

    def _setting_problem(self, row: Row) -> str | None:
        return setting_problem(row, self._config, self._info, self._voices)

    def _taken(self, row_id: str, place: int) -> str:
        line = place & ((1 << _LINE_BITS) - 1)
        by = f"line {line}"
        if len(self._source.all) > 1:
            by = f"{self._source.all[place >> _LINE_BITS].name}:{line}"
        return f"id '{row_id}' is taken by {by} (letter case is ignored); make ids unique"


def _num_bytes(row_id: str) -> int:
    return len(row_id.encode("utf-8", "surrogatepass"))


def _bad(row: Row | BadRow, problem: str, has_id: bool = True) -> BadRow:
    row_id = row.id if has_id else None
    return BadRow(row.line, row.number, row_id, problem, row.text, file=row.file)


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


def row_problem(
    row: Row, config: RunConfig, info: ModelInfo, voices: VoiceFolder, makes_voices: bool = False
) -> str | None:
    """Why the checkpoint cannot speak this row, or None.

    A reference recording is not looked at: one that cannot be used fails its row when it is spoken.
    """
    problem = setting_problem(row, config, info, voices)
    if problem is not None or makes_voices:
        return problem
    return _voice_missing(row, config, info)


def setting_problem(
    row: Row, config: RunConfig, info: ModelInfo, voices: VoiceFolder
) -> str | None:
    """The same, whatever a row leaves open."""
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
    return None


def _voice_missing(row: Row, config: RunConfig, info: ModelInfo) -> str | None:
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
    if field == "language":
        value = named_language(value, info.languages)
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
