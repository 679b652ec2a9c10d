"""Open untrusted files: only regular ones, and never more of them than fits in memory.

Opening a pipe would wait for a writer, and a device such as /dev/zero never ends.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

NOT_PLAIN = "is not a regular file"

_OPEN = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_OPEN |= getattr(os, "O_NONBLOCK", 0)  # open a pipe without waiting, to reject it
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
# Paths of the shell's `<(...)` and of open descriptors: pipes that the user gave.
_DESCRIPTORS = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")


def open_plain(path: Path | str, is_link_followed: bool = True) -> BinaryIO:
    """Open a regular file for reading. Raises OSError, also if it is not a regular file."""
    handle = os.open(path, _OPEN | (0 if is_link_followed else _NOFOLLOW))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, NOT_PLAIN, os.fspath(path))
    return os.fdopen(handle, "rb")


def open_given(path: Path | str) -> BinaryIO:
    """Open a file that a user named: a regular one, or a pipe. Raises OSError, also for others."""
    is_descriptor = os.fspath(path).startswith(_DESCRIPTORS)
    return open(path, "rb") if is_descriptor else open_plain(path)


def read_given(path: Path | str, max_bytes: int) -> bytes:
    """Return the content of a file that a user named. Raises OSError, also if it is too large."""
    with open_given(path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(errno.EINVAL, f"has more than {max_bytes >> 20} MiB", os.fspath(path))
    return data


@cache
def read_table(path: Path) -> dict[str, Any]:
    return toml_loads()(path.read_text(encoding="utf-8"))


def toml_loads() -> Callable[[str], dict[str, Any]]:
    """Return the function that parses TOML, which Python 3.10 does not have."""
    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib.loads
    import tomli  # typed only if it is installed

    loads: Callable[[str], dict[str, Any]] = tomli.loads
    return loads
