"""Open files that strangers name: plain ones only, inside a folder if one is given."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tts_cli.errors import RowError

_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_OPEN |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def opened(
    path: str, root: Path | None, max_bytes: int, root_name: str | None = None
) -> Iterator[int]:
    """A descriptor of a plain file that holds something; opening waits for nobody.

    Args:
        root: the folder the file must lie in, links followed; None for anywhere.
        max_bytes: the largest file taken.
        root_name: what messages call the root.
    Raises:
        RowError: why not, as the end of a sentence that starts with the file's name.
    """
    try:
        handle = _open_plain(path) if root is None else _open_inside(path, root, root_name)
    except FileNotFoundError:
        raise RowError("does not exist") from None
    except PermissionError:
        raise RowError("cannot be read; check its permissions") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RowError(f"cannot be opened: {reason}") from None
    try:
        size = os.fstat(handle).st_size
        if not size:
            raise RowError("is empty")
        if size > max_bytes:
            raise RowError(f"has {size:,} bytes, at most {max_bytes:,} are read")
        yield handle
    finally:
        os.close(handle)


def _open_plain(path: str, flags: int = 0, folder: int | None = None) -> int:
    _require_plain(os.stat(path, dir_fd=folder))  # a device may do things when opened
    handle = os.open(path, _OPEN | flags, dir_fd=folder)
    try:
        _require_plain(os.fstat(handle))
    except RowError:
        os.close(handle)
        raise
    return handle


def _require_plain(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise RowError("is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise RowError("is not a plain file")


def _open_inside(path: str, root: Path, root_name: str | None) -> int:
    """Follow links first, then walk down from the root through no link at all, so that a link
    swapped in meanwhile leads nowhere."""
    top, real = os.path.realpath(root), os.path.realpath(path)
    inside = os.path.relpath(real, top)
    parts = inside.split(os.sep)
    if parts[0] == os.pardir or os.path.isabs(inside):
        raise RowError(f"lies outside of {root_name or root}")
    if os.open not in os.supports_dir_fd:
        return _open_plain(real, _NOFOLLOW)
    folder_flags = os.O_RDONLY | os.O_DIRECTORY | getattr(os, "O_CLOEXEC", 0)
    folder = os.open(top, folder_flags)
    try:
        for part in parts[:-1]:
            deeper = os.open(part, folder_flags | _NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = deeper
        return _open_plain(parts[-1], _NOFOLLOW, folder)
    finally:
        os.close(folder)


def sha256(handle: int, max_bytes: int) -> str:
    """The hash of an open file's bytes. Raises RowError if they become too many."""
    digest = hashlib.sha256()
    os.lseek(handle, 0, os.SEEK_SET)
    count = 0
    while block := os.read(handle, 1 << 20):
        count += len(block)
        if count > max_bytes:
            raise RowError("grows while it is read")
        digest.update(block)
    return digest.hexdigest()
