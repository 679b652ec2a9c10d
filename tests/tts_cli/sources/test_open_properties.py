"""Any values and any bytes as a manifest: each row is judged, none lost, nothing else raised."""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume
from hypothesis import strategies as st
from properties import holds_for

from tts_cli.core import BadRow, Row
from tts_cli.errors import ManifestError
from tts_cli.sources.decode import UTF_8, find_encoding, marked_encoding
from tts_cli.sources.ids import id_problem
from tts_cli.sources.item import ManifestFile
from tts_cli.sources.mapping import ALIASES, KINDS
from tts_cli.sources.open import read_rows
from tts_cli.sources.row import MAX_TEXT_CHARS, build_row

pytestmark = pytest.mark.slow

FIELDS = (*KINDS, *ALIASES)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
TEXTS = st.text(st.characters(exclude_categories=[]), max_size=20)
NUMBERS = st.integers() | st.floats() | st.integers(0, 2000) | st.floats(0, 100)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(TEXTS, values, max_size=3),
    max_leaves=4,
)
WORDS = ("", " ", "1", "-1", "0.5", "1e999", "nan", "true", "No", "icl", "xvec", "a.wav", "auto")
VALUES = JSON | st.sampled_from([*WORDS, "x" * (MAX_TEXT_CHARS + 1), 2**63, 10**30, 1e308])
NAMES = st.sampled_from(FIELDS) | st.sampled_from(["Text", "txt", ""]) | TEXTS
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=6) | st.fixed_dictionaries(
    {"text": st.just("Hello.")}, optional=dict.fromkeys(FIELDS[2:], VALUES)
)
CELLS = st.dictionaries(st.sampled_from(FIELDS), TEXTS | st.sampled_from(WORDS), max_size=6)
# Whole manifests, nearly right: pieces that mean something, between any bytes.
SYNTAX = b'\n|\r\n|\r|\t|,|"|""|id|text|id,text\n|id\ttext\n|{|}|[|NaN|1e999|\\ud800'.split(b"|")
LINES = b'{"text": "Hi."}\n|{"id": "a", "text": "Hi."}\n'.split(b"|")
ODD = b"\0|\xff\xfe|\xff|\xed\xa0\x80|\xef\xbb\xbf|\xe2\x80\xa8|\xc2\x85|\x0b|\x1c".split(b"|")
PIECES = st.sampled_from([*SYNTAX, *LINES, *ODD, b"9" * 5000, b"[" * 3000])
CONTENTS = st.lists(PIECES | st.binary(max_size=6), max_size=15).map(b"".join)
FORMATS = st.sampled_from(["jsonl", "csv", "tsv", "txt"])

GOOD_TEXTS = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cf", "Z"]), min_size=1, max_size=8
).flatmap(
    lambda word: st.sampled_from([word, f"{word}, {word}", f'"{word}"\n\t{word}', f"{word};"])
)
GOOD_ROWS = st.fixed_dictionaries(
    {"text": GOOD_TEXTS},
    optional={
        "voice": st.sampled_from(["clara", "Dr. O'Neil, jr"]),
        "instruct": GOOD_TEXTS,
        "seed": st.integers(0, 2**53 - 1),
        "greedy": st.booleans(),
        "temperature": st.floats(0.01, 2),
        "top_k": st.integers(1, 50),
        "max_frames": st.integers(1, 1000),
    },
)


def rows_of(content: bytes, format: str) -> list[Row | BadRow]:
    """Read a manifest of these bytes."""
    with tempfile.NamedTemporaryFile(suffix=f".{format}") as file:
        file.write(content)
        file.flush()
        return list(read_rows(ManifestFile(file.name, format, "folder")))


def starts_array(content: bytes) -> bool:
    return content.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")


def assert_sane(row: Row | BadRow) -> None:
    """What the rest of the tool relies on."""
    if isinstance(row, BadRow):
        assert row.message
        assert row.message.isprintable(), row.message
        assert row.id is None or id_problem(row.id) is None
        return
    assert id_problem(row.id) is None
    for text in (row.text, row.instruct, row.ref_text, row.voice, row.language, row.ref_audio):
        assert text is None or (text.strip() and not CONTROL.search(text))
    assert 0 < len(row.text) <= MAX_TEXT_CHARS
    assert row.seed is None or 0 <= row.seed < 2**53
    assert row.max_frames is None or row.max_seconds is None
    assert (row.ref_audio is None) == (row.clone_mode is None)
    assert row.clone_mode != "icl" or row.ref_text is not None
    assert all(value - value == 0 for value in row.sampling.values())  # none infinite, no NaN


@holds_for(OBJECTS, st.integers(1, 10**7))
def test_any_values_are_judged(values: dict[str, Any], number: int) -> None:
    row = build_row(values, line=number + 1, number=number, folder="folder")
    assert (row.line, row.number) == (number + 1, number)
    assert_sane(row)


@holds_for(CELLS, st.integers(1, 10**7))
def test_any_cells_are_judged(values: dict[str, str], number: int) -> None:
    row = build_row(values, line=number, number=number, folder="folder", is_text=True)
    assert_sane(row)


@holds_for(CONTENTS, FORMATS, quick=150)
def test_any_bytes_are_read(content: bytes, format: str) -> None:
    """To their end, or not at all with the error that says why."""
    try:
        rows = rows_of(content, format)
    except ManifestError as error:
        reason = str(error)
        rows = None
    if rows is None:
        assert reason.isprintable()
        # Tables may lack their header, and what is behind a mistake in an array cannot be read.
        is_array = format == "jsonl" and starts_array(content)
        is_table = format in ("csv", "tsv") or re.search(rb"[|\t]", content)
        assert is_array or is_table or marked_encoding(content), reason
        return
    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    lines = [row.line for row in rows]
    assert lines == sorted(set(lines))
    num_lines = max(content.count(b"\n"), content.count(b"\r")) + 1
    assert all(1 <= line <= num_lines for line in lines)
    for row in rows:
        assert_sane(row)
    encoding = find_encoding([content]) if format == "txt" else marked_encoding(content)
    is_utf8 = encoding is None or encoding.name == UTF_8
    if is_utf8 and (format == "txt" or (format == "jsonl" and not starts_array(content))):
        given = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
        given = given.split("\n" if "\n" in given else "\r")
        filled = [number for number, line in enumerate(given, 1) if line.strip()]
        if format == "txt" and re.search(rb"[|\t]", content):  # may be a table with a header
            assert set(lines) <= set(filled)
        else:
            assert lines == filled


@holds_for(st.lists(OBJECTS, max_size=6))
def test_a_line_is_what_its_values_are(objects: list[dict[str, Any]]) -> None:
    """Reading JSONL is `build_row` of each object; NaN and infinity, which JSON lacks, are bad."""
    # One object may be the envelope of a list of rows.
    assume(len(objects) != 1 or list not in map(type, objects[0].values()))
    content = "".join(json.dumps(values) + "\n" for values in objects).encode()
    rows = rows_of(content, "jsonl")
    assert len(rows) == len(objects)
    for number, (row, values) in enumerate(zip(rows, objects, strict=True), 1):
        wanted = build_row(values, line=number, number=number, folder="folder")
        if isinstance(row, BadRow):
            lacks = re.search(r"NaN|Infinity", json.dumps(values))
            assert isinstance(wanted, BadRow) or lacks, (row, values)
        else:
            assert row == wanted


@holds_for(st.lists(GOOD_ROWS, min_size=1, max_size=6), st.sampled_from(["csv", "tsv"]))
def test_tables_and_lines_say_the_same(objects: list[dict[str, Any]], format: str) -> None:
    text = io.StringIO()
    separator = "," if format == "csv" else "\t"
    columns = [name for name in KINDS if any(name in values for values in objects)]
    writer = csv.DictWriter(text, columns, delimiter=separator, quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerows(objects)
    lines = "".join(json.dumps(values) + "\n" for values in objects)
    from_lines = rows_of(lines.encode(), "jsonl")
    from_table = rows_of(text.getvalue().encode(), format)
    assert all(isinstance(row, Row) for row in from_lines), from_lines
    assert [replace(row, line=0) for row in from_table] == [
        replace(row, line=0) for row in from_lines
    ]
