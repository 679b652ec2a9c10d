"""Sampling slots: settings reach the right row, history is the row's own."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from drawing import assign
from torch import Tensor

from kernels.sampling.draws import uniforms
from models.dual_ar.model import NucleusSlots
from models.fish_speech.family import SAMPLING as FISH_SAMPLING
from models.sampling import SETTINGS, Sampling
from models.slots.runner import MIN_FRAMES, SamplingSlots

SLOTS, VOCAB, EOS = 4, 40, 33
CPU = torch.device("cpu")
SUPPRESSED = [*range(30, 33), *range(34, 40)]
GREEDY = Sampling(greedy=True, subtalker_greedy=True, repetition_penalty=1.0)


@pytest.fixture
def sampling() -> SamplingSlots:
    suppress = torch.zeros(VOCAB, dtype=torch.bool)
    suppress[SUPPRESSED] = True
    return SamplingSlots(SLOTS, VOCAB, suppress, EOS, CPU)


def first(sampling: SamplingSlots, logits: Tensor, step: int) -> list[int]:
    """First codes of all slots, at the given number of codes drawn before."""
    steps = torch.full((SLOTS,), step)
    out = torch.empty(SLOTS, dtype=torch.int64)
    return sampling.first(slice(0, SLOTS), logits, steps, out).tolist()


@pytest.fixture(params=["sampling", "nucleus"])
def both(request: pytest.FixtureRequest, sampling: SamplingSlots) -> SamplingSlots:
    """The slots of either kind of sampler."""
    return sampling if request.param == "sampling" else NucleusSlots(SLOTS, EOS, 4, CPU)


def test_every_setting_has_a_column_and_reaches_its_slot(both: SamplingSlots) -> None:
    row = Sampling(
        temperature=0.5,
        top_k=7,
        top_p=0.25,
        repetition_penalty=1.0 if "repetition_penalty" in both.UNUSED else 1.5,
        greedy=True,
        subtalker_temperature=0.75,
        subtalker_top_k=9,
        subtalker_top_p=0.125,
        subtalker_greedy=True,
    )
    plain = FISH_SAMPLING if isinstance(both, NucleusSlots) else Sampling()
    assign(both, [1, 3], [plain, row])
    assert set(both.columns) == set(SETTINGS) - both.UNUSED
    for name, column in both.columns.items():
        assert column[3].item() == pytest.approx(getattr(row, name)), name
        assert column[1].item() == pytest.approx(getattr(plain, name)), name
    assert both.seeds.tolist() == [0, 101, 0, 103]


def test_suppressed_ids_are_never_drawn_and_end_of_speech_is_not_one(
    sampling: SamplingSlots,
) -> None:
    hot = replace(GREEDY, greedy=False, temperature=50.0, top_k=0)
    assign(sampling, [0, 1, 2, 3], [hot] * 4)
    logits = torch.zeros(SLOTS, VOCAB)
    logits[:, SUPPRESSED] = 100.0
    drawn = {code for step in range(300) for code in first(sampling, logits, step + MIN_FRAMES)}
    assert drawn == set(range(30)) | {EOS}


@pytest.mark.parametrize("is_greedy", [True, False])
def test_speech_cannot_end_before_two_codes_are_drawn(
    sampling: SamplingSlots, is_greedy: bool
) -> None:
    assign(sampling, [0, 1, 2, 3], [replace(GREEDY, greedy=is_greedy)] * 4)
    logits = torch.zeros(SLOTS, VOCAB)
    logits[:, EOS] = 50.0
    assert EOS not in first(sampling, logits, 0)
    assert EOS not in first(sampling, logits, 1)
    assert first(sampling, logits, 2) == [EOS] * SLOTS


def test_the_penalty_is_over_a_rows_own_codes(sampling: SamplingSlots) -> None:
    assign(sampling, [0, 1, 2, 3], [replace(GREEDY, repetition_penalty=2.0)] * 3 + [GREEDY])
    logits = torch.zeros(SLOTS, VOCAB)
    logits[:, 4], logits[:, 5] = 3.0, 2.0
    sampling.seen[[0, 3], 4] = True
    assert first(sampling, logits, 5) == [5, 4, 4, 4]
    assign(sampling, [0], [replace(GREEDY, repetition_penalty=2.0)])
    assert first(sampling, logits, 5) == [4, 4, 4, 4]  # a new row starts without history


def test_draws_are_addressed_by_seed_frame_and_codebook(sampling: SamplingSlots) -> None:
    assign(sampling, [0, 1, 2, 3], [Sampling()] * 4)
    frames = torch.tensor([4, 7])
    assert torch.equal(
        sampling.draws(torch.tensor([3, 1]), frames, 5),
        uniforms(torch.tensor([103, 101]), frames, 5),
    )
    assert torch.equal(
        sampling.draws(slice(0, 2), frames, 1), uniforms(torch.tensor([100, 101]), frames, 5)[:, :1]
    )


def test_move_takes_settings_seed_and_history_along(sampling: SamplingSlots) -> None:
    assign(sampling, [0, 3], [Sampling(top_k=5), Sampling(temperature=3.0, top_p=0.4)])
    sampling.seen[3, 7] = True
    logits = torch.randn(SLOTS, VOCAB).expand(SLOTS, VOCAB)[:1].repeat(SLOTS, 1)
    before = [first(sampling, logits, step)[3] for step in range(6)]
    sampling.move(torch.tensor([3]), torch.tensor([1]))
    assert [first(sampling, logits, step)[1] for step in range(6)] == before
    assert sampling.seen[1].nonzero().tolist() == [[7]]


def test_every_per_slot_tensor_is_moved(both: SamplingSlots) -> None:
    # A setting added later and forgotten in `move` would stay behind when the batch is compacted.
    tensors = {
        name: value
        for name, value in {**vars(both), **both.columns}.items()
        if isinstance(value, Tensor)
        and name not in (("suppress", "seen") if isinstance(both, NucleusSlots) else ("suppress",))
    }
    assert ("window" in tensors) is isinstance(both, NucleusSlots)
    for value in tensors.values():
        value[3] = True if value.dtype == torch.bool else 3
        value[1] = False if value.dtype == torch.bool else 1
    both.move(torch.tensor([3]), torch.tensor([1]))
    for name, value in tensors.items():
        assert torch.equal(value[1], value[3]), name
