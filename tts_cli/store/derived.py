"""Which of the files made of rows' audio (subtitles, times of words) are as they were written.

`derived.jsonl` has a line for each that is written: its path, its SHA-256, that of the audio it is
for and a digest of its text. A file with another content was edited, or is of an earlier version,
which kept no such list. It is never replaced.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from tts_cli.atomic import iter_file_lines, open_to_append, parse_line, read_own
from tts_cli.sources.ids import IdTable, id_hash

DERIVED_NAME = "derived.jsonl"
MAX_BYTES = 1 << 26  # of a file that is compared; a larger one is not ours


class DerivedFiles:
    """The list of one output folder, whose lock is held to add to it.

    Raises:
        SetupError: it is not a plain file.
        OSError: it cannot be read.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self._ours = IdTable()  # hashes of paths with a content that was written there
        self._audio, self._text = IdTable(), IdTable()  # by the hash of a path: of its last line
        self._is_torn = False
        for raw in iter_file_lines(out / DERIVED_NAME):
            values = parse_line(raw) or {}
            found = [values.get(name) for name in ("path", "sha256", "audio", "text")]
            self._is_torn = not raw.endswith(b"\n")
            if all(isinstance(value, str) for value in found):
                self._learn(*map(str, found))

    def is_for(self, name: str, audio: str, text: str = "") -> bool:
        """Whether the file of a name was written last for this audio and text; it may have been
        edited since. False where it is not there.
        """
        is_last = self._audio.get(id_hash(name)) == id_hash(audio)
        is_last = is_last and self._text.get(id_hash(name)) == id_hash(text)
        return is_last and os.path.isfile(self.out / name)

    def has_audio(self, name: str, audio: str) -> bool:
        """Whether the file of a name is there, and was not written for other audio."""
        known = self._audio.get(id_hash(name))
        return known in (None, id_hash(audio)) and os.path.isfile(self.out / name)

    def is_ours(self, name: str, content: bytes) -> bool:
        """Whether a content was written under this name."""
        return self._ours.get(id_hash(f"{name}\n{_digest(content)}")) is not None

    def claim(self, name: str, content: bytes, audio: str, text: str = "") -> bool | None:
        """Note that a content is about to be written under a name. Whether it is: not where the
        same is there already (None), or what somebody has edited (False).

        Raises:
            SetupError: something else than a plain file is there.
            OSError: it cannot be read, or the line not be added.
        """
        found = read_own(self.out / name, MAX_BYTES)
        is_same = found == content
        if found is not None and not is_same and not self.is_ours(name, found):
            return False
        if not (is_same and self.is_for(name, audio, text)):
            # Before the file: a run that dies in between leaves one that is known to be ours.
            self._add(name, _digest(content), audio, text)
        return None if is_same else True

    def note_edited(self, name: str, audio: str) -> None:
        """Note which audio a file is for that somebody has edited. Raises OSError."""
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
