"""The mark of an output folder: a file that exists while a command changes the folder.

It is durable before the first change and removed after the last one. A command that finds it knows
that the last command was killed, and which lines of the journal it added.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from tts_cli.atomic import parse_line, read_own, sync_folder, write_all
from tts_cli.errors import SetupError

MARK_NAME = ".tts-cli.changing"
_MAX_BYTES = 4096
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)


class FolderMark:
    def __init__(self, out: Path) -> None:
        self.path = out / MARK_NAME
        self.is_set = False  # by this command, or by the killed one that it finishes
        self._mutex = threading.Lock()

    def left_at(self) -> int | None:
        """Return the journal's size when a killed command started to change the folder; None: no
        mark. Raises SetupError, OSError.
        """
        data = read_own(self.path, _MAX_BYTES)
        if data is None:
            return None
        size = (parse_line(data) or {}).get("journal_bytes")
        return size if isinstance(size, int) and size >= 0 else 0

    def set(self, journal_bytes: int) -> None:
        """Write the mark, unless another thread has. Raises DiskFull, OSError."""
        with self._mutex:
            if self.is_set:
                return
            handle = os.open(self.path, _FLAGS, 0o666)
            try:  # a torn mark counts as size 0: all lines are new
                write_all(handle, json.dumps({"journal_bytes": journal_bytes}).encode())
                sync_folder(self.path.parent)
            except BaseException:
                self.path.unlink(missing_ok=True)
                raise
            finally:
                os.close(handle)
            self.is_set = True

    def keep(self) -> None:
        """Leave the mark of a killed command in place until this command ends."""
        self.is_set = True

    def remove(self) -> None:
        """Remove the mark, if it is set. Raises DiskFull, OSError."""
        if self.is_set:
            self.path.unlink(missing_ok=True)
            sync_folder(self.path.parent)
            self.is_set = False


def require_journal(path: Path, marked: int) -> None:
    """Raise SetupError if a journal is smaller than its mark (`FolderMark.left_at`) states."""
    is_there = os.path.lexists(path)
    size = os.lstat(path).st_size if is_there else 0
    if size < marked:
        problem = f"has {size:,} of at least {marked:,} bytes" if is_there else "is missing"
        raise SetupError(
            f"{path}: {problem}, but a command that was stopped had read all of it",
            f"restore it from a backup; to go on without it, delete {path.parent / MARK_NAME}",
        )
