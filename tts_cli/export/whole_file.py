"""A file of a data set that is written bit by bit, and gets its name once it is whole."""

from __future__ import annotations

import contextlib
import sys
from contextlib import ExitStack
from typing import BinaryIO

from tts_cli.errors import disk_full, is_disk_error
from tts_cli.export.made import ExportFiles
from tts_cli.output.atomic import written_whole
from tts_cli.output.writer import hash_of


class WholeFile:
    """Opens a file under a temporary name. Raises DiskFull, OSError."""

    def __init__(self, made: ExportFiles, name: str) -> None:
        self.path = made.out / name
        self._made, self._name = made, name
        self._stack = ExitStack()
        self.path.parent.mkdir(exist_ok=True)
        part = self._stack.enter_context(written_whole(self.path))
        self.file: BinaryIO = self._stack.enter_context(open(part, "x+b"))  # noqa: SIM115

    def write(self, data: bytes) -> None:
        """Add bytes. Raises DiskFull, OSError."""
        try:
            self.file.write(data)
        except OSError as error:
            if is_disk_error(error):
                raise disk_full(error, self.path) from error
            raise

    def close(self) -> None:
        """Give it its name. Raises DiskFull, OSError: it has none then."""
        self.file.seek(0)
        self._made.claim(self._name, hash_of(self.file))
        self._stack.close()

    def abort(self) -> None:
        """Remove what there is of it, while an exception is handled; harmless behind `close`."""
        with contextlib.suppress(BaseException):
            self._stack.__exit__(*sys.exc_info())
