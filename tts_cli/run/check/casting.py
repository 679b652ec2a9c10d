"""Characters of rows to voices: by the cast file, or by a speaker of the same name."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from tts_cli.config import RunConfig
from tts_cli.errors import UsageError
from tts_cli.manifest.cast import Cast, read_cast, with_character
from tts_cli.manifest.columns import as_flag, parse_map
from tts_cli.manifest.row import Row, RowProblem, nearest, shown
from tts_cli.voices.folder import VoiceFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from models.base import ModelInfo

_MAX_NAMES = 20
_MAX_REMEMBERED = 4096
_MAX_STRANGERS = 1000


class Casting:
    """The cast of a run.

    Args:
        problem_of: why the checkpoint cannot do what a row asks, or None.
        makes_voices: for characters that have none.
    Raises:
        UsageError: the cast file cannot be read, or asks for what the checkpoint does not have.
    """

    def __init__(
        self,
        config: RunConfig,
        info: ModelInfo,
        voices: VoiceFolder,
        problem_of: Callable[[Row], str | None],
        makes_voices: bool = False,
    ) -> None:
        self.cast = Cast() if config.cast is None else read_cast(config.cast)
        self.strangers: dict[str, None] = {}  # characters without a voice, as they came
        self._fields = parse_map(config.map or "")
        self._info = info
        self._voices = voices
        self._makes_voices = makes_voices and config.free_voice != "each"
        self._could_make = makes_voices and not self._makes_voices
        self._find = lru_cache(_MAX_REMEMBERED)(self._character)
        for name, row in self.cast.characters.items():
            if problem := problem_of(row):
                raise UsageError(f"{self.cast.places[name]}: [{name}] {problem}")

    def played(self, row: Row) -> Row:
        """A row in its character's voice. Raises RowProblem: nobody knows the character."""
        assert row.character is not None
        character = self._find(row.character)
        if character is None:
            if self.cast.path is None and (self._makes_voices or row.voice or row.ref_audio):
                return row
            if len(self.strangers) < _MAX_STRANGERS:
                self.strangers[row.character] = None
            raise RowProblem(self._unknown(row.character))
        return with_character(row, character)

    def _character(self, name: str) -> Row | None:
        """What a character is given; None: it has no table, and is no speaker either."""
        found = self.cast.find(name)
        if found is not None and (found.voice or found.ref_audio):
            return found
        speaker = self._speaker(name)
        if found is None and speaker is None:
            return None
        return replace(found or Row(1, 1, "", "."), voice=speaker)

    def _speaker(self, name: str) -> str | None:
        """The speaker of that name, or the voice file."""
        if self._info.takes_voice_files:
            return name if self._voices.find(name) is not None else None
        same = (voice for voice in self._info.voices if voice.casefold() == name.casefold())
        return next(same, None)

    def _unknown(self, name: str) -> str:
        names = [*self.cast.characters, *self._info.voices]
        close = nearest(name, names)
        advice = f"did you mean {shown(close)}? " if close else ""
        path = self.cast.path
        if path is None:
            column = next((key for key in self._fields if self._fields[key] == "character"), None)
            flag = as_flag({**self._fields, column or "character": ""})
            remedy = f"name its voice in a file for --cast, or leave the column out: {flag}"
            if self._could_make:
                remedy = f"--free-voice one makes it a voice; or {remedy}"
            return f"character {shown(name)} is no speaker here; {advice}{remedy}"
        listed = ", ".join(names[:_MAX_NAMES]) + ", ..." * (len(names) > _MAX_NAMES)
        return f"character {shown(name)} is not in {path}; {advice}there are {listed}"
