from __future__ import annotations

import pytest
from cases import cases

from tts_cli.core import BadRow
from tts_cli.sources.mapping import ALIASES, KINDS, foreign_fields, instead_of
from tts_cli.sources.row import build_row

CASES = cases(__file__)["not_fields"]


@pytest.mark.parametrize(("name", "words"), CASES["what_others_take_as_a_field"])
def test_what_others_take_as_a_field(name: str, words: str) -> None:
    row = build_row({"text": "Hello.", name: "1"}, line=1, number=1, folder="", is_text=True)
    assert isinstance(row, BadRow)
    assert row.message.startswith(f"unknown field '{name}'; ")
    assert words in row.message
    assert "--map" not in row.message


def test_no_field_of_ours_is_among_them() -> None:
    assert not set(foreign_fields()) & {*KINDS, *ALIASES}
    assert instead_of("txet") is None
