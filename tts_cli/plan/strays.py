"""Find rows of a folder that their manifest no longer has.

An entry names its run, and the line of the run in `runs.jsonl` names the manifests. Rows of another
manifest, or of another sheet of the same workbook, are not strays.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

from tts_cli.core import Status
from tts_cli.errors import SetupError
from tts_cli.events import Count
from tts_cli.plan.checks import CheckedRows
from tts_cli.sources.item import Manifest
from tts_cli.store.entry import JournalEntry
from tts_cli.store.store import Store

log = logging.getLogger(__name__)

_Manifests = frozenset[tuple[str, str | None]]  # paths and sheets


class Stray(Enum):
    """Why a row of the folder is not in the manifest."""

    LEFT = "left"  # it was removed from the manifest
    GHOST = "ghost"  # the same, without a file: an invalid row that was fixed under another id
    UNKNOWN = "unknown"  # it came from a pipe or an unknown run


class Strays:
    """The strays of a folder. Only counts and the first ids are held in memory.

    Args:
        rows: rows of the manifest, which was read to its end.
        own: prefix of ids that belong to this manifest, from any run; empty: none.
    Raises:
        OSError, SetupError: `runs.jsonl` or the journal cannot be read, also while iterating.
    """

    def __init__(self, folder: Store, source: Manifest, rows: CheckedRows, own: str = "") -> None:
        self.found = {kind: Count() for kind in Stray}
        self.removed = 0  # number of rows that this run removed
        self.stayed: list[tuple[str, str]] = []  # id and reason of rows that cannot be removed
        self._folder = folder
        self._journal = folder.journal
        self._rows = rows
        self._own = own
        here = frozenset(
            (os.path.realpath(path), one.found.sheet) for one in source.all for path in one.paths
        )
        self._is_here: dict[str, bool | None] = dict(_runs(folder, here))
        answers = set(self._is_here.values())
        # Applies to entries without a run.
        self._is_all_here = answers.pop() if len(answers) == 1 else None
        for row_id, kind in self:
            self.found[kind].add(row_id)

    @property
    def left(self) -> Count:
        return self.found[Stray.LEFT]

    @property
    def unknown(self) -> Count:
        return self.found[Stray.UNKNOWN]

    def __iter__(self) -> Iterator[tuple[str, Stray]]:
        for take in self._journal.absent(self._rows.has_key):
            file = self._journal.file(take.id)
            if file is None or file.take != take.take or self._rows.has_id(take.id):
                continue
            if (kind := self._kind(take)) is not None:
                yield take.id, kind

    def ids(self, kind: Stray) -> Iterable[str]:
        return (row_id for row_id, found in self if found is kind)

    def _kind(self, take: JournalEntry) -> Stray | None:
        is_ghost = take.status is Status.FAILED and self._journal.row(take.id).top == 1
        is_ghost = is_ghost and not self._folder.has_files(take.id)
        run_id = take.run_id
        is_here = self._is_all_here if run_id is None else self._is_here.get(run_id)
        if self._own and take.id.startswith(self._own):
            is_here = True
        if is_here is None:  # the record of a row without an id has nothing that could be lost
            return Stray.GHOST if is_ghost and take.id.startswith("#") else Stray.UNKNOWN
        return None if not is_here else Stray.GHOST if is_ghost else Stray.LEFT


def settle_strays(
    folder: Store, source: Manifest, rows: CheckedRows, own: str, *, is_pruned: bool
) -> Strays:
    """Find rows that the manifest no longer has, and remove them if asked. Entries of invalid rows
    that were fixed under another id are always removed.

    Raises:
        SetupError: the folder's files cannot be read.
        StoppedEarly: the removal of a row cannot be recorded.
    """
    try:
        strays = Strays(folder, source, rows, own)
        if strays.found[Stray.GHOST].count:
            folder.remove(strays.ids(Stray.GHOST))
        if strays.left.count and is_pruned:
            if rows.has_nameless:
                log.warning("no row is removed while some ids of the manifest cannot be read")
            else:
                strays.stayed = folder.remove(strays.ids(Stray.LEFT))
                strays.removed = strays.left.count - len(strays.stayed)
    except OSError as error:
        raise SetupError(f"{error.filename or folder.out}: {error.strerror or error}") from error
    return strays


def _runs(folder: Store, here: _Manifests) -> Iterator[tuple[str, bool | None]]:
    """Yield each run and whether all of its manifests are read now; None: they are unknown, or
    none exists any more.
    """
    for values in folder.runs.lines():
        try:
            run_id, manifests = values["run_id"], _manifests_of(values)
        except (ValueError, LookupError, TypeError, AttributeError):
            continue
        is_known = manifests is not None and any(os.path.exists(path) for path, _ in manifests)
        yield run_id, manifests <= here if manifests is not None and is_known else None


def _manifests_of(run: dict[str, Any]) -> _Manifests | None:
    """Return the manifests of a run; None: some came from a pipe, or they are not recorded.
    Raises LookupError, TypeError, AttributeError, ValueError: invalid line.
    """
    paths, read_as = run["manifests"], run["read_as"]
    if not paths or len(paths) != len(read_as):
        return None
    sheets = (one.get("sheet") for one in read_as)
    return frozenset(zip(map(os.path.realpath, paths), sheets, strict=True))
