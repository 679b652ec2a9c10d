"""The operations between a decode step's q/k/v product and its output projection, in one launch:

    QK norm, RoPE and cache store (`kernels.attention.rope`), attention (`kernels.attention.decode`)

qkv is (R, (H + 2 H_kv) * D_h), the result (R, H * D_h). A program owns one pair of slot and KV head
with all its data, so no other program waits for its stores. That pays if a step is bound by
launches: with short caches, as in the code predictor. Long caches that are split between programs
use the two operations.

Rounding is that of the two operations: norm, rotation and keys as in `rope`; float32 scores and
sums, softmax weights and the result rounded to the dtype as in `decode`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.attention.decode import decode_attention
from kernels.attention.rope import (
    QKNormRope,
    check_rows,
    qk_norm_rope_store,
    query_heads,
    rotate,
    wide_halves,
)
from kernels.launch.dispatch import jit, next_power_of_2, tl, use_triton
from kernels.launch.early_launch import launch_options, start_next, wait_for_previous

SHORT_CACHE = 32  # positions up to which one launch serves
# Number of programs up to which one per query head is faster: eight per multiprocessor.
MAX_SINGLE = 1024


# Heads are pairs of halves, which the rotation pairs. The state of an online softmax is its highest
# score and its total (lines,), and both halves of the mixed values (lines, D_h / 2).


@jit
def halves(source, low, mask, HALF: tl.constexpr):
    """Both halves of the heads at `source`, in their stored dtype."""
    x_low = tl.load(source + low, mask=mask, other=0.0, cache_modifier=".cg")
    x_high = tl.load(source + HALF + low, mask=mask, other=0.0, cache_modifier=".cg")
    return x_low, x_high


@jit
def wide(pair):
    return pair[0].to(tl.float32), pair[1].to(tl.float32)


@jit
def _norm_of(weight_ptr, low, instead, HAS_NORM: tl.constexpr, HALF: tl.constexpr):
    """Both halves of a norm's weight, or `instead` without a norm."""
    weight = instead
    if HAS_NORM:
        weight = wide_halves(weight_ptr, low, low < HALF, HALF)
    return weight


@jit
def cache_tile(ptr, base, at, end, low, HEAD_DIM: tl.constexpr):
    """Cache positions `at` below `end` (lines,): both halves (lines, positions, D_h / 2)."""
    HALF: tl.constexpr = HEAD_DIM // 2
    offset = base[:, :, None] + (at * HEAD_DIM)[None, :, None] + low[:, None, :]
    mask = (at[None, :] < end[:, None])[:, :, None] & (low < HALF)[:, None, :]
    x_low = tl.load(ptr + offset, mask=mask, other=0.0, cache_modifier=".cg")
    x_high = tl.load(ptr + HALF + offset, mask=mask, other=0.0, cache_modifier=".cg")
    return x_low, x_high


@jit
def store_pair(keys_ptr, values_ptr, target, k, v, mask, HALF: tl.constexpr):
    """Store a new key (rounded here) and value into the cache."""
    dtype: tl.constexpr = v[0].dtype
    tl.store(keys_ptr + target, k[0].to(dtype), mask=mask)
    tl.store(keys_ptr + target + HALF, k[1].to(dtype), mask=mask)
    tl.store(values_ptr + target, v[0], mask=mask)
    tl.store(values_ptr + target + HALF, v[1], mask=mask)


@jit
def _first_of(q, k, v, scale, IS_SINGLE: tl.constexpr):
    """The first state of the online softmax: this step's own key and value, if IS_SINGLE."""
    highest = tl.sum(k[0] * q[0] + k[1] * q[1], axis=1) * scale
    total = tl.full((1,), 1.0, tl.float32)
    low = v[0]
    high = v[1]
    if not IS_SINGLE:
        highest = tl.full((1,), -1e30, tl.float32)
        total = tl.zeros((1,), tl.float32)
        low = tl.zeros_like(v[0])
        high = tl.zeros_like(v[1])
    return highest, total, low, high


@jit
def mix(q, keys, values, seen, scale, so_far, dtype: tl.constexpr):
    """Add a tile to the online softmax, one query head per line; keys, values: pairs (lines,
    positions, D_h / 2).
    """
    highest, total, low, high = so_far
    scores = tl.sum(keys[0] * q[0][:, None, :] + keys[1] * q[1][:, None, :], axis=2) * scale
    scores = tl.where(seen, scores, -1e30)
    new_highest = tl.maximum(highest, tl.max(scores, axis=1))
    fade = tl.exp(highest - new_highest)
    weight = tl.where(seen, tl.exp(scores - new_highest[:, None]), 0.0)
    total = total * fade + tl.sum(weight, axis=1)
    weight = weight.to(dtype).to(tl.float32)[:, :, None]
    low = low * fade[:, None] + tl.sum(weight * values[0], axis=1)
    high = high * fade[:, None] + tl.sum(weight * values[1], axis=1)
    return new_highest, total, low, high


@jit
def store_head(target, so_far, mask, HALF: tl.constexpr):
    """Divide by the softmax total; a line without positions stays 0."""
    _, total, low, high = so_far
    dtype: tl.constexpr = target.dtype.element_ty
    divisor = tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(target, (low / divisor).to(dtype), mask=mask)
    tl.store(target + HALF, (high / divisor).to(dtype), mask=mask)


@jit
def _step_attention_kernel(
    qkv_ptr, q_norm_ptr, k_norm_ptr, cos_ptr, sin_ptr, positions_ptr, keys_ptr, values_ptr, out_ptr,
    slot_stride, head_stride,
    eps, scale,
    NUM_HEADS: tl.constexpr, NUM_KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
    ROWS_PER_SLOT: tl.constexpr,
    HAS_NORM: tl.constexpr,
    SHARES: tl.constexpr, PAIR: tl.constexpr,
    IS_DEPENDENT: tl.constexpr,
    BLOCK_S: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """Norm, rotation, cache store and attention of one pair of slot and KV head, or of a share of
    its query heads.

    A head is handled as its two halves, which the rotation pairs. Multiply-adds instead of tl.dot:
    a KV head serves too few query heads for the tensor cores, and reading the cache is the work.
    With one row per slot this step's key and value stay in registers until the scores, and older
    ones are loaded before the previous launch has ended: earlier steps have written them, and
    between two steps one launch is never overtaken (`wait_for_all`, or a launch that is not an
    early one).
    """
    HALF: tl.constexpr = HEAD_DIM // 2
    GROUP: tl.constexpr = NUM_HEADS // NUM_KV_HEADS
    QKV: tl.constexpr = (NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM
    IS_SINGLE: tl.constexpr = ROWS_PER_SLOT == 1
    PASSES: tl.constexpr = GROUP // PAIR // SHARES  # over the cache, each for PAIR query heads
    share = tl.program_id(1) + tl.arange(0, 1)
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    start_next(IS_DEPENDENT)
    task = tl.program_id(0) + tl.arange(0, 1)
    slot = (task // NUM_KV_HEADS).to(tl.int64)
    head = task % NUM_KV_HEADS
    low = tl.arange(0, BLOCK_H)[None, :]
    mask = low < HALF
    base = (slot * slot_stride + head * head_stride)[:, None]
    tile = tl.arange(0, BLOCK_S)
    old = tl.load(positions_ptr + slot * ROWS_PER_SLOT)
    table = old[:, None] * HEAD_DIM
    cos = wide_halves(cos_ptr + table, low, mask, HALF)
    sin = wide_halves(sin_ptr + table, low, mask, HALF)
    k_weight = _norm_of(k_norm_ptr, low, cos, HAS_NORM, HALF)
    q_weight = _norm_of(q_norm_ptr, low, cos, HAS_NORM, HALF)
    if IS_SINGLE:
        old = old.to(tl.int32)
        first_keys = cache_tile(keys_ptr, base, tile, old, low, HEAD_DIM)
        first_values = cache_tile(values_ptr, base, tile, old, low, HEAD_DIM)
    wait_for_previous(IS_DEPENDENT)
    for index in tl.static_range(ROWS_PER_SLOT):
        row = slot * ROWS_PER_SLOT + index
        position = tl.load(positions_ptr + row)[:, None]
        source = (qkv_ptr + row * QKV + (NUM_HEADS + head) * HEAD_DIM)[:, None]
        k = halves(source, low, mask, HALF)
        v = halves(source + NUM_KV_HEADS * HEAD_DIM, low, mask, HALF)
        if index > 0:
            cos = wide_halves(cos_ptr + position * HEAD_DIM, low, mask, HALF)
            sin = wide_halves(sin_ptr + position * HEAD_DIM, low, mask, HALF)
        k = rotate(k, k_weight, cos, sin, eps, HEAD_DIM, HAS_NORM)
        target = base + position * HEAD_DIM + low
        is_mine = mask & (share == 0)[:, None]
        store_pair(keys_ptr, values_ptr, target, k, v, is_mine, HALF)
    v = wide(v)
    if not IS_SINGLE:
        tl.debug_barrier()  # the rows of a slot are read back from the cache
    for index in tl.static_range(ROWS_PER_SLOT):
        row = slot * ROWS_PER_SLOT + index
        position = tl.load(positions_ptr + row).to(tl.int32)
        read = position + 1
        if IS_SINGLE:
            read = position
        longest = tl.max(read, axis=0)
        if not IS_SINGLE:
            table = position[:, None] * HEAD_DIM
            cos = wide_halves(cos_ptr + table, low, mask, HALF)
            sin = wide_halves(sin_ptr + table, low, mask, HALF)
        for index_of_pass in tl.static_range(PASSES):
            q_head = head * GROUP + (share * PASSES + index_of_pass) * PAIR
            source = (qkv_ptr + row * QKV + q_head * HEAD_DIM)[:, None]
            q_a = halves(source, low, mask, HALF)
            if PAIR == 2:
                q_b = halves(source + HEAD_DIM, low, mask, HALF)
            q_a = rotate(q_a, q_weight, cos, sin, eps, HEAD_DIM, HAS_NORM)
            a = _first_of(q_a, k, v, scale, IS_SINGLE)
            if PAIR == 2:
                q_b = rotate(q_b, q_weight, cos, sin, eps, HEAD_DIM, HAS_NORM)
                b = _first_of(q_b, k, v, scale, IS_SINGLE)
            begin = 0
            if IS_SINGLE:
                seen = tile[None, :] < read[:, None]
                keys = wide(first_keys)
                values = wide(first_values)
                a = mix(q_a, keys, values, seen, scale, a, dtype)
                if PAIR == 2:
                    b = mix(q_b, keys, values, seen, scale, b, dtype)
                begin = BLOCK_S
            for first in tl.range(begin, longest, BLOCK_S, num_stages=1):
                at = first + tile
                seen = at[None, :] < read[:, None]
                keys = cache_tile(keys_ptr, base, at, read, low, HEAD_DIM)
                values = cache_tile(values_ptr, base, at, read, low, HEAD_DIM)
                keys = wide(keys)
                values = wide(values)
                a = mix(q_a, keys, values, seen, scale, a, dtype)
                if PAIR == 2:
                    b = mix(q_b, keys, values, seen, scale, b, dtype)
            out = out_ptr + ((row * NUM_HEADS + q_head) * HEAD_DIM)[:, None] + low
            store_head(out, a, mask, HALF)
            if PAIR == 2:
                store_head(out + HEAD_DIM, b, mask, HALF)


def use_one_launch(qkv: Tensor, cache: Tensor) -> bool:
    """Whether one launch is possible: Triton, a short cache, contiguous positions."""
    num_positions, head_dim = cache.shape[3:]
    is_short = num_positions <= SHORT_CACHE and cache.stride(3) == head_dim
    return is_short and use_triton(qkv)


def tile_settings(num_rows: int) -> tuple[int, int | None]:
    """Positions per tile, and registers per thread at most.

    With 256 rows of Qwen3-TTS all programs run concurrently only if each takes few registers. With
    64 rows a second tile costs a wait (3.3 to 4.5 us against 3.4 to 4.0, H200).
    """
    return (8, 128) if num_rows > 128 else (16, None)


def step_attention(
    qkv: Tensor,
    heads: QKNormRope,
    positions: Tensor,
    cache: Tensor,
    rows_per_slot: int = 1,
    is_long: bool = False,
    prefixes: Tensor | None = None,
) -> Tensor:
    """Norm and rotate, write keys and values to the cache, attend to it.

    Args: as of `qk_norm_rope_store` and `decode_attention`.
    Returns:
        (R, H * D_h), contiguous.
    """
    if is_long or not use_one_launch(qkv, cache):
        q = qk_norm_rope_store(qkv, heads, positions, cache, rows_per_slot)
        return decode_attention(q, cache, positions, rows_per_slot, is_long, prefixes)
    q_weight, k_weight, cos, sin, eps = heads
    num_rows = qkv.shape[0]
    num_kv_heads, num_positions, head_dim = cache.shape[2:]
    num_heads = query_heads(qkv, cache, 2 * num_kv_heads)
    check_rows(num_rows, cache, rows_per_slot)
    if not all(given.is_contiguous() for given in (qkv, cos, sin, positions)):
        raise ValueError("qkv, cos, sin and positions must be contiguous")
    out = torch.empty((num_rows, num_heads * head_dim), dtype=qkv.dtype, device=qkv.device)
    num_tasks = num_rows // rows_per_slot * num_kv_heads
    # If a KV head serves several query heads and no program reads the stores of this launch, the
    # query heads are distributed to several programs. Each reads the short cache and the new key
    # again: one head per program, or two if programs are many. Fourteen steps of Qwen3-TTS's code
    # predictor take 0.05 ms less with one head each at 64 rows, and 0.11 ms more at 256 (H200).
    group = num_heads // num_kv_heads
    can_share = rows_per_slot == 1 and group % 2 == 0
    pair = 2 if group % 2 == 0 and not (can_share and num_tasks * group <= MAX_SINGLE) else 1
    shares = group // pair if can_share else 1
    block_s, max_registers = tile_settings(num_rows)
    _step_attention_kernel[(num_tasks, shares)](
        qkv,
        qkv if q_weight is None else q_weight,
        qkv if k_weight is None else k_weight,
        cos, sin, positions, *cache, out,
        cache.stride(1), cache.stride(2),
        eps,
        head_dim**-0.5,
        NUM_HEADS=num_heads, NUM_KV_HEADS=num_kv_heads, HEAD_DIM=head_dim,
        ROWS_PER_SLOT=rows_per_slot,
        HAS_NORM=q_weight is not None,
        SHARES=shares, PAIR=pair,
        BLOCK_S=min(block_s, next_power_of_2(num_positions)),
        BLOCK_H=next_power_of_2(head_dim // 2),
        num_warps=1, maxnreg=max_registers, **launch_options(),
    )  # fmt: skip
    return out
