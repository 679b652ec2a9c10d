"""Whether a manifest still is what it was when it was read first.

Every reading of a file goes through `watch`, which hashes each block before a line of it is parsed.
The first reading notes the hashes; a later one that meets a different block, or another end, raises
at once, so no row is ever taken from a manifest that was not checked. What happens to the file
behind its readers is found by `require_same`.

Rows as readers find them: counted, their names mapped, passed over where nobody wants them.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

from tts_cli.errors import StoppedEarly, UsageError
from tts_cli.manifest.columns import Columns, RowProblem
from tts_cli.manifest.encoding import Encoding, known_encoding
from tts_cli.manifest.ids import ContentIds
from tts_cli.manifest.row import BadRow, Row, build_row
from tts_cli.manifest.speaker_names import name_in_front

if TYPE_CHECKING:
    from tts_cli.config import RunConfig
    from tts_cli.manifest.ids import ContentIds


@dataclass(frozen=True)
class Rules:
    """What flags say of how manifests are read. None: as the file itself shows."""

    format: str | None = None  # jsonl, csv, tsv, txt or xlsx
    encoding: str | None = None  # as Python calls it
    sheet: str | None = None
    ids: str = "number"  # what rows without an id are named by: number or content
    columns: tuple[str, ...] = ()  # names of the columns, "" for one without; none: the header's
    has_cast: bool = False  # which says how each character speaks
    has_names: bool = False  # in front of lines, of who says them
    strips_markup: bool = False  # tags of style are taken out of texts

    @classmethod
    def of(cls, config: RunConfig) -> Rules:
        """What the settings of a run say. Raises UsageError."""
        encoding = None if config.encoding is None else known_encoding(config.encoding)
        names = tuple(name.strip() for name in (config.columns or "").split(","))
        if config.columns is not None and not any(names):
            raise UsageError("--columns: names no column", "write them as in --columns id,text")
        has_cast = config.cast is not None
        columns = names if any(names) else ()
        return cls(
            config.manifest_format,
            encoding,
            config.sheet,
            config.ids,
            columns,
            has_cast,
            config.speaker_prefix,
            config.strip_markup,
        )


@dataclass(frozen=True)
class TableForm:
    """How one table is written."""

    separator: str
    is_quoted: bool = True  # as in CSV; False: quotation marks are letters
    names: tuple[str, ...] = ()  # of its columns, "" for one without; none: the first row has them
    targets: Mapping[str, str] = field(default_factory=dict)  # of names: fields, see `Columns`
    id_parts: int = 0  # how many of a path's last parts make an id
    advice: str = ""  # flags for a table whose first row seems to name no columns

    def reader(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """The cells of each row."""
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.is_quoted else csv.QUOTE_NONE
        return csv.reader(lines, delimiter=self.separator, quoting=quoting, strict=True)


@dataclass
class SourceFacts:
    """What the first reading of a file found out about it."""

    encoding: Encoding | None = None
    form: TableForm | None = None  # None: it is no table
    is_subtitles: bool = False
    sheet: str | None = None


@dataclass(frozen=True)
class Source:
    """A manifest that can be read as often as needed."""

    name: str  # what messages call it, and where it is unless it was copied
    format: str  # jsonl, csv, tsv, txt or xlsx
    folder: str  # where a relative ref_audio starts
    copy: BinaryIO | None = None  # of stdin or a pipe; read by one pass at a time
    rules: Rules = field(default_factory=Rules)
    columns: Columns = field(default_factory=Columns, compare=False)
    found: SourceFacts = field(default_factory=SourceFacts, init=False, compare=False)
    fingerprint: Fingerprint = field(init=False, compare=False)

    def __post_init__(self) -> None:
        fingerprint = Fingerprint(self.name, is_copy=self.copy is not None)
        object.__setattr__(self, "fingerprint", fingerprint)

    @property
    def all(self) -> tuple[Source, ...]:
        """The manifests it stands for."""
        return (self,)

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

    def require_same(self) -> None:
        """Raise StoppedEarly if it was changed since it was read."""
        self.fingerprint.require_same()

    def facts(self) -> list[dict[str, Any]]:
        """What a run's report says of it."""
        found = self.found
        facts = {
            "path": self.name,
            "format": self.format,
            "encoding": found.encoding and found.encoding.name,
            "separator": found.form and found.form.separator,
            "sheet": found.sheet,
        }
        return [{name: value for name, value in facts.items() if value is not None}]


@dataclass(frozen=True)
class Sources:
    """Several manifests, read as if one stood behind the other."""

    all: tuple[Source, ...]
    columns: Columns

    @property
    def name(self) -> str:
        """What messages call them where no row is meant."""
        return ", ".join(source.name for source in self.all)

    @property
    def paths(self) -> list[str]:
        """Their files, see `Source.paths`."""
        return [path for source in self.all for path in source.paths]

    def require_same(self) -> None:
        """Raise StoppedEarly if one was changed since it was read."""
        for source in self.all:
            source.require_same()

    def facts(self) -> list[dict[str, Any]]:
        """What a run's report says of them."""
        return [fact for source in self.all for fact in source.facts()]


Manifest = Source | Sources


BLOCK_BYTES = 1 << 16
_END = b""  # in place of a hash


class Fingerprint:
    """Size, times and running hashes of one file.

    Args:
        name: what messages call it, and where it is unless `is_copy`.
        is_copy: nobody else can reach it.
    """

    def __init__(self, name: str, is_copy: bool = False) -> None:
        self._name = name
        self._is_copy = is_copy
        self._hashes: list[bytes] = []  # of all bytes up to the end of each block; then _END
        self._state: tuple[int, ...] | None = None  # of the file when it was opened first

    def watch(self, file: BinaryIO) -> BinaryIO:
        """The same bytes, from an unbuffered file at its start; reading raises `changed`."""
        if self._state is None:
            self._state = _state(os.fstat(file.fileno()))
        return cast(BinaryIO, io.BufferedReader(_Watched(file, self), BLOCK_BYTES))

    def require_same(self) -> None:
        """Look at the file once more, and read it only if it was touched.

        Raises:
            StoppedEarly: it was changed since it was read, or is gone.
        """
        if self._is_copy or self._state is None:
            return
        try:
            if _state(os.stat(self._name)) == self._state:
                return
            if not self.is_there():
                raise self.changed()
            with open(self._name, "rb", buffering=0) as file:
                watched = self.watch(cast(BinaryIO, file))
                while watched.read(BLOCK_BYTES):
                    pass
        except OSError as error:
            raise self.changed() from error

    def compare(self, index: int, found: bytes) -> None:
        """Note what block `index` of a reading hashes to, or compare it with what is known."""
        if index == len(self._hashes):
            self._hashes.append(found)
        elif self._hashes[index] != found:
            raise self.changed()

    @property
    def is_known(self) -> bool:
        """Whether the file was read to its end."""
        return bool(self._hashes) and self._hashes[-1] == _END

    def is_there(self) -> bool:
        """Whether a plain file has its name; opening a pipe would wait for a writer."""
        return os.path.isfile(self._name)

    def changed(self) -> StoppedEarly:
        """The error of a manifest that is not what it was."""
        return StoppedEarly(
            f"{self._name}: the manifest was changed, or is gone, since it was read",
            remedy="rows spoken so far are kept; run the same command again",
        )


def _state(found: os.stat_result) -> tuple[int, ...]:
    """What changes with a file; more often than its content does."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class _Watched(io.RawIOBase):
    """The raw file below one reader."""

    def __init__(self, file: BinaryIO, fingerprint: Fingerprint) -> None:
        self._file = file
        self._fingerprint = fingerprint
        self._digest = hashlib.blake2b(digest_size=16)
        self._index = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill a buffer, or as much of it as a block is."""
        buffer = buffer[:BLOCK_BYTES]  # whoever asks for a whole file has the same blocks
        count = 0  # a block is whole, or the last one: network file systems may give less at once
        while count < len(buffer):
            more: int = self._file.readinto(buffer[count:])  # type: ignore[attr-defined]
            if not more:
                break
            count += more
        if not count:
            self._fingerprint.compare(self._index, _END)
            return 0
        self._digest.update(buffer[:count])
        self._fingerprint.compare(self._index, self._digest.digest())
        self._index += 1
        return count

    def close(self) -> None:
        """Close the file too."""
        self._file.close()
        super().close()


class RowBuilder:
    """Makes the rows of one manifest.

    Args:
        wanted: see `read_rows`.
        number: of the last row of the manifest before; numbers go on.
        file: see `Row`.
        content_ids: see `build_row`; they must see rows that are passed over, too.
    """

    def __init__(
        self,
        source: Source,
        wanted: Sequence[int] | None = None,
        number: int = 0,
        file: str = "",
        content_ids: ContentIds | None = None,
    ) -> None:
        self.number = number
        self.is_whole = wanted is None  # all rows are read, and for the first time
        self._wanted = wanted
        self._folder = source.folder
        self._columns = source.columns
        self._is_idle = source.columns.is_idle
        self._has_names, self._has_cast = source.rules.has_names, source.rules.has_cast
        self._file = file
        self._content_ids = content_ids
        self._strips_markup = source.rules.strips_markup
        self.is_passed = False  # the row counted last, though it may have been made

    def next(self) -> bool:
        """Count a row that was found. False: it is to be passed over."""
        self.number += 1
        if self._wanted is None:
            return True
        self.is_passed = not self._wanted[self.number - 1]
        return not self.is_passed or self._content_ids is not None

    def row(self, values: Mapping[str, Any], line: int) -> Row | BadRow:
        """The row of an object."""
        extra = None
        if not self._is_idle:
            try:
                values, extra = self._columns.split(values)
            except RowProblem as problem:
                return self.bad(line, str(problem))
        if self._has_names:
            values, extra = self._without_name(values, extra or {})
        row = build_row(
            values,
            line=line,
            number=self.number,
            folder=self._folder,
            extra=extra or None,
            content_ids=self._content_ids,
            strips_markup=self._strips_markup,
        )
        return self._named(row) if self._file else row

    def cells(self, values: Mapping[str, str], line: int, extra: Mapping[str, str]) -> Row | BadRow:
        """The row of a table's cells, by field."""
        if self._has_names:
            values, extra = self._without_name(values, extra)
        row = build_row(
            values,
            line=line,
            number=self.number,
            folder=self._folder,
            is_text=True,
            extra=extra or None,
            content_ids=self._content_ids,
            strips_markup=self._strips_markup,
        )
        return self._named(row) if self._file else row

    def bad(self, line: int, message: str) -> BadRow:
        """A row that cannot be read."""
        return BadRow(line, self.number, None, message, file=self._file)

    def _without_name(
        self, values: Mapping[str, Any], extra: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """A row's values where the name in front of its text is who says it."""
        values, extra = dict(values), dict(extra)
        field = "text" if "text" in values else "input"
        text = values.get(field)
        found = name_in_front(text) if isinstance(text, str) else None
        if found is not None:
            values[field] = found[1]
            if not self._has_cast:
                extra.setdefault("speaker", found[0])
            elif not (values.get("character") or values.get("role")):
                values["character"] = found[0]
        return values, extra

    def _named(self, row: Row | BadRow) -> Row | BadRow:
        if isinstance(row, BadRow):
            return replace(row, file=self._file)
        row.file = self._file
        return row
