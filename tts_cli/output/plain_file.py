"""Files of our own that grow: they must be plain, because a pipe would wait for ever and a link
could lead anywhere.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tts_cli.errors import SetupError


def require_plain_file(path: Path) -> bool:
    """Whether the file is there. Raises SetupError if it is something else than a plain file."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(mode):
        raise SetupError(f"{path}: is no plain file", remedy="move it out of the folder")
    return True


def open_to_append(path: Path) -> int:
    """A handle that reads, and writes at the end only. Links are not followed. Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    return os.open(path, flags, 0o666)
