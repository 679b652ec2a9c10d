"""Store planned tasks until they are synthesized: in memory, and beyond a limit in a file."""

from __future__ import annotations

import contextlib
import logging
import pickle
import tempfile
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar, cast

from tts_cli.errors import DiskFull
from tts_cli.named import shown_size

log = logging.getLogger(__name__)

T = TypeVar("T")
MEMORY_BYTES = 64 << 20
_CHUNK_SIZE = 256  # items pickled together, so that shared values are written once


class Spool(Generic[T]):
    """A sequence of items that can be iterated any number of times after `end`.

    Beyond 64 MiB items go to an unnamed temporary file, which the system deletes in any case: in
    the folder for temporary files, or, if that is full, next to the output folder.

    Args:
        name: name of the items in messages.
        out: the output folder, which may not exist yet, or None.
    """

    def __init__(self, name: str, out: Path | None) -> None:
        self.num_things = 0
        self._name = name
        self._fresh: list[T] = []  # items of the last chunk
        self._chunks: list[bytes] = []  # in memory
        self._memory_bytes = 0
        self._folders: list[Callable[[], str]] = [tempfile.gettempdir]
        if out is not None:
            self._folders.append(partial(_beside, out))
        self._files: list[tuple[BinaryIO, list[int]]] = []  # and the sizes of the items in each
        weakref.finalize(self, _close, self._files)

    def add(self, thing: T) -> None:
        """Add an item. Raises DiskFull."""
        self.num_things += 1
        self._fresh.append(thing)
        if len(self._fresh) == _CHUNK_SIZE:
            self._pack()

    def __iter__(self) -> Iterator[T]:
        for chunk in self._chunks:
            yield from pickle.loads(chunk)
        for file, sizes in self._files:
            place = 0
            for size in sizes:
                file.seek(place)
                yield from pickle.loads(file.read(size))
                place += size

    def end(self) -> None:
        """Finish adding. Raises DiskFull."""
        self._pack()
        if self._files:
            size = sum(sum(sizes) for _, sizes in self._files)
            what = (self.num_things, self._name, shown_size(self._memory_bytes), shown_size(size))
            log.debug("planned: %d %s, %s in memory and %s in a temporary file", *what)

    def _pack(self) -> None:
        if self._fresh:
            self._put(pickle.dumps(self._fresh, pickle.HIGHEST_PROTOCOL))
            self._fresh = []

    def _put(self, chunk: bytes) -> None:
        if not self._files and self._memory_bytes + len(chunk) <= MEMORY_BYTES:
            self._chunks.append(chunk)
            self._memory_bytes += len(chunk)
            return
        problem: OSError | None = None
        while self._files or self._folders:
            try:
                if problem is not None or not self._files:
                    file = tempfile.TemporaryFile(dir=self._folders.pop(0)())  # noqa: SIM115
                    self._files.append((cast(BinaryIO, file), []))
                _write(*self._files[-1], chunk)
                return
            except OSError as error:
                problem = error
                if not self._folders:
                    break
        reason = problem and (problem.strerror or problem)
        raise DiskFull(
            f"there is no space for {self._name} in a temporary file: {reason}",
            remedy="free space in the folder for temporary files, or set TMPDIR to another one; "
            "nothing was synthesized",
        ) from problem


def _beside(out: Path) -> str:
    """Return the nearest existing parent of the output folder."""
    return str(next(folder for folder in out.absolute().parents if folder.is_dir()))


def _write(file: BinaryIO, sizes: list[int], chunk: bytes) -> None:
    """Append a chunk to a file. Raises OSError; earlier chunks stay valid."""
    file.seek(sum(sizes))
    file.write(chunk)
    file.flush()
    sizes.append(len(chunk))


def _close(files: list[tuple[BinaryIO, list[int]]]) -> None:
    for file, _ in files:
        with contextlib.suppress(OSError):  # a failed write
            file.close()
