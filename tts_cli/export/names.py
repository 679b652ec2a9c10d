"""Names of files and samples: one for each take, also where letter case or Unicode's form make no
difference.

All takes are learned before the first is named. A row whose id is its name keeps it, wherever it
stands; of others that want the same name, all but one get more digits.
"""

from __future__ import annotations

import hashlib

from tts_cli.export.row import ExportRow
from tts_cli.manifest.ids import IdTable, fold_id, id_hash

_MAX_CHARS = 40  # of a name that digits are added to; 160 bytes at most


class Names:
    """The names of a data set's takes.

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
            name = f"{wished[:_MAX_CHARS]}-{hashlib.blake2b(key, digest_size=10).hexdigest()}"
        return name


def _rank(row: ExportRow, name: str) -> int:
    """What tells a take from others; smaller for a row that keeps its id as its name."""
    return (name != row.id) << 63 | id_hash(f"{row.id}\n{row.take}") >> 1
