"""Any text at all as an id: what is accepted stays in its folder and meets no other."""

from __future__ import annotations

import os
import tempfile
import unicodedata
from pathlib import Path

import pytest
from hypothesis import strategies as st
from properties import holds_for

from tts_cli.config import SUBTYPES
from tts_cli.sources.ids import (
    MAX_ID_BYTES,
    TRUNCATED,
    IdTable,
    fold_id,
    id_hash,
    id_problem,
    is_in_shard,
)

pytestmark = pytest.mark.slow

ANYTHING = st.text(st.characters(exclude_categories=[]), max_size=30)
LETTERS = st.characters(categories=["L", "M", "Nd"])
PARTS = st.one_of(
    st.text(LETTERS, min_size=1, max_size=12),
    st.text(st.sampled_from("abAB09._-"), min_size=1, max_size=12),
    st.sampled_from([".", "..", "...", "", "CON", "nul.x", "run.json", TRUNCATED, "a" * 201]),
)
PATHS = st.lists(PARTS, min_size=1, max_size=6).map("/".join)
IDS = PATHS.filter(lambda row_id: id_problem(row_id) is None)
SUFFIXES = (*(f".{format}" for format in SUBTYPES), ".codes.safetensors")


@holds_for(ANYTHING | PATHS)
def test_every_text_gets_a_verdict(row_id: str) -> None:
    problem = id_problem(row_id)
    assert problem is None or problem.isprintable()


@holds_for(IDS)
def test_accepted_ids_stay_in_the_folder(row_id: str) -> None:
    """Really written, under every suffix and the longest temporary name."""
    assert len(row_id.encode()) <= MAX_ID_BYTES
    assert not any(unicodedata.category(char).startswith("C") for char in row_id)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch).resolve() / "out"
        names = [row_id + suffix for suffix in SUFFIXES]
        for name in names:
            path = out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
            part = path.with_name(f".{path.name}.4194304.tts-cli.part")
            part.write_text("")
            part.unlink()
        found = {path.relative_to(out).as_posix(): path for path in out.rglob("*")}
        files = {name: path.read_text() for name, path in found.items() if path.is_file()}
        assert files == {name: name for name in names}
        assert os.listdir(scratch) == ["out"]


@holds_for(IDS, IDS)
def test_ids_that_meet_on_some_file_system_collide(first: str, second: str) -> None:
    """By letter case and by the ways to write an accent, all combined (Unicode, D145 and D146)."""

    def canonical(text: str) -> str:
        text = unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).casefold())
        return unicodedata.normalize("NFD", text)

    for row_id in (first, second):
        twins = [unicodedata.normalize(form, row_id) for form in ("NFC", "NFD")]
        twins += [twin.casefold() for twin in twins]
        assert {fold_id(twin) for twin in twins} == {fold_id(row_id)}, ascii(twins)
    assert (fold_id(first) == fold_id(second)) == (canonical(first) == canonical(second))


@holds_for(IDS, st.integers(1, 40))
def test_every_id_is_in_one_shard(row_id: str, count: int) -> None:
    mine = [part for part in range(1, count + 1) if is_in_shard(row_id, (part, count))]
    assert len(mine) == 1


@holds_for(st.lists(ANYTHING, max_size=100), st.lists(ANYTHING, max_size=10))
def test_hashes_tell_ids_apart(known: list[str], others: list[str]) -> None:
    """The table of a million ids is one of hashes."""
    table = IdTable()
    for number, row_id in enumerate(known):
        table.put(id_hash(row_id), number)
    wanted = {row_id: number for number, row_id in enumerate(known)}
    assert len(table) == len(wanted)
    assert all(table.get(id_hash(row_id)) == number for row_id, number in wanted.items())
    assert all(table.get(id_hash(row_id)) is None for row_id in set(others) - set(known))


@holds_for(
    st.lists(st.tuples(st.integers(1, 2**64 - 1), st.integers(0, 2**64 - 1)), max_size=50),
    st.integers(0, 900),
    quick=10,
    many=500,
)
def test_a_table_is_a_dict(entries: list[tuple[int, int]], step: int) -> None:
    """Also when its keys crowd in one place and it has to grow."""
    crowd = [(1024 * number + 1, number) for number in range(step)]
    table, wanted = IdTable(), dict([*crowd, *entries])
    for key, value in [*crowd, *entries]:
        table.put(key, value)
    assert len(table) == len(wanted)
    assert {key: table.get(key) for key in wanted} == wanted
