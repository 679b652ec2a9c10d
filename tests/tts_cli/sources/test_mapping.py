"""Columns to fields: what `--map` takes, and what is said of names that nobody knows."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest
from cases import cases

from tts_cli.core import BadRow, Row
from tts_cli.errors import ManifestError, UsageError
from tts_cli.sources.item import ManifestFile
from tts_cli.sources.mapping import ColumnMapping, RowProblem, as_flag, parse_map
from tts_cli.sources.open import read_rows

CASES = cases(__file__)["mapping"]

MakeSource = Callable[..., ManifestFile]


@pytest.mark.parametrize(("text", "wanted"), CASES["maps"])
def test_maps(text: str, wanted: dict[str, str]) -> None:
    assert parse_map(text) == wanted
    (typed,) = shlex.split(as_flag(wanted))[1:]
    assert parse_map(typed) == wanted


@pytest.mark.parametrize(("text", "words"), CASES["maps_that_are_none"])
def test_maps_that_are_none(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_map(text)
    assert words in str(caught.value)


# Headers as the exports of several tools write them, and the flags they are told to add.
EXPORTS = CASES["exports"]


@pytest.mark.parametrize(("header", "words"), EXPORTS)
def test_exports_are_told_the_flag(make_source: MakeSource, header: str, words: str) -> None:
    separator = ";" if ";" in header else ","
    with pytest.raises(ManifestError) as caught:
        list(read_rows(make_source(header + "\n" + separator.join("aaaaaaa") + "\n", "m.csv")))
    assert words in str(caught.value)


def values(columns: ColumnMapping) -> tuple[dict[str, object], dict[str, object]]:
    return columns.split({"Dialogue": "Hi.", "id": "a", "scene": [1, {"a": 2}], "none": None})


def test_extra_columns() -> None:
    fields = {"Dialogue": "text"}
    known = {"text": "Hi.", "id": "a"}
    assert values(ColumnMapping(fields, "drop")) == (known, {})
    assert values(ColumnMapping(fields, "keep")) == (known, {"scene": [1, {"a": 2}], "none": None})
    with pytest.raises(RowProblem, match="unknown fields 'scene', 'none'"):
        values(ColumnMapping(fields))
    assert ColumnMapping({"id": ""}, "keep").split({"id": "a", "text": "b"}) == (
        {"text": "b"},
        {"id": "a"},
    )


def test_two_values_for_one_field() -> None:
    columns = ColumnMapping({"Dialogue": "text"})
    with pytest.raises(RowProblem, match=r"has 'text' twice, once as 'Dialogue'.*--map \"text=\""):
        columns.split({"text": "a", "Dialogue": "b"})
    assert columns.split({"text": "a", "Dialogue": "a"}) == ({"text": "a"}, {})
    assert columns.split({"text": "a", "Dialogue": ""}) == ({"text": "a"}, {})
    assert columns.split({"text": None, "Dialogue": "b"}) == ({"text": "b"}, {})


def read(source: ManifestFile, columns: ColumnMapping) -> list[Row | BadRow]:
    object.__setattr__(source, "columns", columns)
    return list(read_rows(source))


def test_a_column_that_is_nowhere(make_source: MakeSource) -> None:
    for content, name in ((b'{"Dialogue": "a"}\n', "m.jsonl"), (b"Dialogue\na\n", "m.csv")):
        with pytest.raises(
            ManifestError, match="names 'Dialog', which is not a column; did you mean"
        ):
            read(make_source(content, name), ColumnMapping({"Dialog": "text"}))
    with pytest.raises(
        ManifestError, match="names 'x', which is not a column; the columns are 'Dialogue'"
    ):
        read(make_source(b"Dialogue\na\n", "m.csv"), ColumnMapping({"x": "text"}))


def test_rows_of_tables(make_source: MakeSource) -> None:
    content = b"Dialogue,Notes,,id,Empty\nHi.,loud,,a,\nHo., ,,b,\nHa.,,?,c,\n"
    columns = {"Dialogue": "text"}
    first, second, third = read(make_source(content, "m.csv"), ColumnMapping(columns, "keep"))
    assert isinstance(first, Row)
    assert isinstance(second, Row)
    assert (first.id, first.text, first.extra) == ("a", "Hi.", {"Notes": "loud"})
    assert second.extra is None
    assert isinstance(third, Row)
    assert third.extra == {"#3": "?"}  # a column without a name is called by its place
    dropped = read(make_source(content, "m.csv"), ColumnMapping(columns, "drop"))[0]
    assert isinstance(dropped, Row)
    assert dropped.extra is None


def test_what_is_kept_has_room_in_the_journal(make_source: MakeSource) -> None:
    content = '{"text": "a", "note": "%s"}\n{"text": "b", "note": "%s"}\n'
    good, bad = read(make_source(content % ("ü" * 10_000, "ü" * 11_000)), ColumnMapping({}, "keep"))
    assert isinstance(good, Row)
    assert isinstance(bad, BadRow)
    assert "the maximum is 65536; leave some out, or add --extra drop" in bad.message
    deep = '{"text": "a", "note": ' + "[" * 900 + "]" * 900 + "}\n"
    assert len(read(make_source(deep), ColumnMapping({}, "keep"))) == 1


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("Notes,text,Notes", "the column 'Notes' occurs twice"),
        ("Dialogue,text", "'Dialogue' and 'text' both map to 'text'; leave one out: --map"),
    ],
)
def test_columns_in_each_others_way(make_source: MakeSource, header: str, words: str) -> None:
    columns = ColumnMapping({"Dialogue": "text"} if "Dialogue" in header else {}, "keep")
    with pytest.raises(ManifestError) as caught:
        read(make_source(header + "\na,b,c\n", "m.csv"), columns)
    assert words in str(caught.value)
