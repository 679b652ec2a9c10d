"""Which ids are refused, which collide, and the compact table."""

from __future__ import annotations

import random
import re

import pytest
from cases import cases

from tts_cli.sources import ids as ids_module
from tts_cli.sources.ids import IdTable, default_id, id_hash, id_problem

CASES = cases(__file__)["ids"]


@pytest.mark.parametrize("row_id", CASES["good_ids"])
def test_good_ids(row_id: str) -> None:
    assert id_problem(row_id) is None


@pytest.mark.parametrize(
    ("row_id", "word"),
    [
        *CASES["bad_ids"],
        ("a" * 201, "longer"),
        ("é" * 101, "longer"),
        ("/".join(["abcdefghi"] * 101), "longer"),
    ],
)
def test_bad_ids(row_id: str, word: str) -> None:
    problem = id_problem(row_id)
    assert problem is not None
    assert word in problem


def test_messages_about_ids_cannot_drive_a_terminal() -> None:
    assert "\x1b" not in (id_problem("a\x1b[31m") or "")


def test_default_ids_sort_and_grow() -> None:
    assert [default_id(1), default_id(999_999), default_id(1_000_000)] == [
        "000001",
        "999999",
        "1000000",
    ]


def test_ids_come_in_the_order_people_count() -> None:
    ids = ["\u0663", "line10", "a", "line2b", "line2", "10", "2"]  # a digit that `int` would take
    ordered = ["2", "10", "a", "line2", "line2b", "line10", "\u0663"]
    assert sorted(ids, key=ids_module.natural_order) == ordered


def test_hashes_are_stable_over_versions() -> None:
    """Shards and journals of different machines must agree."""
    assert id_hash("a") == 0x40F89E395B66422F


def test_plain_ids_need_no_closer_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the quick look lets pass, the long one must too."""
    generator = random.Random(1)
    pieces = ["nul", "com1", "truncated", "chapter", "0000001", "/", "_", "-", ".wav", "x", "."]
    ids = {"".join(generator.choices(pieces, k=generator.randint(1, 6))) for _ in range(5000)}
    plain = {row_id for row_id in ids if ids_module._PLAIN_ID.fullmatch(row_id)}
    assert len(plain) > 200
    assert ids_module._PLAIN_ID.fullmatch("part0001/0000017")
    monkeypatch.setattr(ids_module, "_PLAIN_ID", re.compile(r"(?!)"))
    assert {row_id: id_problem(row_id) for row_id in plain} == dict.fromkeys(plain)


def test_table_is_compact() -> None:
    table = IdTable()
    for n in range(20_000):
        table.put(id_hash(str(n)), n)
    size = table._keys.itemsize * (len(table._keys) + len(table._values))
    assert size <= 48 * 20_000
