"""Write an edited text of a row into its manifest, if nothing else changes.

The text is replaced at its place after the start of its row, in the notation of the file. The new
manifest is then read: it must have the new text in that row, and all other rows as before.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
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

    def diff(self) -> str:
        """Return the changed lines, with two lines around them."""
        old, new = (str(one, "utf-8", "replace").splitlines(True) for one in (self.old, self.new))
        return "".join(difflib.unified_diff(old, new, str(self.path), str(self.path), n=2))

    def write(self) -> None:
        """Write the manifest, completely or not at all. Raises DiskFull, StoppedEarly."""
        with writing(self.path, StoppedEarly, remedy="check the permissions of the manifest"):
            mode = self.path.stat().st_mode
            write_standalone(self.path, self.new)
            self.path.chmod(mode)


def edit_of(source: Manifest, row: Row, text: str) -> ManifestEdit:
    """Return the change that gives a row another text. Raises UsageError if that is impossible."""
    file = next(one for one in source.all if row.file in ("", one.name))
    remedy = "change the text in the program that the file is from"
    if file.copy is not None or file.format not in _FORMATS:
        raise UsageError(f"{file.name}: cannot be changed by this page", remedy)
    path = Path(os.path.realpath(file.name))
    try:
        old = read_given(path, MAX_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", remedy) from error
    encoding = file.found.encoding.name.lower() if file.found.encoding else "utf-8"
    encoding = "utf-8" if encoding.startswith(("utf-8", "utf_8")) else encoding  # without a mark
    start = len(b"".join(old.splitlines(keepends=True)[: row.line - 1]))
    for pair in _notations(file.format, row.text, text):
        written, wanted = (one.encode(encoding, "replace") for one in pair)
        for found in islice(re.compile(re.escape(written)).finditer(old, start), MAX_PLACES):
            new = old[: found.start()] + wanted + old[found.end() :]
            if _changes_only(file, new, row, text):
                return ManifestEdit(path, old, new)
    raise UsageError(f"{path}: the text of {row.id} is not found as one piece", remedy)


def _notations(form: str, *texts: str) -> list[list[str]]:
    """Return how the old and the new text may be written in a format."""
    if form == "jsonl":
        return [[json.dumps(one, ensure_ascii=how) for one in texts] for how in (False, True)]
    found = [list(texts)]
    if form in ("csv", "tsv"):
        quoted = ['"' + one.replace('"', '""') + '"' for one in texts]
        found += [quoted, [texts[0], quoted[1]]]
    return found


def _changes_only(file: ManifestFile, new: bytes, row: Row, text: str) -> bool:
    """Whether a new content of a manifest differs only in the text of one row."""
    edited = replace(row, text=text)
    with tempfile.NamedTemporaryFile(suffix=Path(file.name).suffix) as copy, suppress(TtsCliError):
        copy.write(new)
        copy.flush()
        pairs = zip_longest(read_rows(file), read_rows(replace(file, name=copy.name)))
        return all(other == (edited if one == row else one) for one, other in pairs)
    return False
