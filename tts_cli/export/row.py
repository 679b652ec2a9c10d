"""A row of a data set: one take of a spoken row, with what a training needs of its line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tts_cli.listen.words import read_words
from tts_cli.manifest.ids import IdTable, fold_id, id_hash
from tts_cli.text.languages import code_of

AUTO = "auto"
_MAX_NAME_BYTES = 200  # leaves room for a suffix and a temporary name in 255
_MAX_ID_CHARS = 40
_MAX_WISHED_CHARS = 40  # of a name that digits are added to; 160 bytes at most
# What is told of each word; times in seconds.
WORD: dict[str, type] = {"word": str, "start": float, "end": float, "score": float}
# Columns of a data set, and what their values are, None aside; a list is one of `WORD`.
COLUMNS: dict[str, type] = {
    "id": str,
    "take": int,
    "text": str,
    "spoken_text": str,
    "voice": str,
    "character": str,
    "language": str,
    "duration": float,
    "sample_rate": int,
    "seed": int,
    "error": float,
    "mos": float,
    "words": list,
    "words_unsure": bool,
}

# Names that layouts and loaders have given away, beside those.
_TAKEN = {*COLUMNS, "audio", "file_name", "audio_filepath", "normalized_text", "speaker"}
_TAKEN |= {"speaker_name", "lang", "split", "__key__", "__url__"}


@dataclass(frozen=True)
class ExportRow:
    """One take that is ok."""

    id: str
    take: int
    is_file: bool  # the take that is the row's file
    path: Path  # of its audio
    bytes: int | None  # as recorded; None: nobody wrote it down
    sha256: str | None  # likewise
    text: str  # as the manifest has it
    spoken_text: str  # as the model was given it; the same where nothing was changed
    voice: str | None
    language: str | None  # as the manifest has it; None: not said, or auto
    duration_s: float
    rate_hz: int | None
    seed: int | None
    error: float | None  # of its words or characters, by `check`; None: nobody has listened
    mos: float | None  # predicted opinion, by `check`; None: nobody has asked for it
    character: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)  # columns of `--extra keep`
    folder: Path | None = None  # where `align` writes; None: this take is not the row's file

    @property
    def suffix(self) -> str:
        """Of its audio file, with the dot."""
        return self.path.suffix

    @property
    def language_code(self) -> str | None:
        """The code of the language, where it is known."""
        return code_of(self.language or "")

    def name(self, *, has_dots: bool = True) -> str:
        """A file name without suffix and without folders, for this take alone.

        It is the id, where that will do. Else what cannot stand in a name becomes `_`, and digits
        of the id's hash keep two of them apart: loaders take folders for splits or labels.

        Args:
            has_dots: `.` may stand in it; a WebDataset's key ends at the first one.
        """
        name = re.sub(r"/" if has_dots else r"[/.]", "_", self.id)
        key = self.id
        if len(name.encode()) > _MAX_NAME_BYTES:
            name = name[:_MAX_ID_CHARS]
        if not self.is_file:
            name = f"{name}-take{self.take}"
            key = f"{self.id}\n{self.take}"
        if name == self.id:
            return name
        return f"{name}-{hashlib.blake2b(key.encode(), digest_size=5).hexdigest()}"

    def columns(self, rate_hz: int | None = None, extras: Sequence[str] = ()) -> dict[str, Any]:
        """Return what stands beside the audio, in the order of `COLUMNS`, and kept columns.

        Args:
            rate_hz: that the audio was changed to; None: it was not.
            extras: names of the kept columns of all rows.
        """
        found = None if self.folder is None else read_words(self.folder, self.id)
        words = is_unsure = None
        if found is not None and (found.sha256, found.text) == (self.sha256, self.text):
            words = [
                dict(zip(WORD, (one.word, one.start_s, one.end_s, one.score), strict=True))
                for one in found.words
            ]
            is_unsure = bool(found.unsure)
        values = (
            *(self.id, self.take, self.text, self.spoken_text, self.voice, self.character),
            self.language,
            *(round(self.duration_s, 6), rate_hz or self.rate_hz, self.seed, self.error),
            *(self.mos, words, is_unsure),
        )
        return dict(zip(COLUMNS, values, strict=True)) | self.extras(extras)

    def extras(self, names: Sequence[str]) -> dict[str, str | None]:
        """Return kept columns by the names that `extra_name` gives them; None where it has none."""
        return {extra_name(name): self.extra.get(name) for name in names}


def extra_name(name: str) -> str:
    """Return what a kept column is called in a data set, whose own columns have precedence.
    `datasets` takes the values of a column whose name ends in `file_name` for paths of files.
    """
    if name.casefold().endswith(("file_name", "file_names")):
        return f"extra_{name}_"
    return f"extra_{name}" if name.casefold() in _TAKEN else name


class Names:
    """The names of a data set's takes: one for each, also where letter case or Unicode's form make
    no difference.

    All takes are learned before the first is named. A row whose id is its name keeps it, wherever
    it stands; of others that want the same name, all but one get more digits.

    Args:
        has_dots: as `ExportRow.name` has it.
    """

    def __init__(self, has_dots: bool = True) -> None:
        self._has_dots = has_dots
        self._owners = IdTable()  # hash of a name, folded -> the take that has it, see `_rank`

    def learn(self, row: ExportRow) -> None:
        """Take in what a row would be called."""
        name = row.name(has_dots=self._has_dots)
        key, rank = id_hash(fold_id(name)), _rank(row, name)
        if rank < self._owners.setdefault(key, rank):
            self._owners.put(key, rank)

    def of(self, row: ExportRow) -> str:
        """The name of a take, without suffix and folder; always the same."""
        wished = name = row.name(has_dots=self._has_dots)
        rank, tries = _rank(row, wished), 0
        while self._owners.setdefault(id_hash(fold_id(name)), rank) != rank:
            tries += 1
            key = f"{row.id}\n{row.take}\n{tries}".encode()
            name = (
                f"{wished[:_MAX_WISHED_CHARS]}-{hashlib.blake2b(key, digest_size=10).hexdigest()}"
            )
        return name


def _rank(row: ExportRow, name: str) -> int:
    """What tells a take from others; smaller for a row that keeps its id as its name."""
    return (name != row.id) << 63 | id_hash(f"{row.id}\n{row.take}") >> 1
