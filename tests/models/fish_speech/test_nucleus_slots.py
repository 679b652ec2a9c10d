"""Slots that sample by nucleus: settings reach the right row, windows are the row's own."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from drawing import assign
from torch import Tensor

from models.dual_ar.config import RecentCodes
from models.dual_ar.model import EMPTY, NucleusSlots
from models.fish_speech.family import SAMPLING

SLOTS, CODES, BOOKS = 3, 30, 4
WINDOW = RecentCodes().num_codes
EOS = CODES


@pytest.fixture
def sampling() -> NucleusSlots:
    return NucleusSlots(SLOTS, EOS, BOOKS, torch.device("cpu"))


def draw(sampling: NucleusSlots, logits: Tensor, step: int) -> list[int]:
    """First codes of all slots, and into their windows as in a frame."""
    steps = torch.full((SLOTS,), step)
    rows, out = slice(0, SLOTS), torch.empty(SLOTS, dtype=torch.int64)
    if step:
        sampling.follow(SLOTS, out, logits, steps, out)
    else:
        sampling.first(rows, logits, steps, out)
    return out.tolist()


def test_the_window_holds_the_last_codes_but_not_the_first(sampling: NucleusSlots) -> None:
    assign(sampling, [0, 1, 2], [replace(SAMPLING, greedy=True)] * 3)
    for step in range(WINDOW + 3):
        logits = torch.zeros(SLOTS, CODES + 1)
        logits[:, step] = 5.0
        assert draw(sampling, logits, step) == [step] * 3
        held = {code for code in sampling.window[1].tolist() if code != EMPTY}
        assert held == set(range(max(1, step - WINDOW + 1), step + 1))


def test_a_repeated_code_is_drawn_anew_from_a_flatter_choice(sampling: NucleusSlots) -> None:
    # The first draw is all but sure of code 4; the second sees the untempered distribution.
    assign(sampling, [0, 1, 2], [replace(SAMPLING, temperature=0.01)] * 3)
    logits = torch.full((SLOTS, CODES + 1), -5.0)
    logits[:, 4], logits[:, 5], logits[:, 6] = 5.0, 4.9, 4.0
    assert draw(sampling, logits, 0) == [4] * 3  # not into the window
    assert draw(sampling, logits, 1) == [4] * 3
    later = [draw(sampling, logits, step) for step in range(2, 40)]
    assert {code for codes in later for code in codes} == {4, 5}
    assert len({tuple(codes) for codes in zip(*later, strict=True)}) == 3  # each row its own noise


def test_speech_may_end_at_any_step_but_the_first(sampling: NucleusSlots) -> None:
    assign(sampling, [0, 1, 2], [SAMPLING, replace(SAMPLING, greedy=True), SAMPLING])
    logits = torch.zeros(SLOTS, CODES + 1)
    logits[:, EOS] = 50.0
    assert EOS not in draw(sampling, logits, 0)
    assert draw(sampling, logits, 1) == [EOS] * 3
    assert draw(sampling, logits, 2) == [EOS] * 3  # not a repetition


def test_further_codebooks_have_settings_of_their_own(sampling: NucleusSlots) -> None:
    sharp = replace(SAMPLING, subtalker_greedy=True)
    assign(sampling, [0, 1, 2], [sharp, replace(SAMPLING, subtalker_top_k=1), SAMPLING])
    logits = torch.zeros(SLOTS, 16)
    logits[:, 3] = 0.1
    seen = [set(), set(), set()]  # type: list[set[int]]
    for step in range(30):
        uniform = sampling.draws(slice(0, SLOTS), torch.full((SLOTS,), step), BOOKS + 1)
        out = torch.empty(SLOTS, dtype=torch.int64)
        sampling.rest(SLOTS, logits, uniform[:, 1], out)
        for slot, code in enumerate(out.tolist()):
            seen[slot].add(code)
    assert seen[0] == seen[1] == {3}
    assert len(seen[2]) > 3
