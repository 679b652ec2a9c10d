"""Device functions of `kernels.persistent_decoder`: waiting between programs, and one tile of work
of each stage.

Programs of one launch hand work to each other through global memory, so whatever another program
wrote in this launch is read with `.cg`: past the L1 cache, which is not coherent. A program's
stores come before its arrival: a barrier of its threads, then one release by a single thread,
which in the PTX memory model also covers what the barrier ordered before it (PTX ISA, memory
consistency model, causality order).
"""

from __future__ import annotations

from kernels.dispatch import jit, tl


@jit
def arrive(counter_ptr):
    """Tell the others that this program's stores of a stage are done."""
    tl.debug_barrier()
    tl.atomic_add(counter_ptr, 1, sem="release", scope="gpu")


@jit
def wait_for(counter_ptr, target, POLL_ATOMIC: tl.constexpr):
    """Spin until `target` arrivals of this launch are counted."""
    if POLL_ATOMIC:
        while tl.atomic_add(counter_ptr, 0, sem="acquire", scope="gpu") < target:
            pass
    else:
        while tl.load(counter_ptr, volatile=True) < target:
            pass
    tl.debug_barrier()


@jit
def touch(
    w_ptr,
    first_col,
    first_k,
    W_STRIDE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    LINES: tl.constexpr,
    BLOCK_LINES: tl.constexpr,
):
    """Start to bring BLOCK_N rows of a weight, LINES cache lines each, into the L2 cache.

    One element a line of 128 bytes is loaded; `keep` takes them.
    """
    LINE: tl.constexpr = 1024 // w_ptr.dtype.element_ty.primitive_bitwidth
    lines = tl.arange(0, BLOCK_LINES)
    row = (first_col + tl.arange(0, BLOCK_N))[:, None]
    offset = row * W_STRIDE + (first_k + lines * LINE)[None, :]
    return tl.load(w_ptr + offset, mask=(lines < LINES)[None, :], other=0.0)


@jit
def keep(sink_ptr, kept):
    """Use what `touch` loaded, so that the loads are not dropped; nothing is ever stored."""
    row = tl.arange(0, kept.shape[0])[:, None]
    column = tl.arange(0, kept.shape[1])[None, :]
    never = kept.to(tl.float32) > 1e38
    tl.store(sink_ptr + row * kept.shape[1] + column, kept, mask=never)


@jit
def norm_tile(
    source_ptr,
    source_rows,
    source_stride,
    parts_ptr,
    residual_ptr,
    weight_ptr,
    hidden_ptr,
    rows,
    num_rows,
    is_writer,
    eps,
    SPLITS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """Sum the parts of a linear layer, add them to the residual stream, normalise: rows (BLOCK_R,).

    SPLITS 0 adds nothing. Only a writer stores the new residual; hidden is stored always.
    """
    dtype: tl.constexpr = hidden_ptr.dtype.element_ty
    column = tl.arange(0, BLOCK_D)[None, :]
    mask = (rows < num_rows)[:, None] & (column < WIDTH)
    offset = rows[:, None] * WIDTH + column
    source = source_ptr + source_rows[:, None] * source_stride + column
    weight = tl.load(weight_ptr + column, mask=column < WIDTH, other=0.0).to(tl.float32)
    x = tl.load(source, mask=mask, other=0.0, cache_modifier=".cg").to(tl.float32)
    if SPLITS > 0:
        total = tl.load(parts_ptr + offset, mask=mask, other=0.0, cache_modifier=".cg")
        for split in tl.static_range(1, SPLITS):
            part = parts_ptr + split * num_rows * WIDTH + offset
            total += tl.load(part, mask=mask, other=0.0, cache_modifier=".cg")
        x = (total.to(dtype).to(tl.float32) + x).to(dtype).to(tl.float32)
    if is_writer:
        tl.store(residual_ptr + offset, x.to(dtype), mask=mask)
    scale = tl.rsqrt(tl.sum(x * x, axis=1) / WIDTH + eps)[:, None]
    normed = (x * scale).to(dtype).to(tl.float32)
    tl.store(hidden_ptr + offset, (normed * weight).to(dtype), mask=mask)


@jit
def product_tile(
    x_ptr,
    w_ptr,
    rows,
    cols,
    first_k,
    num_rows,
    X_STRIDE: tl.constexpr,
    W_STRIDE: tl.constexpr,
    SPAN: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """x (R, K) times w (N, K) transposed at (rows, cols), over SPAN of K from first_k; float32."""
    depth = first_k + tl.arange(0, BLOCK_K)
    x_tile = x_ptr + rows[:, None] * X_STRIDE + depth[None, :]
    w_tile = w_ptr + cols[None, :] * W_STRIDE + depth[:, None]
    is_row = (rows < num_rows)[:, None]
    total = tl.zeros((rows.shape[0], cols.shape[0]), tl.float32)
    for step in tl.range(0, SPAN, BLOCK_K, num_stages=STAGES):
        x = tl.load(x_tile + step, mask=is_row, other=0.0, cache_modifier=".cg")
        w = tl.load(w_tile + step)
        if UPCAST:
            x = x.to(tl.float32)
            w = w.to(tl.float32)
        total = tl.dot(x, w, total, input_precision="ieee")
    return total


@jit
def mlp_tile(
    x_ptr,
    w_ptr,
    rows,
    cols,
    num_rows,
    WIDTH: tl.constexpr,
    INNER: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """SwiGLU of x (R, D) times gate and up (2I, D) transposed at (rows, cols), rounded."""
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    depth = tl.arange(0, BLOCK_K)
    x_tile = x_ptr + rows[:, None] * WIDTH + depth[None, :]
    gate_tile = w_ptr + cols[None, :] * WIDTH + depth[:, None]
    up_tile = gate_tile + INNER * WIDTH
    is_row = (rows < num_rows)[:, None]
    gate = tl.zeros((rows.shape[0], cols.shape[0]), tl.float32)
    up = tl.zeros((rows.shape[0], cols.shape[0]), tl.float32)
    for step in tl.range(0, WIDTH, BLOCK_K, num_stages=STAGES):
        x = tl.load(x_tile + step, mask=is_row, other=0.0, cache_modifier=".cg")
        w_gate = tl.load(gate_tile + step)
        w_up = tl.load(up_tile + step)
        if UPCAST:
            x = x.to(tl.float32)
            w_gate = w_gate.to(tl.float32)
            w_up = w_up.to(tl.float32)
        gate = tl.dot(x, w_gate, gate, input_precision="ieee")
        up = tl.dot(x, w_up, up, input_precision="ieee")
    gate = gate.to(dtype).to(tl.float32)
    silu = (gate / (1.0 + tl.exp(-gate))).to(dtype).to(tl.float32)
    return (silu * up.to(dtype).to(tl.float32)).to(dtype)


@jit
def _halves(source, low, mask, HALF: tl.constexpr):
    """Both halves of the heads at `source`, as they are stored."""
    x_low = tl.load(source + low, mask=mask, other=0.0, cache_modifier=".cg")
    x_high = tl.load(source + HALF + low, mask=mask, other=0.0, cache_modifier=".cg")
    return x_low, x_high


@jit
def _turn(
    x_low,
    x_high,
    weight_ptr,
    cos_ptr,
    sin_ptr,
    table,
    low,
    mask,
    eps,
    HEAD_DIM: tl.constexpr,
    HAS_NORM: tl.constexpr,
):
    """Normalise and rotate heads, one a line: both halves (lines, D_h / 2), rounded, as float32."""
    HALF: tl.constexpr = HEAD_DIM // 2
    dtype: tl.constexpr = x_low.dtype
    cos_low = tl.load(cos_ptr + table, mask=mask, other=0.0).to(tl.float32)
    sin_low = tl.load(sin_ptr + table, mask=mask, other=0.0).to(tl.float32)
    cos_high = tl.load(cos_ptr + table + HALF, mask=mask, other=0.0).to(tl.float32)
    sin_high = tl.load(sin_ptr + table + HALF, mask=mask, other=0.0).to(tl.float32)
    x_low = x_low.to(tl.float32)
    x_high = x_high.to(tl.float32)
    if HAS_NORM:
        is_dim = low < HALF
        w_low = tl.load(weight_ptr + low, mask=is_dim, other=0.0).to(tl.float32)
        w_high = tl.load(weight_ptr + HALF + low, mask=is_dim, other=0.0).to(tl.float32)
        total = tl.sum(x_low * x_low + x_high * x_high, axis=1)
        scale = tl.rsqrt(total / HEAD_DIM + eps)[:, None]
        x_low = ((x_low * scale).to(dtype).to(tl.float32) * w_low).to(dtype).to(tl.float32)
        x_high = ((x_high * scale).to(dtype).to(tl.float32) * w_high).to(dtype).to(tl.float32)
    y_low = (x_low * cos_low).to(dtype).to(tl.float32) - (x_high * sin_low).to(dtype).to(tl.float32)
    y_high = (x_high * cos_high).to(dtype).to(tl.float32)
    y_high += (x_low * sin_high).to(dtype).to(tl.float32)
    return y_low.to(dtype).to(tl.float32), y_high.to(dtype).to(tl.float32)


@jit
def _cache_tile(ptr, base, at, end, low, HEAD_DIM: tl.constexpr):
    """Cache positions `at` below `end` (lines,): both halves (lines, positions, D_h / 2)."""
    HALF: tl.constexpr = HEAD_DIM // 2
    offset = base[:, :, None] + (at * HEAD_DIM)[None, :, None] + low[:, None, :]
    mask = (at[None, :] < end[:, None])[:, :, None] & (low < HALF)[:, None, :]
    x_low = tl.load(ptr + offset, mask=mask, other=0.0, cache_modifier=".cg")
    x_high = tl.load(ptr + HALF + offset, mask=mask, other=0.0, cache_modifier=".cg")
    return x_low, x_high


@jit
def _put(is_new, new, tile):
    """A cache tile as float32, with the position of this step from registers."""
    return tl.where(is_new[:, :, None], new[:, None, :], tile.to(tl.float32))


@jit
def _mix(
    q_low,
    q_high,
    keys_low,
    keys_high,
    values_low,
    values_high,
    seen,
    scale,
    highest,
    total,
    low,
    high,
    dtype: tl.constexpr,
):
    """One tile of the online softmax for one query head a line; all (lines, positions, D_h / 2)."""
    scores = tl.sum(keys_low * q_low[:, None, :] + keys_high * q_high[:, None, :], axis=2) * scale
    scores = tl.where(seen, scores, -1e30)
    new_highest = tl.maximum(highest, tl.max(scores, axis=1))
    fade = tl.exp(highest - new_highest)
    weight = tl.where(seen, tl.exp(scores - new_highest[:, None]), 0.0)
    total = total * fade + tl.sum(weight, axis=1)
    weight = weight.to(dtype).to(tl.float32)[:, :, None]
    low = low * fade[:, None] + tl.sum(weight * values_low, axis=1)
    high = high * fade[:, None] + tl.sum(weight * values_high, axis=1)
    return new_highest, total, low, high


@jit
def _store_head(target, low, high, total, mask, HALF: tl.constexpr):
    """Divide by the softmax total; lines beyond the last task hold nothing, hence the 1."""
    dtype: tl.constexpr = target.dtype.element_ty
    divisor = tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(target, (low / divisor).to(dtype), mask=mask)
    tl.store(target + HALF, (high / divisor).to(dtype), mask=mask)


@jit
def attend_tile(
    qkv_ptr,
    q_norm_ptr,
    k_norm_ptr,
    cos_ptr,
    sin_ptr,
    positions_ptr,
    keys_ptr,
    values_ptr,
    out_ptr,
    counter_ptr,
    target_count,
    first_task,
    num_tasks,
    slot_stride,
    head_stride,
    eps,
    scale,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    ROWS_PER_SLOT: tl.constexpr,
    HAS_NORM: tl.constexpr,
    TASKS: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_H: tl.constexpr,
    STAGES: tl.constexpr,
    POLL_ATOMIC: tl.constexpr,
):
    """Norm, rotation, cache store and attention of TASKS pairs of slot and KV head.

    A head is handled as its two halves, which the rotation pairs. Multiply-adds instead of tl.dot:
    a KV head serves too few query heads for the tensor cores, and reading the cache is the work.
    With one row a slot the cache of earlier steps is read before this layer's q/k/v are there, and
    this step's key and value never leave the registers on their way to the scores.
    """
    HALF: tl.constexpr = HEAD_DIM // 2
    GROUP: tl.constexpr = NUM_HEADS // NUM_KV_HEADS
    QKV: tl.constexpr = (NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM
    IS_SINGLE: tl.constexpr = ROWS_PER_SLOT == 1
    # Query heads served by one pass over the cache.
    PAIR: tl.constexpr = 2 if GROUP % 2 == 0 else 1
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    task = first_task + tl.arange(0, TASKS)
    is_task = task < num_tasks
    slot = (task // NUM_KV_HEADS).to(tl.int64)
    head = task % NUM_KV_HEADS
    low = tl.arange(0, BLOCK_H)[None, :]
    mask = is_task[:, None] & (low < HALF)
    base = (slot * slot_stride + head * head_stride)[:, None]
    tile = tl.arange(0, BLOCK_S)
    if IS_SINGLE:
        old = tl.load(positions_ptr + slot, mask=is_task, other=0).to(tl.int32)
        first_keys_low, first_keys_high = _cache_tile(keys_ptr, base, tile, old, low, HEAD_DIM)
        first_values_low, first_values_high = _cache_tile(
            values_ptr, base, tile, old, low, HEAD_DIM
        )
    wait_for(counter_ptr, target_count, POLL_ATOMIC)
    for index in tl.static_range(ROWS_PER_SLOT):
        row = slot * ROWS_PER_SLOT + index
        position = tl.load(positions_ptr + row, mask=is_task, other=0)[:, None]
        source = (qkv_ptr + row * QKV + (NUM_HEADS + head) * HEAD_DIM)[:, None]
        k_low, k_high = _halves(source, low, mask, HALF)
        v_low, v_high = _halves(source + NUM_KV_HEADS * HEAD_DIM, low, mask, HALF)
        k_low, k_high = _turn(
            k_low, k_high, k_norm_ptr, cos_ptr, sin_ptr, position * HEAD_DIM + low, low, mask, eps,
            HEAD_DIM, HAS_NORM,
        )  # fmt: skip
        target = base + position * HEAD_DIM + low
        tl.store(keys_ptr + target, k_low.to(dtype), mask=mask)
        tl.store(keys_ptr + target + HALF, k_high.to(dtype), mask=mask)
        tl.store(values_ptr + target, v_low, mask=mask)
        tl.store(values_ptr + target + HALF, v_high, mask=mask)
    v_low = v_low.to(tl.float32)
    v_high = v_high.to(tl.float32)
    if not IS_SINGLE:
        tl.debug_barrier()  # the rows of a slot are read back from the cache
    for index in tl.static_range(ROWS_PER_SLOT):
        row = slot * ROWS_PER_SLOT + index
        position = tl.load(positions_ptr + row, mask=is_task, other=-1).to(tl.int32)
        length = position + 1
        read = length
        if IS_SINGLE:
            read = position
        longest = tl.max(length, axis=0)
        table = position[:, None] * HEAD_DIM + low
        for pair in tl.static_range(GROUP // PAIR):
            q_head = head * GROUP + pair * PAIR
            source = (qkv_ptr + row * QKV + q_head * HEAD_DIM)[:, None]
            qa_low, qa_high = _halves(source, low, mask, HALF)
            if PAIR == 2:
                qb_low, qb_high = _halves(source + HEAD_DIM, low, mask, HALF)
            qa_low, qa_high = _turn(
                qa_low, qa_high, q_norm_ptr, cos_ptr, sin_ptr, table, low, mask, eps, HEAD_DIM,
                HAS_NORM,
            )  # fmt: skip
            a_highest = tl.full((TASKS,), -1e30, tl.float32)
            a_total = tl.zeros((TASKS,), tl.float32)
            a_low = tl.zeros((TASKS, BLOCK_H), tl.float32)
            a_high = tl.zeros((TASKS, BLOCK_H), tl.float32)
            if PAIR == 2:
                qb_low, qb_high = _turn(
                    qb_low, qb_high, q_norm_ptr, cos_ptr, sin_ptr, table, low, mask, eps, HEAD_DIM,
                    HAS_NORM,
                )  # fmt: skip
                b_highest = tl.full((TASKS,), -1e30, tl.float32)
                b_total = tl.zeros((TASKS,), tl.float32)
                b_low = tl.zeros((TASKS, BLOCK_H), tl.float32)
                b_high = tl.zeros((TASKS, BLOCK_H), tl.float32)
            begin = 0
            if IS_SINGLE:
                seen = tile[None, :] < length[:, None]
                is_new = tile[None, :] == position[:, None]
                keys_low = _put(is_new, k_low, first_keys_low)
                keys_high = _put(is_new, k_high, first_keys_high)
                values_low = _put(is_new, v_low, first_values_low)
                values_high = _put(is_new, v_high, first_values_high)
                a_highest, a_total, a_low, a_high = _mix(
                    qa_low, qa_high, keys_low, keys_high, values_low, values_high, seen, scale,
                    a_highest, a_total, a_low, a_high, dtype,
                )  # fmt: skip
                if PAIR == 2:
                    b_highest, b_total, b_low, b_high = _mix(
                        qb_low, qb_high, keys_low, keys_high, values_low, values_high, seen, scale,
                        b_highest, b_total, b_low, b_high, dtype,
                    )  # fmt: skip
                begin = BLOCK_S
            for first in tl.range(begin, longest, BLOCK_S, num_stages=STAGES):
                at = first + tile
                more_seen = at[None, :] < length[:, None]
                more_low, more_high = _cache_tile(keys_ptr, base, at, read, low, HEAD_DIM)
                mixed_low, mixed_high = _cache_tile(values_ptr, base, at, read, low, HEAD_DIM)
                if IS_SINGLE:
                    is_last = at[None, :] == position[:, None]
                    more_low = _put(is_last, k_low, more_low)
                    more_high = _put(is_last, k_high, more_high)
                    mixed_low = _put(is_last, v_low, mixed_low)
                    mixed_high = _put(is_last, v_high, mixed_high)
                else:
                    more_low = more_low.to(tl.float32)
                    more_high = more_high.to(tl.float32)
                    mixed_low = mixed_low.to(tl.float32)
                    mixed_high = mixed_high.to(tl.float32)
                a_highest, a_total, a_low, a_high = _mix(
                    qa_low, qa_high, more_low, more_high, mixed_low, mixed_high, more_seen, scale,
                    a_highest, a_total, a_low, a_high, dtype,
                )  # fmt: skip
                if PAIR == 2:
                    b_highest, b_total, b_low, b_high = _mix(
                        qb_low, qb_high, more_low, more_high, mixed_low, mixed_high, more_seen,
                        scale, b_highest, b_total, b_low, b_high, dtype,
                    )  # fmt: skip
            out = out_ptr + ((row * NUM_HEADS + q_head) * HEAD_DIM)[:, None] + low
            _store_head(out, a_low, a_high, a_total, mask, HALF)
            if PAIR == 2:
                _store_head(out + HEAD_DIM, b_low, b_high, b_total, mask, HALF)
