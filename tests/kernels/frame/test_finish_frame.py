from __future__ import annotations

import pytest
import torch

from kernels.frame.finish_frame import (
    EOS,
    MAX_FRAMES,
    NAN,
    RUNNING,
    SlotState,
    advance_,
    advance_ref_,
)

END = 77


def make(num_slots, num_codebooks, width, most, device, dtype) -> tuple[SlotState, torch.Tensor]:
    """Rows of every kind by chance: running, ended, failing, at their limit, at the end."""

    def draw(low, high, *shape):
        return torch.randint(low, high, shape, device=device)

    work = draw(0, 60, num_slots, num_codebooks)
    work[draw(0, 4, num_slots) == 0, num_codebooks - 1] = -1
    next_code = draw(0, 60, num_slots)
    next_code[draw(0, 5, num_slots) == 0] = END
    next_code[draw(0, 5, num_slots) == 0] = -1
    frame = draw(0, most, num_slots)
    state = SlotState(
        work=work,
        next_code=next_code,
        codes=draw(0, 9, num_slots, most + 1, num_codebooks).to(torch.int16),
        frame=frame,
        limit=torch.minimum(frame + draw(1, 3, num_slots), torch.tensor(most, device=device)),
        position=draw(0, 500, num_slots),
        is_active=draw(0, 4, num_slots) > 0,
        reason=draw(0, 4, num_slots),
        hidden=torch.randn(num_slots, width, device=device).to(dtype),
        code=draw(0, 60, num_slots),
    )
    return state, torch.randn(num_slots, width, device=device).to(dtype)


def clone(state: SlotState) -> SlotState:
    return SlotState(*(tensor.clone() for tensor in state))


def first(state: SlotState, rows: int) -> SlotState:
    return SlotState(*(tensor[:rows] for tensor in state))


@pytest.mark.parametrize(
    ("num_slots", "rows", "num_codebooks", "width"),
    [
        (1, 1, 16, 8),
        (60, 60, 10, 33),
        (64, 32, 16, 20),
        pytest.param(256, 256, 16, 1024, marks=pytest.mark.gpu),
        pytest.param(256, 64, 16, 2048, marks=pytest.mark.gpu),
        pytest.param(128, 128, 10, 2560, marks=pytest.mark.gpu),
    ],
)
def test_kernel_equals_reference(
    num_slots, rows, num_codebooks, width, dtype, device, with_kernel
) -> None:
    state, hidden = make(num_slots, num_codebooks, width, 12, device, dtype)
    before, expected = clone(state), clone(state)
    with_kernel(advance_, first(state, rows), hidden[:rows], END)
    advance_ref_(first(expected, rows), hidden[:rows], END)
    for name, found, wanted, old in zip(SlotState._fields, state, expected, before, strict=True):
        assert torch.equal(found, wanted), name
        assert torch.equal(found[rows:], old[rows:]), name
    if rows >= 32:
        assert set(state.reason[before.is_active].tolist()) == {RUNNING, EOS, MAX_FRAMES, NAN}


def test_what_ends_a_row(device, with_kernel) -> None:
    state, hidden = make(5, 4, 8, 12, device, torch.float32)
    state.work.fill_(3)
    state.is_active.copy_(torch.tensor([True, True, True, True, False]))
    state.frame.fill_(6)
    state.limit.copy_(torch.tensor([9, 7, 9, 7, 9]))
    state.next_code.copy_(torch.tensor([5, 5, END, -1, 5]))
    state.reason.copy_(torch.tensor([0, 0, 0, 0, 1]))
    old = state.codes.clone()
    with_kernel(advance_, state, hidden, END)
    assert state.reason.tolist() == [RUNNING, MAX_FRAMES, EOS, NAN, EOS]
    assert state.is_active.tolist() == [True, False, False, False, False]
    assert state.frame.tolist() == [7, 7, 7, 6, 6]
    assert (state.codes[:3, 6] == 3).all()
    assert torch.equal(state.codes[3:, :12], old[3:, :12])  # the spare place takes it
    assert (state.codes[3:, 12] == 3).all()
    assert state.code.tolist() == [5, 5, END, 0, 5]


def test_wrong_buffers_are_named(device, refused) -> None:
    state, hidden = make(4, 4, 8, 12, device, torch.float32)
    refused("hidden", advance_, state, hidden[:, :4], END)
    refused("contiguous", advance_, state._replace(frame=state.frame.repeat(2)[::2]), hidden, END)
