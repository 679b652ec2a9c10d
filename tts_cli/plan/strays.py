"""Find rows of a folder that their manifest no longer has.

Which manifest that was is told by the run of a row's line, and the run by its line in `runs.jsonl`.
A row of another manifest, or of another sheet of the same workbook, is no stray.
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
    """Why a row is of no manifest that is read now."""

    LEFT = "left"  # that which it was spoken from no longer has it
    GHOST = "ghost"  # the same, and there is no file of it: it was a bad row, and is mended
    UNKNOWN = "unknown"  # it is of a pipe, or nobody knows where it is from


class Strays:
    """The strays of a folder, none of which is remembered by more than a number.

    Args:
        rows: of the manifest, which was read to its end.
        own: what ids begin with that are of this manifest whoever spoke them; empty: none do.
    Raises:
        OSError, SetupError: `runs.jsonl` or the journal cannot be read; while iterating too.
    """

    def __init__(self, folder: Store, source: Manifest, rows: CheckedRows, own: str = "") -> None:
        self.found = {kind: Count() for kind in Stray}
        self.removed = 0  # of those that have left
        self.stayed: list[tuple[str, str]] = []  # ids and reasons of those that could not be
        self._folder = folder
        self._journal = folder.journal
        self._rows = rows
        self._own = own
        here = frozenset(
            (os.path.realpath(path), one.found.sheet) for one in source.all for path in one.paths
        )
        self._is_here: dict[str, bool | None] = dict(_runs(folder, here))
        answers = set(self._is_here.values())
        # A line that names no run is of one of these.
        self._is_all_here = answers.pop() if len(answers) == 1 else None
        for row_id, kind in self:
            self.found[kind].add(row_id)

    @property
    def left(self) -> Count:
        """Those that their manifest no longer has."""
        return self.found[Stray.LEFT]

    @property
    def unknown(self) -> Count:
        """Those that nobody knows the manifest of."""
        return self.found[Stray.UNKNOWN]

    def __iter__(self) -> Iterator[tuple[str, Stray]]:
        for take in self._journal.absent(self._rows.has_key):
            file = self._journal.file(take.id)
            if file is None or file.take != take.take or self._rows.has_id(take.id):
                continue
            if (kind := self._kind(take)) is not None:
                yield take.id, kind

    def ids(self, kind: Stray) -> Iterable[str]:
        """Those of a kind."""
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
    """Look for rows that the manifest no longer has, and take them out where that is asked for;
    records of bad rows that are mended are, in any case.

    Raises:
        SetupError: the folder's files cannot be read.
        StoppedEarly: a row cannot be marked.
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
    """Each run, and whether all of its manifests are read now; None for one of a pipe."""
    for values in folder.runs.lines():
        try:
            run_id, manifests = values["run_id"], _manifests_of(values)
        except (ValueError, LookupError, TypeError, AttributeError):
            continue
        if isinstance(run_id, str):
            yield run_id, None if manifests is None else manifests <= here


def _manifests_of(run: dict[str, Any]) -> _Manifests | None:
    """The manifests of a run; None where some came from a pipe, or it does not tell them.

    Raises:
        LookupError, TypeError, AttributeError, ValueError: it makes no sense.
    """
    paths, read_as = run["manifests"], run["read_as"]
    if not paths or len(paths) != len(read_as):
        return None
    sheets = (one.get("sheet") for one in read_as)
    return frozenset(zip(map(os.path.realpath, paths), sheets, strict=True))
