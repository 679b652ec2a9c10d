"""Slot buffers: how a row starts, keeps frames, ends, moves and leaves nothing behind."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from models.base import SlotStatus
from models.slots.runner import SlotBuffers

SLOTS, WIDTH, CODEBOOKS, MAX_FRAMES, TRAILING = 4, 3, 2, 5, 3
EOS = 99


@pytest.fixture
def slots() -> SlotBuffers:
    return make_slots()


def make_slots(max_trailing: int = TRAILING) -> SlotBuffers:
    return SlotBuffers(
        SLOTS, WIDTH, CODEBOOKS, MAX_FRAMES, max_trailing, torch.device("cpu"), torch.float32
    )


def admit(slots: SlotBuffers, index: list[int], codes: list[int], limits: list[int]) -> None:
    """Start rows whose state is recognisable by their slot."""
    count = len(index)
    where = torch.tensor(index)
    slots.admit(
        where,
        where[:, None].float().expand(count, WIDTH) + 0.5,
        torch.tensor(codes),
        where + 10,
        torch.tensor(limits),
        torch.arange(TRAILING).view(1, TRAILING, 1).float().expand(count, TRAILING, WIDTH) + 1,
    )


def advance(slots: SlotBuffers, bucket: int, work: list[int], next_codes: list[int]) -> None:
    """One frame whose codes are `work` in every codebook."""
    slots.work[:bucket] = torch.tensor(work)[:, None]
    slots.next_code[:bucket] = torch.tensor(next_codes)
    slots.advance(bucket, torch.full((bucket, WIDTH), 7.0), EOS)


def status(slots: SlotBuffers) -> list[SlotStatus]:
    return slots.status(slots.poll(), list(range(SLOTS)))


RUNNING = SlotStatus(0, False, "")


def test_a_new_row_is_active_with_nothing_kept(slots: SlotBuffers) -> None:
    admit(slots, [2, 0], [5, 6], [3, 4])
    assert slots.is_active.tolist() == [True, False, True, False]
    assert slots.code.tolist() == [6, 0, 5, 0]
    assert slots.position.tolist() == [10, 0, 12, 0]
    assert slots.limit.tolist() == [4, 0, 3, 0]
    assert slots.hidden[2].tolist() == [2.5] * WIDTH
    assert status(slots) == [RUNNING] * SLOTS


def test_a_row_without_a_first_code_ends_as_nan(slots: SlotBuffers) -> None:
    admit(slots, [1, 3], [-1, 4], [3, 3])
    assert slots.is_active.tolist() == [False, False, False, True]
    assert slots.code[1] == 0  # an index that embeddings can take
    assert status(slots)[1] == SlotStatus(0, True, "nan")
    assert status(slots)[3] == RUNNING


def test_a_frame_whose_first_code_is_0_counts_like_any_other(slots: SlotBuffers) -> None:
    """Code 0 is a sound, not padding."""
    admit(slots, [0, 1], [0, 4], [4, 4])
    for work, next_codes in (([0, 0], [0, 0]), ([5, 0], [0, 0]), ([0, 0], [0, EOS])):
        advance(slots, 2, work, next_codes)
    assert slots.is_active.tolist()[:2] == [True, False]
    assert status(slots)[:2] == [SlotStatus(3, False, ""), SlotStatus(3, True, "eos")]
    assert slots.codes[:2, :3, 0].tolist() == [[0, 5, 0], [0, 0, 0]]


def test_frames_are_kept_in_order_up_to_the_limit(slots: SlotBuffers) -> None:
    admit(slots, [0, 1], [1, 1], [2, MAX_FRAMES])
    for frame in range(MAX_FRAMES + 2):
        advance(slots, 2, [10 + frame, 20 + frame], [1, 1])
    assert status(slots)[0] == SlotStatus(2, True, "max_frames")
    assert status(slots)[1] == SlotStatus(MAX_FRAMES, True, "max_frames")
    assert slots.codes[0, :2, 0].tolist() == [10, 11]
    assert not slots.codes[0, 2:MAX_FRAMES].any()
    assert slots.codes[1, :MAX_FRAMES, 1].tolist() == [20, 21, 22, 23, 24]
    assert slots.position.tolist() == [12, 11 + MAX_FRAMES, 0, 0]


def test_end_of_speech_keeps_the_frame_before_it(slots: SlotBuffers) -> None:
    admit(slots, [0], [1], [4])
    advance(slots, 1, [3], [4])
    advance(slots, 1, [4], [EOS])
    advance(slots, 1, [EOS], [5])
    assert status(slots)[0] == SlotStatus(2, True, "eos")
    assert slots.codes[0, :MAX_FRAMES, 0].tolist() == [3, 4, 0, 0, 0]


@pytest.mark.parametrize(("work", "next_code"), [(-1, 1), (3, -1)])
def test_a_code_that_could_not_be_drawn_ends_that_row_alone(
    slots: SlotBuffers, work: int, next_code: int
) -> None:
    admit(slots, [0, 1], [1, 1], [4, 4])
    advance(slots, 2, [3, 3], [4, 4])
    advance(slots, 2, [work, 5], [next_code, 4])
    assert status(slots)[0] == SlotStatus(1, True, "nan")
    assert status(slots)[1] == SlotStatus(2, False, "")
    assert slots.code.tolist()[:2] == [max(next_code, 0), 4]
    assert slots.codes[1, :2, 0].tolist() == [3, 5]


def test_a_smaller_bucket_leaves_the_slots_above_it_alone(slots: SlotBuffers) -> None:
    admit(slots, [0, 3], [1, 1], [4, 4])
    advance(slots, 2, [3, 3], [4, 4])
    assert slots.frame.tolist() == [1, 0, 0, 0]
    assert slots.hidden[3].tolist() == [3.5] * WIDTH


def test_trailing_text_follows_the_frames_and_its_last_entry_repeats(slots: SlotBuffers) -> None:
    admit(slots, [0, 1], [1, 1], [5, 5])
    seen = []
    for _ in range(4):
        seen.append(slots.trailing_text(2)[:, 0].tolist())
        advance(slots, 2, [3, 3], [4, 4])
    assert seen == [[1, 1], [2, 2], [3, 3], [3, 3]]


def test_trailing_text_of_one_entry_needs_no_gather() -> None:
    slots = make_slots(max_trailing=1)
    slots.trailing[:, 0] = torch.arange(SLOTS)[:, None].float()
    text = slots.trailing_text(2)
    assert text.tolist() == [[0] * WIDTH, [1] * WIDTH]
    assert text.data_ptr() == slots.trailing.data_ptr()


def test_every_buffer_of_slots_is_moved_and_released(slots: SlotBuffers) -> None:
    # A buffer added later and forgotten in `_per_slot` would leak from row to row.
    scratch = {"work", "next_code"}  # written anew by every frame before they are read
    owned = {
        name
        for name, value in vars(slots).items()
        if isinstance(value, Tensor) and name not in scratch | {"index"}
    }
    listed = {id(tensor) for tensor in slots._per_slot()}
    assert {name for name in owned if id(getattr(slots, name)) in listed} == owned


def test_a_poll_is_a_snapshot(slots: SlotBuffers) -> None:
    admit(slots, [0], [1], [2])
    early = slots.poll()
    advance(slots, 1, [3], [4])
    late = slots.poll()
    advance(slots, 1, [3], [4])
    assert slots.status(early, [0]) == [RUNNING]
    assert slots.status(late, [0]) == [SlotStatus(1, False, "")]
    assert slots.status(late, []) == []
    assert status(slots)[0] == SlotStatus(2, True, "max_frames")


def test_codes_up_to_2047_survive_their_storage(slots: SlotBuffers) -> None:
    admit(slots, [0], [1], [2])
    advance(slots, 1, [2047], [1])
    assert slots.codes[0, 0].long().tolist() == [2047] * CODEBOOKS
