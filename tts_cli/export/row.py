"""A take that is exported: its columns, and its name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tts_cli.checks.word_times import read_words
from tts_cli.sources.ids import fold_id, id_hash

_MAX_NAME_BYTES = 200  # leaves room for digits and a suffix in 255
_MAX_SHORT_CHARS = 40  # of the readable part of a name that was too long; 160 bytes at most
# Fields of a word of the column `words`; times in seconds.
WORD: dict[str, type] = {"word": str, "start": float, "end": float, "score": float}


# Columns: the type of their values, unless they are None, and their meaning. A list is of WORD.
COLUMNS: dict[str, tuple[type, str]] = {
    "id": (str, "of the row in the manifest"),
    "take": (int, "take number of the row"),
    "text": (str, "as written"),
    "spoken_text": (
        str,
        "text as the model received it, with figures and abbreviations as words if requested; "
        "otherwise the same as text",
    ),
    "voice": (str, "speaker, voice file or generated voice; null: the model chose one"),
    "character": (str, "speaker in the story; null: not specified"),
    "language": (str, "as in the manifest; null: not specified"),
    "duration": (float, "duration in seconds"),
    "sample_rate": (int, "Hz"),
    "seed": (int, "seed of the sampling"),
    "error": (
        float,
        "error rate of the transcript: share of words or characters; null: not transcribed",
    ),
    "mos": (float, "predicted opinion score (DNSMOS), 1 to 5; null: not measured"),
    "words": (list, "time of each word: word, start and end in seconds, score; null: not aligned"),
    "words_unsure": (bool, "whether these times may be wrong; null: not aligned"),
}
# Names of columns of layouts and loaders.
_RESERVED = {*COLUMNS, "audio", "file_name", "audio_filepath", "normalized_text", "speaker"}
_RESERVED |= {"speaker_name", "lang", "split", "__key__", "__url__"}


@dataclass(frozen=True)
class ExportRow:
    folder: Path  # the output folder
    path: Path  # of its audio file
    bytes: int | None  # size of that file; None: not recorded
    sha256: str | None  # of that file; None: not recorded
    is_current: bool  # whether it is the current take of its row
    values: dict[str, Any]  # of the columns but `words` and `words_unsure`
    extra: dict[str, str]  # extra columns of `--extra keep`

    @property
    def id(self) -> str:
        return str(self.values["id"])

    def columns(self, rate_hz: int | None, extras: Sequence[str]) -> dict[str, Any]:
        """Return the values of all columns, in the order of COLUMNS, and of extra ones.

        Args:
            rate_hz: rate that the audio was converted to; None: it was not converted.
            extras: names of the extra columns of all rows.
        """
        words = is_unsure = None
        found = read_words(self.folder, self.id) if self.is_current else None
        if found and (found.sha256, found.text) == (self.sha256, self.values["text"]):
            words = [
                dict(zip(WORD, (one.word, one.start_s, one.end_s, one.score), strict=True))
                for one in found.words
            ]
            is_unsure = bool(found.unsure)
        values = self.values | {"words": words, "words_unsure": is_unsure}
        if rate_hz is not None:
            values["sample_rate"] = rate_hz
        return values | {extra_name(name): self.extra.get(name) for name in extras}


def extra_name(name: str) -> str:
    """Return the name of an extra column in a data set, where reserved names have precedence.
    `datasets` would open the values of a column whose name ends in `file_name`.
    """
    if name.casefold().endswith(("file_name", "file_names")):
        return f"extra_{name}_"
    return f"extra_{name}" if name.casefold() in _RESERVED else name


class Names:
    """Unique file names for takes, even on file systems that ignore letter case or Unicode's form.

    A name is the row's id if possible. Otherwise `_` replaces folders, because loaders take them
    for splits or labels, and digits of a hash make it unique.

    Args:
        has_dots: whether a name may contain dots; a key of WebDataset ends at the first one.
        given: names by `--name-by`, which may have folders, by id and take.
    """

    def __init__(
        self, has_dots: bool = True, given: Mapping[tuple[str, int], str] | None = None
    ) -> None:
        self._given = given or {}
        self._separators = "/" if has_dots else r"[/.]"
        self._used: set[int] = set()

    def of(self, row: ExportRow) -> str:
        """Return the name of a take, without suffix and folder. Call it once per take."""
        if given := self._given.get((row.id, row.values["take"])):
            return given
        name, key = re.sub(self._separators, "_", row.id), row.id
        if len(name.encode()) > _MAX_NAME_BYTES:
            name = name[:_MAX_SHORT_CHARS]
        if not row.is_current:
            name, key = f"{name}-take{row.values['take']}", f"{row.id}\n{row.values['take']}"
        if name != row.id:
            name = f"{name}-{_digits(key, 5)}"
        wanted, number = name, 0
        while (place := id_hash(fold_id(name))) in self._used:
            number += 1
            digits = _digits(f"{key}\n{number}", 10)
            name = f"{wanted[:_MAX_SHORT_CHARS]}-{digits}"
        self._used.add(place)
        return name


def _digits(key: str, num_bytes: int) -> str:
    return hashlib.blake2b(key.encode(), digest_size=num_bytes).hexdigest()
