"""Sees every file that this process makes, moves or removes, so that a test can say where it may.

Python's audit hooks cannot be taken back; the one here does nothing outside of `watched`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock  # of torch and huggingface_hub: tries links out where it is first imported

assert filelock
_CHANGES = {
    "os.mkdir": 1,
    "os.remove": 1,
    "os.rmdir": 1,
    "os.truncate": 1,
    "os.chmod": 1,
    "os.rename": 2,
    "os.link": 2,
    "os.symlink": 2,
}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_seen: list[set[str]] = []  # empty outside of `watched`


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not _seen:
        return
    paths: tuple[Any, ...] = ()
    if event == "open" and isinstance(args[2], int) and args[2] & _WRITES:
        paths = args[:1]
    elif event in _CHANGES:
        paths = args[: _CHANGES[event]]
    for path in paths:
        if isinstance(path, (str, bytes)):  # an int is a file that was opened before
            _seen[-1].add(os.path.realpath(os.fsdecode(path)))


sys.addaudithook(_hook)


@contextmanager
def watched(allowed: Path) -> Iterator[list[str]]:
    """Fills a list with what was changed outside of `allowed`, /dev/null aside, and /dev/zero, to
    which links lead.
    """
    found: list[str] = []
    _seen.append(set())
    try:
        yield found
    finally:
        inside = f"{allowed.resolve()}{os.sep}"
        paths = _seen.pop()
        found += [path for path in sorted(paths) if not f"{path}{os.sep}".startswith(inside)]
        found[:] = [path for path in found if path not in (os.devnull, "/dev/zero")]
