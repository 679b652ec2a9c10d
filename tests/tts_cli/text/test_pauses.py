"""Pauses that stand in a text."""

from __future__ import annotations

import pytest

from tts_cli.core import BadRow, Row
from tts_cli.sources.row import build_row
from tts_cli.text.care import TextCare
from tts_cli.text.pauses import (
    has_pauses,
    pause_problem,
    pause_spans,
    stretches,
    sum_of_pauses,
    without_pauses,
)


@pytest.mark.parametrize("mark", ["[pause 500ms]", "[pause 1.5 s]", "[PAUSE 2S]", "[pause\t0s]"])
def test_a_number_and_a_unit_make_a_pause(mark: str) -> None:
    assert has_pauses(f"Yes. {mark} No.")
    assert without_pauses(f"{mark} Yes.{mark}No. {mark}") == "Yes. No."


@pytest.mark.parametrize(
    "text",
    ["[pause]", "[pause 5]", "[pause: 5s]", "[pause s]", "[pause -1s]", "[laugh]", "pause 5s"],
)
def test_all_else_is_text(text: str) -> None:
    assert not has_pauses(text)
    assert without_pauses(text) is text
    assert (sum_of_pauses(text), pause_spans(text), pause_problem(text)) == (0.0, [], None)


def test_stretches_and_sums() -> None:
    text = "[pause 1s] Yes.  [pause 250ms][pause 2 s] No."
    found = [(text[one.start : one.end], one.pause_after_s) for one in stretches(text)]
    assert found == [("", 1.0), ("Yes.", 0.25), ("", 2.0), ("No.", None)]
    assert sum_of_pauses(text) == 3.25


@pytest.mark.parametrize(
    ("mark", "seconds"),
    [("200 ms", 0.2), ("200 MS", 0.2), ("200 Ms", 0.2), ("2 s", 2.0), ("2 S", 2.0)],
)
def test_units_are_the_same_in_capitals(mark: str, seconds: float) -> None:
    assert [one.pause_after_s for one in stretches(f"[pause {mark}] No.")] == [seconds, None]


def row(text: str) -> Row | BadRow:
    return build_row({"text": text}, line=3, number=1, folder="")


def test_a_row_may_pause_a_minute_and_ten_in_all() -> None:
    assert isinstance(row("Yes. " + "[pause 60s]" * 10 + " No."), Row)
    long, often = row("Yes. [pause 61 s] No."), row("Yes. " + "[pause 60s]" * 10 + "[pause 1ms]")
    assert isinstance(long, BadRow)
    assert long.message == "text: [pause 61 s] is longer than 60 s; shorten it"
    assert isinstance(often, BadRow)
    assert "600.001 s; the maximum is 600 s" in often.message


def test_they_are_not_read_in_words() -> None:
    care = TextCare(is_normalized=True, language="english")
    assert care.read("5 m [pause 500ms] 5 ms").spoken == (
        "Five meters [pause 500ms] five milliseconds"
    )
