"""Attention of a decode step: one new query row per sequence against its static KV cache.

    out = softmax(D_h^-0.5 * q . K[0..p]) . V[0..p]     for each head, p the row's position

q is (R, H * D_h); the cache is (2, N, H_kv, S, D_h), keys and values; row r reads slot r //
rows_per_slot and query head h reads KV head h // (H / H_kv). Positions beyond p contain remains of
an older, longer row, perhaps NaN, and never reach the result.

Rows with the same beginning may read it from one slot, although all slots contain a copy: then it
comes from memory once, and from the L2 cache for all other rows.

The work is reading the cache once, so a program owns one KV head of one slot and serves all its
query heads and rows from the same tiles, with the online softmax of FlashAttention (Dao et al.,
2022). For few rows with a long cache, the cache is split between several programs (Flash-Decoding,
Dao et al., 2023) and a second small kernel merges their parts. The number of splits depends on R
and S alone, so launches stay fixed under a CUDA graph; each row's own length decides what a split
covers.

Rounding: scores, softmax and sums are float32. The weights of the softmax are rounded to the dtype
before they multiply the values (not in the reference); the result is rounded once, at the end. The
parts of splits stay float32.
"""

from __future__ import annotations

from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.attention.rope import check_rows, query_heads
from kernels.launch.dispatch import factor, jit, next_power_of_2, tl
from kernels.launch.early_launch import launch_options, wait_for_previous
from kernels.launch.op import op

_SPLIT_FROM = 512  # cache length from which splitting can pay
_MAX_SPLITS = 16
_WANTED_PROGRAMS = 512  # about four for each multiprocessor of a large GPU


def decode_attention_ref(
    q: Tensor,
    cache: Tensor,
    positions: Tensor,
    rows_per_slot: int = 1,
    is_long: bool = False,
    prefixes: Tensor | None = None,
) -> Tensor:
    """Plain PyTorch. It splits no cache, and every row reads its own slot alone.

    On a CPU, where the host can read the lengths, every row reads exactly its own positions, so its
    result does not depend on other rows. Elsewhere the whole cache is masked.
    """
    if q.device.type != "cpu":
        return _attend_masked(q, cache, positions, rows_per_slot)
    num_kv_heads, head_dim = cache.shape[2], cache.shape[4]
    queries = q.view(len(q) // rows_per_slot, rows_per_slot, num_kv_heads, -1, head_dim)
    out = torch.empty_like(queries)
    for index in range(rows_per_slot):
        column, first = positions.tolist()[index::rows_per_slot], 0
        for position, neighbours in groupby(column):  # those of one length go together
            last = first + len(list(neighbours))
            keys, values = cache[:, first:last, :, : position + 1]
            out[first:last, index] = F.scaled_dot_product_attention(
                queries[first:last, index], keys, values, scale=head_dim**-0.5
            )
            first = last
    return out.view_as(q)


def _attend_masked(q: Tensor, cache: Tensor, positions: Tensor, rows_per_slot: int) -> Tensor:
    num_kv_heads, num_positions, head_dim = cache.shape[2:]
    num_rows, group = len(q), q.shape[1] // (num_kv_heads * head_dim)
    num_slots = num_rows // rows_per_slot
    visible = torch.arange(num_positions, device=q.device) <= positions.unsqueeze(1)  # (R, S)
    queries = q.view(num_slots, rows_per_slot, num_kv_heads, group, head_dim).transpose(1, 2)
    queries = queries.flatten(2, 3).float()  # (B, H_kv, rows_per_slot * group, D_h)
    mask = visible.view(num_slots, 1, rows_per_slot, num_positions).repeat_interleave(group, dim=2)
    scores = (queries @ cache[0, :num_slots].float().transpose(2, 3)) * head_dim**-0.5
    weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
    # A weight of zero does not silence a NaN, so V itself is zeroed where no row of the slot looks.
    seen = visible.view(num_slots, 1, rows_per_slot, num_positions, 1).any(dim=2)
    out = weights @ cache[1, :num_slots].float().masked_fill(~seen, 0.0)
    out = out.unflatten(2, (rows_per_slot, group)).transpose(1, 2)
    return out.reshape(q.shape).to(q.dtype)


@jit
def _split_span(longest, NUM_SPLITS: tl.constexpr, BLOCK_S: tl.constexpr):
    """Positions per split: an even share of the longest row, in whole blocks."""
    share = (longest + NUM_SPLITS - 1) // NUM_SPLITS
    return (share + BLOCK_S - 1) // BLOCK_S * BLOCK_S


@jit
def _attention_kernel(
    q_ptr, keys_ptr, values_ptr, positions_ptr, prefixes_ptr, out_ptr, stats_ptr,
    q_stride, k_slot_stride, k_head_stride, k_position_stride, v_slot_stride, v_head_stride,
    v_position_stride,
    scale,
    NUM_HEADS: tl.constexpr, GROUP: tl.constexpr, ROWS_PER_SLOT: tl.constexpr,
    HEAD_DIM: tl.constexpr, NUM_SPLITS: tl.constexpr,
    HAS_PREFIXES: tl.constexpr, IS_DEPENDENT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    wait_for_previous(IS_DEPENDENT)
    slot = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    # One line of the tile per (row of the slot, query head of the group); tl.dot needs at least 16.
    line = tl.arange(0, BLOCK_M)
    is_line = line < ROWS_PER_SLOT * GROUP
    row = slot * ROWS_PER_SLOT + line // GROUP
    head = kv_head * GROUP + line % GROUP
    length = tl.load(positions_ptr + row, mask=is_line, other=-1).to(tl.int32) + 1
    longest = tl.max(length, axis=0)
    begin = 0
    end = longest
    if NUM_SPLITS > 1:
        span = _split_span(longest, NUM_SPLITS, BLOCK_S)
        begin = split * span
        end = tl.minimum(begin + span, longest)

    dim = tl.arange(0, BLOCK_D)
    is_dim = dim < HEAD_DIM
    tile = tl.arange(0, BLOCK_S)
    q_offset = row[:, None] * q_stride + head[:, None] * HEAD_DIM + dim[None, :]
    q = factor(tl.load(q_ptr + q_offset, mask=is_line[:, None] & is_dim[None, :], other=0.0))
    k_base = keys_ptr + slot * k_slot_stride + kv_head * k_head_stride
    v_base = values_ptr + slot * v_slot_stride + kv_head * v_head_stride
    if HAS_PREFIXES:
        away = tl.load(prefixes_ptr + 2 * slot) - slot
        num_away = tl.load(prefixes_ptr + 2 * slot + 1).to(tl.int32)
    # A large finite number, not -inf: a line without positions in this split must not become NaN.
    highest = tl.full((BLOCK_M,), -1e30, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    mixed = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    for first in range(begin, end, BLOCK_S):
        position = first + tile
        is_position = position < end
        k_offset = position[None, :].to(tl.int64) * k_position_stride + dim[:, None]
        v_offset = position[:, None].to(tl.int64) * v_position_stride + dim[None, :]
        k_from = k_base
        v_from = v_base
        if HAS_PREFIXES:  # whole tiles of them
            elsewhere = tl.where(first + BLOCK_S <= num_away, away, 0)
            k_from += elsewhere * k_slot_stride
            v_from += elsewhere * v_slot_stride
        k = tl.load(k_from + k_offset, mask=is_dim[:, None] & is_position[None, :], other=0.0)
        v = tl.load(v_from + v_offset, mask=is_position[:, None] & is_dim[None, :], other=0.0)
        v = factor(v)
        scores = tl.dot(q, factor(k), input_precision="ieee") * scale
        scores = tl.where(position[None, :] < length[:, None], scores, -1e30)
        new_highest = tl.maximum(highest, tl.max(scores, axis=1))
        fade = tl.exp(highest - new_highest)
        weight = tl.exp(scores - new_highest[:, None])
        total = total * fade + tl.sum(weight, axis=1)
        mixed = mixed * fade[:, None]
        mixed += tl.dot(weight.to(v.dtype), v, input_precision="ieee")
        highest = new_highest

    if NUM_SPLITS == 1:
        out_offset = (row[:, None] * NUM_HEADS + head[:, None]) * HEAD_DIM + dim[None, :]
        mixed = (mixed / total[:, None]).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + out_offset, mixed, mask=is_line[:, None] & is_dim[None, :])
    elif begin < longest:  # the merge does not ask splits past the longest row
        part = (row * NUM_HEADS + head) * NUM_SPLITS + split
        tl.store(stats_ptr + part * 2, highest, mask=is_line)
        tl.store(stats_ptr + part * 2 + 1, total, mask=is_line)
        part_offset = part[:, None] * HEAD_DIM + dim[None, :]
        tl.store(out_ptr + part_offset, mixed, mask=is_line[:, None] & is_dim[None, :])


@jit
def _merge_kernel(
    parts_ptr, stats_ptr, positions_ptr, out_ptr,
    NUM_HEADS: tl.constexpr, ROWS_PER_SLOT: tl.constexpr, HEAD_DIM: tl.constexpr,
    NUM_SPLITS: tl.constexpr,
    IS_DEPENDENT: tl.constexpr,
    BLOCK_R: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    wait_for_previous(IS_DEPENDENT)
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    neighbour = tl.arange(0, BLOCK_R)
    slot_row = row // ROWS_PER_SLOT * ROWS_PER_SLOT + neighbour
    position = tl.load(positions_ptr + slot_row, mask=neighbour < ROWS_PER_SLOT, other=-1)
    longest = tl.max(position.to(tl.int32), axis=0) + 1
    span = _split_span(longest, NUM_SPLITS, BLOCK_S)
    split = tl.arange(0, NUM_SPLITS)
    is_used = split * span < longest
    dim = tl.arange(0, BLOCK_D)
    part = (row * NUM_HEADS + head) * NUM_SPLITS + split
    highest = tl.load(stats_ptr + part * 2, mask=is_used, other=-1e30)
    total = tl.load(stats_ptr + part * 2 + 1, mask=is_used, other=0.0)
    mask = is_used[:, None] & (dim < HEAD_DIM)[None, :]
    mixed = tl.load(parts_ptr + part[:, None] * HEAD_DIM + dim[None, :], mask=mask, other=0.0)
    share = tl.exp(highest - tl.max(highest, axis=0))
    out = tl.sum(mixed * share[:, None], axis=0) / tl.sum(total * share, axis=0)
    out = out.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + (row * NUM_HEADS + head) * HEAD_DIM + dim, out, mask=dim < HEAD_DIM)


def num_splits(num_programs: int, num_positions: int) -> int:
    """Splits of the cache, a power of two; 1 if the cache is short or the programs fill the GPU."""
    splits = 1
    if num_positions >= _SPLIT_FROM:
        while splits < _MAX_SPLITS and 2 * splits * num_programs <= _WANTED_PROGRAMS:
            splits *= 2
    return splits


def launch_settings(dtype: torch.dtype, group: int) -> tuple[int, int, int]:
    """Positions per tile, warps and pipeline stages, for `group` query heads per KV head.

    `kernels.attention.step` serves short caches, for which smaller tiles would suffice, in one
    launch.
    """
    if dtype == torch.float32:
        return 32, 4, 2
    # With 256 rows on an H200: four heads at 150 to 500 positions 86 us with three stages, 90 with
    # two; two heads at 60 to 250 positions 45 with either.
    return 64, 4, 2 if group <= 2 else 3


@op(decode_attention_ref)
def decode_attention(
    q: Tensor,
    cache: Tensor,
    positions: Tensor,
    rows_per_slot: int = 1,
    is_long: bool = False,
    prefixes: Tensor | None = None,
) -> Tensor:
    """Attention of R query rows over cache positions 0..positions[r] of their slots.

    Args:
        q: (R, H * D_h), R a multiple of rows_per_slot, H of H_kv.
        cache: (2, N, H_kv, S, D_h) of q's dtype, N >= R / rows_per_slot; may be a view.
        positions: (R,) int64, 0 or more.
        rows_per_slot: row r reads slot r // rows_per_slot. The rows of a slot are one request: all
            positions that its longest row sees must be finite.
        is_long: split the cache as a long one, whatever S: then a row's sums depend on R alone.
        prefixes: (N, 2) int64: for each slot another slot with the same beginning, and the number
            of positions that both have in common. None: no shared beginnings.
    Returns:
        (R, H * D_h), contiguous.
    """
    num_rows = q.shape[0]
    num_kv_heads, num_positions, head_dim = cache.shape[2:]
    num_heads = query_heads(q, cache)
    check_rows(num_rows, cache, rows_per_slot)
    if not positions.is_contiguous():
        raise ValueError("positions must be contiguous")
    out = torch.empty((num_rows, num_heads * head_dim), dtype=q.dtype, device=q.device)
    slots = num_rows // rows_per_slot
    group = num_heads // num_kv_heads
    length = max(num_positions, _SPLIT_FROM) if is_long else num_positions
    splits = num_splits(slots * num_kv_heads, length)
    block_d = max(16, next_power_of_2(head_dim))
    block_s, num_warps, num_stages = launch_settings(q.dtype, group)
    if splits == 1:
        target = stats = out
    else:
        parts = num_rows * num_heads * splits
        target = torch.empty((parts, head_dim), dtype=torch.float32, device=q.device)
        stats = torch.empty((parts, 2), dtype=torch.float32, device=q.device)
    strides = cache.stride()[1:4]
    # The strides twice: with one set for both, ptxas takes 128 registers instead of 96, so
    # that four programs run concurrently, not five (sm_90, Triton 3.6).
    _attention_kernel[(slots, num_kv_heads, splits)](
        q, *cache, positions, positions if prefixes is None else prefixes, target, stats,
        q.stride(0), *strides, *strides,
        head_dim**-0.5,
        NUM_HEADS=num_heads, GROUP=group, ROWS_PER_SLOT=rows_per_slot, HEAD_DIM=head_dim,
        NUM_SPLITS=splits, HAS_PREFIXES=prefixes is not None,
        BLOCK_M=max(16, next_power_of_2(rows_per_slot * group)), BLOCK_S=block_s, BLOCK_D=block_d,
        num_warps=num_warps, num_stages=num_stages, **launch_options(),
    )  # fmt: skip
    if splits > 1:
        _merge_kernel[(num_rows, num_heads)](
            target, stats, positions, out,
            NUM_HEADS=num_heads, ROWS_PER_SLOT=rows_per_slot, HEAD_DIM=head_dim, NUM_SPLITS=splits,
            BLOCK_R=next_power_of_2(rows_per_slot), BLOCK_S=block_s, BLOCK_D=block_d,
            num_warps=1, **launch_options(),
        )  # fmt: skip
    return out
