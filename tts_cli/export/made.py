"""`export.sums`: the files that exports have made here, each with its SHA-256, as `sha256sum -c`
reads them.

A file may be removed or replaced only if its name and its sum stand here together: what somebody
has put into the folder, or has changed, is in no list. What stands where a file must go is moved to
`set-aside/`, anything else is left. A line is written before its file gets the name, so that a
crash leaves no file that nobody knows; and a name counts only if an export can give it, so that a
stranger's list reaches nothing else.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from tts_cli.atomic import open_to_append, require_plain_file, written_whole
from tts_cli.config import SUBTYPES
from tts_cli.errors import UsageError
from tts_cli.manifest.ids import IdTable, id_hash
from tts_cli.named import Named
from tts_cli.store.files import hash_of

LIST_NAME = "export.sums"
CARD_NAME = "README.md"
ASIDE = "set-aside"  # no name of a split, so loaders pass it over
_LINE = re.compile(r"([0-9a-f]{64})  ([^\0\n]{1,600})\n")
_FOLDER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
_AT_TOP = re.compile(r"metadata(_\w+)?\.csv|\w+_manifest\.jsonl|speakers\.json|README\.md")
_SUFFIXES = (*(f".{format}" for format in SUBTYPES), ".tar", ".parquet")
_MAX_LINE_BYTES = 4096


class ExportFiles:
    """The files of a data set, in a folder whose lock is held.

    Args:
        out: existing folder.
        has_list: that it has is of an export, and not somebody's own file of that name.
    """

    def __init__(self, out: Path, has_list: bool) -> None:
        self.out = out
        self.aside = Named(is_sorted=True)  # stood in the way of files, and are in `ASIDE` now
        self.left = Named(
            is_sorted=True
        )  # are named as files of a data set, and are none of this one
        self._path = out / LIST_NAME
        self._has_list = has_list
        self._ours = IdTable()  # hashes of names with their sums, by any export
        self._made = IdTable()  # hashes of the names of this one
        self._list: BinaryIO | None = None
        self._start = 0  # where this export's lines begin

    def require_room(self, folders: Sequence[str]) -> None:
        """Make way for the list.

        Args:
            folders: at the top, that files will be put into.
        Raises:
            UsageError: one of them is none, or a link.
            OSError: nothing was lost.
        """
        for name in (*folders, ASIDE):
            place = self.out / name
            if os.path.lexists(place) and (place.is_symlink() or not place.is_dir()):
                raise UsageError(f"{place}: is not a folder, or is a link", remedy="move it away")
        if not self._has_list and os.path.lexists(self._path):
            self._set_aside(LIST_NAME)

    def begin(self) -> None:
        """Read the list of earlier exports, and go on with it. Raises SetupError, OSError."""
        if require_plain_file(self._path):
            for name, sha256 in self._lines(self._path.stat().st_size):
                self._ours.put(id_hash(f"{name}\n{sha256}"), 1)
        self._list = open(open_to_append(self._path), "ab", buffering=0)  # noqa: SIM115
        self._list.write(b"\n")  # ends a line that a crash has torn
        self._start = self._list.tell()

    def claim(self, name: str, sha256: str, source: Path | None = None) -> None:
        """Make way for a file that is about to get its name.

        Args:
            sha256: of the file.
            source: a hard link of which is as good as the file.
        Raises:
            OSError: nothing was lost.
        """
        assert self._list is not None, "not begun"
        path = self.out / name
        self._list.write(f"{sha256}  {name}\n".encode())
        self._made.put(id_hash(name), 1)
        path.parent.mkdir(exist_ok=True)
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return
        if source is not None and os.path.samestat(found, os.lstat(source)):
            return
        if not self._is_ours(name, found, sha256):
            self._set_aside(name)

    def prune(self) -> int:
        """Remove files of earlier exports that this one has not made; how many. Raises OSError."""
        removed, folders = 0, set()
        for name, _ in self._lines(self._start):
            path = self.out / name
            if self._is_made(name) or not self._is_inside(path):
                continue
            folders.add(path.parent)
            try:
                if self._is_ours(name, os.lstat(path)):
                    path.unlink()
                    removed += 1
            except FileNotFoundError:
                continue
        for folder in folders - {self.out}:
            if not any(folder.iterdir()):
                folder.rmdir()
        for name in self._candidates():
            if not self._is_made(name):
                self.left.add(name)
        return removed

    def finish(self) -> None:
        """Let the list be of this export alone. Raises DiskFull, OSError."""
        self.close()
        with written_whole(self._path) as part, open(self._path, "rb") as old:
            old.seek(self._start)
            with open(part, "xb") as new:
                shutil.copyfileobj(old, new, 1 << 20)

    def close(self) -> None:
        """Harmless if done already."""
        if self._list is not None:
            self._list.close()
            self._list = None

    def _lines(self, end: int) -> Iterator[tuple[str, str]]:
        """Names and sums of the list's first bytes; what no export writes is passed over."""
        with open(self._path, "rb") as file:
            while file.tell() < end and (raw := file.readline(_MAX_LINE_BYTES)):
                found = _LINE.fullmatch(raw.decode("utf-8", "replace"))
                if found is not None and _can_be_made(found[2]):
                    yield found[2], found[1]

    def _is_made(self, name: str) -> bool:
        return self._made.get(id_hash(name)) is not None

    def _is_ours(self, name: str, found: os.stat_result, sha256: str | None = None) -> bool:
        """Whether a file is as an export has made it, or has this sum."""
        if not stat.S_ISREG(found.st_mode):
            return False
        with open(self.out / name, "rb") as file:
            its = hash_of(file)
        return its == sha256 or self._ours.get(id_hash(f"{name}\n{its}")) is not None

    def _is_inside(self, path: Path) -> bool:
        folder = path.parent
        return folder == self.out or (folder.is_dir() and not folder.is_symlink())

    def _candidates(self) -> Iterator[str]:
        """Plain files that are named as a data set's."""
        for top in ("", *sorted(name for name in os.listdir(self.out) if _FOLDER.fullmatch(name))):
            place = self.out / top
            if place.is_dir() and not place.is_symlink():
                with os.scandir(place) as entries:
                    for entry in entries:
                        name = f"{top}/{entry.name}" if top else entry.name
                        if entry.is_file(follow_symlinks=False) and _can_be_made(name):
                            yield name

    def _set_aside(self, name: str) -> None:
        """Move what is no export's, or was changed since, out of the way. Raises OSError."""
        folder = self.out / ASIDE
        folder.mkdir(exist_ok=True)
        flat = name.replace("/", "_")
        target, number = folder / flat, 1
        while os.path.lexists(target):
            number += 1
            target = folder / f"{number}-{flat}"
        os.rename(self.out / name, target)
        self.aside.add(name)


def _can_be_made(name: str) -> bool:
    """Whether an export may give a file this name: at the top, or in a folder there."""
    folder, slash, file = name.rpartition("/")
    if not slash:
        return _AT_TOP.fullmatch(name) is not None
    is_file = file == "metadata.jsonl" or file.endswith(_SUFFIXES)
    return is_file and _FOLDER.fullmatch(folder) is not None
