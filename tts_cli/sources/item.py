"""The manifests of a run: where they are, in which form, and whether they have changed.

A manifest is read once, and what was read is spoken. `require_same`, at the end of the reading,
finds whether the file was changed meanwhile.

Rows as readers find them: counted, and their names mapped.
"""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple

from tts_cli.core import BadRow, Row
from tts_cli.errors import StoppedEarly, UsageError
from tts_cli.named import first_few
from tts_cli.plain import read_table
from tts_cli.sources.decode import Encoding, known_encoding
from tts_cli.sources.ids import ContentIds
from tts_cli.sources.mapping import DROP, ColumnMapping, RowProblem
from tts_cli.sources.row import build_row

if TYPE_CHECKING:
    from tts_cli.config import RunConfig


@dataclass(frozen=True)
class ReadOptions:
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
    def of(cls, config: RunConfig) -> ReadOptions:
        """What the settings of a run say. Raises UsageError."""
        encoding = None if config.encoding is None else known_encoding(config.encoding)
        names = tuple(name.strip() for name in (config.columns or "").split(","))
        if config.columns is not None and not any(names):
            raise UsageError("--columns: names no column", "give names such as --columns id,text")
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
class Dialect:
    """How one table is written."""

    separator: str
    is_quoted: bool = True  # as in CSV; False: quotation marks are letters
    names: tuple[str, ...] = ()  # of its columns, "" for one without; none: the first row has them
    targets: Mapping[str, str] = field(
        default_factory=dict
    )  # of names: fields, see `ColumnMapping`
    id_parts: int = 0  # how many of a path's last parts make an id
    num_directives: int = 0  # lines at its start that are not rows: sep=; and those of Anki
    advice: str = ""  # flags for a table whose first row seems to name no columns

    def reader(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """The cells of each row."""
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.is_quoted else csv.QUOTE_NONE
        return csv.reader(lines, delimiter=self.separator, quoting=quoting, strict=True)


@dataclass(frozen=True)
class ListForm:
    """What the lines of a text are."""

    name: str
    line: re.Pattern[str] | None  # with the groups id, speaker, time and text
    head: re.Pattern[str] | None  # a line about those below it, with the groups speaker and time
    skip: re.Pattern[str] | None  # lines that are not read


@dataclass
class SourceFacts:
    """What the first reading of a file found out about it."""

    encoding: Encoding | None = None
    form: Dialect | None = None  # None: it is no table
    list_form: ListForm | None = None  # of a plain text; None: a text per line
    marks: tuple[tuple[re.Pattern[str], str], ...] = ()  # not said, and what replaces them
    is_subtitles: bool = False
    sheet: str | None = None
    state: tuple[int, ...] | None = None  # of the file when it was opened first


@dataclass(frozen=True)
class ManifestFile:
    """A manifest that can be read as often as needed."""

    name: str  # what messages call it, and where it is unless it was copied
    format: str  # jsonl, csv, tsv, txt or xlsx
    folder: str  # where a relative ref_audio starts
    copy: BinaryIO | None = None  # of stdin or a pipe; read by one pass at a time
    rules: ReadOptions = field(default_factory=ReadOptions)
    columns: ColumnMapping = field(default_factory=ColumnMapping, compare=False)
    given: Sequence[Row | BadRow] | None = None  # its rows, where they are not to be read
    found: SourceFacts = field(default_factory=SourceFacts, init=False, compare=False)

    @property
    def all(self) -> tuple[ManifestFile, ...]:
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
            StoppedEarly: it is not what it was.
        """
        if self.copy is not None:
            self.copy.seek(0)
            return os.fdopen(os.dup(self.copy.fileno()), "rb")
        if self.found.state is not None:
            self.require_same()  # before a pipe in its place lets us wait for a writer
        file = open(self.name, "rb")  # noqa: SIM115
        self.found.state = self.found.state or _state(os.fstat(file.fileno()))
        return file

    def require_same(self) -> None:
        """Raise StoppedEarly if it was changed since it was opened first, or is gone."""
        if self.copy is not None or self.found.state is None:
            return
        try:
            if _state(os.stat(self.name)) == self.found.state:
                return
        except OSError:
            pass
        raise StoppedEarly(
            f"{self.name}: the manifest was changed or removed during the run",
            remedy="finished rows are safe; run the same command again",
        )

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
class ManifestSet:
    """Several manifests, read as if one stood behind the other."""

    all: tuple[ManifestFile, ...]
    columns: ColumnMapping

    @property
    def name(self) -> str:
        """What messages call them where no row is meant."""
        return ", ".join(source.name for source in self.all)

    @property
    def paths(self) -> list[str]:
        """Their files, see `ManifestFile.paths`."""
        return [path for source in self.all for path in source.paths]

    def require_same(self) -> None:
        """Raise StoppedEarly if one was changed since it was read."""
        for source in self.all:
            source.require_same()

    def facts(self) -> list[dict[str, Any]]:
        """What a run's report says of them."""
        return [fact for source in self.all for fact in source.facts()]


Manifest = ManifestFile | ManifestSet


def _state(found: os.stat_result) -> tuple[int, ...]:
    """What changes with a file; more often than its content does."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


# Names in front of lines: `Anna: Come in.`, as Yarn Spinner, screenplays and podcasts write them. A
# model reads them aloud.
_MAX_NAMES = 1000  # that are counted
_MAX_SHOWN = 5
_LEAST_ROWS = 3  # of a name
_LEAST_SHARE = 0.2  # of the rows
# In brackets or bold letters too; a direction behind it, `ANNA (softly):`, is not said either.
_NAME = re.compile(
    r"\s*(?:\*\*|\[)?((?:(?:Dr|Mr|Mrs|Ms|Prof|St|Sgt|Lt|Capt)\. ?)?"
    r"[^\W\d_][^:\uff1a\n\"“”«».,;!?()\[\]*]{0,29})"
    r"(?:\*\*|\])?\s*(?:\([^()\n:]{1,40}\))?\s*(?::(?:\*\*)?\s+|\uff1a(?:\*\*)?\s*)(?=\S)"
)
_SPEAKERS = Path(__file__).parent / "data" / "speakers.toml"
_MAX_WORDS = 3


def name_in_front(text: str) -> tuple[str, str] | None:
    """A name at the start of a line and what is said behind it; None: there is none."""
    if ":" not in text and "\uff1a" not in text:
        return None
    found = _NAME.match(text)
    if found is None:
        return None
    name = found[1].strip()
    words, table = name.split(), read_table(_SPEAKERS)
    is_name = not any(
        word[0].islower() for word in (words[0], *set(words).difference(table["small"]))
    )
    is_label = not {name.casefold(), words[0].casefold()}.isdisjoint(table["labels"])
    if len(words) > _MAX_WORDS or not is_name or is_label:
        return None
    return name, text[found.end() :]


class SpeakerNames:
    """Counts names in front of the texts of a manifest."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._rows = 0

    def add(self, text: str) -> None:
        """A row's text."""
        self._rows += 1
        found = name_in_front(text)
        if found and (found[0] in self._counts or len(self._counts) < _MAX_NAMES):
            self._counts[found[0]] += 1

    def warning(self) -> str | None:
        """What is said of them, where they are names of speakers: two or more come again and again,
        or every row has one.
        """
        often = {name: count for name, count in self._counts.items() if count >= _LEAST_ROWS}
        with_name = sum(self._counts.values())
        is_each = with_name == self._rows >= _LEAST_ROWS and len(self._counts) < with_name
        is_often = len(often) > 1 and sum(often.values()) >= _LEAST_SHARE * self._rows
        if len(self._counts) < 2 or not (is_often or is_each):
            return None
        named = first_few([name for name, _ in self._counts.most_common()], _MAX_SHOWN)
        return (
            f"{with_name} rows start with a name and a colon ({named}), which would be read "
            "aloud; in a manifest, --speaker-prefix removes the names"
        )


class Item(NamedTuple):
    """What a reader finds: the values of a row, before they are checked."""

    line: int
    values: Mapping[str, Any] = {}  # by field or alias; those of an object by its own keys
    extra: Mapping[str, Any] = {}  # values that are not fields
    speaker: str = ""  # becomes the character where there is a cast
    is_object: bool = False  # from JSON or Parquet: values have types, and --map names the keys
    problem: str | None = None  # why it cannot be read


@dataclass
class RowBuilder:
    """Makes the rows of one manifest."""

    source: ManifestFile
    number: int = 0  # of the last row; numbers go on from manifest to manifest
    file: str = ""  # see `Row`
    content_ids: ContentIds | None = None  # see `build_row`

    def row(self, item: Item) -> Row | BadRow:
        """Return the row of the next item."""
        self.number += 1
        rules, columns = self.source.rules, self.source.columns
        line, values, extra, speaker, is_object, problem = item
        if is_object and problem is None and not columns.is_idle:
            try:
                values, extra = columns.split(values)
            except RowProblem as error:
                problem = str(error)
        if problem is not None:
            return BadRow(line, self.number, None, problem, file=self.file)
        if extra and columns.extra == DROP:
            extra = {}
        if self.source.found.marks:
            values = self._without_marks(values)
        if rules.has_names:
            values, speaker = self._without_name(values)
        if speaker and not rules.has_cast:
            extra = extra if columns.extra == DROP else {"speaker": speaker, **extra}
        elif speaker and not (values.get("character") or values.get("role")):
            values = {**values, "character": speaker}
        row = build_row(
            values,
            line=line,
            number=self.number,
            folder=self.source.folder,
            is_text=not is_object,
            extra=extra or None,
            content_ids=self.content_ids,
            strips_markup=rules.strips_markup,
        )
        if not self.file:
            return row
        if isinstance(row, BadRow):
            return replace(row, file=self.file)
        row.file = self.file
        return row

    def _without_marks(self, values: Mapping[str, Any]) -> dict[str, Any]:
        field = "text" if "text" in values else "input"
        text = values.get(field)
        if not isinstance(text, str):
            return dict(values)
        for pattern, put in self.source.found.marks:
            text = pattern.sub(put, text)
        return {**values, field: text.strip()}

    def _without_name(self, values: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
        """Return a row's values without a name in front of its text, and that name."""
        field = "text" if "text" in values else "input"
        text = values.get(field)
        found = name_in_front(text) if isinstance(text, str) else None
        return (values, "") if found is None else ({**values, field: found[1]}, found[0])
