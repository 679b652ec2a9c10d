"""Splits by text: shares on average, and no text in two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts_cli.export.statistics import Splits


def test_shares_hold_on_average() -> None:
    splits = Splits("train=0.9,valid=0.05,test=0.05")
    found = [splits.split_of(f"text {n}") for n in range(20_000)]
    assert abs(found.count("train") / 20_000 - 0.9) < 0.01
    assert abs(found.count("valid") / 20_000 - 0.05) < 0.01
    assert abs(found.count("test") / 20_000 - 0.05) < 0.01


def test_one_split_has_all() -> None:
    assert Splits("train").names == ("train",)
    assert Splits("all").split_of("x") == "all"


@given(st.text())
@pytest.mark.slow
def test_white_space_and_letter_case_make_no_other_text(text: str) -> None:
    splits = Splits("a=0.5,b=0.5")
    assert splits.split_of(text) == splits.split_of(f" \n{text.casefold()}\t")


def test_a_share_that_grows_takes_no_row_from_itself() -> None:
    small, large = Splits("train=0.8,test=0.2"), Splits("train=0.9,test=0.1")
    for n in range(1000):
        if small.split_of(f"text {n}") == "train":
            assert large.split_of(f"text {n}") == "train"
