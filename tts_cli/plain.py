"""Open files that anybody may have made: only plain ones, and never more of them than fits.

A pipe in place of a file would be waited for, and a device such as /dev/zero never ends.
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
_OPEN |= getattr(os, "O_NONBLOCK", 0)  # a pipe is opened without waiting, and then refused
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
# Where a shell's `<(...)` and a program's own descriptors are: pipes that the user has given.
_DESCRIPTORS = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")


def open_plain(path: Path | str, is_link_followed: bool = True) -> BinaryIO:
    """Open a plain file for reading.

    Raises:
        OSError: it is something else, or cannot be opened.
    """
    handle = os.open(path, _OPEN | (0 if is_link_followed else _NOFOLLOW))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, NOT_PLAIN, os.fspath(path))
    return os.fdopen(handle, "rb")


def open_given(path: Path | str) -> BinaryIO:
    """Open a file that a user has named: a plain one, or a pipe of the command line. Raises
    OSError.
    """
    is_descriptor = os.fspath(path).startswith(_DESCRIPTORS)
    return open(path, "rb") if is_descriptor else open_plain(path)


def read_given(path: Path | str, most_bytes: int) -> bytes:
    """All of a file that a user has named. Raises OSError, also where it has more bytes."""
    with open_given(path) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EINVAL, f"has more than {most_bytes >> 20} MiB", os.fspath(path))
    return data


@cache
def read_table(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file that belongs to this package."""
    return toml_loads()(path.read_text(encoding="utf-8"))


def toml_loads() -> Callable[[str], dict[str, Any]]:
    """Return the function that parses TOML; Python 3.10 has none of its own."""
    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib.loads
    import tomli  # has types only where it is installed

    loads: Callable[[str], dict[str, Any]] = tomli.loads
    return loads
