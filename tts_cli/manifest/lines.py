"""Lines of a manifest: decoded, counted, each at most 1 MiB."""

from __future__ import annotations

import codecs
from typing import BinaryIO

from tts_cli.manifest.row import RowProblem

MAX_LINE_BYTES = 1 << 20


class Lines:
    """Decoded lines with their ends; an iterator for `csv.reader`.

    A line that cannot be used sets `problem` and is still returned as well as it can be read, so
    that a quoted cell around it keeps its end.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._row_bytes = 0
        self._back: str | None = None
        self.number = 0  # of the line read last, from 1
        self.problem: str | None = None  # what is wrong with the row being read

    def start_row(self) -> None:
        """Forget the row before."""
        self._row_bytes = 0
        self.problem = None

    def give_back(self, line: str) -> None:
        """The line read last is to come once more."""
        self._back = line
        self.number -= 1

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        if self._back is not None:
            line, self._back = self._back, None
            self.number += 1
            return line
        raw = self._file.readline(MAX_LINE_BYTES + 1)
        if not raw:
            raise StopIteration
        self.number += 1
        self._row_bytes += len(raw)
        if len(raw) > MAX_LINE_BYTES:
            while raw and not raw.endswith(b"\n"):
                raw = self._file.readline(MAX_LINE_BYTES)
            self._note(f"the line is longer than {MAX_LINE_BYTES} bytes")
            return "?\n"
        if self._row_bytes > MAX_LINE_BYTES:
            raise RowProblem(f"the row is longer than {MAX_LINE_BYTES} bytes")
        return self._decode(raw)

    def _decode(self, raw: bytes) -> str:
        skipped = 0
        if self.number == 1 and raw.startswith(codecs.BOM_UTF8):
            skipped = len(codecs.BOM_UTF8)
        try:
            text = raw[skipped:].decode("utf-8")
        except UnicodeDecodeError as error:
            place = error.start + skipped
            self._note(
                f"byte {place + 1} of line {self.number} (0x{raw[place]:02x}) is not UTF-8; "
                "save the file as UTF-8, or name its encoding by --encoding"
            )
            text = raw[skipped:].decode("utf-8", "replace")
        if "\0" in text:
            self._note(f"holds a NUL character at position {text.index(chr(0)) + 1}")
            text = text.replace("\0", "?")  # csv of Python 3.10 stops at it
        return text

    def _note(self, problem: str) -> None:
        if self.problem is None:
            self.problem = problem
