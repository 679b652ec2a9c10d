"""Which row is the anchor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tts_cli.config import RunConfig
from tts_cli.errors import UsageError
from tts_cli.manifest.row import BadRow, Row
from tts_cli.run.plan.anchor import ANCHOR_NAME, choose_anchor, keep_anchor

GOOD = "The boat left the harbor after five, and nobody spoke."


class Rows:
    """A manifest; rows with a voice have one of their own."""

    def __init__(self, **texts: str) -> None:
        self.texts = texts

    def read(self) -> Iterator[Row | BadRow]:
        for number, (row_id, text) in enumerate(self.texts.items(), 1):
            if text:
                voice = "anna" if row_id.startswith("own") else None
                yield Row(number, number, row_id, text, voice=voice)
            else:
                yield BadRow(number, number, row_id, "text: is blank")

    def chosen(self, anchor: str = "first", out: Path | None = None) -> str | None:
        config = RunConfig(anchor=anchor, out=out)
        row = choose_anchor(config, self.read, lambda row: row.voice is None)
        return None if row is None else row.id


def test_the_first_of_a_good_length() -> None:
    rows = Rows(bad="", title="One.", own=GOOD, long="word " * 100, good=GOOD, other=GOOD)
    assert rows.chosen() == "good"


def test_else_the_first() -> None:
    assert Rows(own=GOOD, a="One.", b="word " * 100).chosen() == "a"
    assert Rows(own=GOOD, bad="").chosen() is None


def test_it_stays_what_it_was(tmp_path: Path) -> None:
    rows = Rows(good=GOOD, other=GOOD, short="Two.")
    for kept in ("other", "short"):
        keep_anchor(tmp_path, kept, "00")
        assert rows.chosen(out=tmp_path) == kept
    keep_anchor(tmp_path, "gone", "00")
    assert rows.chosen(out=tmp_path) == "good"


@pytest.mark.parametrize("content", ["", "[]", "{", '{"id": 7}', "[" * 9999, "\xff"])
def test_a_note_that_makes_no_sense_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / ANCHOR_NAME).write_text(content, encoding="latin-1")
    assert Rows(good=GOOD).chosen(out=tmp_path) == "good"


def test_by_name() -> None:
    rows = Rows(good=GOOD, own=GOOD, bad="")
    assert rows.chosen("GOOD") == "good", "no two ids differ by case alone"
    for name, reason in (("own", "of its own"), ("bad", "is blank"), ("no", "no row has this id")):
        with pytest.raises(UsageError, match=reason):
            rows.chosen(name)
