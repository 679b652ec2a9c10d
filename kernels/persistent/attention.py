"""Attention of `kernels.persistent.kernel`, split over positions between programs.

Rounding is that of `kernels.attention.step`; joined parts are float32, and the result is rounded
once.
"""

from __future__ import annotations

from kernels.attention.rope import rotate, wide_halves
from kernels.attention.step import cache_tile, halves, mix, store_head, store_pair, wide
from kernels.launch.dispatch import jit, tl
from kernels.persistent.stages import arrive, wait_for


@jit
def _put(is_new, new, tile):
    """A cache tile with a position from registers, both pairs of halves; float32."""
    is_new = is_new[:, :, None]
    low = tl.where(is_new, new[0][:, None, :].to(tl.float32), tile[0].to(tl.float32))
    high = tl.where(is_new, new[1][:, None, :].to(tl.float32), tile[1].to(tl.float32))
    return low, high


@jit
def _new_pair(
    row_index, position, source,
    NUM_HEADS: tl.constexpr, NUM_KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
    HAS_NORM: tl.constexpr,
):  # fmt: skip
    """Key (normalised, rotated) and value of one row and KV head, each a pair of (1, D_h / 2).

    Args:
        source: values that the rows of a step share: products, KV head, norm, tables, places in a
            head.
    """
    qkv_ptr, head, weight, cos_ptr, sin_ptr, dims, mask, eps = source
    HALF: tl.constexpr = HEAD_DIM // 2
    QKV: tl.constexpr = (NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM
    place = qkv_ptr + row_index * QKV + (NUM_HEADS + head) * HEAD_DIM
    k = halves(place, dims, mask, HALF)
    v = halves(place + NUM_KV_HEADS * HEAD_DIM, dims, mask, HALF)
    cos = wide_halves(cos_ptr + position * HEAD_DIM, dims, mask, HALF)
    sin = wide_halves(sin_ptr + position * HEAD_DIM, dims, mask, HALF)
    return rotate(k, weight, cos, sin, eps, HEAD_DIM, HAS_NORM), v


@jit
def _put_new(
    keys, values, at, k, v, own, row_index,
    positions_ptr,
    source,
    NUM_HEADS: tl.constexpr, NUM_KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
    HAS_NORM: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Cache tiles of positions `at`, as float32, with everything that this step writes: the
    row's own pair (k, v) at `own`, and those of the other rows.
    """
    is_new = (at == own)[None, :]
    keys = _put(is_new, k, keys)
    values = _put(is_new, v, values)
    for ahead in range(1, ROWS):
        other = (row_index + ahead) % ROWS
        position = tl.load(positions_ptr + other).to(tl.int32)
        other_k, other_v = _new_pair(
            other, position, source, NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, HAS_NORM
        )
        is_new = (at == position)[None, :]
        keys = _put(is_new, other_k, keys)
        values = _put(is_new, other_v, values)
    return keys, values


@jit
def attend_split(
    qkv_ptr, q_norm_ptr, k_norm_ptr, cos_ptr, sin_ptr, positions_ptr, keys_ptr, values_ptr, out_ptr,
    mixed_ptr, stats_ptr, tickets_ptr, counter_ptr,
    target_count, task,
    head_stride,
    eps, scale,
    NUM_HEADS: tl.constexpr, NUM_KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, ROWS: tl.constexpr,
    HAS_NORM: tl.constexpr,
    SPLITS: tl.constexpr,
    BLOCK_S: tl.constexpr, BLOCK_H: tl.constexpr,
    IS_ONE_BLOCK: tl.constexpr,
):  # fmt: skip
    """Attend to one span of the cache for one row and KV head; the last span to end joins all.

    Spans are always joined in their order, so the sum is the same at every replay. The cache is
    read before this layer's q/k/v exist. Positions that the step itself writes come from registers,
    so the values read there, old or new, do not matter. One arrival per row and KV head; a span
    without positions does nothing.
    """
    HALF: tl.constexpr = HEAD_DIM // 2
    GROUP: tl.constexpr = NUM_HEADS // NUM_KV_HEADS
    QKV: tl.constexpr = (NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    split = task % SPLITS
    pair = task // SPLITS
    row_index = pair // NUM_KV_HEADS
    head = pair % NUM_KV_HEADS
    line = tl.arange(0, 1)
    dims = tl.arange(0, BLOCK_H)[None, :]
    mask = dims < HALF
    own = tl.load(positions_ptr + row_index).to(tl.int32)
    length = own + 1
    span = tl.cdiv(tl.cdiv(length, SPLITS), BLOCK_S) * BLOCK_S
    used = tl.cdiv(length, span)
    begin = split * span
    if begin < length:
        end = tl.minimum(begin + span, length)
        ends = line + end
        base = (line.to(tl.int64) + head * head_stride)[:, None]
        at = begin + tl.arange(0, BLOCK_S)
        keys = cache_tile(keys_ptr, base, at, ends, dims, HEAD_DIM)
        values = cache_tile(values_ptr, base, at, ends, dims, HEAD_DIM)
        no_weight = tl.zeros((1, BLOCK_H), tl.float32)
        k_weight = no_weight, no_weight
        q_weight = no_weight, no_weight
        if HAS_NORM:
            k_weight = wide_halves(k_norm_ptr, dims, mask, HALF)
            q_weight = wide_halves(q_norm_ptr, dims, mask, HALF)
        cos = wide_halves(cos_ptr + own * HEAD_DIM, dims, mask, HALF)
        sin = wide_halves(sin_ptr + own * HEAD_DIM, dims, mask, HALF)
        wait_for(counter_ptr, target_count)

        source = qkv_ptr, head, k_weight, cos_ptr, sin_ptr, dims, mask, eps
        k, v = _new_pair(row_index, own, source, NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, HAS_NORM)
        if split == 0:
            target = base + own * HEAD_DIM + dims
            store_pair(keys_ptr, values_ptr, target, k, v, mask, HALF)
        v = wide(v)
        keys, values = _put_new(
            keys, values, at, k, v, own, row_index, positions_ptr, source, NUM_HEADS, NUM_KV_HEADS,
            HEAD_DIM, HAS_NORM, ROWS,
        )  # fmt: skip
        seen = (at < end)[None, :]
        for member in tl.static_range(GROUP):
            q_head = head * GROUP + member
            q = halves(qkv_ptr + row_index * QKV + q_head * HEAD_DIM, dims, mask, HALF)
            q = rotate(q, q_weight, cos, sin, eps, HEAD_DIM, HAS_NORM)
            highest = tl.full((1,), -1e30, tl.float32)
            total = tl.zeros((1,), tl.float32)
            low = tl.zeros((1, BLOCK_H), tl.float32)
            high = tl.zeros((1, BLOCK_H), tl.float32)
            so_far = highest, total, low, high
            so_far = mix(q, keys, values, seen, scale, so_far, dtype)
            if not IS_ONE_BLOCK:
                for first in range(begin + BLOCK_S, end, BLOCK_S):
                    more = first + tl.arange(0, BLOCK_S)
                    more_keys = cache_tile(keys_ptr, base, more, ends, dims, HEAD_DIM)
                    more_values = cache_tile(values_ptr, base, more, ends, dims, HEAD_DIM)
                    more_keys, more_values = _put_new(
                        more_keys, more_values, more, k, v, own, row_index, positions_ptr, source,
                        NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, HAS_NORM, ROWS,
                    )  # fmt: skip
                    more_seen = (more < end)[None, :]
                    so_far = mix(q, more_keys, more_values, more_seen, scale, so_far, dtype)
            at_head = row_index * NUM_HEADS + q_head
            if SPLITS == 1:
                store_head(out_ptr + at_head * HEAD_DIM + dims, so_far, mask, HALF)
            else:
                highest, total, low, high = so_far
                place = at_head * SPLITS + split
                target = mixed_ptr + place * HEAD_DIM + dims
                tl.store(target, low, mask=mask)
                tl.store(target + HALF, high, mask=mask)
                tl.store(stats_ptr + place * 2 + line, highest)
                tl.store(stats_ptr + place * 2 + 1 + line, total)
        if SPLITS == 1:
            arrive(counter_ptr)
        else:
            tl.debug_barrier()
            ticket = tl.atomic_add(tickets_ptr + pair, 1, sem="acq_rel", scope="gpu")
            tl.debug_barrier()
            if ticket == used - 1:
                tl.store(tickets_ptr + pair, 0)
                for member in tl.static_range(GROUP):
                    at_head = row_index * NUM_HEADS + head * GROUP + member
                    _join(mixed_ptr, stats_ptr, out_ptr, at_head, used, SPLITS, HEAD_DIM, BLOCK_H)
                arrive(counter_ptr)


@jit
def _join(
    mixed_ptr, stats_ptr, out_ptr,
    at_head, used,
    SPLITS: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_H: tl.constexpr,
):  # fmt: skip
    """Join the first `used` spans of one query head."""
    splits = tl.arange(0, SPLITS)
    is_used = splits < used
    place = at_head * SPLITS + splits
    dims = tl.arange(0, 2 * BLOCK_H)
    mask = is_used[:, None] & (dims < HEAD_DIM)[None, :]
    source = stats_ptr + place * 2
    highest = tl.load(source, mask=is_used, other=-1e30, cache_modifier=".cg")
    total = tl.load(source + 1, mask=is_used, other=0.0, cache_modifier=".cg")
    source = mixed_ptr + place[:, None] * HEAD_DIM + dims[None, :]
    mixed = tl.load(source, mask=mask, other=0.0, cache_modifier=".cg")
    fade = tl.where(is_used, tl.exp(highest - tl.max(highest, axis=0)), 0.0)
    out = tl.sum(fade[:, None] * mixed, axis=0) / tl.sum(fade * total, axis=0)
    target = out_ptr + at_head * HEAD_DIM + dims
    tl.store(target, out.to(out_ptr.dtype.element_ty), mask=dims < HEAD_DIM)
