"""Paths that stay inside of the output folder, whatever links lie in it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from tts_cli.errors import RowError
from tts_cli.output.atomic import sync_folder


class Inside:
    """Makes folders for files of one output folder, and refuses every way out of it.

    Args:
        out: existing folder.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self._root = out.resolve()
        self._folders: set[Path] = set()  # checked and created

    def make_room(self, path: Path) -> None:
        """Create a file's folder. Raises RowError, OSError: the file cannot stand there."""
        folder = path.parent
        if folder not in self._folders:
            # Step by step: nothing may be created behind a link before the link is seen.
            step = self.out
            for part in folder.relative_to(self.out).parts:
                parent, step = step, step / part
                is_new = not step.is_dir()
                step.mkdir(exist_ok=True)
                if is_new:
                    sync_folder(parent)
                # Its parent is inside, so only a link can lead out.
                if step.is_symlink() and not step.resolve().is_relative_to(self._root):
                    raise RowError(f"{step} is a link that leaves the output folder")
            self._folders.add(folder)
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            return
        if stat.S_ISLNK(mode):
            raise RowError(f"{path} is a link; remove it")
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))

    def forget(self, folder: Path) -> None:
        """A folder that was removed has to be made anew."""
        self._folders.discard(folder)


class PlainFiles:
    """Looks for plain files inside of a folder that may come from anybody. Links are not followed;
    which subfolders are inside is remembered.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self._is_inside: dict[Path, bool] = {}

    def size(self, path: Path) -> int | None:
        """Bytes of a plain file inside of the folder; None if there is none."""
        try:
            found = os.lstat(path)
            folder = path.parent
            if folder not in self._is_inside:
                inside = folder.resolve().is_relative_to(self.out.resolve())
                self._is_inside[folder] = inside
        except (OSError, ValueError, RuntimeError):
            return None
        is_plain = stat.S_ISREG(found.st_mode) and self._is_inside[folder]
        return found.st_size if is_plain else None
