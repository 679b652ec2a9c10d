"""The body of `kernels.persistent_decoder`: stages of a layer, and who waits for whom.

`arrived` is the count of arrivals that the stage at hand waits for. Stages follow each other in one
chain, every stage waits for all of the one before, and so for all before that: a buffer may be
written again as soon as the stage that reads it is over.
"""

from __future__ import annotations

from kernels.dispatch import jit, tl
from kernels.persistent_stages import (
    arrive,
    keep,
    mlp_tile,
    norm_tile,
    product_tile,
    touch,
    wait_for,
)
from kernels.step_attention import attend_tile


# Compiled once for all numbers of rows that share their settings, and for any column of codes.
@jit(
    do_not_specialize=["num_rows", "num_layers", "codes_stride"],
    do_not_specialize_on_alignment=["codes_ptr"],
)
def _persistent_decoder_kernel(
    x_ptr,
    codes_ptr,
    positions_ptr,
    qkv_w_ptr,
    o_w_ptr,
    gate_up_w_ptr,
    down_w_ptr,
    norms_ptr,
    post_norms_ptr,
    q_norms_ptr,
    k_norms_ptr,
    head_w_ptr,
    cos_ptr,
    sin_ptr,
    keys_ptr,
    values_ptr,
    out_ptr,
    logits_ptr,
    residual_ptr,
    hidden_ptr,
    qkv_ptr,
    attended_ptr,
    act_ptr,
    parts_ptr,
    counters_ptr,
    num_rows,
    num_layers,
    head_size,
    x_stride,
    codes_stride,
    layer_stride,
    slot_stride,
    head_stride,
    eps,
    scale,
    WIDTH: tl.constexpr,
    INNER: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    ROWS_PER_SLOT: tl.constexpr,
    HAS_QK_NORM: tl.constexpr,
    HAS_CODES: tl.constexpr,
    HAS_HEAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    QKV_N: tl.constexpr,
    O_N: tl.constexpr,
    MLP_N: tl.constexpr,
    DOWN_N: tl.constexpr,
    HEAD_N: tl.constexpr,
    O_SPLITS: tl.constexpr,
    DOWN_SPLITS: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
    TASKS: tl.constexpr,
    BLOCK_S: tl.constexpr,
    ATTENTION_STAGES: tl.constexpr,
    NORM_ROWS: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_LINES: tl.constexpr,
    TOUCH_BYTES: tl.constexpr,
    REDUNDANT: tl.constexpr,
    PREFETCH: tl.constexpr,
    POLL_ATOMIC: tl.constexpr,
    UPCAST: tl.constexpr,
):
    pid = tl.program_id(0)
    programs = tl.num_programs(0)
    QKV: tl.constexpr = (NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM
    MIXED: tl.constexpr = NUM_HEADS * HEAD_DIM
    O_SPAN: tl.constexpr = MIXED // O_SPLITS
    DOWN_SPAN: tl.constexpr = INNER // DOWN_SPLITS
    LINE: tl.constexpr = 8 * TOUCH_BYTES // x_ptr.dtype.element_ty.primitive_bitwidth
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    O_TILES: tl.constexpr = WIDTH // O_N
    DOWN_TILES: tl.constexpr = WIDTH // DOWN_N
    m_tiles = tl.cdiv(num_rows, BLOCK_M)
    own_unit = pid // m_tiles  # what this program's first tile of a product is, but for its rows
    qkv_tiles = m_tiles * (QKV // QKV_N)
    o_tiles = m_tiles * (WIDTH // O_N) * O_SPLITS
    mlp_tiles = m_tiles * (INNER // MLP_N)
    down_tiles = m_tiles * (WIDTH // DOWN_N) * DOWN_SPLITS
    tasks = num_rows // ROWS_PER_SLOT * NUM_KV_HEADS
    task_tiles = tl.cdiv(tasks, TASKS)
    norm_tiles = tl.cdiv(num_rows, NORM_ROWS)
    # Norms go to the programs at the end of the grid, which have the least to do elsewhere.
    last = programs - 1 - pid
    tile_rows = tl.arange(0, BLOCK_M)
    norm_lines = tl.arange(0, NORM_ROWS)
    own_hidden = hidden_ptr
    if REDUNDANT:
        own_hidden += pid.to(tl.int64) * num_rows * WIDTH
    spare_ptr = residual_ptr + num_rows * WIDTH
    is_first = pid == 0
    long_zero = tl.zeros((), tl.int64)
    arrived = 0

    if not REDUNDANT:
        if last < norm_tiles:
            for tile in range(last, norm_tiles, programs):
                rows = tile * NORM_ROWS + norm_lines
                source_rows = rows.to(tl.int64)
                if HAS_CODES:
                    code = tl.load(
                        codes_ptr + source_rows * codes_stride, mask=rows < num_rows, other=0
                    )
                    source_rows = tl.maximum(code, 0)
                norm_tile(
                    x_ptr, source_rows, x_stride, parts_ptr, residual_ptr, norms_ptr, hidden_ptr,
                    rows, num_rows, True, eps, 0, WIDTH, BLOCK_D,
                )  # fmt: skip
            arrive(counters_ptr)
        arrived += tl.minimum(norm_tiles, programs)

    for layer in range(num_layers):
        long_layer = long_zero + layer
        # Norm (where each program does it for itself) and q/k/v.
        if pid < qkv_tiles:
            w_ptr = qkv_w_ptr + long_layer * (QKV * WIDTH)
            if PREFETCH == 1:
                kept = touch(
                    w_ptr, own_unit * QKV_N, 0, WIDTH, QKV_N, WIDTH // LINE, BLOCK_LINES, LINE
                )
            if PREFETCH == 2:
                kept = touch(
                    o_w_ptr + long_layer * (WIDTH * MIXED), own_unit % O_TILES * O_N,
                    own_unit // O_TILES % O_SPLITS * O_SPAN, MIXED, O_N, O_SPAN // LINE,
                    BLOCK_LINES, LINE,
                )  # fmt: skip
            wait_for(counters_ptr, arrived, POLL_ATOMIC)
            if REDUNDANT:
                for first in range(0, num_rows, NORM_ROWS):
                    rows = first + norm_lines
                    source_rows = rows.to(tl.int64)
                    if layer == 0:
                        if HAS_CODES:
                            code = tl.load(
                                codes_ptr + source_rows * codes_stride,
                                mask=rows < num_rows,
                                other=0,
                            )
                            source_rows = tl.maximum(code, 0)
                        norm_tile(
                            x_ptr, source_rows, x_stride, parts_ptr, residual_ptr, norms_ptr,
                            own_hidden, rows, num_rows, is_first, eps, 0, WIDTH, BLOCK_D,
                        )  # fmt: skip
                    else:
                        norm_tile(
                            spare_ptr, source_rows, WIDTH, parts_ptr, residual_ptr,
                            norms_ptr + layer * WIDTH, own_hidden, rows, num_rows, is_first, eps,
                            DOWN_SPLITS, WIDTH, BLOCK_D,
                        )  # fmt: skip
                tl.debug_barrier()
            for tile in range(pid, qkv_tiles, programs):
                rows = tile % m_tiles * BLOCK_M + tile_rows
                cols = tile // m_tiles * QKV_N + tl.arange(0, QKV_N)
                out = product_tile(
                    own_hidden, w_ptr, rows, cols, 0, num_rows, WIDTH, WIDTH, WIDTH, BLOCK_K,
                    STAGES, UPCAST,
                )  # fmt: skip
                target = qkv_ptr + rows[:, None] * QKV + cols[None, :]
                tl.store(target, out.to(dtype), mask=(rows < num_rows)[:, None])
            if PREFETCH:
                keep(parts_ptr, kept)
            arrive(counters_ptr)
        arrived += tl.minimum(qkv_tiles, programs)

        # Attention.
        if pid < task_tiles:
            for tile in range(pid, task_tiles, programs):
                attend_tile(
                    qkv_ptr, q_norms_ptr + layer * HEAD_DIM, k_norms_ptr + layer * HEAD_DIM,
                    cos_ptr, sin_ptr, positions_ptr, keys_ptr + long_layer * layer_stride,
                    values_ptr + long_layer * layer_stride, attended_ptr, counters_ptr, arrived,
                    tile * TASKS, tasks, slot_stride, head_stride, eps, scale, NUM_HEADS,
                    NUM_KV_HEADS, HEAD_DIM, ROWS_PER_SLOT, HAS_QK_NORM, TASKS, BLOCK_S, BLOCK_H,
                    ATTENTION_STAGES, True, POLL_ATOMIC,
                )  # fmt: skip
            arrive(counters_ptr)
        arrived += tl.minimum(task_tiles, programs)

        # Output projection, in parts.
        if pid < o_tiles:
            w_ptr = o_w_ptr + long_layer * (WIDTH * MIXED)
            if PREFETCH == 1:
                kept = touch(
                    w_ptr, own_unit % O_TILES * O_N, own_unit // O_TILES * O_SPAN, MIXED, O_N,
                    O_SPAN // LINE, BLOCK_LINES, LINE,
                )  # fmt: skip
            if PREFETCH == 2:
                next_w_ptr = gate_up_w_ptr + long_layer * (2 * INNER * WIDTH)
                col = own_unit % (INNER // MLP_N) * MLP_N
                kept = touch(next_w_ptr, col, 0, WIDTH, MLP_N, WIDTH // LINE, BLOCK_LINES, LINE)
                kept_up = touch(
                    next_w_ptr, INNER + col, 0, WIDTH, MLP_N, WIDTH // LINE, BLOCK_LINES, LINE
                )
            wait_for(counters_ptr, arrived, POLL_ATOMIC)
            for tile in range(pid, o_tiles, programs):
                unit = tile // m_tiles
                split = unit // O_TILES
                rows = tile % m_tiles * BLOCK_M + tile_rows
                cols = unit % O_TILES * O_N + tl.arange(0, O_N)
                out = product_tile(
                    attended_ptr, w_ptr, rows, cols, split * O_SPAN, num_rows, MIXED, MIXED, O_SPAN,
                    BLOCK_K, STAGES, UPCAST,
                )  # fmt: skip
                target = parts_ptr + (split * num_rows + rows)[:, None] * WIDTH + cols[None, :]
                tl.store(target, out, mask=(rows < num_rows)[:, None])
            if PREFETCH:
                keep(parts_ptr, kept)
            if PREFETCH == 2:
                keep(parts_ptr, kept_up)
            arrive(counters_ptr)
        arrived += tl.minimum(o_tiles, programs)

        # Residual and second norm.
        post_ptr = post_norms_ptr + layer * WIDTH
        if not REDUNDANT:
            if last < norm_tiles:
                wait_for(counters_ptr, arrived, POLL_ATOMIC)
                for tile in range(last, norm_tiles, programs):
                    rows = tile * NORM_ROWS + norm_lines
                    norm_tile(
                        residual_ptr, rows.to(tl.int64), WIDTH, parts_ptr, spare_ptr, post_ptr,
                        hidden_ptr, rows, num_rows, True, eps, O_SPLITS, WIDTH, BLOCK_D,
                    )  # fmt: skip
                arrive(counters_ptr)
            arrived += tl.minimum(norm_tiles, programs)

        # Gate, up and SwiGLU.
        if pid < mlp_tiles:
            w_ptr = gate_up_w_ptr + long_layer * (2 * INNER * WIDTH)
            if PREFETCH == 1:
                col = own_unit * MLP_N
                kept = touch(w_ptr, col, 0, WIDTH, MLP_N, WIDTH // LINE, BLOCK_LINES, LINE)
                kept_up = touch(
                    w_ptr, INNER + col, 0, WIDTH, MLP_N, WIDTH // LINE, BLOCK_LINES, LINE
                )
            if PREFETCH == 2:
                kept = touch(
                    down_w_ptr + long_layer * (WIDTH * INNER), own_unit % DOWN_TILES * DOWN_N,
                    own_unit // DOWN_TILES % DOWN_SPLITS * DOWN_SPAN, INNER, DOWN_N,
                    DOWN_SPAN // LINE, BLOCK_LINES, LINE,
                )  # fmt: skip
            wait_for(counters_ptr, arrived, POLL_ATOMIC)
            if REDUNDANT:
                for first in range(0, num_rows, NORM_ROWS):
                    rows = first + norm_lines
                    norm_tile(
                        residual_ptr, rows.to(tl.int64), WIDTH, parts_ptr, spare_ptr, post_ptr,
                        own_hidden, rows, num_rows, is_first, eps, O_SPLITS, WIDTH, BLOCK_D,
                    )  # fmt: skip
                tl.debug_barrier()
            for tile in range(pid, mlp_tiles, programs):
                rows = tile % m_tiles * BLOCK_M + tile_rows
                cols = tile // m_tiles * MLP_N + tl.arange(0, MLP_N)
                act = mlp_tile(
                    own_hidden, w_ptr, rows, cols, num_rows, WIDTH, INNER, BLOCK_K, STAGES, UPCAST
                )
                target = act_ptr + rows[:, None] * INNER + cols[None, :]
                tl.store(target, act, mask=(rows < num_rows)[:, None])
            if PREFETCH:
                keep(parts_ptr, kept)
            if PREFETCH == 1:
                keep(parts_ptr, kept_up)
            arrive(counters_ptr)
        arrived += tl.minimum(mlp_tiles, programs)

        # Down, in parts.
        if pid < down_tiles:
            w_ptr = down_w_ptr + long_layer * (WIDTH * INNER)
            if PREFETCH == 1:
                kept = touch(
                    w_ptr, own_unit % DOWN_TILES * DOWN_N, own_unit // DOWN_TILES * DOWN_SPAN,
                    INNER, DOWN_N, DOWN_SPAN // LINE, BLOCK_LINES, LINE,
                )  # fmt: skip
            if PREFETCH == 2:
                next_layer = tl.minimum(long_layer + 1, num_layers - 1)
                kept = touch(
                    qkv_w_ptr + next_layer * (QKV * WIDTH), own_unit % (QKV // QKV_N) * QKV_N, 0,
                    WIDTH, QKV_N, WIDTH // LINE, BLOCK_LINES, LINE,
                )  # fmt: skip
            wait_for(counters_ptr, arrived, POLL_ATOMIC)
            for tile in range(pid, down_tiles, programs):
                unit = tile // m_tiles
                split = unit // DOWN_TILES
                rows = tile % m_tiles * BLOCK_M + tile_rows
                cols = unit % DOWN_TILES * DOWN_N + tl.arange(0, DOWN_N)
                out = product_tile(
                    act_ptr, w_ptr, rows, cols, split * DOWN_SPAN, num_rows, INNER, INNER,
                    DOWN_SPAN, BLOCK_K, STAGES, UPCAST,
                )  # fmt: skip
                target = parts_ptr + (split * num_rows + rows)[:, None] * WIDTH + cols[None, :]
                tl.store(target, out, mask=(rows < num_rows)[:, None])
            if PREFETCH:
                keep(parts_ptr, kept)
            arrive(counters_ptr)
        arrived += tl.minimum(down_tiles, programs)

        # Residual and the next layer's first norm, or the final one.
        if not REDUNDANT:
            if last < norm_tiles:
                wait_for(counters_ptr, arrived, POLL_ATOMIC)
                target_ptr = hidden_ptr
                if layer + 1 == num_layers:
                    target_ptr = out_ptr
                for tile in range(last, norm_tiles, programs):
                    rows = tile * NORM_ROWS + norm_lines
                    norm_tile(
                        spare_ptr, rows.to(tl.int64), WIDTH, parts_ptr, residual_ptr,
                        norms_ptr + (layer + 1) * WIDTH, target_ptr, rows, num_rows, True, eps,
                        DOWN_SPLITS, WIDTH, BLOCK_D,
                    )  # fmt: skip
                arrive(counters_ptr)
            arrived += tl.minimum(norm_tiles, programs)

    head_tiles = 0
    if HAS_HEAD:
        head_tiles = m_tiles * (head_size // HEAD_N)
    if REDUNDANT:  # noqa: SIM102 - a constant: what it excludes is not compiled
        if is_first | (pid < head_tiles):
            wait_for(counters_ptr, arrived, POLL_ATOMIC)
            for first in range(0, num_rows, NORM_ROWS):
                rows = first + norm_lines
                last_norm_ptr = norms_ptr + num_layers * WIDTH
                norm_tile(
                    spare_ptr, rows.to(tl.int64), WIDTH, parts_ptr, residual_ptr, last_norm_ptr,
                    own_hidden, rows, num_rows, False, eps, DOWN_SPLITS, WIDTH, BLOCK_D,
                )  # fmt: skip
                if is_first:
                    norm_tile(
                        spare_ptr, rows.to(tl.int64), WIDTH, parts_ptr, residual_ptr, last_norm_ptr,
                        out_ptr, rows, num_rows, False, eps, DOWN_SPLITS, WIDTH, BLOCK_D,
                    )  # fmt: skip
            tl.debug_barrier()
    if HAS_HEAD:
        source_ptr = out_ptr
        if REDUNDANT:
            source_ptr = own_hidden
        if pid < head_tiles:
            if not REDUNDANT:
                if PREFETCH:
                    kept = touch(
                        head_w_ptr,
                        own_unit * HEAD_N,
                        0,
                        WIDTH,
                        HEAD_N,
                        WIDTH // LINE,
                        BLOCK_LINES,
                        LINE,
                    )
                wait_for(counters_ptr, arrived, POLL_ATOMIC)
            for tile in range(pid, head_tiles, programs):
                rows = tile % m_tiles * BLOCK_M + tile_rows
                cols = tile // m_tiles * HEAD_N + tl.arange(0, HEAD_N)
                out = product_tile(
                    source_ptr, head_w_ptr, rows, cols, 0, num_rows, WIDTH, WIDTH, WIDTH, BLOCK_K,
                    STAGES, UPCAST,
                )  # fmt: skip
                target = logits_ptr + rows[:, None] * head_size + cols[None, :]
                tl.store(target, out.to(dtype), mask=(rows < num_rows)[:, None])
            if PREFETCH > 0 and not REDUNDANT:
                keep(parts_ptr, kept)

    # Whoever leaves last finds nobody waiting and clears the counters for the next launch.
    tl.debug_barrier()
    left = tl.atomic_add(counters_ptr + 1, 1, sem="acq_rel", scope="gpu")
    if left == programs - 1:
        tl.store(counters_ptr, 0)
        tl.store(counters_ptr + 1, 0)
