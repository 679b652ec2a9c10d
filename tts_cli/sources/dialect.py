"""Detect the dialect of a table before its rows are read: its separator, whether quotation marks
enclose cells, and its columns if it has no header.

Sources of the lists without a header: LJSpeech 1.1, VITS, Bert-VITS2 and GPT-SoVITS (path, speaker,
language, text), seed-tts-eval (name, transcript of the recording, recording, text).
"""

from __future__ import annotations

import csv
import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path

from tts_cli.errors import ManifestError
from tts_cli.named import shown
from tts_cli.plain import read_table
from tts_cli.sources.ids import as_id, fold_id, id_problem
from tts_cli.sources.item import Dialect, ManifestFile
from tts_cli.sources.jsonl import Lines
from tts_cli.sources.mapping import ColumnMapping, RowProblem, as_flag, guess_mapping
from tts_cli.text.languages import is_code

log = logging.getLogger(__name__)

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "|"}
PATH = "path"  # a column of paths, which become ids
_SEPARATORS_OF = {"tsv": "\t", "txt": "|\t"}  # a .csv may have any
_EXCEL_SEPARATOR = re.compile(r"sep=(.)[\r\n]*")
_ANKI_DIRECTIVE = re.compile(
    r"#(separator|html|columns|notetype|deck|tags|(?:guid|tags|notetype|deck) column):(.*)",
    re.DOTALL,
)
_ANKI_NAMES = ("tab", "comma", "semicolon", "pipe", "space", "colon")
_ANKI_SEPARATORS = dict(zip(_ANKI_NAMES, "\t,;| :", strict=True))
_HEADER_CELL = re.compile(r"[^\W\d][\w #()/-]{0,29}")
_SAMPLE_LINES = 50
_MIN_USUAL = 0.9  # of lines with the usual number of cells; the others are invalid rows
_MIN_LINES = 3  # needed to recognize a form; one path to audio is enough
MAX_PARTS = 9  # of a path, in an id
_AUDIO = re.compile(r"\.(wav|flac|mp3|ogg|opus|m4a|aac|aiff?)$", re.IGNORECASE)
_NO_SPACE = re.compile(r"\S{1,200}")
_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z]{2,4})?$")
_MAX_LABEL_CHARS = 64
_FORMS = Path(__file__).parent / "data" / "lists.toml"
_MIN_LIKENESS = 0.5  # of a text and the same text in words

OpenLines = Callable[[], AbstractContextManager[Lines]]


def find_dialect(source: ManifestFile, open_lines: OpenLines) -> Dialect | None:
    """Return the dialect of a table, or of a plain text that is a table; None: one text per line.
    Raises ManifestError if columns are named twice, or the text is not found.
    """
    with open_lines() as lines:
        filled = (line for line in lines.each() if line.strip(" ,;|\t\r\n"))
        sample = list(islice(filled, _SAMPLE_LINES))
    if not sample:
        return None if source.format == "txt" else Dialect(_SEPARATORS_OF.get(source.format, ","))
    form = _form_of(sample, source)
    if form is None:
        return None
    if form.separator in "\t|":
        form = _with_quotes(form, source, open_lines)
    column = None
    if PATH in form.names:
        column = form.names.index(PATH)
    elif not form.names and source.columns.fields:
        column = _path_column(sample, form.separator, source.columns)
    if column is not None:
        form = replace(form, id_parts=_count_parts(form, column, open_lines))
    if form.separator != _SEPARATORS_OF.get(source.format, ","):
        separator = SEPARATORS.get(form.separator, shown(form.separator))
        log.info("%s: the columns are separated by %s", source.name, separator)
    if form.names and not source.rules.columns:
        named = ", ".join(form.names)
        log.info("%s: a list without a header, read as %s", source.name, named)
    return form


def skip_directives(lines: Lines, form: Dialect) -> None:
    for _ in range(form.num_directives):
        next(lines, None)
        lines.start_row()


def path_id(path: str, parts: int) -> str:
    """Return the id for a path: its last parts, without `..` and without an audio suffix."""
    return "/".join(as_id(_AUDIO.sub("", path.strip())).split("/")[-parts:])


def is_audio(path: str) -> bool:
    return _AUDIO.search(path) is not None


def _form_of(sample: list[str], source: ManifestFile) -> Dialect | None:
    is_text, columns, given = source.format == "txt", source.columns, source.rules.columns
    separators = _SEPARATORS_OF.get(source.format, "".join(SEPARATORS))
    match = _EXCEL_SEPARATOR.fullmatch(sample[0]) if source.format == "csv" else None
    if match:
        return Dialect(match[1], names=given, targets={PATH: "id"}, num_directives=1)
    if sample[0].startswith("#separator:"):
        return _anki_dialect(sample, source)
    if given:
        separator = max(
            separators, key=lambda one: sum(len(_cells(line, one)) == len(given) for line in sample)
        )
        require_no_header(_cells(sample[0], separator), given, source)
        return Dialect(separator, names=given, targets={PATH: "id"})
    best = max(separators, key=lambda one: _fit(sample[0], one, columns))
    header = _cells(sample[0], best)
    if _names_text(header, columns) or (not is_text and any(map(columns.field_of, header))):
        is_table = not is_text or (len(header) > 1 < len(sample) and _is_even(sample, best))
        return Dialect(best) if is_table else None
    even = [one for one in "|\t" if one in separators and _is_even(sample, one)]
    for separator in filter(separators.__contains__, "|\t"):
        rows = _usual_rows(sample, separator)
        if not rows:
            continue
        _require_no_names(rows, source)
        if names := _names_of(rows):
            speaker = "character" if source.rules.has_cast else ""
            return Dialect(separator, True, names, {PATH: "id", "speaker": speaker, "words": ""})
    advice = columns_advice([_cells(line, even[0] if even else best) for line in sample])
    if not is_text:
        return Dialect(even[0] if even else best, advice=advice)
    for separator in separators:
        rows = [cells for cells in (_cells(line, separator) for line in sample) if len(cells) > 1]
        if rows and 2 * sum(_is_audio(cells[:1]) for cells in rows) > len(sample):
            ((width, _),) = Counter(map(len, rows)).most_common(1)
            advice = columns_advice([cells for cells in rows if len(cells) == width])
            raise ManifestError(
                f"{source.name}: lines start with paths of recordings, but it is unclear "
                "which cell is the text, or some lines have more cells than others",
                f"add {advice}, or the same names in another order",
            )
    if not even and not source.rules.format:
        _warn_of_table(sample, source)
    if even and len(sample) >= _MIN_LINES:
        log.warning(
            "%s: all lines have the same number of %s, and all of the line is read; if it is "
            "a table, add %s",
            source.name,
            SEPARATORS[even[0]],
            advice,
        )
    return None


def _anki_dialect(sample: list[str], source: ManifestFile) -> Dialect:
    found = [match for line in sample if (match := _ANKI_DIRECTIVE.fullmatch(line))]
    values = {match[1]: match[2].strip() for match in found}
    separator = _ANKI_SEPARATORS.get(values["separator"].lower(), values["separator"][:1] or "\t")
    names = source.rules.columns or tuple(filter(None, values.get("columns", "").split(separator)))
    if not names:
        advice = columns_advice([_cells(line, separator) for line in sample[len(found) :]])
        raise ManifestError(
            f"{source.name}: is an export of Anki, and it is unclear which field is the text",
            f"add {advice}, or the same names in another order",
        )
    return Dialect(separator, True, names, {PATH: "id"}, num_directives=len(found))


def _warn_of_table(sample: list[str], source: ManifestFile) -> None:
    for separator in ",;":
        rows = [_cells(line, separator) for line in sample]
        is_even = len({len(row) for row in rows}) == 1 < len(rows[0])
        if len(sample) >= _MIN_LINES and is_even and all(map(_HEADER_CELL.fullmatch, rows[0])):
            log.warning(
                "%s: looks like a table with a header, and all of each line is read; if it is "
                "one, add --manifest-format csv",
                source.name,
            )
            return


def _require_no_names(rows: list[list[str]], source: ManifestFile) -> None:
    """Raise ManifestError if the first row seems to name columns: one has only numbers below."""
    first, *rest = rows
    if len(rest) < _MIN_LINES - 1 or not all(map(_HEADER_CELL.fullmatch, first)):
        return
    columns = list(zip(*rest, strict=False))
    if any(all(map(str.isdecimal, cells)) for cells in columns):
        texts = [place for place in range(len(columns)) if _is_text(list(columns[place]))]
        longest = max(texts or [0], key=lambda place: sum(map(len, columns[place])))
        raise ManifestError(
            f"{source.name}:1: seems to name columns, and none is known to be the text",
            f"add {as_flag({first[longest]: 'text'})} --extra drop",
        )


def require_no_header(first: list[str], given: Sequence[str], source: ManifestFile) -> None:
    """Raise ManifestError if the first row names the columns although `--columns` does."""
    if len(first) == len(given) and _names_text(first, source.columns):
        raise ManifestError(
            f"{source.name}:1: has column names, but --columns is given too",
            "leave --columns out; --map maps columns to fields",
        )


def _cells(line: str, separator: str) -> list[str]:
    try:
        cells = next(csv.reader([line], delimiter=separator, strict=True), [])
    except csv.Error:
        cells = line.rstrip("\r\n").split(separator)
    return [cell.strip() for cell in cells]


def _fit(line: str, separator: str, columns: ColumnMapping) -> tuple[int, int]:
    names = _cells(line, separator)
    return (sum(columns.field_of(name) is not None for name in names), len(names))


def _names_text(names: list[str], columns: ColumnMapping) -> bool:
    fields = [columns.field_of(name) for name in names]
    if {"text", "input"} & set(fields) or "text" in guess_mapping(names).values():
        return True
    return len(names) > 1 and all(map(is_code, names[1:]))


def _is_even(sample: list[str], separator: str) -> bool:
    return len({line.count(separator) for line in sample}) == 1 and separator in sample[0]


def _usual_rows(sample: list[str], separator: str) -> list[list[str]]:
    """Return the rows with the usual number of cells if nearly all lines have it, else none."""
    ((usual, times),) = Counter(line.count(separator) for line in sample).most_common(1)
    if not usual or times < _MIN_USUAL * len(sample):
        return []
    return [_cells(line, separator) for line in sample if line.count(separator) == usual]


def _names_of(rows: list[list[str]]) -> tuple[str, ...]:
    """Return the columns of a list without a header; () if its form is not known."""
    columns = [list(cells) for cells in zip(*rows, strict=False)]
    if len(columns) > 2 and not any(columns[-1]):  # each line ends with a separator
        names = _names_of([row[:-1] for row in rows])
        return (*names, "") if names else ()
    first, *others = columns
    if not others or not (_is_audio(first) or (len(rows) >= _MIN_LINES and _is_key(columns))):
        return ()
    is_id = all(id_problem(cell) is None and not _AUDIO.search(cell) for cell in first)
    head = "id" if is_id else PATH
    for form in read_table(_FORMS)["columns"]:
        names = form["names"]
        pairs = zip(names, others, strict=False)
        fits = len(names) == len(others) and all(_TESTS.get(name, bool)(one) for name, one in pairs)
        if fits and ("words" not in names or _is_alike(*others)):
            return (head, *names)
    return ()


def _is_key(columns: list[list[str]]) -> bool:
    """Return whether the first column has ids, unlike in lists of words and translations."""
    keys = columns[0]
    if len(set(keys)) < len(keys) or not all(map(_NO_SPACE.fullmatch, keys)):
        return False
    longest = max(sum(map(len, cells)) for cells in columns)
    return all(re.search(r"[\d_/]", key) for key in keys) or longest >= 3 * sum(map(len, keys))


def _is_audio(cells: list[str]) -> bool:
    return all(map(_AUDIO.search, cells))


def _is_text(cells: list[str]) -> bool:
    with_letters = sum(any(map(str.isalpha, cell)) for cell in cells)
    return 2 * with_letters > len(cells) and not _is_audio(cells)


def _is_label(cells: list[str]) -> bool:
    """Return whether cells may be names of speakers, or none: short, repeated or single words."""
    if not all(len(cell) <= _MAX_LABEL_CHARS for cell in cells):
        return False
    return 2 * len(set(cells)) <= len(cells) or all(map(_NO_SPACE.fullmatch, cells))


def _are_codes(cells: list[str]) -> bool:
    return all(map(_CODE.match, cells))


# Tests of the cells of columns by name; the others may have anything.
_TESTS: dict[str, Callable[[list[str]], bool]] = {
    "text": _is_text,
    "speaker": _is_label,
    "language": _are_codes,
    "ref_audio": _is_audio,
    "truth": _is_audio,
}


def _is_alike(texts: list[str], others: list[str]) -> bool:
    pairs = zip(texts, others, strict=True)
    ratios = [SequenceMatcher(None, one[:200], other[:200]).ratio() for one, other in pairs]
    return sum(ratios) > _MIN_LIKENESS * len(ratios)


def _path_column(sample: list[str], separator: str, columns: ColumnMapping) -> int | None:
    """Return the column that `--map` maps to the id if its paths are not valid ids."""
    header, *rows = [_cells(line, separator) for line in sample]
    fields = [columns.field_of(name) for name in header]
    place = fields.index("id") if "id" in fields else len(header)
    ids = [row[place] for row in rows if place < len(row)]
    return place if ids and _is_audio(ids) and any(map(id_problem, ids)) else None


def columns_advice(rows: list[list[str]]) -> str:
    """Return flags that name the columns of these rows, as far as their cells show it."""
    width = max(map(len, rows))
    columns = [[row[place] for row in rows if place < len(row)] for place in range(width)]
    names = [""] * width
    texts = [place for place in range(width) if _is_text(columns[place])] or [width - 1]
    text = max(texts, key=lambda place: sum(map(len, columns[place])) / len(columns[place]))
    names[text] = "text"
    if text and _is_audio(columns[0]):
        names[0] = PATH
    elif text and all(cell and id_problem(cell) is None for cell in columns[0]):
        names[0] = "id"
    return f"--columns {','.join(names)}" + ("" if all(names) else " --extra drop")


def _with_quotes(form: Dialect, source: ManifestFile, open_lines: OpenLines) -> Dialect:
    """Set whether quotation marks enclose cells. They do if the whole file can be read that way,
    every row has as many cells as the first, and no cell contains both a separator and a line end,
    as after an unpaired mark.
    """
    with open_lines() as lines:
        first = next((line for line in lines.each() if line.strip()), "")
        if not form.names and first.startswith('"'):
            return form
        if '"' not in first and not any('"' in line for line in lines.each()):
            return form
    with open_lines() as lines:
        skip_directives(lines, form)
        width, start = len(form.names), 1
        try:
            for cells in form.reader(lines):
                width = width or len(cells)
                is_swallowed = any("\n" in cell and form.separator in cell for cell in cells)
                if is_swallowed or (any(cells) and len(cells) != width):
                    break
                lines.start_row()
                start = lines.number + 1
            else:
                return form
        except (csv.Error, RowProblem):
            pass
    log.info("%s: quotation marks are part of the text, as line %d shows", source.name, start)
    return replace(form, is_quoted=False)


def _count_parts(form: Dialect, column: int, open_lines: OpenLines) -> int:
    """Return how many of the last parts of the paths are needed to distinguish them."""

    def num_ids(parts: int) -> int:
        seen: set[int] = set()
        with open_lines() as lines, suppress(csv.Error, RowProblem):  # reported with its row
            for cells in form.reader(lines):
                lines.start_row()
                if column < len(cells):
                    seen.add(hash(fold_id(path_id(cells[column], parts))))
        return len(seen)

    count = num_ids(MAX_PARTS)
    return next((parts for parts in range(1, MAX_PARTS) if num_ids(parts) == count), MAX_PARTS)
