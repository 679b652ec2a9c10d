"""The record of files derived from rows' audio: subtitles and word times.

`derived.jsonl` has one line per written file: its path and SHA-256, the SHA-256 of its audio and a
digest of its text. A file with other content was edited by a user, or is from a version without
this record. It is never replaced.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from tts_cli.atomic import iter_file_lines, open_to_append, parse_line, read_own
from tts_cli.sources.ids import IdTable, id_hash

DERIVED_NAME = "derived.jsonl"
MAX_BYTES = 1 << 26  # of a compared file; larger ones were not written by us


class DerivedFiles:
    """The derived files of a folder. Adding needs its lock. Raises SetupError, OSError."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self._ours = IdTable()  # hashes of path and written content
        self._audio, self._text = IdTable(), IdTable()  # hash of a path -> hash in its last line
        self._is_torn = False
        for raw in iter_file_lines(out / DERIVED_NAME):
            values = parse_line(raw) or {}
            found = [values.get(name) for name in ("path", "sha256", "audio", "text")]
            self._is_torn = not raw.endswith(b"\n")
            if all(isinstance(value, str) for value in found):
                self._learn(*map(str, found))

    def is_for(self, name: str, audio: str, text: str = "") -> bool:
        """Return whether a file was last written for this audio and text, edited since or not."""
        is_last = self._audio.get(id_hash(name)) == id_hash(audio)
        is_last = is_last and self._text.get(id_hash(name)) == id_hash(text)
        return is_last and os.path.isfile(self.out / name)

    def has_audio(self, name: str, audio: str) -> bool:
        """Return whether a file exists and was not written for other audio."""
        known = self._audio.get(id_hash(name))
        return known in (None, id_hash(audio)) and os.path.isfile(self.out / name)

    def is_ours(self, name: str, content: bytes) -> bool:
        return self._ours.get(id_hash(f"{name}\n{_digest(content)}")) is not None

    def claim(self, name: str, content: bytes, audio: str, text: str = "") -> bool | None:
        """Record that a content is about to be written to a file. Raises SetupError, OSError.

        Returns:
            True: write it. None: the file has this content already. False: a user edited it.
        """
        found = read_own(self.out / name, MAX_BYTES)
        is_same = found == content
        if found is not None and not is_same and not self.is_ours(name, found):
            return False
        if not (is_same and self.is_for(name, audio, text)):
            # Before the file is written, so that a crash leaves no file that seems to be a user's.
            self._add(name, _digest(content), audio, text)
        return None if is_same else True

    def note_edited(self, name: str, audio: str) -> None:
        """Record the audio of a file that a user has edited. Raises OSError."""
        self._add(name, "", audio, "")

    def _add(self, name: str, sha256: str, audio: str, text: str) -> None:
        values = {"path": name, "sha256": sha256, "audio": audio, "text": text}
        with open(open_to_append(self.out / DERIVED_NAME), "ab", buffering=0) as file:
            file.write(b"\n" * self._is_torn + json.dumps(values).encode() + b"\n")
        self._is_torn = False
        self._learn(name, sha256, audio, text)

    def _learn(self, name: str, sha256: str, audio: str, text: str) -> None:
        self._ours.put(id_hash(f"{name}\n{sha256}"), 1)
        self._audio.put(id_hash(name), id_hash(audio))
        self._text.put(id_hash(name), id_hash(text))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
