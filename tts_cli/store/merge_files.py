"""Find the files of rows in one folder, and give them names in another.

A folder may come from anybody: links in it are not followed, and what is placed where follows from
ids alone.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tts_cli import signals
from tts_cli.errors import RowError, StoppedEarly, UsageError, disk_full, is_disk_error
from tts_cli.manifest.ids import TAKES, TRUNCATED, VOICES, id_hash, id_problem
from tts_cli.named import Named
from tts_cli.store.atomic import is_part, sync_folder, written_whole
from tts_cli.store.derived import DERIVED_NAME
from tts_cli.store.files import NESTED_SUFFIXES, ROW_SUFFIXES, Inside, is_same
from tts_cli.store.lock import LOCK_NAME
from tts_cli.store.merge import MAX_NAMED, Origins

log = logging.getLogger(__name__)

# What is merged in ways of its own, or made anew.
OWN_NAMES = frozenset(
    ("timings.jsonl", "runs.jsonl", "run.json", "takes.json", "anchor.json", "checks.jsonl")
) | {"report.html", LOCK_NAME, DERIVED_NAME}
_NO_LINKS = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


class Found(NamedTuple):
    """A file of a row."""

    row_key: int
    name: str  # from the folder


def row_files(folder: Path, left: Named, has_row: Callable[[int], bool]) -> Iterator[Found]:
    """Every file that is named as one of a row's; others are counted, but for those in `.voices`,
    see `voices.merged`. Links are not followed. Raises OSError.

    Args:
        has_row: whether the `id_hash` is of a row; asked for names that two rows could have.
    """
    waiting = [""]
    while waiting:
        place = waiting.pop()
        with os.scandir(folder / place) as entries:
            for entry in entries:
                name = f"{place}/{entry.name}" if place else entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting += [name] * (name != VOICES)
                    continue
                if name in OWN_NAMES or is_part(entry.name):
                    continue
                row_id = _row_of(name) if entry.is_file(follow_symlinks=False) else None
                for long, tail in NESTED_SUFFIXES.items():
                    if row_id and name.endswith(long) and has_row(id_hash(row_id + tail)):
                        row_id += tail
                if row_id is None or id_problem(row_id):
                    left.add(name)
                else:
                    yield Found(id_hash(row_id), name)


def _row_of(name: str) -> str | None:
    """The id of the row whose file has this name; None for what is no row's."""
    suffix = next((suffix for suffix in ROW_SUFFIXES if name.endswith(suffix)), None)
    if suffix is None:
        return None
    stem = name.removesuffix(suffix)
    if stem.startswith(f"{TRUNCATED}/"):
        return stem.removeprefix(f"{TRUNCATED}/")
    if stem.startswith(f"{TAKES}/"):
        row_id, _, take = stem.removeprefix(f"{TAKES}/").rpartition("/")
        return row_id if take.isdecimal() else None
    return stem


class Placing:
    """Gives files of folders a name in the target folder, whose lock is held.

    Args:
        origins: of all folders.
        has_links: hard links where the file system has them.
    """

    def __init__(self, origins: Origins, has_links: bool) -> None:
        self.out = origins.folders[0]
        self.left = Named(is_sorted=True)
        self.num_linked = 0
        self.num_copied = 0
        self._origins = origins
        self._has_links = has_links
        self._inside = Inside(self.out)
        self._touched: set[Path] = set()

    def require_room(self) -> None:
        """Raise UsageError if something else stands where a file has to go."""
        in_the_way = Named(most=MAX_NAMED)
        for source, target in self._wanted(Named()):
            if os.path.lexists(target) and not is_same(source, target):
                in_the_way.add(target.relative_to(self.out).as_posix())
        if in_the_way.count:
            raise UsageError(
                f"{self.out} contains other files with the names of rows; nothing was "
                f"written: {in_the_way.and_more()}",
                remedy="move them away, or merge into another --out",
            )

    def run(self) -> None:
        """Place every file of every chosen row; done again, it finds what is there.

        Raises:
            DiskFull: no room.
            StoppedEarly: a file cannot be placed.
        """
        for source, target in self._wanted(self.left):
            signals.check()
            try:
                self._inside.make_room(target)
                if not is_same(source, target):
                    self._place(source, target)
            except (OSError, RowError) as error:
                if isinstance(error, OSError) and is_disk_error(error):
                    raise disk_full(error, target) from error
                reason = error.strerror if isinstance(error, OSError) else error
                raise StoppedEarly(
                    f"cannot write {target}: {reason}",
                    "remove what is in its way, and run the command again",
                ) from error
        for folder in sorted(self._touched):
            sync_folder(folder)

    def _wanted(self, left: Named) -> Iterator[tuple[Path, Path]]:
        """Files of the rows that are taken from a folder, and where they go."""
        for index, folder in enumerate(self._origins.folders):
            if index == 0 or not self._origins.taken[index]:
                continue
            for found in row_files(folder, left, self._has_row):
                taken_from = self._origins.folder_of(found.row_key)
                if taken_from == index:
                    yield folder / found.name, self.out / found.name
                elif taken_from is None:
                    left.add(found.name)

    def _has_row(self, row_key: int) -> bool:
        return self._origins.folder_of(row_key) is not None

    def _place(self, source: Path, target: Path) -> None:
        if self._has_links:
            try:
                # A link is whole from the start, so it needs no temporary name.
                os.link(source, target, follow_symlinks=False)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                log.debug("cannot hard-link %s (%s); copying it", source, error.strerror)
            else:
                self.num_linked += 1
                self._touched.add(target.parent)
                return
        with written_whole(target) as part:
            shutil.copyfile(source, part, follow_symlinks=False)
            shutil.copystat(source, part, follow_symlinks=False)  # what is made of rows looks at it
        self.num_copied += 1


def remove_runaways(out: Path, status: Callable[[str], str | None]) -> None:
    """Rows that have come out well no longer have a runaway to listen to.

    Args:
        status: of a row by its id, see `Journal.status`.
    """
    top = out / TRUNCATED
    if not top.is_dir() or top.is_symlink():
        return
    for folder, _, names in os.walk(top):
        for name in names:
            path = Path(folder, name)
            row_id = _row_of(path.relative_to(out).as_posix())
            if row_id is not None and status(row_id) == "ok":
                path.unlink(missing_ok=True)
