"""Names of files: short, flat and unique on every file system; columns have their types."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts_cli.checks.word_times import TimedWord, WordTimes
from tts_cli.export.row import COLUMNS, WORD, ExportRow, Names
from tts_cli.sources.ids import id_problem

VALUES = {"id": "a", "take": 1, "text": "T", "spoken_text": "t", "voice": "v", "character": "Anna"}
VALUES |= {"language": "english", "duration": 1.0, "sample_rate": 24_000, "seed": 7}
VALUES |= {"error": 0.5, "mos": 3.5}
ROW = ExportRow(Path(), Path("a.wav"), 1, "ab", True, VALUES, {})


def rows_of(ids: Iterable[str], takes: Sequence[int] = (1,)) -> list[ExportRow]:
    return [
        replace(ROW, values=VALUES | {"id": row_id, "take": take}, is_current=take == 1)
        for row_id in ids
        if id_problem(row_id) is None
        for take in takes
    ]


def named(ids: Iterable[str], has_dots: bool = True, takes: Sequence[int] = (1,)) -> list[str]:
    names = Names(has_dots)
    return [names.of(row) for row in rows_of(ids, takes)]


def folded(name: str) -> str:
    """Return what the strictest file systems compare."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def test_plain_ids_stay() -> None:
    assert named(["a", "v1.5_x-y"]) == ["a", "v1.5_x-y"]
    assert named(["v1-5"], has_dots=False) == ["v1-5"]
    assert "." not in named(["v1.5"], has_dots=False)[0]


@pytest.mark.parametrize("row_id", ["a/b", "ä" * 90 + "/" + "ä" * 90, "a/" * 100 + "b"])
def test_other_ids_get_digits(row_id: str) -> None:
    (name,) = named([row_id])
    assert "/" not in name
    assert len(name.encode()) <= 220
    assert name.split("-")[-1] != named([row_id + "c"])[0].split("-")[-1]


@pytest.mark.parametrize(
    "ids",
    [
        ("a", "A"),
        ("\u00e9", "e\u0301"),
        ("Stra\u00dfe", "STRASSE"),
        ("b/c", "b_c-3e39de933a"),  # the name of the first is the id of the second
    ],
)
def test_names_that_would_be_the_same(ids: tuple[str, str]) -> None:
    for order in (ids, ids[::-1]):
        first, second = named(order)
        assert folded(first) != folded(second)


@given(st.sets(st.text("aA\u00e4\u00c4a\u0308./_-", min_size=1, max_size=8), min_size=2))
@pytest.mark.slow
def test_no_two_takes_share_a_name(ids: set[str]) -> None:
    for takes, has_dots in itertools.product([(1,), (1, 2)], [True, False]):
        found = named(ids, has_dots, takes)
        assert len(set(map(folded, found))) == len(found)
        assert has_dots or not any("." in name for name in found)
        assert all(len(name.encode()) <= 220 for name in found)


def test_columns_have_their_types(tmp_path: Path) -> None:
    row = replace(ROW, folder=tmp_path)
    words = [TimedWord("T", 0.1, 0.3, 0.5, 0, 1, "dictionary")]
    times = WordTimes(row.id, 1, "ab", "an aligner", "T", 1.0, 0.5, words)
    (tmp_path / f"{row.id}.words.json").write_bytes(times.encode())
    columns = row.columns(None, ())
    assert list(columns) == list(COLUMNS)
    for name, value in columns.items():
        assert isinstance(value, COLUMNS[name][0]), name
    (word,) = columns["words"]
    assert {name: type(value) for name, value in word.items()} == WORD
    assert row.columns(16_000, ())["sample_rate"] == 16_000
