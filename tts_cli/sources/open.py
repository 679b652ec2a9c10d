"""Read manifests of all formats; several are read as one.

`read_rows` streams rows, one in memory at a time, and a line has at most 1 MiB, so that a million
rows or an endless line cannot exhaust memory. Documents and sheets are loaded whole, within a
bound. An invalid row becomes a `BadRow`; a file that cannot be used at all raises.

Control characters are rejected, because a text is never changed without notice. For other kinds of
files, errors say what they are and what to do with them.
"""

from __future__ import annotations

import codecs
import errno
import gzip
import logging
import os
import re
import shlex
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from tts_cli.core import BadRow, Row
from tts_cli.errors import ManifestError, SetupError, UsageError
from tts_cli.plain import open_given, read_table
from tts_cli.sources.decode import (
    Encoding,
    blocks_of,
    find_encoding,
    marked_encoding,
    open_text,
    tell_encoding,
)
from tts_cli.sources.dialect import find_dialect
from tts_cli.sources.fountain import SCENE, fountain_items
from tts_cli.sources.ids import ContentIds
from tts_cli.sources.item import Item, Manifest, ManifestFile, ManifestSet, ReadOptions, RowBuilder
from tts_cli.sources.jsonl import Lines, document_items, is_document, line_items, load_document
from tts_cli.sources.lists import find_list, find_marks, list_items
from tts_cli.sources.mapping import ColumnMapping, parse_map
from tts_cli.sources.subtitles import has_cues, subtitle_items
from tts_cli.sources.table import table_items

if TYPE_CHECKING:
    from tts_cli.config import RunConfig


log = logging.getLogger(__name__)

_PEEKED_BYTES = 4096
_SAMPLE_LINES = 50
_BLOCK_BYTES = 1 << 20
MAX_PIPED_LINE_BYTES = 64 << 20  # rows are shorter; a workbook has few line ends
MAX_PIPED_BYTES = 4 << 30
_BLANK = codecs.BOM_UTF8 + b" \t\r\n"
_STRINGS = re.compile(rb"<(?:resources|TS|xliff)[\s>]")  # a table of strings in XML
_MAX_SHOWN = 60  # characters of a text that was given instead of a path


@contextmanager
def open_manifests(manifests: Sequence[str], config: RunConfig) -> Iterator[Manifest]:
    """Open the manifests of a run. Raises as `open_source`, or UsageError for invalid settings."""
    rules = ReadOptions.of(config)
    fields, is_shared = parse_map(config.map or ""), len(manifests) > 1
    columns = ColumnMapping(fields, config.extra, is_shared, config.language or "")
    with ExitStack() as stack:
        found: list[ManifestFile] = []
        for manifest in manifests:
            source = stack.enter_context(open_source(manifest, rules=rules, columns=columns))
            if any(_is_same(source, other) for other in found):
                raise UsageError(f"{source.name}: is given twice", "give each manifest once")
            found.append(source)
        yield found[0] if len(found) == 1 else ManifestSet(tuple(found), columns)


def _is_same(one: ManifestFile, other: ManifestFile) -> bool:
    if one.copy is not None or other.copy is not None:
        return one.name == other.name
    return os.path.samefile(one.name, other.name)


@contextmanager
def open_source(
    manifest: str, rules: ReadOptions | None = None, columns: ColumnMapping | None = None
) -> Iterator[ManifestFile]:
    """Open a manifest, "-" for stdin; a pipe is copied to a temporary file. Several manifests share
    one `columns`.

    Raises:
        ManifestError: the file does not exist, cannot be read, or its format is not known.
        SetupError: there is no space for the copy of a pipe.
    """
    rules, columns = rules or ReadOptions(), columns or ColumnMapping()
    if manifest == "-":
        if sys.stdin is None:
            raise ManifestError("<stdin>: is closed", remedy="give a manifest file, or pipe one in")
        with _copy_of(sys.stdin.buffer, "<stdin>") as copy:
            yield ManifestFile("<stdin>", rules.format or "jsonl", "", copy, rules, columns)
        return
    folder = os.path.dirname(manifest)
    file = _open(manifest)
    if os.path.isfile(manifest):
        with file, ExitStack() as stack:
            name = manifest[:-3] if manifest.lower().endswith(".gz") else manifest
            has_suffix = _suffix_format(name) is not None
            format = rules.format or _format_of(manifest, name if has_suffix else manifest)
            unpacked = None
            if name != manifest:
                stream = cast(BinaryIO, gzip.GzipFile(fileobj=file))
                unpacked = stack.enter_context(_copy_of(stream, manifest))
            yield ManifestFile(manifest, format, folder, unpacked, rules, columns)
        return
    with file, _copy_of(file, manifest) as copy:
        yield ManifestFile(manifest, rules.format or "jsonl", folder, copy, rules, columns)


def _open(manifest: str) -> BinaryIO:
    if os.path.isdir(manifest):
        problem, remedy = of_folder(manifest)
        raise ManifestError(f"{manifest}: {problem}", remedy)
    try:
        return open(manifest, "rb")
    except PermissionError as error:
        raise _unreadable(manifest, error, "check the file's permissions") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        if _may_be_text(manifest, error):
            short = manifest if len(manifest) <= _MAX_SHOWN else f"{manifest[:_MAX_SHOWN]}..."
            raise ManifestError(
                f"{short!r}: the file does not exist",
                remedy=f"to synthesize a text, use: tts-cli say {shlex.quote(short)}",
            ) from error
        raise _unreadable(manifest, error, "check the path") from error


def _may_be_text(manifest: str, error: Exception) -> bool:
    if getattr(error, "errno", None) not in (errno.ENOENT, errno.ENAMETOOLONG):
        return False
    if _suffix_format(manifest) is not None:
        return False
    return any(map(str.isspace, manifest)) or os.sep not in manifest


def _unreadable(manifest: str, error: Exception, remedy: str) -> ManifestError:
    reason = getattr(error, "strerror", None) or str(error)
    return ManifestError(f"{manifest}: {reason[:1].lower()}{reason[1:]}", remedy=remedy)


def _format_of(manifest: str, name: str) -> str:
    """Return the format of a file by the suffix of `name`, from which .gz was removed."""
    suffix = os.path.splitext(name)[1].lower()
    if suffix in (".xml", ".ts") and _STRINGS.search(start_of(manifest)):
        return "xml"
    format = _suffix_format(name)
    if format is None:
        if mistake := of_suffix(manifest) or of_content(manifest):
            raise ManifestError(f"{manifest}: {mistake[0]}", mistake[1])
        raise ManifestError(
            f"{manifest}: the suffix {suffix!r} is not a manifest format",
            remedy="name it .txt if each line is a text, also after a key, or add "
            "--manifest-format jsonl, csv, tsv or another that --help lists",
        )
    return format


def _suffix_format(name: str) -> str | None:
    suffix = os.path.splitext(name)[1].lower()
    table = read_table(_KINDS)["manifest"]
    return next((format for format, suffixes in table.items() if suffix in suffixes), None)


def _copy_of(stream: BinaryIO, name: str) -> BinaryIO:
    """Copy a stream to a temporary file without a name, which the system always removes."""
    folder = "the folder for temporary files"
    try:
        folder = tempfile.gettempdir()
        copy = cast(BinaryIO, tempfile.TemporaryFile(prefix="tts-cli-"))  # noqa: SIM115
        with ExitStack() as stack:
            stack.callback(copy.close)
            for block in _blocks(stream, name):
                copy.write(block)
            copy.flush()
            stack.pop_all()
    except OSError as error:
        raise SetupError(
            f"cannot copy {name} to {folder}: {error.strerror or error}",
            remedy="free some space there, or set TMPDIR to another folder",
        ) from error
    return copy


def _blocks(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the blocks of a stream. Raises ManifestError before an endless one fills the disk."""
    total = line_start = 0
    has_lines = True
    while True:
        try:
            block = stream.read(_BLOCK_BYTES)
        except (OSError, EOFError, zlib.error) as error:  # the last two of a .gz
            raise _unreadable(name, error, "check the input") from error
        if not block:
            return
        has_lines = has_lines and not (total == 0 and block.lstrip(_BLANK).startswith(b"["))
        if b"\n" in block:
            line_start = total + block.rindex(b"\n")
        total += len(block)
        if has_lines and total - line_start > MAX_PIPED_LINE_BYTES:
            problem = f"a line is longer than {MAX_PIPED_LINE_BYTES >> 20} MiB"
            raise ManifestError(f"{name}: {problem}", "write one row per line, or pipe in less")
        if total > MAX_PIPED_BYTES:
            problem = f"has more than {MAX_PIPED_BYTES >> 20:,} MiB"
            raise ManifestError(f"{name}: {problem}", "give it as a file")
        yield block


def read_rows(manifest: Manifest) -> Iterator[Row | BadRow]:
    """Yield the rows of a manifest in order, each checked without regard to the others.

    Raises:
        ManifestError: a file cannot be read, has another encoding, or its header is invalid.
        SetupError: the library for a format is missing.
        StoppedEarly: a file changed since its first opening.
    """
    number = 0
    is_by_content = any(source.rules.ids == "content" for source in manifest.all)
    content_ids = ContentIds() if is_by_content else None
    for source in manifest.all:
        file = source.name if len(manifest.all) > 1 else ""
        rows = RowBuilder(source, number, file, content_ids)
        try:
            if source.given is not None:
                source.found.encoding = Encoding()  # of the file with these rows
                yield from source.given
            else:
                yield from map(rows.row, _items(source))
        except (OSError, ManifestError) as error:
            source.require_same()  # a change explains the error
            if isinstance(error, ManifestError):
                raise
            raise _unreadable(source.name, error, "check the file") from error
        number = rows.number
    manifest.columns.require_met(manifest.name)


def _items(source: ManifestFile) -> Iterator[Item]:
    if source.format in ("xlsx", "parquet", "po", "xml"):
        from tts_cli.sources import catalogs, parquet, xlsx  # slow to import

        readers = {
            "xlsx": xlsx.workbook_items,
            "parquet": parquet.parquet_items,
            "po": catalogs.po_items,
            "xml": catalogs.xml_items,
        }
        with source.open() as file:
            yield from readers[source.format](file, source)
        return
    found = source.found
    if found.encoding is None:
        found.encoding = _encoding_of(source)
        found.is_subtitles = source.format == "subtitles"
        if source.format == "txt" and has_cues(lambda: _lines_of(source)):
            log.warning("%s: contains subtitles, and is read as subtitles", source.name)
            found.is_subtitles = True
        if source.format not in ("jsonl", "fountain") and not found.is_subtitles:
            with _lines_of(source) as lines:
                sample = list(islice(lines.each(), _SAMPLE_LINES))
            is_open = source.format == "txt" and not (source.rules.format or source.rules.columns)
            found.list_form = find_list(sample, source.name) if is_open else None
            if found.list_form is None:
                found.form = find_dialect(source, lambda: _lines_of(source))
            found.marks = find_marks(sample, source.name)
            if is_open and found.form is None and any(map(SCENE.match, sample)):
                log.warning(
                    "%s: if it is a screenplay, add --manifest-format fountain", source.name
                )
    document = None
    if source.format == "jsonl":
        with _text_of(source) as file:
            has_document = is_document(file, source.name)
        if has_document:
            with _text_of(source) as file:
                document = load_document(file, source.name)
    with _text_of(source) as file:
        if source.format == "fountain":
            yield from fountain_items(file, source.name)
        elif found.is_subtitles:
            yield from subtitle_items(file, source.name)
        elif found.form is not None:
            yield from table_items(Lines(file), found.form, source)
        elif found.list_form is not None:
            yield from list_items(Lines(file), found.list_form)
        elif document is not None:
            yield from document_items(document)
        else:
            yield from line_items(Lines(file), is_plain=source.format == "txt")


@contextmanager
def _text_of(source: ManifestFile) -> Iterator[TextIO]:
    assert source.found.encoding is not None
    with source.open() as raw, open_text(raw, source.found.encoding.name, source.name) as file:
        yield file


@contextmanager
def _lines_of(source: ManifestFile) -> Iterator[Lines]:
    with _text_of(source) as file:
        yield Lines(file)


def _encoding_of(source: ManifestFile) -> Encoding:
    """Return the encoding. JSON is UTF-8 or UTF-16 with a mark; rows report their invalid bytes."""
    if source.rules.encoding is not None:
        return Encoding(source.rules.encoding, "from --encoding")
    with source.open() as file:
        if source.format == "jsonl":
            return tell_encoding(
                marked_encoding(file.read(_PEEKED_BYTES)) or Encoding(), source.name
            )
        return tell_encoding(find_encoding(blocks_of(file)), source.name)


_KINDS = Path(__file__).parent / "data" / "suffixes.toml"
_ROWS = "a manifest has the rows to synthesize: .jsonl, .csv, .tsv, or .txt with one text per line"
_JOURNAL = "timings.jsonl"  # `store.files` has this name too, in a higher room
_OFFERED = (".jsonl", ".csv", ".tsv", ".txt")


def of_suffix(path: str) -> tuple[str, str] | None:
    """Return problem and remedy for a file whose suffix is not that of a manifest, or None."""
    suffix = os.path.splitext(path)[1].lower()
    for kind in read_table(_KINDS)["kind"]:
        if suffix in kind["suffixes"]:
            return kind["is"], kind["remedy"].format(path=path, rows=_ROWS)
    return None


def start_of(path: str) -> bytes:
    with open_given(path) as file:
        return file.read(_PEEKED_BYTES)


def of_content(path: str) -> tuple[str, str] | None:
    """Return problem and remedy for a file by its first bytes; None if it may be a text."""
    start = start_of(path)
    for kind in read_table(_KINDS)["content"]:
        if start.lstrip(_BLANK).startswith(kind["start"].encode("latin-1")):
            return kind["is"], kind["remedy"].format(path=path, rows=_ROWS)
    if b"\0" in start and marked_encoding(start) is None:
        return "is not a text", _ROWS
    return None


def of_folder(path: str) -> tuple[str, str]:
    try:
        names = sorted(os.listdir(path))
    except OSError:
        names = []
    if _JOURNAL in names:
        return (
            "is the output folder of a run",
            "give the manifest of that run, and the folder with --out",
        )
    if "config.json" in names:
        return "is the folder of a checkpoint", f"give it with --model; {_ROWS}"
    found = [name for name in names if name.lower().endswith(_OFFERED)]
    if found:
        return "is a folder", f"give a file in it, such as {os.path.join(path, found[0])}"
    return "is a folder", f"give a manifest file; {_ROWS}"
