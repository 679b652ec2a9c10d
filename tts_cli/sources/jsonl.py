"""Read rows that are JSON: an object per line, or a document over several lines.

A document is an array of objects, objects one after the other, or one object: a row, an envelope
around a list of rows (`{"lines": [...]}`), rows under their ids, or a table of strings under their
keys as i18next and Flutter's ARB have them. `Lines` reads any manifest line by line.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, TextIO

from tts_cli.errors import ManifestError
from tts_cli.named import MAX_DEPTH, is_too_deep, shown
from tts_cli.sources.archive import read_bounded
from tts_cli.sources.ids import as_id
from tts_cli.sources.item import Item
from tts_cli.sources.mapping import RowProblem, guess_mapping, is_field

MAX_LINE_CHARS = 1 << 20
_FIRST_CHARS = 1 << 16  # that a first look reads
MAX_DOCUMENT_CHARS = 256 << 20
_MAX_NUMBER_CHARS = 64
_NONE: Mapping[str, Any] = {}
_NOT_AN_ARRAY = "a manifest has one JSON object per line, not an array; jq -c '.[]' converts it"
_SAVE_AS_UTF8 = "save the file as UTF-8, or give its encoding with --encoding"
_SPACE = re.compile(r"[ \t\r\n]*")
_ESCAPED = re.compile("[\udc80-\udcff]")  # a byte that is not UTF-8


def line_items(lines: Lines, *, is_plain: bool) -> Iterator[Item]:
    """Return an item per line of JSONL, or of plain text; blank lines are skipped."""
    for line in lines:
        problem = lines.problem
        lines.start_row()
        if line.isspace() or not line:
            continue
        values: dict[str, Any] = {}
        try:
            if problem is None:
                text = line.rstrip("\r\n")
                values = {"text": text} if is_plain else _parse_object(text)
        except RowProblem as error:
            problem = str(error)
        yield Item(lines.number, values, _NONE, "", True, problem)


def is_document(file: TextIO, name: str) -> bool:
    """Return whether a text is JSON over several lines, or one line that is an array, rows in an
    envelope or, by the file's name, a table of strings.
    """
    start = file.read(_FIRST_CHARS).lstrip("\ufeff \t\r\n")
    if start.startswith("{") and "\n" not in start:
        start += file.read(MAX_LINE_CHARS - _FIRST_CHARS)
    first, end, rest = start.partition("\n")
    if not start.startswith("{"):
        return start.startswith("[")
    try:
        value = _decode(first)
    except json.JSONDecodeError as error:
        return error.pos >= len(first.rstrip()) or not end
    except (RowProblem, RecursionError):
        return False
    if rest.strip() or not isinstance(value, dict):
        return False
    is_table = name.lower().endswith((".json", ".arb")) and _is_table(value)
    return is_table or bool(_lists_of(value))


def load_document(file: TextIO, name: str) -> Document | None:
    """Load a document. Return None if it starts with an incomplete object: its lines are then read
    one by one. Raises ManifestError if it is too large.
    """
    content = read_bounded(file, MAX_DOCUMENT_CHARS, name, "write one object per line")
    document = Document(content.removeprefix("\ufeff"), name)
    if document.peek() == "{":
        try:
            Document(document.content, name).value()
        except (ManifestError, RowProblem) as error:
            if re.match(r"\s*[^\n]+\n\s*\{|[^\n]*\Z", document.content.strip()):
                return None
            if isinstance(error, RowProblem):
                raise ManifestError(f"{name}: {error}", "fix it") from None
            raise
    return document


def document_items(text: Document) -> Iterator[Item]:
    """Return the items of a document, with the lines where objects begin. Raises ManifestError."""
    if text.peek() == "[":
        yield from _array(text)
        if text.peek():
            raise text.error("there is something after the end of the array")
        return
    line, value = text.line, text.value()
    if is_too_deep(value):
        raise text.error(f"values are nested more than {MAX_DEPTH} deep")
    if text.peek():  # objects one after the other
        yield _item(value, line)
        while text.peek():
            yield _next(text)
        return
    if keys := _lists_of(value) or _lists_of(_envelope(value)):
        for key in keys:
            found = re.search(rf"{re.escape(json.dumps(key))}\s*:\s*(?=\[)", text.content)
            start = text.content.index("[") if found is None else found.end()  # the key has escapes
            yield from _array(Document(text.content, text.name, start))
        return
    if _is_table(value):
        cursor = Document(text.content, text.name)
        for key, entry in _entries(value):
            cursor.seek(json.dumps(key, ensure_ascii=False))
            yield _item(entry, cursor.line)
        return
    yield _item(value, line)


def _envelope(value: Any) -> Any:
    """Return the one object inside that has lists of objects without texts, as in the answers of a
    service: {"status": "ok", "results": {"items": [...]}}.
    """
    inner = [
        one
        for one in (value.values() if isinstance(value, dict) else ())
        if isinstance(one, dict)
        and any(isinstance(rows, list) and rows and not _has_text(rows[0]) for rows in one.values())
        and _lists_of(one)
    ]
    return inner[0] if len(inner) == 1 else None


def _lists_of(value: Any) -> list[str]:
    """Return the keys of the lists of rows in an envelope: those with texts, or else the first one,
    preferably one with values that may be the text.
    """
    lists = {
        key: all(row is None or _has_text(row) for row in one)
        for key, one in (value.items() if isinstance(value, dict) else ())
        if isinstance(one, list) and any(one) and all(isinstance(row, dict | None) for row in one)
    }
    with_texts = [key for key, has_texts in lists.items() if has_texts]
    if len(with_texts) > 1:  # of the words and the sentences of a transcript, the sentences
        said: dict[str, str] = {}
        for key in sorted(with_texts, key=lambda key: len(value[key])):
            said.setdefault("".join(_said(value[key]).split()), key)
        with_texts = [key for key in with_texts if key in said.values()]
    others = [] if _has_text(value) else [key for key in lists if not is_field(key)]
    likely = [key for key in others if "text" in guess_mapping(value[key][-1] or ()).values()]
    return with_texts or (likely or others)[:1]


def _said(rows: list[Any]) -> str:
    return "".join(str(row.get("text", row.get("input"))) for row in rows if row)


def _has_text(value: Any) -> bool:
    return isinstance(value, dict) and not {"text", "input"}.isdisjoint(value)


def _is_table(value: Any) -> bool:
    """Return whether an object is a table of strings. Some of its keys may be names of fields."""
    return isinstance(value, dict) and 2 * sum(map(is_field, value)) < len(value)


def _entries(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield keys with their strings or rows. Keys that begin with @ describe others (ARB)."""
    inner = [value for value in values.values() if isinstance(value, dict)]
    shared = set.intersection(*map(set, inner)) if len(inner) > 1 else set()
    are_rows = "text" in guess_mapping(sorted(shared)).values()  # {"a": {"message": "Hello."}, ...}
    for key, value in values.items():
        name = f"{path}/{key}" if path else key
        if key.startswith("@"):
            continue
        if isinstance(value, list) and all(isinstance(one, str) or _has_text(one) for one in value):
            numbered = {str(number): one for number, one in enumerate(value, 1)}
            yield from ((key, entry) for _, entry in _entries(numbered, name))
        elif not isinstance(value, dict):
            yield key, {"id": as_id(name), "text": value}
        elif are_rows or _has_text(value):
            yield key, {"id": as_id(name), **value}
        else:
            yield from _entries(value, name)


def _array(text: Document) -> Iterator[Item]:
    text.take("[")
    is_first, has_texts = True, text.peek() == '"'
    while text.peek() != "]":
        if not is_first:
            text.take(",")
            text.peek()  # moves to the line of the value
        is_first = False
        if has_texts and text.content.startswith('"', text.place):
            yield Item(text.line, {"text": text.value()}, is_object=True)
        elif not text.content.startswith("null", text.place):  # the first one of RPG Maker's
            yield _next(text)
        else:
            text.value()
    text.take("]")


def _next(text: Document) -> Item:
    line = text.line
    try:
        value = text.value()
    except RowProblem as problem:
        return Item(line, problem=str(problem))
    return _item(value, line)


def _item(value: Any, line: int) -> Item:
    if isinstance(value, dict):
        return Item(line, value, is_object=True)
    return Item(line, problem=f"must be a JSON object, not {shown(value)}")


class Document:
    def __init__(self, content: str, name: str, place: int = 0) -> None:
        self.content = content
        self.name = name
        self.place = place
        self.line = 1 + content.count("\n", 0, place)

    def error(
        self, problem: str, remedy: str = "fix it, or write one object per line"
    ) -> ManifestError:
        return ManifestError(f"{self.name}:{self.line}: not JSON: {problem}", remedy)

    def peek(self) -> str:
        self._skip(_SPACE.match(self.content, self.place).end())  # type: ignore[union-attr]
        return self.content[self.place : self.place + 1]

    def take(self, char: str) -> None:
        found = self.peek()
        if found != char:
            raise self.error(f"{char!r} is missing" + (f" before {found!r}" if found else ""))
        self.place += 1

    def value(self) -> Any:
        """Return the next value. Raises RowProblem if rows cannot have such a value."""
        start, problem = self.place, None
        try:
            try:
                value, end = _DECODER.raw_decode(self.content, start)
            except RowProblem as error:  # raised before the end of the value
                problem = error
                value, end = _LENIENT.raw_decode(self.content, start)
        except json.JSONDecodeError as error:
            self._skip(error.pos)
            raise self.error(error.msg) from None
        except RecursionError:
            raise self.error("values are nested too deep") from None
        if bad := _ESCAPED.search(self.content, start, end):
            self._skip(bad.start())
            byte = f"byte 0x{ord(bad[0]) - 0xDC00:02x}"
            raise self.error(f"{byte} is not UTF-8", _SAVE_AS_UTF8)
        self._skip(end)
        if problem is not None:
            raise problem
        return value

    def seek(self, found: str) -> None:
        self._skip(max(self.place, self.content.find(found, self.place)))

    def _skip(self, place: int) -> None:
        self.line += self.content.count("\n", self.place, place)
        self.place = place


def _parse_object(line: str) -> dict[str, Any]:
    try:
        value = _decode(line)
    except json.JSONDecodeError as error:
        advice = f"; {_NOT_AN_ARRAY}" if line.lstrip().startswith("[") else ""
        if line[error.pos :].strip() == ",":
            advice = "; remove the comma after the object"
        if line[error.pos :].startswith("{"):
            advice = "; write one object per line"
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


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_refuse_constant, parse_int=_bounded_int
)
_LENIENT = json.JSONDecoder(parse_int=len)  # only finds where a value ends
_decode = _DECODER.decode


class Lines:
    """Iterates over lines with their ends, also for `csv.reader`.

    An invalid line sets `problem` and is returned with replacements, because a quoted cell may end
    in it. In `file`, bytes that are not UTF-8 are lone surrogates.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._row_chars = 0
        self.number = 0  # of the last line, from 1
        self.problem: str | None = None  # with the current row

    def start_row(self) -> None:
        self._row_chars = 0
        self.problem = None

    def each(self) -> Iterator[str]:
        for line in self:
            self.start_row()
            yield line

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        line = self._file.readline(MAX_LINE_CHARS + 1)
        if not line:
            raise StopIteration
        self.number += 1
        self._row_chars += len(line)
        if len(line) > MAX_LINE_CHARS:
            while line and not line.endswith("\n"):
                line = self._file.readline(MAX_LINE_CHARS)
            self._note(f"the line is longer than {MAX_LINE_CHARS} characters")
            return "?\n"
        if self._row_chars > MAX_LINE_CHARS:
            raise RowProblem(f"the row is longer than {MAX_LINE_CHARS} characters")
        skipped = 0
        if self.number == 1 and line.startswith("\ufeff"):
            line, skipped = line[1:], len(codecs.BOM_UTF8)
        if not line.isascii() and (bad := _ESCAPED.search(line)):
            place = len(line[: bad.start()].encode()) + skipped
            self._note(
                f"byte {place + 1} of line {self.number} (0x{ord(bad[0]) - 0xDC00:02x}) is not "
                f"UTF-8; {_SAVE_AS_UTF8}"
            )
            line = _ESCAPED.sub("\ufffd", line)
        if "\0" in line:
            self._note(f"contains a NUL character at position {line.index(chr(0)) + 1}")
            line = line.replace("\0", "?")  # csv of Python 3.10 stops at it
        return line

    def _note(self, problem: str) -> None:
        if self.problem is None:
            self.problem = problem
