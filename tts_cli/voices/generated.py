"""Generated voices: what runs synthesize for rows without a voice, in `DIR/.voices`.

A `Recipe` names all files of a voice: `NAME.wav` is its audio, to listen to;
`NAME.codes.safetensors` has the codes of that audio; `NAME.json`, written after both, describes it;
`NAME.ID.voice.safetensors` is the voice file for one checkpoint that clones. Rows name a voice
`.voices/NAME`; the slash distinguishes it from a user's voices.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from safetensors import SafetensorError
from safetensors.numpy import load

from tts_cli.errors import RowError, SetupError, UsageError
from tts_cli.sources.ids import VOICES
from tts_cli.sources.row import MAX_TEXT_CHARS
from tts_cli.store.files import CODES_SUFFIX
from tts_cli.voices.recording import opened
from tts_cli.voices.voice_file import SUFFIX

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
    return voice is not None and voice.startswith(PREFIX)


class Recipe(NamedTuple):
    """What a voice is generated for. The name of a character alone identifies its voice."""

    character: str | None
    description: str | None  # None with a character, or without a description
    model: str  # identity of the checkpoint that generates it
    seed: int  # of the run

    @property
    def voice(self) -> str:
        asked = self.character or self.description or ""
        facts = [self.character and asked.casefold(), self.description, self.model, self.seed]
        words = "-".join(re.findall("[a-z0-9]+", asked.casefold()))
        slug = words[:_SLUG_CHARS].strip("-") or "voice"
        return f"{PREFIX}{slug}-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:_HEX]}"


@dataclass(frozen=True)
class GeneratedVoice:
    path: Path  # of the WAV
    text: str
    facts: Mapping[str, Any]  # content of `NAME.json`
    sums: Mapping[str, str]  # SHA-256 of WAV and codes, by file name

    @property
    def shown(self) -> str:
        return whose(self._asked("character"), self.description)

    @property
    def description(self) -> str | None:
        return self._asked("description")

    @property
    def audio_s(self) -> float | None:
        """Length of the audio, or None if it is not recorded."""
        found = self.facts.get("audio_s")
        return found if isinstance(found, float) and 0 < found < math.inf else None

    def _asked(self, name: str) -> str | None:
        of = self.facts.get("of")
        found = of.get(name) if isinstance(of, dict) else None
        return found if isinstance(found, str) else None

    def codes(self) -> np.ndarray[Any, Any]:
        """Return the codes (F, K) int16. Raises RowError."""
        path = self.path.with_name(self.path.stem + CODES_SUFFIX)
        try:
            codes: np.ndarray[Any, Any] = load(bytes_of(path))["codes"]
            if codes.dtype != "int16" or codes.ndim != 2 or not len(codes):
                raise ValueError("has changed since it was written")
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise RowError(f"{path}: {error}") from None
        return codes


def read_generated(path: Path) -> GeneratedVoice:
    """Read a `NAME.json`. Raises RowError if it or a file that it lists is damaged."""
    try:
        facts = json.loads(bytes_of(path))
        text, files = facts["text"], facts["files"]
        sums = {path.stem + suffix: files[suffix] for suffix in (".wav", CODES_SUFFIX)}
        if not isinstance(text, str) or not 0 < len(text) <= MAX_TEXT_CHARS:
            raise ValueError
    except (ValueError, TypeError, KeyError, RecursionError):
        raise RowError(f"{path}: has changed since it was written") from None
    for file, digest in sums.items():
        if hashlib.sha256(bytes_of(path.with_name(file))).hexdigest() != digest:
            raise RowError(f"{path.with_name(file)}: has changed since it was written")
    return GeneratedVoice(path.with_suffix(".wav"), text, facts, sums)


def damaged(voice: str, error: RowError) -> UsageError:
    """Return the error that ends a run because of a damaged generated voice."""
    name = voice.removeprefix(PREFIX)
    return UsageError(
        str(error),
        remedy=f"copy it back, or remove {PREFIX}{name}.* and add --redo all to generate it and "
        "to synthesize its rows again",
    )


def file_of(voice: str, info: ModelInfo) -> str:
    digest = hashlib.sha256(info.identity.encode()).hexdigest()[:8]
    return f"{voice.removeprefix(PREFIX)}.{digest}{SUFFIX}"


def json_of(voice: str) -> str:
    return f"{voice.removeprefix(PREFIX)}.json"


def whose(*asked: str | None) -> str:
    """Return the first known owner of a voice for messages: a character or a description."""
    return next(filter(None, asked), "all rows without a voice")


def files_of(folder: Path) -> dict[str, list[str]]:
    """Return the file names of each voice in an untrusted `.voices`, `NAME.json` last.

    Links are not followed, and other files are ignored. Raises SetupError.
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
    return {voice: sorted(found[voice], key=json_last) for voice in sorted(found)}


def json_last(name: str) -> tuple[bool, str]:
    """Sort key that puts `NAME.json` after the files that it lists."""
    return name.endswith(".json"), name


def bytes_of(path: Path) -> bytes:
    try:
        with opened(str(path), path.parent, _MAX_BYTES) as handle:
            return os.pread(handle, _MAX_BYTES, 0)
    except RowError as error:
        raise RowError(f"{path}: {error}") from None
