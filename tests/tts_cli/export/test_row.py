"""Names of files: short, flat, one for each take; languages in two letters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tts_cli.export.row import COLUMNS, WORD, ExportRow
from tts_cli.listen.words import TimedWord, WordTimes

ROW = ExportRow(
    "a", 1, True, Path("a.wav"), 1, "0", "T", "t", "v", "english", 1.0, 24_000, 7, None, None
)  # fmt: skip


def test_plain_ids_stay() -> None:
    assert ROW.name() == "a"
    assert replace(ROW, id="v1.5_x-y").name() == "v1.5_x-y"


@pytest.mark.parametrize("row_id", ["a/b", "ä" * 150, "a/" * 100 + "b"])
def test_other_ids_get_digits(row_id: str) -> None:
    name = replace(ROW, id=row_id).name()
    assert "/" not in name
    assert len(name.encode()) <= 220
    assert name.split("-")[-1] != replace(ROW, id=row_id + "c").name().split("-")[-1]


def test_a_key_has_no_dot() -> None:
    assert "." not in replace(ROW, id="v1.5").name(has_dots=False)
    assert replace(ROW, id="v1-5").name(has_dots=False) == "v1-5"


def test_columns_have_their_kinds(tmp_path: Path) -> None:
    row = replace(ROW, error=0.5, mos=3.5, character="Anna", sha256="ab", folder=tmp_path)
    words = [TimedWord("T", 0.1, 0.3, 0.5, 0, 1, "dictionary")]
    times = WordTimes(row.id, 1, "ab", "an aligner", row.text, 1.0, 0.5, words)
    (tmp_path / f"{row.id}.words.json").write_bytes(times.encode())
    for name, value in row.columns().items():
        assert isinstance(value, COLUMNS[name]), name
    (word,) = row.columns()["words"]
    assert {name: type(value) for name, value in word.items()} == WORD
    assert row.columns(16_000)["sample_rate"] == 16_000
