"""Read rows that are JSON: an object a line, or an array of objects. An array is read as far as its
next object, so that a million of them need no more memory than one.

Lines of a manifest: decoded, counted, each at most 1 MiB.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, BinaryIO

from tts_cli.core import BadRow, Row
from tts_cli.errors import ManifestError
from tts_cli.named import shown
from tts_cli.sources.mapping import RowProblem

if TYPE_CHECKING:
    from tts_cli.sources.item import ManifestFile, RowBuilder


_MAX_NUMBER_CHARS = 64
_BLOCK_BYTES = 1 << 16
_NOT_AN_ARRAY = "a manifest has one JSON object per line, not an array; jq -c '.[]' converts it"
_SPACE = re.compile(r"[ \t\r\n]*")


def line_rows(lines: Lines, source: ManifestFile, rows: RowBuilder) -> Iterator[Row | BadRow]:
    """JSONL and plain text: a row is a line; blank lines are skipped and not counted as rows."""
    is_plain = source.format == "txt"
    for line in lines:
        problem = lines.problem
        lines.start_row()
        if line.isspace() or not line:
            continue
        rows.next()
        try:
            if problem is not None:
                raise RowProblem(problem)
            text = line.rstrip("\r\n")
            values = {"text": text} if is_plain else _parse_object(text)
        except RowProblem as error:
            yield rows.bad(lines.number, str(error))
        else:
            yield rows.row(values, lines.number)


def starts_array(start: bytes) -> bool:
    """Whether a file that begins so is one JSON array, not an object a line."""
    return start.removeprefix(codecs.BOM_UTF8).lstrip(b" \t\r\n").startswith(b"[")


def array_rows(file: BinaryIO, source: ManifestFile, rows: RowBuilder) -> Iterator[Row | BadRow]:
    """The objects of an array; a row's line is the one its object begins on.

    Raises:
        ManifestError: it is not JSON, from some line on.
    """
    text = _Text(file, source.name)
    text.take("[")
    is_first = True
    while text.peek() != "]":
        if not is_first:
            text.take(",")
            text.peek()  # up to the line of the value
        is_first = False
        line = text.line
        try:
            value = text.value()
            if not isinstance(value, dict):
                raise RowProblem(f"must be a JSON object, not {shown(value)}")
        except RowProblem as problem:
            rows.next()
            yield rows.bad(line, str(problem))
            continue
        rows.next()
        yield rows.row(value, line)
    text.take("]")
    if text.peek():
        raise text.error("there is something after the end of the array")


class _Text:
    """The text of a JSON file, of which no more than a value and a block is in memory."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._place = 0
        self._is_at_end = False
        self._noted: list[str] = []  # what is wrong with a value that can be read all the same
        self._decode = _noting_decoder(self._noted).raw_decode
        self.line = 1

    def error(self, problem: str) -> ManifestError:
        """What is raised where the rest of the file cannot be read."""
        return ManifestError(
            f"{self._name}:{self.line}: not JSON: {problem}", "fix it, or write one object per line"
        )

    def peek(self) -> str:
        """The next character that is no space; "" at the end."""
        while True:
            self._skip(_SPACE.match(self._text, self._place).end())  # type: ignore[union-attr]
            if self._place < len(self._text):
                return self._text[self._place]
            if self._is_at_end:
                return ""
            self._read()

    def take(self, char: str) -> None:
        """Pass over a character that must come next."""
        found = self.peek()
        if found != char:
            raise self.error(f"{char!r} is missing" + (f" before {found!r}" if found else ""))
        self._place += 1

    def value(self) -> Any:
        """The next value. Raises RowProblem where it is one that no row can hold."""
        while True:
            self._noted.clear()
            try:
                value, end = self._decode(self._text, self._place)
            except json.JSONDecodeError as error:
                if self._is_at_end or len(self._text) - self._place > MAX_LINE_BYTES:
                    self._skip(error.pos)
                    raise self.error(
                        f"{error.msg} (the maximum of a row is {MAX_LINE_BYTES} characters)"
                    ) from None
            except RecursionError:
                raise self.error("values are nested too deep") from None
            else:
                is_cut = not isinstance(value, (dict, list)) and end == len(self._text)
                if not is_cut or self._is_at_end:
                    self._skip(end)
                    if self._noted:
                        raise RowProblem(self._noted[0])
                    return value
            self._read(len(self._text) - self._place)

    def _skip(self, place: int) -> None:
        self.line += self._text.count("\n", self._place, place)
        self._place = place

    def _read(self, least: int = 0) -> None:
        """Read on, as much again as is left at least, so that a long value is not tried often."""
        block = self._file.read(max(_BLOCK_BYTES, least))
        self._is_at_end = not block
        try:
            more = self._decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            bad = error.object[error.start]
            self.line += self._text.count("\n", self._place)
            self.line += error.object.count(b"\n", 0, error.start)
            raise self.error(f"byte 0x{bad:02x} is not UTF-8") from None
        self._text, self._place = self._text[self._place :] + more, 0


def _parse_object(line: str) -> dict[str, Any]:
    """One JSON object, strictly: no repeated keys, no NaN or Infinity."""
    try:
        value = _decode(line)
    except RowProblem:
        raise
    except json.JSONDecodeError as error:
        advice = f"; {_NOT_AN_ARRAY}" if line.lstrip().startswith("[") else ""
        raise RowProblem(f"not JSON: {error.msg} at column {error.colno}{advice}") from None
    except RecursionError:
        raise RowProblem("not a row: values are nested too deep") from None
    if not isinstance(value, dict):
        advice = f"; {_NOT_AN_ARRAY}" if isinstance(value, list) else ""
        raise RowProblem(f"must be a JSON object, not {shown(value)}{advice}")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        twice = max(Counter(name for name, _ in pairs).items(), key=itemgetter(1))[0]
        raise RowProblem(f"has {shown(twice)} twice")
    return values


def _refuse_constant(name: str) -> Any:
    raise RowProblem(f"{name} is not a valid number")


def _bounded_int(digits: str) -> int:
    if len(digits) > _MAX_NUMBER_CHARS:
        raise RowProblem("contains a number with too many digits")
    return int(digits)


_decode = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_refuse_constant, parse_int=_bounded_int
).decode


def _noting_decoder(noted: list[str]) -> json.JSONDecoder:
    """The same, but what is wrong with a value is noted and the value read to its end."""

    def noting(read: Any, instead: Any) -> Any:
        def call(given: Any) -> Any:
            try:
                return read(given)
            except RowProblem as problem:
                noted.append(str(problem))
                return instead

        return call

    return json.JSONDecoder(
        object_pairs_hook=noting(_object, {}),
        parse_constant=noting(_refuse_constant, 0),
        parse_int=noting(_bounded_int, 0),
    )


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

    def each(self) -> Iterator[str]:
        """Lines, each a row by itself."""
        for line in self:
            self.start_row()
            yield line

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
                "save the file as UTF-8, or give its encoding with --encoding"
            )
            text = raw[skipped:].decode("utf-8", "replace")
        if "\0" in text:
            self._note(f"contains a NUL character at position {text.index(chr(0)) + 1}")
            text = text.replace("\0", "?")  # csv of Python 3.10 stops at it
        return text

    def _note(self, problem: str) -> None:
        if self.problem is None:
            self.problem = problem
