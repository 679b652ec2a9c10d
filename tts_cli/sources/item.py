"""The manifests of a run, the items that readers find in them, and the rows made of items.

A manifest is read once. At the end, `require_same` checks whether the file changed meanwhile.
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
    """The settings for reading manifests. None: detected from the file."""

    format: str | None = None  # value of --manifest-format
    encoding: str | None = None  # as Python calls it
    sheet: str | None = None
    ids: str = "number"  # source of ids for rows without one: number or content
    columns: tuple[str, ...] = ()  # names of columns, "" for one without; (): of the header
    has_cast: bool = False  # whether there are settings of characters
    has_names: bool = False  # whether texts start with names of speakers, which are removed
    strips_markup: bool = False  # whether tags of style are removed from texts

    @classmethod
    def of(cls, config: RunConfig) -> ReadOptions:
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
    separator: str
    is_quoted: bool = True  # whether quotation marks enclose cells
    names: tuple[str, ...] = ()  # of columns, "" for one without; (): in the first row
    targets: Mapping[str, str] = field(
        default_factory=dict
    )  # of names: fields, see `ColumnMapping`
    id_parts: int = 0  # number of last parts of a path that make an id
    num_directives: int = 0  # lines before the rows: sep=; and those of Anki
    advice: str = ""  # flags for a table without a header

    def reader(self, lines: Iterable[str]) -> Iterator[list[str]]:
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.is_quoted else csv.QUOTE_NONE
        return csv.reader(lines, delimiter=self.separator, quoting=quoting, strict=True)


@dataclass(frozen=True)
class ListForm:
    name: str
    line: re.Pattern[str] | None = None  # with the groups id, speaker, time and text
    head: re.Pattern[str] | None = None  # about the next lines, with the groups speaker and time
    skip: re.Pattern[str] | None = None  # lines that are not read
    head_lines: int = 1


@dataclass
class SourceFacts:
    encoding: Encoding | None = None
    form: Dialect | None = None  # None: it is not a table
    list_form: ListForm | None = None  # of a plain text; None: one text per line
    marks: tuple[tuple[re.Pattern[str], str], ...] = ()  # removed from texts, with replacements
    is_subtitles: bool = False
    sheet: str | None = None
    state: tuple[int, ...] | None = None  # of the file at its first opening


@dataclass(frozen=True)
class ManifestFile:
    """A manifest that can be read repeatedly."""

    name: str  # for messages; the path, unless there is a copy
    format: str  # name as for --manifest-format
    folder: str  # base of relative paths in ref_audio
    copy: BinaryIO | None = None  # of stdin or a pipe; one reader at a time
    rules: ReadOptions = field(default_factory=ReadOptions)
    columns: ColumnMapping = field(default_factory=ColumnMapping, compare=False)
    given: Sequence[Row | BadRow] | None = None  # its rows, instead of a file
    found: SourceFacts = field(default_factory=SourceFacts, init=False, compare=False)

    @property
    def all(self) -> tuple[ManifestFile, ...]:
        return (self,)

    @property
    def paths(self) -> list[str]:
        """The absolute path of the file; empty for a pipe."""
        return [] if self.copy is not None else [os.path.abspath(self.name)]

    def open(self) -> BinaryIO:
        """Open the file at its start. Raises OSError, and StoppedEarly if it has changed."""
        if self.copy is not None:
            self.copy.seek(0)
            return os.fdopen(os.dup(self.copy.fileno()), "rb")
        if self.found.state is not None:
            self.require_same()  # opening a pipe in its place would wait for a writer
        file = open(self.name, "rb")  # noqa: SIM115
        self.found.state = self.found.state or _state(os.fstat(file.fileno()))
        return file

    def require_same(self) -> None:
        """Raise StoppedEarly if the file was removed or has changed since its first opening."""
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
        """Return the file's entry in `run.json`."""
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
    """Several manifests that are read as one, in order."""

    all: tuple[ManifestFile, ...]
    columns: ColumnMapping

    @property
    def name(self) -> str:
        return ", ".join(source.name for source in self.all)

    @property
    def paths(self) -> list[str]:
        return [path for source in self.all for path in source.paths]

    def require_same(self) -> None:
        for source in self.all:
            source.require_same()

    def facts(self) -> list[dict[str, Any]]:
        return [fact for source in self.all for fact in source.facts()]


Manifest = ManifestFile | ManifestSet


def _state(found: os.stat_result) -> tuple[int, ...]:
    """Return a value that changes whenever the content of a file does."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


# Names of speakers before lines, `Anna: Come in.`, as in Yarn Spinner, screenplays and podcasts. A
# model would read them aloud.
_MAX_NAMES = 1000  # that are counted
_MAX_SHOWN = 5
_MIN_ROWS = 3  # of a name
_MIN_SHARE = 0.2  # of the rows
# Also in brackets or bold, and with a direction as in `ANNA (softly):`, which is not read either.
_NAME = re.compile(
    r"\s*(?:\*\*|\[)?((?:(?:Dr|Mr|Mrs|Ms|Prof|St|Sgt|Lt|Capt)\. ?)?"
    r"[^\W\d_][^:\uff1a\n\"“”«».,;!?()\[\]*]{0,29})"
    r"(?:\*\*|\])?\s*(?:\([^()\n:]{1,40}\))?\s*(?::(?:\*\*)?\s+|\uff1a(?:\*\*)?\s*)(?=\S)"
)
_SPEAKERS = Path(__file__).parent / "data" / "speakers.toml"
_MAX_WORDS = 3


def name_in_front(text: str) -> tuple[str, str] | None:
    """Split a line into its speaker's name and the rest; None without a name."""
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
    """Counts the names that texts of a manifest begin with."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._rows = 0

    def add(self, text: str) -> None:
        self._rows += 1
        found = name_in_front(text)
        if found and (found[0] in self._counts or len(self._counts) < _MAX_NAMES):
            self._counts[found[0]] += 1

    def warning(self) -> str | None:
        """Return a warning if names may be speakers: all rows have one, or several are repeated."""
        often = {name: count for name, count in self._counts.items() if count >= _MIN_ROWS}
        with_name = sum(self._counts.values())
        is_each = with_name == self._rows >= _MIN_ROWS and len(self._counts) < with_name
        is_often = len(often) > 1 and sum(often.values()) >= _MIN_SHARE * self._rows
        if len(self._counts) < 2 or not (is_often or is_each):
            return None
        named = first_few([name for name, _ in self._counts.most_common()], _MAX_SHOWN)
        return (
            f"{with_name} rows start with a name and a colon ({named}), which would be read "
            "aloud; in a manifest, --speaker-prefix removes the names"
        )


class Item(NamedTuple):
    """The unchecked values of a row, as a reader found them."""

    line: int
    values: Mapping[str, Any] = {}  # by field or alias; for an object, by its own keys
    extra: Mapping[str, Any] = {}  # values that are not fields
    speaker: str = ""  # becomes the character if there is a cast
    is_object: bool = False  # from JSON or Parquet: values have types, and --map names the keys
    problem: str | None = None  # reason why it cannot be read


@dataclass
class RowBuilder:
    source: ManifestFile
    number: int = 0  # of the last row, in this manifest or an earlier one
    file: str = ""  # for `Row.file`
    content_ids: ContentIds | None = None  # for rows without an id; None: their numbers

    def row(self, item: Item) -> Row | BadRow:
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
        """Split the name before a row's text from its values."""
        field = "text" if "text" in values else "input"
        text = values.get(field)
        found = name_in_front(text) if isinstance(text, str) else None
        return (values, "") if found is None else ({**values, field: found[1]}, found[0])
