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
def turned_heads(
    source,
    weight_ptr,
    cos_low,
    sin_low,
    cos_high,
    sin_high,
    low,
    mask,
    eps,
    HEAD_DIM: tl.constexpr,
    HAS_NORM: tl.constexpr,
):
    """One head a line, normalised and rotated: both halves (lines, D_h / 2), rounded, as float32."""
    HALF: tl.constexpr = HEAD_DIM // 2
    dtype: tl.constexpr = source.dtype.element_ty
    x_low = tl.load(source + low, mask=mask, other=0.0, cache_modifier=".cg").to(tl.float32)
    x_high = tl.load(source + HALF + low, mask=mask, other=0.0, cache_modifier=".cg").to(tl.float32)
    if HAS_NORM:
        is_dim = low < HALF
        total = tl.sum(x_low * x_low + x_high * x_high, axis=1)
        scale = tl.rsqrt(total / HEAD_DIM + eps)[:, None]
        w_low = tl.load(weight_ptr + low, mask=is_dim, other=0.0).to(tl.float32)
        w_high = tl.load(weight_ptr + HALF + low, mask=is_dim, other=0.0).to(tl.float32)
        x_low = ((x_low * scale).to(dtype).to(tl.float32) * w_low).to(dtype).to(tl.float32)
        x_high = ((x_high * scale).to(dtype).to(tl.float32) * w_high).to(dtype).to(tl.float32)
    y_low = (x_low * cos_low).to(dtype).to(tl.float32) - (x_high * sin_low).to(dtype).to(tl.float32)
    y_high = (x_high * cos_high).to(dtype).to(tl.float32)
    y_high += (x_low * sin_high).to(dtype).to(tl.float32)
    return y_low.to(dtype).to(tl.float32), y_high.to(dtype).to(tl.float32)


@jit
def _attend_block(scores, seen, highest, total):
    """One step of the online softmax: weights, fade of what came before, new maximum and total."""
    scores = tl.where(seen, scores, -1e30)
    new_highest = tl.maximum(highest, tl.max(scores, axis=1))
    fade = tl.exp(highest - new_highest)
    weight = tl.where(seen, tl.exp(scores - new_highest[:, None]), 0.0)
    return weight, fade, new_highest, total * fade + tl.sum(weight, axis=1)


@jit
def _divisor(total):
    """Totals as a column; lines beyond the last task hold nothing and must not divide by zero."""
    return tl.where(total == 0.0, 1.0, total)[:, None]


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
):
    """Norm, rotation, cache store and attention of TASKS pairs of slot and KV head.

    A head is handled as its two halves, which the rotation pairs. Multiply-adds instead of tl.dot:
    a KV head serves too few query heads for the tensor cores, and reading the cache is the work.
    """
    HALF: tl.constexpr = HEAD_DIM // 2
    GROUP: tl.constexpr = NUM_HEADS // NUM_KV_HEADS
    QKV: tl.constexpr = (NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM
    # Query heads served by one pass over the cache.
    PAIR: tl.constexpr = 2 if GROUP % 2 == 0 else 1
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    task = first_task + tl.arange(0, TASKS)
    is_task = task < num_tasks
    slot = (task // NUM_KV_HEADS).to(tl.int64)
    head = task % NUM_KV_HEADS
    low = tl.arange(0, BLOCK_H)[None, :]
    is_dim = low < HALF
    mask = is_task[:, None] & is_dim
    base = (slot * slot_stride + head * head_stride)[:, None]
    for index in tl.static_range(ROWS_PER_SLOT):
        row = slot * ROWS_PER_SLOT + index
        position = tl.load(positions_ptr + row, mask=is_task, other=0)[:, None]
        table = position * HEAD_DIM + low
        cos_low = tl.load(cos_ptr + table, mask=mask, other=0.0).to(tl.float32)
        sin_low = tl.load(sin_ptr + table, mask=mask, other=0.0).to(tl.float32)
        cos_high = tl.load(cos_ptr + table + HALF, mask=mask, other=0.0).to(tl.float32)
        sin_high = tl.load(sin_ptr + table + HALF, mask=mask, other=0.0).to(tl.float32)
        source = (qkv_ptr + row * QKV + (NUM_HEADS + head) * HEAD_DIM)[:, None]
        k_low, k_high = turned_heads(
            source, k_norm_ptr, cos_low, sin_low, cos_high, sin_high, low, mask, eps,
            HEAD_DIM, HAS_NORM,
        )  # fmt: skip
        source += NUM_KV_HEADS * HEAD_DIM
        v_low = tl.load(source + low, mask=mask, other=0.0, cache_modifier=".cg")
        v_high = tl.load(source + HALF + low, mask=mask, other=0.0, cache_modifier=".cg")
        target = base + position * HEAD_DIM + low
        tl.store(keys_ptr + target, k_low.to(dtype), mask=mask)
        tl.store(keys_ptr + target + HALF, k_high.to(dtype), mask=mask)
        tl.store(values_ptr + target, v_low, mask=mask)
        tl.store(values_ptr + target + HALF, v_high, mask=mask)
    tl.debug_barrier()  # the rows of this slot are read back below
    tile = tl.arange(0, BLOCK_S)
    for index in tl.static_range(ROWS_PER_SLOT):
        row = slot * ROWS_PER_SLOT + index
        position = tl.load(positions_ptr + row, mask=is_task, other=-1)
        length = (position + 1).to(tl.int32)
        longest = tl.max(length, axis=0)
        table = position[:, None] * HEAD_DIM + low
        cos_low = tl.load(cos_ptr + table, mask=mask, other=0.0).to(tl.float32)
        sin_low = tl.load(sin_ptr + table, mask=mask, other=0.0).to(tl.float32)
        cos_high = tl.load(cos_ptr + table + HALF, mask=mask, other=0.0).to(tl.float32)
        sin_high = tl.load(sin_ptr + table + HALF, mask=mask, other=0.0).to(tl.float32)
        for pair in tl.static_range(GROUP // PAIR):
            q_head = head * GROUP + pair * PAIR
            source = (qkv_ptr + row * QKV + q_head * HEAD_DIM)[:, None]
            qa_low, qa_high = turned_heads(
                source, q_norm_ptr, cos_low, sin_low, cos_high, sin_high, low, mask, eps,
                HEAD_DIM, HAS_NORM,
            )  # fmt: skip
            a_highest = tl.full((TASKS,), -1e30, tl.float32)
            a_total = tl.zeros((TASKS,), tl.float32)
            a_low = tl.zeros((TASKS, BLOCK_H), tl.float32)
            a_high = tl.zeros((TASKS, BLOCK_H), tl.float32)
            if PAIR == 2:
                qb_low, qb_high = turned_heads(
                    source + HEAD_DIM, q_norm_ptr, cos_low, sin_low, cos_high, sin_high, low, mask,
                    eps, HEAD_DIM, HAS_NORM,
                )  # fmt: skip
                b_highest = tl.full((TASKS,), -1e30, tl.float32)
                b_total = tl.zeros((TASKS,), tl.float32)
                b_low = tl.zeros((TASKS, BLOCK_H), tl.float32)
                b_high = tl.zeros((TASKS, BLOCK_H), tl.float32)
            for first in tl.range(0, longest, BLOCK_S, num_stages=STAGES):
                at = first + tile
                seen = at[None, :] < length[:, None]  # (TASKS, BLOCK_S)
                offset = base[:, :, None] + (at * HEAD_DIM)[None, :, None] + low[:, None, :]
                is_read = seen[:, :, None] & is_dim[:, None, :]
                k = keys_ptr + offset
                v = values_ptr + offset
                keys_low = tl.load(k, mask=is_read, other=0.0, cache_modifier=".cg").to(tl.float32)
                keys_high = tl.load(k + HALF, mask=is_read, other=0.0, cache_modifier=".cg").to(
                    tl.float32
                )
                values_low = tl.load(v, mask=is_read, other=0.0, cache_modifier=".cg").to(tl.float32)
                values_high = tl.load(v + HALF, mask=is_read, other=0.0, cache_modifier=".cg").to(
                    tl.float32
                )
                scores = tl.sum(keys_low * qa_low[:, None, :] + keys_high * qa_high[:, None, :], axis=2)
                weight, fade, a_highest, a_total = _attend_block(
                    scores * scale, seen, a_highest, a_total
                )
                weight = weight.to(dtype).to(tl.float32)[:, :, None]
                a_low = a_low * fade[:, None] + tl.sum(weight * values_low, axis=1)
                a_high = a_high * fade[:, None] + tl.sum(weight * values_high, axis=1)
                if PAIR == 2:
                    scores = tl.sum(
                        keys_low * qb_low[:, None, :] + keys_high * qb_high[:, None, :], axis=2
                    )
                    weight, fade, b_highest, b_total = _attend_block(
                        scores * scale, seen, b_highest, b_total
                    )
                    weight = weight.to(dtype).to(tl.float32)[:, :, None]
                    b_low = b_low * fade[:, None] + tl.sum(weight * values_low, axis=1)
                    b_high = b_high * fade[:, None] + tl.sum(weight * values_high, axis=1)
            target = out_ptr + ((row * NUM_HEADS + q_head) * HEAD_DIM)[:, None] + low
            tl.store(target, (a_low / _divisor(a_total)).to(dtype), mask=mask)
            tl.store(target + HALF, (a_high / _divisor(a_total)).to(dtype), mask=mask)
            if PAIR == 2:
                target += HEAD_DIM
                tl.store(target, (b_low / _divisor(b_total)).to(dtype), mask=mask)
                tl.store(target + HALF, (b_high / _divisor(b_total)).to(dtype), mask=mask)
