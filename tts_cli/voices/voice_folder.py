"""The folder of voice files: names, listing, reading and writing."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from tts_cli.atomic import write_standalone
from tts_cli.config import users_folder
from tts_cli.errors import RowError, SetupError, UsageError
from tts_cli.named import nearest, shown
from tts_cli.sources.ids import fold_id, id_problem
from tts_cli.sources.mapping import MAX_NAME_CHARS
from tts_cli.voices.recording import opened
from tts_cli.voices.voice_file import MAX_FILE_BYTES, StoredVoice, decode, encode

if TYPE_CHECKING:
    from models.base import ModelInfo

SUFFIX = ".voice.safetensors"
_MAX_LISTED = 1000
_REMEMBERED = 256


def default_folder() -> Path:
    """`voices` in the user's data folder."""
    return users_folder("XDG_DATA_HOME", ".local/share") / "voices"


def name_problem(name: str) -> str | None:
    """Why a voice cannot be called so, or None."""
    if "/" in name:
        return "contains '/'; the name of a voice is not a path"
    if len(name) > MAX_NAME_CHARS:
        return f"is longer than {MAX_NAME_CHARS} characters"
    if name.startswith((".", "-")):
        return f"starts with '{name[0]}'"
    return id_problem(name)


class VoiceFolder:
    """The voice files of a folder, found by name whatever the letter case.

    Args:
        path: None for the user's own.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = default_folder() if path is None else path
        self._known: OrderedDict[str, StoredVoice | RowError] = OrderedDict()

    def names(self) -> list[str]:
        """The voices found, sorted; at most 1,000."""
        try:
            with os.scandir(self.path) as entries:
                names = [e.name[: -len(SUFFIX)] for e in entries if e.name.endswith(SUFFIX)]
        except OSError:
            return []
        return sorted(name for name in names if name_problem(name) is None)[:_MAX_LISTED]

    def find(self, name: str) -> Path | None:
        """The file of a voice."""
        if name_problem(name) is not None:
            return None
        exact = self.path / (name + SUFFIX)
        if os.path.lexists(exact):
            return exact
        folded = fold_id(name)
        for entry in self.names():
            if fold_id(entry) == folded:
                return self.path / (entry + SUFFIX)
        return None

    def load(self, name: str) -> StoredVoice:
        """Read a voice, once a name; failures are remembered too. Raises RowError."""
        if name not in self._known:
            try:
                self._known[name] = self._read(name)
            except RowError as error:
                self._known[name] = error
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(name)
        found = self._known[name]
        if isinstance(found, RowError):
            raise found.with_traceback(None)
        return found

    def require(self, name: str, info: ModelInfo) -> StoredVoice:
        """A voice that a checkpoint can speak with. Raises RowError."""
        stored = self.load(name)
        if problem := stored.problem(info):
            raise RowError(f"voice {shown(name)} {problem}")
        return stored

    def write(self, name: str, voice: StoredVoice, is_overwriting: bool = False) -> Path:
        """Write a voice: whole or not at all.

        Raises:
            UsageError: it is there already.
            SetupError, DiskFull: the folder cannot be written.
        """
        path = self.target(name, is_overwriting)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_standalone(path, encode(voice))
        except OSError as error:
            raise SetupError(
                f"cannot write {path}: {error.strerror or error}", "choose another --voice-dir"
            ) from error
        self._known.clear()
        return path

    def target(self, name: str, is_overwriting: bool = False) -> Path:
        """Where a voice is to be written. Raises UsageError: a bad name, or it is there."""
        if problem := name_problem(name):
            raise UsageError(f"the voice name {shown(name)} {problem}")
        path = self.find(name)
        if path is None:
            return self.path / (name + SUFFIX)
        if not is_overwriting:
            raise _is_there(path)
        return path

    def require_same(self, path: Path, name: str, reference: str, info: ModelInfo) -> StoredVoice:
        """A voice that is there, as it would be made again.

        Args:
            path: of its file.
            reference: digest of the recording, and of what is taken of it.
            info: of the checkpoint.
        Raises:
            UsageError: it is another one.
        """
        try:
            stored = self.load(name)
        except RowError:
            stored = None
        if stored is None or (stored.reference, stored.identity) != (reference, info.identity):
            raise _is_there(path)
        return stored

    def _read(self, name: str) -> StoredVoice:
        path = self.find(name)
        if path is None:
            close = nearest(name, self.names())
            advice = f"; did you mean '{close}'?" if close else ""
            raise RowError(f"voice {shown(name)} is not in {self.path}{advice}")
        try:
            return read_voice(path, self.path)
        except RowError as error:
            raise RowError(f"voice {shown(name)}: {path.name} {error}") from None


def read_voice(path: Path, folder: Path) -> StoredVoice:
    """Read and check a voice file.

    Raises:
        RowError: it leaves the folder, is no plain file or not what it should be; the reason
            continues a sentence that starts with the file's name.
    """
    with (
        opened(str(path), folder, MAX_FILE_BYTES, "the voices folder") as handle,
        os.fdopen(os.dup(handle), "rb") as file,
    ):
        return decode(file.read(MAX_FILE_BYTES + 1))


def _is_there(path: Path) -> UsageError:
    return UsageError(f"{path} already exists", remedy="add --overwrite to replace it")
