"""Finish a frame: store its codes, count, find the rows that ended, and prepare the next inputs.

Everything is per slot, N slots of K codebooks; B <= N rows are stepped. A row fails if a code of
its frame or the next first code is below 0. An active row that did not fail stores its frame; all
others write theirs to the spare place at the end. Then an active row counts one more position, and
ends: 1 at the end of speech, 2 at its limit of frames, 3 if it failed (in rising precedence 2, 1,
3). All of it is integers and copies: nothing is rounded.

As separate operations these are some thirty launches per frame, about 45 us of kernels (64 rows,
H200).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from kernels.launch.dispatch import jit, next_power_of_2, tl, use_triton
from kernels.launch.op import op

RUNNING, EOS, MAX_FRAMES, NAN = range(4)


class SlotState(NamedTuple):
    """Views of the first B slots' buffers, changed in place."""

    work: Tensor  # (B, K) int64 codes of the frame
    next_code: Tensor  # (B,) int64 first code of the frame to come, below 0 if it failed
    codes: Tensor  # (B, F + 1, K) int16 stored frames, and the spare place
    frame: Tensor  # (B,) int64 number of stored frames
    limit: Tensor  # (B,) int64 frames that may be stored
    position: Tensor  # (B,) int64 cache position the frame to come writes
    is_active: Tensor  # (B,) bool
    reason: Tensor  # (B,) int64 why a row ended
    hidden: Tensor  # (B, D) talker output at the last position
    code: Tensor  # (B,) int64 first code of the frame to come, 0 if it failed


def advance_ref_(slots: SlotState, hidden: Tensor, eos: int) -> None:
    work, new_code, active = slots.work, slots.next_code, slots.is_active
    frame, reason = slots.frame, slots.reason
    index = torch.arange(work.shape[0], device=work.device)
    failed = (new_code < 0) | (work < 0).any(dim=1)
    target = torch.where(active & ~failed, frame, slots.codes.shape[1] - 1)
    slots.codes[index, target] = work.to(torch.int16)
    frame += active & ~failed
    slots.position.add_(active)
    ended = torch.where(frame >= slots.limit, MAX_FRAMES, RUNNING)
    ended = torch.where(new_code == eos, EOS, ended)
    ended = torch.where(failed, NAN, ended)
    reason.copy_(torch.where(active, ended, reason))
    active &= reason == RUNNING
    slots.hidden.copy_(hidden)
    slots.code.copy_(new_code.clamp(min=0))


@jit
def _advance_kernel(
    work_ptr, next_code_ptr, codes_ptr, frame_ptr, limit_ptr, position_ptr, is_active_ptr,
    reason_ptr, slot_hidden_ptr, code_ptr, hidden_ptr,
    num_codebooks, spare, eos, width,
    codes_stride, hidden_stride,
    BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    codebook = tl.arange(0, BLOCK_K)
    is_codebook = codebook < num_codebooks
    work = tl.load(work_ptr + row * num_codebooks + codebook, mask=is_codebook, other=0)
    new_code = tl.load(next_code_ptr + row)
    frame = tl.load(frame_ptr + row)
    limit = tl.load(limit_ptr + row)
    reason = tl.load(reason_ptr + row)
    is_active = tl.load(is_active_ptr + row) != 0
    is_failed = (new_code < 0) | (tl.min(work, axis=0) < 0)
    is_kept = is_active & (is_failed == 0)
    target = tl.where(is_kept, frame, spare)
    kept = codes_ptr + row * codes_stride + target * num_codebooks + codebook
    tl.store(kept, work.to(tl.int16), mask=is_codebook)
    frame += is_kept.to(tl.int64)
    ended = tl.where(frame >= limit, 2, 0)
    ended = tl.where(new_code == eos, 1, ended)
    ended = tl.where(is_failed, 3, ended).to(tl.int64)
    reason = tl.where(is_active, ended, reason)
    column = tl.arange(0, BLOCK_D)
    inside = column < width
    hidden = tl.load(hidden_ptr + row * hidden_stride + column, mask=inside, other=0.0)
    tl.store(slot_hidden_ptr + row * width + column, hidden, mask=inside)
    tl.store(frame_ptr + row, frame)
    position = tl.load(position_ptr + row)
    tl.store(position_ptr + row, position + is_active.to(tl.int64))
    tl.store(reason_ptr + row, reason)
    tl.store(is_active_ptr + row, (is_active & (reason == 0)).to(tl.int8))
    tl.store(code_ptr + row, tl.maximum(new_code, 0))


@op(advance_ref_, lambda slots: use_triton(slots.work))
def advance_(slots: SlotState, hidden: Tensor, eos: int) -> None:
    """Store the frame in `work` and prepare the state for the next, in place.

    Args:
        slots: contiguous views; the rows of `codes` may be further apart.
        hidden: (B, D) talker output of this frame, contiguous rows.
        eos: the id that ends a row.
    """
    num_rows, num_codebooks = slots.work.shape
    views = [view for name, view in slots._asdict().items() if name != "codes"]
    if not all(view.is_contiguous() for view in views) or not slots.codes[:1].is_contiguous():
        raise ValueError("the slots' buffers must be contiguous")
    if hidden.shape != slots.hidden.shape or hidden.stride(1) != 1:
        raise ValueError(f"hidden {tuple(hidden.shape)} must be {tuple(slots.hidden.shape)}")
    _advance_kernel[(num_rows,)](
        *slots._replace(is_active=slots.is_active.view(torch.int8)), hidden,
        num_codebooks, slots.codes.shape[1] - 1, eos, hidden.shape[1],
        slots.codes.stride(0), hidden.stride(0),
        BLOCK_K=next_power_of_2(num_codebooks), BLOCK_D=next_power_of_2(hidden.shape[1]),
    )  # fmt: skip
