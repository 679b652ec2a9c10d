"""No two takes have one name, on no file system, and a plain id keeps its own."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts_cli.export.row import ExportRow, Names
from tts_cli.manifest.ids import id_problem

ROW = ExportRow(
    "a", 1, True, Path("a.wav"), 1, "0", "T", "t", "v", "english", 1.0, 24_000, 7, None, None
)  # fmt: skip


def rows_of(ids: Iterable[str], takes: Sequence[int] = (1,)) -> list[ExportRow]:
    return [
        replace(ROW, id=row_id, take=take, is_file=take == 1)
        for row_id in ids
        if id_problem(row_id) is None
        for take in takes
    ]


def named(rows: list[ExportRow], has_dots: bool = True) -> list[str]:
    names = Names(has_dots)
    for row in rows:
        names.learn(row)
    found = [names.of(row) for row in rows]
    assert [names.of(row) for row in reversed(rows)] == found[::-1]
    return found


def folded(name: str) -> str:
    """As the strictest file systems have it."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def test_a_name_that_another_row_has_as_its_id() -> None:
    """Both had the first name: one file, two lines of metadata, wrong speech."""
    (made,) = named(rows_of(["b/c"]))
    assert made == "b_c-3e39de933a"
    for ids in (["b/c", made], [made, "b/c"]):
        found = dict(zip(ids, named(rows_of(ids)), strict=True))
        assert found[made] == made
        assert found["b/c"].startswith(f"{made}-")


@pytest.mark.parametrize("ids", [("a", "A"), ("\u00e9", "e\u0301"), ("Stra\u00dfe", "STRASSE")])
def test_letter_case_and_unicode_form(ids: tuple[str, str]) -> None:
    found = [dict(zip(order, named(rows_of(order)), strict=True)) for order in (ids, ids[::-1])]
    assert found[0] == found[1]  # whatever their order
    first, second = map(folded, found[0].values())
    assert first != second
    assert set(found[0].values()) & set(ids)


def test_names_that_are_made_for_all_to_see() -> None:
    """A stranger may have every name taken that would come next."""
    ids = ["b/c"]
    for _ in range(4):
        rows = rows_of(ids)
        ids.append(named(rows)[0])
    assert len(set(map(folded, named(rows_of(ids))))) == len(ids)


@given(st.sets(st.text("aA\u00e4\u00c4a\u0308./_-", min_size=1, max_size=8), min_size=2))
@pytest.mark.slow
def test_no_two_takes_share_a_name(ids: set[str]) -> None:
    for takes, has_dots in itertools.product([(1,), (1, 2)], [True, False]):
        rows = rows_of(ids, takes)
        found = named(rows, has_dots)
        assert len(set(map(folded, found))) == len(rows)
        assert has_dots or not any("." in name for name in found)
        assert all(len(name.encode()) <= 220 for name in found)
