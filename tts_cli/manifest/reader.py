"""Read manifests: JSONL, CSV or TSV with a header, plain text, or JSONL on stdin.

`read_rows` streams: one row is in memory at a time and no line is read past 1 MiB, so neither a
million rows nor one endless line can exhaust memory. A row that cannot be used is yielded as a
`BadRow`; reading goes on behind it. Only a file that is unusable as a whole raises.

Two decisions a reader may wonder about. Control characters in a text are refused rather than
dropped, so that nothing is spoken other than what was written. TSV follows the quoting of CSV, as
spreadsheets write it: a cell that starts with a quote must double the quotes inside it.
"""

from __future__ import annotations

import codecs
import csv
import errno
import json
import os
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, BinaryIO, cast

from tts_cli.errors import ManifestError, SetupError
from tts_cli.manifest import not_manifests
from tts_cli.manifest.fingerprint import Fingerprint
from tts_cli.manifest.ids import ContentIds
from tts_cli.manifest.row import (
    ALIASES,
    KINDS,
    BadRow,
    Row,
    RowProblem,
    build_row,
    shown,
    unknown_field,
)

MAX_LINE_BYTES = 1 << 20
_MAX_NUMBER_CHARS = 64
_MAX_SHOWN = 60  # characters of a text that is no path
_NOT_AN_ARRAY = "a manifest is one JSON object a line, not an array: jq -c '.[]' unpacks one"
_SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "txt",
}


@dataclass(frozen=True)
class Source:
    """A manifest that can be read as often as needed."""

    name: str  # what messages call it, and where it is unless it was copied
    format: str  # jsonl, csv, tsv or txt
    folder: str  # where a relative ref_audio starts
    copy: BinaryIO | None = None  # of stdin or a pipe; read by one pass at a time
    ids: str = "number"  # what rows without an id are named by: number or content
    fingerprint: Fingerprint = field(init=False, compare=False)

    def __post_init__(self) -> None:
        fingerprint = Fingerprint(self.name, is_copy=self.copy is not None)
        object.__setattr__(self, "fingerprint", fingerprint)

    @property
    def paths(self) -> list[str]:
        """Its file, absolute; none where it was copied from a pipe, or made of something else."""
        return [] if self.copy is not None else [os.path.abspath(self.name)]

    def open(self) -> BinaryIO:
        """The bytes from their start.

        Raises:
            OSError: it cannot be opened.
            StoppedEarly: it is not what it was; while reading too.
        """
        if self.copy is not None:
            self.copy.seek(0)
            file = os.fdopen(os.dup(self.copy.fileno()), "rb", buffering=0)
        elif self.fingerprint.is_known and not self.fingerprint.is_there():
            raise self.fingerprint.changed()
        else:
            file = open(self.name, "rb", buffering=0)  # noqa: SIM115
        return self.fingerprint.watch(cast(BinaryIO, file))


@contextmanager
def open_source(manifest: str, format: str | None = None, ids: str = "number") -> Iterator[Source]:
    """Find out how to read `manifest` ('-' is stdin); a pipe is copied to a temporary file.

    Raises:
        ManifestError: no such file, a folder, not readable, or a suffix that says nothing.
        SetupError: no room for a copy of a pipe.
    """
    if manifest == "-":
        if sys.stdin is None:
            raise ManifestError("<stdin>: is closed", remedy="give a manifest file, or pipe one in")
        with _copy_of(sys.stdin.buffer, "<stdin>") as copy:
            yield Source("<stdin>", format or "jsonl", "", copy, ids)
        return
    folder = os.path.dirname(manifest)
    file = _open(manifest)
    if os.path.isfile(manifest):
        file.close()
        yield Source(manifest, format or _format_of(manifest), folder, ids=ids)
        return
    with file, _copy_of(file, manifest) as copy:
        yield Source(manifest, format or "jsonl", folder, copy, ids)


def _open(manifest: str) -> BinaryIO:
    if os.path.isdir(manifest):
        problem, remedy = not_manifests.of_folder(manifest)
        raise ManifestError(f"{manifest}: {problem}", remedy)
    try:
        return open(manifest, "rb")
    except PermissionError as error:
        raise _unreadable(manifest, error, "check the file's permissions") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        if _may_be_text(manifest, error):
            short = manifest if len(manifest) <= _MAX_SHOWN else f"{manifest[:_MAX_SHOWN]}..."
            raise ManifestError(
                f"{short!r}: there is no such file",
                remedy=f"a text is spoken by: tts-cli say {shlex.quote(short)}",
            ) from error
        raise _unreadable(manifest, error, "check the path") from error


def _may_be_text(manifest: str, error: Exception) -> bool:
    """Whether a manifest that is not there looks like what somebody wants to hear."""
    if getattr(error, "errno", None) not in (errno.ENOENT, errno.ENAMETOOLONG):
        return False
    if os.path.splitext(manifest)[1].lower() in _SUFFIXES:
        return False
    return any(map(str.isspace, manifest)) or os.sep not in manifest


def _unreadable(manifest: str, error: Exception, remedy: str) -> ManifestError:
    reason = getattr(error, "strerror", None) or str(error)
    return ManifestError(f"{manifest}: {reason[:1].lower()}{reason[1:]}", remedy=remedy)


def _format_of(manifest: str) -> str:
    suffix = os.path.splitext(manifest)[1].lower()
    if suffix not in _SUFFIXES:
        if mistake := not_manifests.of_suffix(manifest):
            raise ManifestError(f"{manifest}: {mistake[0]}", mistake[1])
        raise ManifestError(
            f"{manifest}: the suffix {suffix!r} does not tell the format",
            remedy="add --manifest-format jsonl, csv, tsv or txt",
        )
    return _SUFFIXES[suffix]


def _copy_of(stream: BinaryIO, name: str) -> BinaryIO:
    """A temporary file that has no name any more, so that nothing can leave it behind.

    Raises:
        ManifestError: the stream cannot be read.
        SetupError: there is no room for the copy.
    """
    folder = "the folder for temporary files"
    try:
        folder = tempfile.gettempdir()
        copy = cast(BinaryIO, tempfile.TemporaryFile(prefix="tts-cli-"))  # noqa: SIM115
        while block := _read_block(stream, name):
            copy.write(block)
        copy.flush()
    except OSError as error:
        raise SetupError(
            f"cannot copy {name} to {folder}: {error.strerror or error}",
            remedy="make room there, or set TMPDIR to another folder",
        ) from error
    return copy


def _read_block(stream: BinaryIO, name: str) -> bytes:
    try:
        return stream.read(MAX_LINE_BYTES)
    except OSError as error:
        raise _unreadable(name, error, "check what is piped in") from error


def read_rows(source: Source, wanted: Sequence[int] | None = None) -> Iterator[Row | BadRow]:
    """Every row of a manifest in order, each judged by itself.

    Args:
        wanted: what an earlier reading to the end found out: row n is passed over, and hardly
            looked at, where item n - 1 is 0. None: all rows.
    Raises:
        ManifestError: the file cannot be read, is UTF-16, or its table header is wrong.
        StoppedEarly: it is not what it was when it was read first.
    """
    try:
        with source.open() as file:
            lines = _Lines(file, source.name)
            if source.format in ("csv", "tsv"):
                yield from _table_rows(lines, source, wanted)
            else:
                yield from _line_rows(lines, source, wanted)
    except OSError as error:
        raise _unreadable(source.name, error, "check the file") from error


class _Lines:
    """Decoded lines with their ends, each at most 1 MiB; an iterator for `csv.reader`.

    A line that cannot be used sets `problem` and is still returned as well as it can be read, so
    that a quoted cell around it keeps its end.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._row_bytes = 0
        self.number = 0  # of the line read last, from 1
        self.problem: str | None = None  # what is wrong with the row being read

    def start_row(self) -> None:
        """Forget the row before."""
        self._row_bytes = 0
        self.problem = None

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
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
        skipped = self._skip_bom(raw) if self.number == 1 else 0
        try:
            text = raw[skipped:].decode("utf-8")
        except UnicodeDecodeError as error:
            place = error.start + skipped
            self._note(
                f"byte {place + 1} of line {self.number} (0x{raw[place]:02x}) is not UTF-8; "
                "save the file as UTF-8"
            )
            text = raw[skipped:].decode("utf-8", "replace")
        if "\0" in text:
            self._note(f"holds a NUL character at position {text.index(chr(0)) + 1}")
            text = text.replace("\0", "?")  # csv of Python 3.10 stops at it
        return text

    def _note(self, problem: str) -> None:
        if self.problem is None:
            self.problem = problem

    def _skip_bom(self, raw: bytes) -> int:
        if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise ManifestError(f"{self._name}: is UTF-16", remedy="save it as UTF-8")
        return len(codecs.BOM_UTF8) if raw.startswith(codecs.BOM_UTF8) else 0


def _line_rows(
    lines: _Lines, source: Source, wanted: Sequence[int] | None
) -> Iterator[Row | BadRow]:
    """JSONL and plain text: a row is a line; blank lines are skipped and not counted as rows."""
    number = 0
    content_ids = _content_ids(source)
    for line in lines:
        problem = lines.problem
        lines.start_row()
        if line.isspace() or not line:
            continue
        number += 1
        is_passed = wanted is not None and not wanted[number - 1]
        if is_passed and content_ids is None:
            continue
        try:
            if problem is not None:
                raise RowProblem(problem)
            text = line.rstrip("\r\n")
            values = {"text": text} if source.format == "txt" else _parse_object(text)
        except RowProblem as error:
            row: Row | BadRow = BadRow(lines.number, number, None, str(error))
        else:
            row = build_row(
                values,
                line=lines.number,
                number=number,
                folder=source.folder,
                content_ids=content_ids,
            )
        if not is_passed:
            yield row


def _content_ids(source: Source) -> ContentIds | None:
    """What names rows by content; it must see them all, those that are passed over too."""
    return ContentIds() if source.ids == "content" else None


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
        raise RowProblem(f"gives {shown(twice)} twice")
    return values


def _refuse_constant(name: str) -> Any:
    raise RowProblem(f"{name} is not a number that JSON or a row can hold")


def _bounded_int(digits: str) -> int:
    if len(digits) > _MAX_NUMBER_CHARS:
        raise RowProblem("holds a number with too many digits")
    return int(digits)


_decode = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_refuse_constant, parse_int=_bounded_int
).decode


def _table_rows(
    lines: _Lines, source: Source, wanted: Sequence[int] | None
) -> Iterator[Row | BadRow]:
    """CSV and TSV: the first row names the columns; a row may span lines inside quotes."""
    delimiter = "\t" if source.format == "tsv" else ","
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    header = _read_header(reader, lines, source)
    content_ids = _content_ids(source)
    number = 0
    while True:
        lines.start_row()
        start = lines.number + 1
        try:
            cells = next(reader)
            if lines.problem is not None:
                raise RowProblem(lines.problem)
            if not any(map(str.strip, cells)):
                continue
            if len(cells) != len(header):
                raise RowProblem(
                    f"has {len(cells)} cells, the header has {len(header)}; "
                    "put a cell that holds the separator in quotes"
                )
        except StopIteration:
            return
        except (RowProblem, csv.Error) as problem:
            number += 1
            if wanted is None or wanted[number - 1]:
                yield BadRow(start, number, None, _table_problem(problem, start, lines.number))
            continue
        number += 1
        is_passed = wanted is not None and not wanted[number - 1]
        if is_passed and content_ids is None:
            continue
        values = dict(zip(header, cells, strict=True))
        row = build_row(
            values,
            line=start,
            number=number,
            folder=source.folder,
            is_text=True,
            content_ids=content_ids,
        )
        if not is_passed:
            yield row


def _reason(problem: Exception) -> str:
    """What the csv module says; it names a tab by the tab itself."""
    return str(problem).replace("\t", "\\t")


def _table_problem(problem: Exception, start: int, end: int) -> str:
    if isinstance(problem, csv.Error):
        advice = "close every quote and double those inside a cell"
        message = f"not a table row: {_reason(problem)}; {advice}"
    else:
        message = str(problem)
    if end > start:
        message += f" (the row runs from line {start} to {end}; is a quote never closed?)"
    return message


def _read_header(reader: Iterator[list[str]], lines: _Lines, source: Source) -> list[str]:
    try:
        header = [cell.strip() for cell in next(filter(any, reader), [])]
        if lines.problem is not None:
            raise RowProblem(lines.problem)
    except (RowProblem, csv.Error) as problem:
        raise ManifestError(
            f"{source.name}:1: the header cannot be read: {_reason(problem)}"
        ) from None
    if not header:
        raise ManifestError(
            f"{source.name}: is empty", remedy="name the columns in the first row, as id,text"
        )
    if len(header) == 1 and ";" in header[0]:
        raise ManifestError(
            f"{source.name}:1: the columns are separated by ';'",
            remedy="save it with commas, or with tabs as .tsv",
        )
    for name in header:
        if ALIASES.get(name, name) not in KINDS:
            raise ManifestError(f"{source.name}:1: {unknown_field(name)}")
        if header.count(name) > 1:
            raise ManifestError(f"{source.name}:1: the column {shown(name)} stands twice")
    if not {"text", "input"} & set(header):
        raise ManifestError(f"{source.name}:1: no column is called 'text'")
    return header
