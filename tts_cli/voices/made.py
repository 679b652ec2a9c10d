"""Made voices: those that runs have made for rows without one, in `DIR/.voices`. They are checked,
and never made anew while they are there.

What was asked for (`Recipe`) names all files of a voice: `NAME.wav` is what it said, for people to
hear; `NAME.codes.safetensors` are the codes of that; `NAME.json`, written behind both, says what it
is; `NAME.ID.voice.safetensors` is the voice file for one checkpoint that clones. Rows name a voice
by `.voices/NAME`, which no voice file of a user is called: it has a slash.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from safetensors import SafetensorError
from safetensors.numpy import load

from tts_cli.atomic import write_atomic
from tts_cli.errors import RowError, SetupError, UsageError
from tts_cli.sources.ids import VOICES
from tts_cli.sources.row import MAX_TEXT_CHARS
from tts_cli.store.files import CODES_SUFFIX
from tts_cli.voices.recording import opened
from tts_cli.voices.voice_file import StoredVoice, encode
from tts_cli.voices.voice_folder import SUFFIX, read_voice

if TYPE_CHECKING:
    import numpy as np

    from models.base import ModelInfo

PREFIX = f"{VOICES}/"
_HEX = 12  # of a name
_SLUG_CHARS = 24
_MAX_BYTES = 4 << 20
_FILE = re.compile(
    rf"([a-z0-9-]{{1,{_SLUG_CHARS}}}-[0-9a-f]{{{_HEX}}})"
    rf"(?:\.wav|\.json|{re.escape(CODES_SUFFIX)}|\.[0-9a-f]{{8}}{re.escape(SUFFIX)})"
)


def is_made(voice: str | None) -> bool:
    """Whether a row's voice is one that a run has made."""
    return voice is not None and voice.startswith(PREFIX)


class Recipe(NamedTuple):
    """What is asked for. A character's name alone says whose voice it is."""

    character: str | None
    description: str | None  # None where there is a character, or nothing describes it
    model: str  # identity of the checkpoint that makes it up
    seed: int  # of the run

    @property
    def voice(self) -> str:
        """What rows call it."""
        asked = self.character or self.description or ""
        facts = [self.character and asked.casefold(), self.description, self.model, self.seed]
        words = "-".join(re.findall("[a-z0-9]+", asked.casefold()))
        slug = words[:_SLUG_CHARS].strip("-") or "voice"
        return f"{PREFIX}{slug}-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:_HEX]}"


@dataclass(frozen=True)
class MadeVoice:
    """What one has said."""

    path: Path  # of the WAV
    text: str
    facts: Mapping[str, Any]  # all that `NAME.json` says
    sums: Mapping[str, str]  # SHA-256 of WAV and codes, by their names

    @property
    def shown(self) -> str:
        """Whose voice it is, in words."""
        return whose(self._asked("character"), self.description)

    @property
    def description(self) -> str | None:
        """The words that it was made by."""
        return self._asked("description")

    @property
    def audio_s(self) -> float | None:
        """How long it speaks; None: that is not told."""
        found = self.facts.get("audio_s")
        return found if isinstance(found, float) and 0 < found < math.inf else None

    def _asked(self, name: str) -> str | None:
        of = self.facts.get("of")
        found = of.get(name) if isinstance(of, dict) else None
        return found if isinstance(found, str) else None

    def codes(self) -> np.ndarray[Any, Any]:
        """(F, K) int16. Raises RowError."""
        path = self.path.with_name(self.path.stem + CODES_SUFFIX)
        try:
            codes: np.ndarray[Any, Any] = load(_bytes_of(path))["codes"]
            if codes.dtype != "int16" or codes.ndim != 2 or not len(codes):
                raise ValueError("has changed since it was written")
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise RowError(f"{path}: {error}") from None
        return codes


class Whole(NamedTuple):
    """What is whole of a voice's files."""

    made: MadeVoice | None
    stored: dict[str, StoredVoice]  # for checkpoints, by the names of their files
    problems: list[str]  # of the others


class MadeVoices:
    """The made voices of an output folder.

    Args:
        out: the output folder; None: there is none, and so no voice.
        source: another one whose voices count as well, see `bring`.
    """

    def __init__(self, out: Path | None, source: Path | None = None) -> None:
        self.folder = None if out is None else out / VOICES
        self._folders = [one / VOICES for one in (out, source) if one is not None]
        self._stored: dict[tuple[str, str], StoredVoice | None] = {}

    def wav(self, voice: str) -> str:
        """The path of what a voice says, for people."""
        return f"{self.folder}/{voice.removeprefix(PREFIX)}.wav"

    def find(self, voice: str, info: ModelInfo) -> StoredVoice | None:
        """A voice for a checkpoint, remembered; None: there is none. Raises RowError."""
        key = voice, info.identity
        if key not in self._stored:
            path = next(self._paths(_file_of(voice, info)), None)
            stored = None if path is None else read_stored(path)
            if stored is not None and (problem := stored.problem(info)):
                raise RowError(f"{path} {problem}")
            self._stored[key] = stored
        return self._stored[key]

    def require(self, voice: str, info: ModelInfo) -> StoredVoice:
        """The same of one that is there. Raises RowError."""
        if (stored := self.find(voice, info)) is None:
            raise RowError(f"its voice {voice} is missing")
        return stored

    def made(self, voice: str) -> MadeVoice | None:
        """What a voice has said; None: it was not made yet.

        Raises:
            RowError: it is damaged.
            UsageError: the other folder has another voice under its name.
        """
        found = [_read(path) for path in self._paths(f"{voice.removeprefix(PREFIX)}.json")]
        for other in found[1:]:
            if other.sums != found[0].sums:
                raise UsageError(
                    f"{other.path}: is a different voice than {found[0].path}",
                    remedy="leave --made-voices out, or remove the files of that name in "
                    f"{self.folder}; its rows are then synthesized again in the other voice",
                )
        return found[0] if found else None

    def require_made(self, voice: str) -> MadeVoice:
        """The same of one that was made. Raises RowError: it is gone, or damaged."""
        if (made := self.made(voice)) is None:
            raise RowError(f"{voice} is missing")
        return made

    def keep(self, voice: str, facts: Mapping[str, Any], wav: bytes, codes: bytes) -> None:
        """Keep what a voice has said. Raises SetupError, DiskFull."""
        files = {".wav": wav, CODES_SUFFIX: codes}
        sums = {suffix: hashlib.sha256(data).hexdigest() for suffix, data in files.items()}
        told = {
            **facts,
            # [object] SHA-256 of the WAV file and the codes, by the ends of their names
            "files": sums,
        }
        about = json.dumps(told, indent=2, ensure_ascii=False) + "\n"
        name = voice.removeprefix(PREFIX)
        for suffix, data in {**files, ".json": about.encode("utf-8", "surrogatepass")}.items():
            self._write(name + suffix, data)

    def keep_for(self, info: ModelInfo, voice: str, stored: StoredVoice) -> None:
        """Keep a voice as a checkpoint speaks with it. Raises SetupError, DiskFull."""
        self._write(_file_of(voice, info), encode(stored))
        self._stored.pop((voice, info.identity), None)

    def bring(self, voices: Iterable[str]) -> None:
        """Copy what the other folder has of voices into this one, which lacks it. Raises
        SetupError, DiskFull, UsageError.
        """
        for folder in self._folders[1:]:
            files = files_of(folder)
            for voice in voices:
                # What is there of a voice that nothing tells of was left by a run that was killed.
                is_told = self._is_there(f"{voice.removeprefix(PREFIX)}.json")
                for name in files.get(voice, ()):
                    if self._is_there(name) if name.endswith(SUFFIX) else is_told:
                        continue
                    try:
                        self.copy(folder / name)
                    except RowError as error:
                        raise damaged(voice, error) from None

    def voices(self) -> Iterator[tuple[str, Whole]]:
        """All that are in the folder, which may come from anybody. Raises SetupError."""
        folder = self.folder
        if folder is None:
            return
        for voice, names in files_of(folder).items():
            found = Whole(None, {}, [])
            for name in names:
                try:
                    if name.endswith(SUFFIX):
                        found.stored[name] = read_stored(folder / name)
                    elif name.endswith(".json"):
                        found = found._replace(made=self.made(voice))
                except RowError as error:
                    found.problems.append(str(error))
            yield voice, found

    def copy(self, path: Path) -> None:
        """Have a file of another folder. Raises SetupError, DiskFull, RowError."""
        self._write(path.name, _bytes_of(path))

    def require_folder(self) -> Path:
        """The folder. Raises SetupError if something else is in its place."""
        assert self.folder is not None
        if os.path.lexists(self.folder) and (self.folder.is_symlink() or not self.folder.is_dir()):
            raise SetupError(f"{self.folder}: is not a folder", remedy="move it out of the way")
        return self.folder

    def _is_there(self, name: str) -> bool:
        return self.folder is not None and os.path.lexists(self.folder / name)

    def _paths(self, name: str) -> Iterator[Path]:
        """Where there is a file of that name."""
        return (one / name for one in self._folders if os.path.lexists(one / name))

    def _write(self, name: str, data: bytes) -> None:
        path = self.require_folder() / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, data)
        except OSError as error:
            raise SetupError(f"{path}: {error.strerror}", "remove what is in its way") from None


def damaged(voice: str, error: RowError) -> UsageError:
    """What ends a run that finds a made voice not as it was."""
    name = voice.removeprefix(PREFIX)
    return UsageError(
        str(error),
        remedy=f"copy it back, or remove {PREFIX}{name}.* and add --redo all to generate it and "
        "to synthesize its rows again",
    )


def _file_of(voice: str, info: ModelInfo) -> str:
    digest = hashlib.sha256(info.identity.encode()).hexdigest()[:8]
    return f"{voice.removeprefix(PREFIX)}.{digest}{SUFFIX}"


def whose(*asked: str | None) -> str:
    """Whose voice it is, in words.

    Args:
        asked: character and description, as far as there are any.
    """
    return next(filter(None, asked), "all rows without a voice")


def files_of(folder: Path) -> dict[str, list[str]]:
    """The names of the files of each voice in a `.voices`, what tells of the others last. It may
    come from anybody: links are not followed, and there may be anything beside. Raises SetupError.
    """
    found: dict[str, list[str]] = defaultdict(list)
    try:
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
            for entry in entries:
                match = _FILE.fullmatch(entry.name)
                if match is not None and entry.is_file(follow_symlinks=False):
                    found[PREFIX + match[1]].append(entry.name)
    except OSError as error:
        raise SetupError(f"{folder}: {error.strerror}", "remove what is in its way") from None
    return {voice: sorted(found[voice], key=told_last) for voice in sorted(found)}


def told_last(name: str) -> tuple[bool, str]:
    """A key that puts `NAME.json` behind the files that it tells of."""
    return name.endswith(".json"), name


def read_stored(path: Path) -> StoredVoice:
    """A voice file in a `.voices`. Raises RowError, which names it."""
    try:
        return read_voice(path, path.parent)
    except RowError as error:
        raise RowError(f"{path}: {error}") from None


def _read(path: Path) -> MadeVoice:
    """What a `NAME.json` tells of. Raises RowError: that, or a file it tells of, is damaged."""
    try:
        facts = json.loads(_bytes_of(path))
        text, files = facts["text"], facts["files"]
        sums = {path.stem + suffix: files[suffix] for suffix in (".wav", CODES_SUFFIX)}
        if not isinstance(text, str) or not 0 < len(text) <= MAX_TEXT_CHARS:
            raise ValueError
    except (ValueError, TypeError, KeyError, RecursionError):
        raise RowError(f"{path}: has changed since it was written") from None
    for file, digest in sums.items():
        if hashlib.sha256(_bytes_of(path.with_name(file))).hexdigest() != digest:
            raise RowError(f"{path.with_name(file)}: has changed since it was written")
    return MadeVoice(path.with_suffix(".wav"), text, facts, sums)


def _bytes_of(path: Path) -> bytes:
    """Of a plain file in the folder. Raises RowError."""
    try:
        with opened(str(path), path.parent, _MAX_BYTES) as handle:
            return os.pread(handle, _MAX_BYTES, 0)
    except RowError as error:
        raise RowError(f"{path}: {error}") from None
