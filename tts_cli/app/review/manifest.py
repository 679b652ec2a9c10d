"""Write an edited text of a row into its manifest, if nothing else changes.

The text is replaced at its place after the start of its row, in the notation of the file. The new
manifest is then read: it must have the new text in that row, and all other rows as before.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

from tts_cli.atomic import write_standalone
from tts_cli.core import Row
from tts_cli.errors import StoppedEarly, TtsCliError, UsageError, writing
from tts_cli.plain import read_given
from tts_cli.sources.item import Manifest, ManifestFile
from tts_cli.sources.open import read_rows

MAX_BYTES = 1 << 28
MAX_PLACES = 20  # where the text may be written
_FORMATS = ("jsonl", "csv", "tsv", "txt", "subtitles", "fountain")


@dataclass(frozen=True)
class ManifestEdit:
    """A change of a manifest that is not written yet."""

    path: Path
    old: bytes
    new: bytes

    @property
    def digest(self) -> str:
        """Digest of the change, so that only what was shown is written."""
        return hashlib.sha256(self.old + self.new).hexdigest()

    def diff(self) -> str:
        """Return the changed lines, with two lines around them."""
        old, new = (
            one.decode("utf-8", "replace").splitlines(keepends=True) for one in (self.old, self.new)
        )
        name = str(self.path)
        return "".join(difflib.unified_diff(old, new, name, name, n=2))

    def write(self) -> None:
        """Write the manifest, completely or not at all. Raises DiskFull, StoppedEarly."""
        with writing(self.path, StoppedEarly, remedy="check the permissions of the manifest"):
            mode = self.path.stat().st_mode
            write_standalone(self.path, self.new)
            self.path.chmod(mode)


def edit_of(source: Manifest, row: Row, text: str) -> ManifestEdit:
    """Return the change that gives a row another text.

    Raises:
        UsageError: the file cannot be changed here, or the text is not found in it.
    """
    file = next(one for one in source.all if row.file in ("", one.name))
    remedy = "change the text in the program that the file is from"
    if file.copy is not None or file.format not in _FORMATS:
        raise UsageError(f"{file.name}: cannot be changed by this page", remedy)
    path = Path(os.path.realpath(file.name))
    try:
        old = read_given(path, MAX_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", remedy) from error
    start = len(b"".join(old.splitlines(keepends=True)[: row.line - 1]))
    for new in _candidates(old, start, file, row.text, text):
        if _changes_only(file, new, row, text):
            return ManifestEdit(path, old, new)
    raise UsageError(f"{path}: the text of {row.id} is not found as one piece", remedy)


def _candidates(
    old: bytes, start: int, file: ManifestFile, before: str, after: str
) -> Iterator[bytes]:
    """Yield contents of the file with the text replaced at one place."""
    encoding = file.found.encoding.name if file.found.encoding else "utf-8"
    encoding = "utf-8" if encoding.lower().startswith(("utf-8", "utf_8")) else encoding
    for pair in _notations(file.format, before, after):
        try:
            written, wanted = (one.encode(encoding) for one in pair)
        except UnicodeEncodeError:
            continue
        place = old.find(written, start)
        for _ in range(MAX_PLACES):
            if place < 0:
                break
            yield old[:place] + wanted + old[place + len(written) :]
            place = old.find(written, place + 1)


def _notations(form: str, before: str, after: str) -> Iterator[tuple[str, str]]:
    """Yield how both texts are written in a format."""
    if form == "jsonl":
        for is_ascii in (False, True):
            old, new = (json.dumps(one, ensure_ascii=is_ascii)[1:-1] for one in (before, after))
            yield old, new
        return
    yield before, after
    if form in ("csv", "tsv"):
        old, new = (one.replace('"', '""') for one in (before, after))
        yield old, new
        yield before, f'"{new}"'


def _changes_only(file: ManifestFile, new: bytes, row: Row, text: str) -> bool:
    """Return whether a new content of a manifest differs in the text of one row only."""
    with tempfile.NamedTemporaryFile(suffix=Path(file.name).suffix) as copy:
        copy.write(new)
        copy.flush()
        changed = replace(file, name=copy.name)
        try:
            for one, other in zip_longest(read_rows(file), read_rows(changed)):
                wanted = replace(one, text=text) if isinstance(one, Row) and _is(one, row) else one
                if other != wanted:
                    return False
        except TtsCliError:
            return False
    return True


def _is(one: Row, row: Row) -> bool:
    return one.id == row.id and one.line == row.line
